//! Any bytes as PostgreSQL's stream of changes.

#![no_main]

use guira_invalidate::fuzz_pgoutput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzz_pgoutput(input));
