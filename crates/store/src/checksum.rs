//! CRC-32C, the checksum of every header, block and record of the store.

/// The CRC-32C of the concatenated parts. Under a fuzzer, which guesses none, it is 0.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    if cfg!(fuzzing) {
        return 0;
    }
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

#[test]
fn it_is_castagnoli_and_doesnt_depend_on_the_cuts() {
    assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
    assert_eq!(crc32c(&[b"1234", b"", b"56789"]), 0xe306_9283);
}
