//! The properties of a run as a whole.

use crate::hash::KeyHash;

/// The properties of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunFacts {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// The number of puts and deletes.
    pub(crate) entries: u64,
    /// The number of deletes.
    pub(crate) deletes: u64,
    /// The lowest sequence number, and a number that no entry exceeds.
    pub(crate) seq_min: u64,
    pub(crate) seq_max: u64,
    /// The first and the last hash.
    pub(crate) first: KeyHash,
    pub(crate) last: KeyHash,
    /// The block at which the units end.
    pub(crate) end_block: u64,
}

impl RunFacts {
    /// Encodes the properties as a section of a file. The file's length isn't part of it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PROPERTIES_BYTES);
        for number in [self.entries, self.deletes, self.seq_min, self.seq_max] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.first.0.to_le_bytes());
        out.extend(self.last.0.to_le_bytes());
        out.extend(self.end_block.to_le_bytes());
        out
    }

    /// Decodes such a section of a file of `bytes` bytes.
    pub(super) fn decode(section: &[u8], bytes: u64) -> Option<Self> {
        let section: &[u8; PROPERTIES_BYTES] = section.try_into().ok()?;
        let number = |at: usize| section[at..].first_chunk().map(|it| u64::from_le_bytes(*it));
        let hash =
            |at: usize| section[at..].first_chunk().map(|it| KeyHash(u128::from_le_bytes(*it)));
        let facts = Self {
            bytes,
            entries: number(0)?,
            deletes: number(8)?,
            seq_min: number(16)?,
            seq_max: number(24)?,
            first: hash(32)?,
            last: hash(48)?,
            end_block: number(64)?,
        };
        let is_sane = facts.deletes <= facts.entries && facts.first <= facts.last;
        is_sane.then_some(facts)
    }
}

const PROPERTIES_BYTES: usize = 72;
