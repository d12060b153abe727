//! mcrouter's `Crc32`: a checksum modulo the number of servers.
//!
//! Adding or removing a server moves nearly all keys. What other clients call "crc32" differs: see
//! [`modula`](super::modula).

/// Returns the server of `key` among `servers`, or 0 if there are none.
#[must_use]
pub fn crc32(key: &[u8], servers: usize) -> usize {
    let hash = crc32fast::hash(key) & 0x7fff_ffff;
    (hash as usize).checked_rem(servers).unwrap_or(0)
}
