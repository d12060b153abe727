//! A hash modulo the number of servers, as in memcached's oldest clients.
//!
//! Adding or removing a server moves nearly all keys. Use this to read what such a client stored, not for new fleets.

use md5::{Digest, Md5};

/// The hash by which a client turns a key into a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyHash {
    /// libmemcached's default: Bob Jenkins' one-at-a-time.
    #[default]
    OneAtATime,
    /// libmemcached's `CRC`: the upper half of the CRC-32 without its top bit.
    Crc,
    /// libmemcached's `MD5`: the first four bytes, little-endian.
    Md5,
    /// libmemcached's `FNV1A_32`.
    Fnv1a32,
    /// libmemcached's `FNV1A_64`: the 64-bit FNV-1a, cut to 32 bits.
    Fnv1a64,
}

impl KeyHash {
    /// Returns the hash of `key`, which is the same on every machine.
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
            // Like libmemcached, this keeps only 32 bits between the steps too.
            KeyHash::Fnv1a64 => key.iter().fold(0x8422_2325, |hash: u32, &byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0000_01b3)
            }),
        }
    }
}

/// Returns the server of `key` among `servers`, or 0 if there are none.
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
