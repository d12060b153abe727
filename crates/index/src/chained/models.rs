//! Models: small tables run through every interleaving that loom finds, and the faults that each must catch.
