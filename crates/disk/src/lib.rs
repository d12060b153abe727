//! Aligned files, reads in flight by io_uring or a pool of threads, and a simulated disk whose faults tests choose
