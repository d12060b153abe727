//! Any bytes as a binary log of MariaDB or MySQL.

#![no_main]

use guira_invalidate::fuzz_binlog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzz_binlog(input));
