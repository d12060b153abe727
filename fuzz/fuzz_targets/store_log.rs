//! Any changes to a log and its records, in a store that is then opened.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| guira_fuzz::open_changed('L', input));
