//! Any bytes as what a database says to a login and to a statement.

#![no_main]

use guira_invalidate::fuzz_answers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzz_answers(input));
