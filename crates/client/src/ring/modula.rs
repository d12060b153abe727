//! A hash modulo the number of servers, as memcached's oldest clients do it.
//!
//! A server more or less moves nearly all keys: for reading what such a client stored, not for new fleets.

use md5::{Digest, Md5};

/// How a client turns a key into a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyHash {
    /// libmemcached's default: Bob Jenkins' one at a time.
    #[default]
    OneAtATime,
    /// libmemcached's `CRC`: the upper half of CRC-32 without its first bit.
    Crc,
    /// libmemcached's `MD5`: the first four bytes, little-endian.
    Md5,
    /// libmemcached's `FNV1A_32`.
    Fnv1a32,
    /// The 64-bit FNV-1a of `FNV1A_64`, cut to 32 bits as libmemcached does.
    Fnv1a64,
}

impl KeyHash {
    /// The hash of `key`; the same on every machine.
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            KeyHash::OneAtATime => one_at_a_time(key),
            KeyHash::Crc => crc32fast::hash(key) >> 16 & 0x7fff,
            KeyHash::Md5 => {
                let digest = Md5::digest(key);
                u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
            }
            KeyHash::Fnv1a32 => key.iter().fold(0x811c_9dc5, |hash: u32, &byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            }),
            // libmemcached keeps 32 bits between the steps, too.
            KeyHash::Fnv1a64 => key.iter().fold(0x8422_2325, |hash: u32, &byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0000_01b3)
            }),
        }
    }
}

/// The server of `key` among `servers`; 0 if there is none.
#[must_use]
pub fn modula(hash: KeyHash, key: &[u8], servers: usize) -> usize {
    (hash.hash(key) as usize).checked_rem(servers).unwrap_or(0)
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let hash = key.iter().fold(0u32, |hash, &byte| {
        let hash = hash.wrapping_add(byte.into());
        let hash = hash.wrapping_add(hash << 10);
        hash ^ hash >> 6
    });
    let hash = hash.wrapping_add(hash << 3);
    let hash = hash ^ hash >> 11;
    hash.wrapping_add(hash << 15)
}
