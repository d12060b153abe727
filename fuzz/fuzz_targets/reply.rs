//! Any bytes as a stream of replies.

#![no_main]

use guira_fuzz::check_replies;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| check_replies(stream));
