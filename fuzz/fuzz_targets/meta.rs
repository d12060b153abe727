//! Any bytes as the arguments of a meta command: the first byte chooses which, the rest follows it.

#![no_main]

use guira_fuzz::check_requests;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, arguments)) = input.split_first() else { return };
    let command: &[u8] = [b"mg ", b"ms ", b"md ", b"ma ", b"me "][usize::from(choice % 5)];
    check_requests(&[command, arguments, b"\r\n"].concat());
});
