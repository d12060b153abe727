//! SILT: a store on flash that finds a key with about one read and less than a byte of memory per key
