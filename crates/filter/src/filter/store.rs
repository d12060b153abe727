//! Filters as bytes: for a file, or for another process.
//!
//! # Layout
//! ```text
//!  0  magic "guirafil"          12  f: fingerprint bits       32  hash key, 16 bytes (0 if the hash is the caller's)
//!  8  version, 2 bytes          13  v: value bits             48  hash of a known item, 8 bytes
//! 10  layout: 1 lanes, 2 sorted 14  b: slots a bucket         56  checksum of bytes 0..56 and the table, 8 bytes
//! 11  orbit: 1 pair, 2 xor,     15  random bits or K          64  table, ⌈m * bucket bits / 8⌉ bytes
//!     3 digits                  16  m: buckets, 8 bytes
//!                               24  len, 8 bytes
//! ```
//! Integers are little-endian. The checksum detects accidents, not forgery.
//!
//! # Invariants
//! 1. A reader accepts exactly what a writer may have written: it checks every field and every bucket.
//! 2. No memory is allocated before the input was found to be as long as its header states.

use super::{Filter, PADDING, table_bytes};
use crate::hash::Keyed;
use crate::hint;
use crate::layout::Layout;
use crate::orbit::Orbit;
use crate::swar::address;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::ops::Range;

/// Why bytes are not a filter, or not one of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes don't begin like a filter.
    NotAFilter,
    /// A format version that this reader doesn't know.
    Version(u16),
    /// A filter of another layout, orbit or shape than the requested type, or of an impossible one.
    Shape,
    /// The length is wrong: this many bytes were expected.
    Length(u64),
    /// The bytes are corrupt: they were changed since they were written.
    Checksum,
    /// The hash differs from the one that the filter was made with.
    Hasher,
    /// The table has a bucket that no filter makes, or the number of fingerprints differs from the header's.
    Contents,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFilter => write!(f, "not a stored filter"),
            Self::Version(version) => {
                write!(f, "format {version} is not known here; use a later version of the crate")
            }
            Self::Shape => write!(f, "a filter of another type; load it as what it was stored as"),
            Self::Length(bytes) => write!(f, "cut short or too long: {bytes} bytes were expected"),
            Self::Checksum => write!(f, "the bytes were damaged; build the filter again"),
            Self::Hasher => write!(f, "made with another hash or key; load it with that one"),
            Self::Contents => {
                write!(f, "the table is none that a filter makes; build the filter again")
            }
        }
    }
}

impl core::error::Error for LoadError {}

impl<L: Layout, O: Orbit> Filter<L, O, Keyed> {
    /// Returns the filter as bytes, including its hash key. Anyone who reads them can make items that share buckets.
    ///
    /// Takes 64 bytes and the table, of which it makes one copy.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.store(self.hasher.key())
    }

    /// Loads the filter that [`Filter::to_bytes`] stored. Checks every bucket.
    ///
    /// # Errors
    /// [`LoadError`] for any bytes that `to_bytes` of this type and version can't have made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        Self::restore_with_key(bytes, false)
    }

    /// Like [`Filter::from_bytes`], and accepts a filter with values if `may_have_values`.
    pub(crate) fn restore_with_key(bytes: &[u8], may_have_values: bool) -> Result<Self, LoadError> {
        let header = header(bytes)?;
        let key = [integer(header, KEY.start), integer(header, KEY.start + 8)];
        Self::restore(bytes, Keyed::from_key(key), may_have_values)
    }
}

impl<L: Layout, O: Orbit, H: BuildHasher> Filter<L, O, H> {
    /// Returns the filter as bytes, without a hash key: loading it requires the same hasher.
    #[must_use]
    pub fn to_bytes_without_key(&self) -> Vec<u8> {
        self.store([0; 2])
    }

    /// Loads the filter that [`Filter::to_bytes_without_key`] (or `to_bytes`) stored, with its hasher.
    ///
    /// # Errors
    /// [`LoadError`] for any bytes that this type and version can't have made with this hasher.
    pub fn from_bytes_with_hasher(bytes: &[u8], hasher: H) -> Result<Self, LoadError> {
        Self::restore(bytes, hasher, false)
    }

    fn store(&self, key: [u64; 2]) -> Vec<u8> {
        let table = &self.table[..self.table.len() - PADDING];
        let mut bytes = Vec::with_capacity(HEADER_BYTES + table.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([L::KIND, O::KIND]);
        let shape = [self.layout.fingerprint_bits(), self.layout.value_bits(), self.layout.slots()];
        bytes.extend(shape.map(|n| u8::try_from(n).expect("at most 32")));
        bytes.push(self.orbit.parameter());
        for n in [self.orbit.buckets(), self.len as u64, key[0], key[1], self.known_hash()] {
            bytes.extend(n.to_le_bytes());
        }
        let checksum = checksum(&bytes, table);
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(table);
        bytes
    }

    fn restore(bytes: &[u8], hasher: H, may_have_values: bool) -> Result<Self, LoadError> {
        let header = header(bytes)?;
        let shape = header[SHAPE].iter().map(|&n| u32::from(n)).collect::<Vec<_>>();
        let layout = L::restore(shape[0], shape[1], shape[2]);
        let orbit = O::restore(header[PARAMETER], integer(header, BUCKETS));
        let kinds = header[KINDS] == [L::KIND, O::KIND];
        let (Some(layout), Some(orbit), true) = (layout, orbit, kinds) else {
            return Err(LoadError::Shape);
        };
        if layout.value_bits() > 0 && !may_have_values {
            return Err(LoadError::Shape);
        }
        let wanted = table_bytes(&layout, &orbit).ok_or(LoadError::Shape)?;
        let table = &bytes[HEADER_BYTES..];
        if table.len() != wanted {
            return Err(LoadError::Length(wanted as u64 + HEADER_BYTES as u64));
        }
        // A fuzzer can't guess a checksum, and must reach the code after this check.
        let is_intact = checksum(&header[..CHECKSUM], table) == integer(header, CHECKSUM);
        if !is_intact && !cfg!(fuzzing) {
            return Err(LoadError::Checksum);
        }
        let mut filter =
            Self { layout, orbit, hasher, table: Vec::new(), len: 0, nodes: Vec::new() };
        if filter.known_hash() != integer(header, KNOWN_HASH) {
            return Err(LoadError::Hasher);
        }
        filter.table = vec![0; wanted + PADDING];
        hint::advise_huge(&mut filter.table);
        filter.table[..wanted].copy_from_slice(table);
        filter.len = filter.count().ok_or(LoadError::Contents)?;
        if filter.len as u64 != integer(header, LEN) {
            return Err(LoadError::Contents);
        }
        Ok(filter)
    }

    fn known_hash(&self) -> u64 {
        self.hasher.hash_one(u64::from_le_bytes(MAGIC))
    }

    /// The number of fingerprints in the table. `None` if the table is not one that a filter makes.
    fn count(&self) -> Option<usize> {
        let mut len = 0;
        for bucket in 0..self.orbit.buckets() {
            if !self.layout.is_valid(&self.table, bucket) {
                return None;
            }
            let contents = self.layout.contents(&self.table, bucket);
            len += contents.iter().filter(|&&content| content != 0).count();
        }
        let bits = self.orbit.buckets() * u64::from(self.layout.bucket_bits());
        let spare = self.table[address(bits / 8)] >> (bits % 8);
        (spare == 0).then_some(len)
    }
}

fn header(bytes: &[u8]) -> Result<&[u8; HEADER_BYTES], LoadError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(LoadError::NotAFilter);
    }
    let header = bytes.first_chunk().ok_or(LoadError::Length(HEADER_BYTES as u64))?;
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version == VERSION { Ok(header) } else { Err(LoadError::Version(version)) }
}

fn integer(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
}

/// A 64-bit checksum that changes with any byte. It uses four chains, so that a table is read at the speed of memory.
pub(crate) fn checksum(header: &[u8], table: &[u8]) -> u64 {
    // The seeds only need to give keys other than 1 and 0, for which a product is the multiplicand or nothing.
    let mut chains = [0; 4].map(|seed| Keyed::from_seed(seed).build_hasher());
    let (blocks, tail) = table.as_chunks::<32>();
    for block in blocks {
        for (chain, word) in chains.iter_mut().zip(block.as_chunks::<8>().0) {
            chain.write_u64(u64::from_le_bytes(*word));
        }
    }
    chains[0].write(tail);
    let [first, ..] = &chains;
    let mut whole = first.clone();
    whole.write(header);
    chains[1..].iter().for_each(|chain| whole.write_u64(chain.finish()));
    whole.finish()
}

const MAGIC: [u8; 8] = *b"guirafil";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 64;
const KINDS: Range<usize> = 10..12;
const SHAPE: Range<usize> = 12..15;
const PARAMETER: usize = 15;
const BUCKETS: usize = 16;
const LEN: usize = 24;
const KEY: Range<usize> = 32..48;
const KNOWN_HASH: usize = 48;
const CHECKSUM: usize = 56;
