//! Any bytes as what a node of a cluster is sent.

#![no_main]

use guira_chain::frames::fuzz_frames;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzz_frames(input));
