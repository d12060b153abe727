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
        // An entry takes more than a byte. Sums over files don't overflow then.
        let is_counted = facts.deletes <= facts.entries && facts.entries <= bytes;
        (is_counted && facts.first <= facts.last && facts.end_block <= bytes).then_some(facts)
    }
}

const PROPERTIES_BYTES: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a number of entries that no file holds made the statistics of the store overflow.
    #[test]
    fn properties_that_the_file_has_no_room_for_are_refused() {
        let facts =
            RunFacts { bytes: 8192, entries: 100, deletes: 3, end_block: 1, ..RunFacts::default() };
        let decoded = |facts: RunFacts| RunFacts::decode(&facts.encode(), 8192);
        assert_eq!(decoded(facts), Some(facts));
        assert_eq!(decoded(RunFacts { entries: 8193, ..facts }), None);
        assert_eq!(decoded(RunFacts { entries: u64::MAX - 1, ..facts }), None);
        assert_eq!(decoded(RunFacts { deletes: 101, ..facts }), None);
        assert_eq!(decoded(RunFacts { end_block: u64::MAX / 4096 + 1, ..facts }), None);
        let last = KeyHash(1);
        assert_eq!(decoded(RunFacts { first: KeyHash(2), last, ..facts }), None);
    }
}
