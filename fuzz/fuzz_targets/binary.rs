//! Any bytes behind a first byte that says binary.

#![no_main]

use guira_fuzz::check_packets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| check_packets(&[&[0x80], stream].concat()));
