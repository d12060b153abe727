//! The compact block index: 9 bits per block, and one lookup in 250 reads a second block.
//!
//! The span of the hashes is divided into 128 cells per block, and the cell of each block's first hash is stored in
//! Elias-Fano coding. The block of a hash is the last one whose cell isn't above the hash's cell.

use super::locate::{BlockIndex, Located};
use super::monotone::Monotone;
use super::scale::Scale;
use crate::hash::KeyHash;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EliasFano {
    scale: Scale,
    cells: Monotone,
}

impl EliasFano {
    /// Builds the index. `firsts` are the tops of the blocks' first hashes, `last` that of the last hash. None if they
    /// don't ascend.
    pub(super) fn new(firsts: &[u64], last: u64) -> Option<Self> {
        let min = firsts.first().copied().unwrap_or(last);
        let universe = universe(firsts.len() as u64)?;
        let scale = Scale::new(min, last, universe)?;
        if !firsts.is_sorted() || firsts.last().is_some_and(|&it| it > last) {
            return None;
        }
        let cells = Monotone::new(firsts.iter().map(|&first| scale.cell(first)), universe)?;
        Some(Self { scale, cells })
    }

    /// How many blocks it indexes.
    pub(super) fn blocks(&self) -> u64 {
        self.cells.len()
    }

    /// Appends the index to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.cells.encode(out);
        self.scale.encode(out);
    }

    /// Decodes the index. None for bytes that `encode` doesn't write.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let cells = Monotone::decode(&mut bytes)?;
        let universe = universe(cells.len())?;
        let scale = Scale::decode(&mut bytes, universe)?;
        (bytes.is_empty() && cells.universe() == universe).then_some(Self { scale, cells })
    }
}

impl BlockIndex for EliasFano {
    #[inline]
    fn locate(&self, hash: KeyHash) -> Located {
        let cell = self.scale.cell(hash.top());
        let (block, first) = self.cells.last_at_most(cell).unwrap_or((0, 0));
        Located { block, steps: cell.saturating_sub(first) / (CELLS_PER_BLOCK / 8) }
    }

    fn bytes(&self) -> usize {
        self.cells.bytes()
    }
}

fn universe(blocks: u64) -> Option<u64> {
    blocks.max(1).checked_mul(CELLS_PER_BLOCK)
}

/// 2^7: each doubling costs a bit per block and halves the second reads.
const CELLS_PER_BLOCK: u64 = 128;
