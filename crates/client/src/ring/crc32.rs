//! mcrouter's `Crc32`: a checksum modulo the number of servers.
//!
//! A server more or less moves nearly all keys. Other clients' "crc32" is another: see [`modula`](super::modula).

/// The server of `key` among `servers`; 0 if there is none.
#[must_use]
pub fn crc32(key: &[u8], servers: usize) -> usize {
    let hash = crc32fast::hash(key) & 0x7fff_ffff;
    (hash as usize).checked_rem(servers).unwrap_or(0)
}
