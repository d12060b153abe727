//! Any bytes as a stream of requests.

#![no_main]

use guira_fuzz::check_requests;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| check_requests(stream));
