//! Divides the span of a run's hashes into cells of equal width.
//!
//! Hashes are uniform, so an index needs to keep only the cell number of a hash. The span needn't begin or end at a
//! power of two: a partition may hold any range of hashes.
//!
//! # Invariants
//! 1. A higher hash never has a lower cell.

/// Maps the top 64 bits of a hash to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    min: u64,
    max: u64,
    cells: u64,
    /// Cells per hash, times 2^64.
    factor: u128,
}

impl Scale {
    /// Divides `min..=max` into `cells` cells. None if `min` is above `max`, or unless there are 1 to 2^60 cells.
    pub(super) fn new(min: u64, max: u64, cells: u64) -> Option<Self> {
        if min > max || cells == 0 || cells > 1 << 60 {
            return None;
        }
        let factor = (u128::from(cells) << 64) / (u128::from(max - min) + 1);
        Some(Self { min, max, cells, factor })
    }

    /// Returns the cell of a hash. A hash outside the span gets the first or the last cell.
    #[inline]
    pub(super) fn cell(&self, top: u64) -> u64 {
        let above = top.clamp(self.min, self.max) - self.min;
        ((u128::from(above) * self.factor) >> 64) as u64
    }

    /// Appends the span. The number of cells isn't stored: it follows from what the index holds.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.min.to_le_bytes());
        out.extend(self.max.to_le_bytes());
    }

    /// Decodes the span from the front of `bytes`, and advances `bytes` past it. The scale has `cells` cells.
    pub(super) fn decode(bytes: &mut &[u8], cells: u64) -> Option<Self> {
        let (taken, rest) = bytes.split_first_chunk::<16>()?;
        *bytes = rest;
        let [min, max] =
            [0, 8].map(|at| taken[at..].first_chunk().map(|it| u64::from_le_bytes(*it)));
        Self::new(min?, max?, cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_ascend_and_stay_below_their_number() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut spans = vec![(0, u64::MAX), (0, 0), (5, 5), (u64::MAX, u64::MAX), (0, 1), (7, 300)];
        spans.extend((0..200).map(|_| {
            let (a, b) = (random.u64(..), random.u64(..) >> random.u32(0..64));
            (a.min(b), a.max(b))
        }));
        for (min, max) in spans {
            for cells in [1, 2, 3, 65_536, 1_000_003, 1 << 48, 1 << 60] {
                let scale = Scale::new(min, max, cells).unwrap();
                let mut tops: Vec<u64> = (0..50).map(|_| random.u64(..)).collect();
                tops.extend([0, min, max, u64::MAX, min.saturating_add(1), max.saturating_sub(1)]);
                tops.sort_unstable();
                assert!(tops.windows(2).all(|pair| scale.cell(pair[0]) <= scale.cell(pair[1])));
                assert!(scale.cell(u64::MAX) < cells);
                assert_eq!(scale.cell(0), 0);
            }
        }
        assert_eq!(Scale::new(2, 1, 5), None);
        assert_eq!(Scale::new(1, 2, 0), None);
    }

    #[test]
    fn the_whole_span_is_cut_evenly() {
        let scale = Scale::new(0, u64::MAX, 1000).unwrap();
        for cell in 0..1000_u64 {
            let middle = (u128::from(2 * cell + 1) << 64) / 2000;
            assert_eq!(scale.cell(u64::try_from(middle).unwrap()), cell);
        }
    }
}
