//! Any bytes as a datagram.

#![no_main]

use guira_fuzz::check_datagram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| check_datagram(datagram));
