//! Assigns keys as twemproxy does, with its hash functions and its two ways from a hash to a server.
//!
//! ```text
//! ketama   libmemcached's circle of 160 points per server, by name and weight; any hash gives the key's place
//! modula   the hash modulo the sum of the weights
//! ```
//! # Invariants
//! 1. Each function returns twemproxy's hash on Linux servers. x86 and ARM differ for keys beyond ASCII, because `char`
//!    is signed on x86 only. Such keys are hashed as on x86.

use guira_client::ring::Ketama;
use md5::{Digest, Md5};

use crate::tree::families::{ConfigError, Fields};

/// A function that maps a key to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHash {
    OneAtATime,
    Md5,
    Crc16,
    Crc32,
    Crc32a,
    Fnv1_64,
    Fnv1a64,
    Fnv1_32,
    Fnv1a32,
    Murmur,
}

/// The names in twemproxy.
const NAMED: &[(&str, KeyHash)] = &[
    ("crc16", KeyHash::Crc16),
    ("crc32", KeyHash::Crc32),
    ("crc32a", KeyHash::Crc32a),
    ("fnv1_32", KeyHash::Fnv1_32),
    ("fnv1_64", KeyHash::Fnv1_64),
    ("fnv1a_32", KeyHash::Fnv1a32),
    ("fnv1a_64", KeyHash::Fnv1a64),
    ("md5", KeyHash::Md5),
    ("murmur", KeyHash::Murmur),
    ("one_at_a_time", KeyHash::OneAtATime),
];

/// The names of all functions.
pub(in crate::tree::families) fn key_hashes() -> Vec<String> {
    NAMED.iter().map(|(name, _)| (*name).to_owned()).collect()
}

impl KeyHash {
    /// Returns the function with this name in twemproxy.
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, hash)| *hash)
    }

    fn hash(self, key: &[u8]) -> u32 {
        let signed = || key.iter().map(|&byte| i32::from(byte.cast_signed()).cast_unsigned());
        match self {
            Self::OneAtATime => {
                let hash = signed().fold(0_u32, |hash, byte| {
                    let hash = hash.wrapping_add(byte);
                    let hash = hash.wrapping_add(hash << 10);
                    hash ^ hash >> 6
                });
                let hash = hash.wrapping_add(hash << 3);
                let hash = hash ^ hash >> 11;
                hash.wrapping_add(hash << 15)
            }
            Self::Md5 => {
                let digest = Md5::digest(key);
                u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
            }
            Self::Crc16 => key.iter().fold(0, |crc: u32, &byte| {
                crc << 8 ^ crc16_of((crc >> 8) & 0xff ^ u32::from(byte))
            }),
            Self::Crc32 => crc32fast::hash(key) >> 16 & 0x7fff,
            Self::Crc32a => crc32fast::hash(key),
            // Only the lower half is used, and it doesn't depend on the upper one.
            Self::Fnv1_64 => {
                signed().fold(FNV_64, |hash, byte| hash.wrapping_mul(FNV_64_PRIME) ^ byte)
            }
            Self::Fnv1a64 => {
                signed().fold(FNV_64, |hash, byte| (hash ^ byte).wrapping_mul(FNV_64_PRIME))
            }
            Self::Fnv1_32 => {
                signed().fold(FNV_32, |hash, byte| hash.wrapping_mul(FNV_32_PRIME) ^ byte)
            }
            Self::Fnv1a32 => {
                signed().fold(FNV_32, |hash, byte| (hash ^ byte).wrapping_mul(FNV_32_PRIME))
            }
            Self::Murmur => murmur(key),
        }
    }
}

/// The CCITT CRC of one byte.
fn crc16_of(byte: u32) -> u32 {
    (0..8).fold(byte << 8, |crc, _| {
        let shifted = crc << 1;
        (if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }) & 0xffff
    })
}

/// `MurmurHash2` with twemproxy's seed.
fn murmur(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (words, rest) = key.as_chunks::<4>();
    let mut hash =
        words.iter().fold(0xdead_beef_u32.wrapping_mul(length) ^ length, |hash, word| {
            let word = u32::from_le_bytes(*word).wrapping_mul(M);
            hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M)
        });
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last: u32, &byte| last << 8 | u32::from(byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// Maps a key to the index of a server.
#[derive(Debug)]
pub(crate) struct Continuum {
    hash: KeyHash,
    /// If a key contains these two bytes, the text between them is hashed instead.
    tag: Option<(u8, u8)>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Ketama(Ketama),
    /// Slots; a server has as many as its weight.
    Modula(Vec<usize>),
}

impl Continuum {
    /// Reads `hash_func`, `key_hash`, `hash_tag`, `names` and `weights`.
    pub(super) fn read(fields: Fields<'_>, children: usize) -> Result<Self, ConfigError> {
        let of_size = |name: &str| {
            let array = fields.array(name)?;
            match array.filter(|array| array.len() != children) {
                Some(_) => Err(fields.error(format!("{name}: one a server is wanted"))),
                None => Ok(array),
            }
        };
        let weights: Vec<u32> = match of_size("weights")? {
            None => vec![1; children],
            Some(weights) => {
                let weight = weights.iter().map(|json| {
                    let number = json.as_int().and_then(|n| u32::try_from(n).ok());
                    let number = number.filter(|n| (1..=WEIGHT_MAX).contains(n));
                    let message = format!("a weight is a whole number from 1 to {WEIGHT_MAX}");
                    number.ok_or_else(|| ConfigError::at(json.line, message))
                });
                weight.collect::<Result<_, _>>()?
            }
        };
        let way = if fields.string("hash_func")? == Some("Modula") {
            if weights.iter().copied().map(u64::from).sum::<u64>() > SLOTS_MAX {
                return Err(fields.error(format!("weights: their sum is above {SLOTS_MAX}")));
            }
            let slots = weights.iter().enumerate();
            let slots = slots.flat_map(|(n, &weight)| std::iter::repeat_n(n, weight as usize));
            Way::Modula(slots.collect())
        } else {
            let names = of_size("names")?.ok_or_else(|| fields.error("names needed for Ketama"))?;
            let names = names.iter().map(|json| {
                json.as_str().ok_or_else(|| ConfigError::at(json.line, "a name is a string"))
            });
            let names: Vec<&str> = names.collect::<Result<_, _>>()?;
            let servers: Vec<(&str, u32)> = names.into_iter().zip(weights).collect();
            Way::Ketama(Ketama::new(&servers))
        };
        let name = fields.string("key_hash")?.unwrap_or("md5");
        let hash = KeyHash::named(name);
        let hash = hash.ok_or_else(|| fields.error(format!("Unknown key hash: {name}")))?;
        let tag = match fields.string("hash_tag")?.map(str::as_bytes) {
            None | Some([]) => None,
            Some(&[open, close]) => Some((open, close)),
            Some(_) => return Err(fields.error("hash_tag: two characters are wanted, as \"{}\"")),
        };
        Ok(Self { hash, tag, way })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.way {
            Way::Ketama(_) => "Ketama",
            Way::Modula(_) => "Modula",
        }
    }

    pub(super) fn choose(&self, key: &[u8]) -> usize {
        let hash = self.hash.hash(self.tagged(key));
        match &self.way {
            Way::Ketama(ring) => ring.next_to(hash),
            Way::Modula(slots) => slots[hash as usize % slots.len()],
        }
    }

    fn tagged<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let inner = |(open, close): (u8, u8)| {
            let start = memchr::memchr(open, key)? + 1;
            let end = memchr::memchr(close, &key[start..])?;
            Some(&key[start..start + end]).filter(|inner| !inner.is_empty())
        };
        self.tag.and_then(inner).unwrap_or(key)
    }
}

const FNV_64: u32 = 0x8422_2325;
const FNV_64_PRIME: u32 = 0x0000_01b3;
const FNV_32: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;
/// The limit of slots, each of which takes an entry of a table.
const SLOTS_MAX: u64 = 1 << 17;
/// A larger weight would only make the table longer.
const WEIGHT_MAX: u32 = 10_000;
