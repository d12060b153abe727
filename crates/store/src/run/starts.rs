//! Maps a unit's number to its first block, and back.
//!
//! Most units are one block, so only the others are listed: 8 bytes each.

/// The list of long units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Starts {
    /// The number of a long unit, and how many blocks beyond one per unit the units up to this one have.
    longs: Vec<(u32, u32)>,
}

impl Starts {
    /// Adds unit number `unit`, which has `blocks` blocks. Units come in order. None if there are more than 2^32 blocks.
    pub(super) fn push(&mut self, unit: u64, blocks: u32) -> Option<()> {
        if blocks > 1 {
            let so_far = self.longs.last().map_or(0, |it| it.1);
            self.longs.push((u32::try_from(unit).ok()?, so_far.checked_add(blocks - 1)?));
        }
        Some(())
    }

    /// Returns the first block of a unit.
    pub(super) fn block_of(&self, unit: u64) -> u64 {
        let before = self.longs.partition_point(|it| u64::from(it.0) < unit);
        FIRST_BLOCK + unit + self.beyond(before)
    }

    /// Returns the unit that begins at a block.
    pub(super) fn unit_at(&self, block: u64) -> u64 {
        let is_before =
            |it: &(u32, u32)| FIRST_BLOCK + u64::from(it.0) + 1 + u64::from(it.1) <= block;
        let before = self.longs.partition_point(is_before);
        (block - FIRST_BLOCK).saturating_sub(self.beyond(before))
    }

    fn beyond(&self, before: usize) -> u64 {
        before.checked_sub(1).map_or(0, |at| u64::from(self.longs[at].1))
    }

    /// Encodes the list as a section of a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.longs.iter().flat_map(|it| [it.0, it.1]).flat_map(u32::to_le_bytes).collect()
    }

    /// Decodes such a section. None for bytes that `encode` doesn't write.
    pub(super) fn decode(section: &[u8]) -> Option<Self> {
        let (pairs, rest) = section.as_chunks::<8>();
        let number = |bytes: &[u8]| bytes.first_chunk().map(|it| u32::from_le_bytes(*it));
        let longs = pairs.iter().map(|it| Some((number(&it[..4])?, number(&it[4..])?)));
        let longs = longs.collect::<Option<Vec<_>>>()?;
        let ascends = longs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1);
        (rest.is_empty() && ascends).then_some(Self { longs })
    }

    pub(super) fn bytes(&self) -> usize {
        self.longs.len() * 8
    }
}

/// The first block of a unit: the header is before it.
pub(super) const FIRST_BLOCK: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_blocks_lead_to_each_other() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..50 {
            let (mut starts, mut block, mut expected) =
                (Starts::default(), FIRST_BLOCK, Vec::new());
            for unit in 0..200 {
                let blocks = if random.u8(0..5) == 0 { random.u32(2..9) } else { 1 };
                starts.push(unit, blocks).unwrap();
                expected.push(block);
                block += u64::from(blocks);
            }
            let starts = Starts::decode(&starts.encode()).unwrap();
            for (unit, &block) in (0..).zip(&expected) {
                assert_eq!((starts.block_of(unit), starts.unit_at(block)), (block, unit));
            }
        }
    }

    #[test]
    fn what_encode_never_writes_is_refused() {
        assert_eq!(Starts::decode(&[0; 7]), None);
        assert_eq!(Starts::decode(&[0; 16]), None);
    }
}
