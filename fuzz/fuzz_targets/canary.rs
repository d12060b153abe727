//! Must crash: a fault is planted behind three conditions of the grammar. If a run of a minute does
//! not find it, the other targets prove nothing.

#![no_main]

use guira_proto::{Command, Limits, Parsed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    if let Ok(Parsed::Request { request: Command::Touch { key, exptime, .. }, .. }) =
        parse(stream, &Limits::DEFAULT)
        && key.len() == 3
    {
        assert!(exptime >= 0, "the planted fault");
    }
});
