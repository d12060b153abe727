//! Buffers for direct I/O: their bytes begin at a multiple of 4 KiB.
//!
//! # Invariants
//! 1. A [`Buffer`] is a whole number of blocks, and its first byte lies at a multiple of [`BLOCK`].
//! 2. Moving a [`Buffer`] doesn't move its bytes: the kernel may write to them while the buffer lies in a list.
//!
//! # Costs
//! A fresh buffer is zeroed by the allocator, mostly without touching it. A buffer from [`Buffers`] costs an
//! uncontended lock, and holds whatever its last user read. The pool keeps buffers of at most [`SHELVED_BLOCKS`]
//! blocks.

use parking_lot::Mutex;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Bytes in a block: the unit of direct I/O, and about the unit that a device writes atomically.
pub const BLOCK: usize = 4096;

/// Aligned bytes: a whole number of blocks. See the module's head.
pub struct Buffer {
    pages: Vec<Page>,
    home: Option<Arc<Shelf>>,
}

impl Buffer {
    /// Creates a buffer of zeros, with as many blocks as `bytes` need, at least one.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Self {
        Self { pages: bytemuck::zeroed_vec(blocks(bytes)), home: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.pages)
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.pages)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.put(std::mem::take(&mut self.pages));
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} B)", self.len())
    }
}

/// A pool of reusable buffers. Clones share it.
#[derive(Clone)]
pub struct Buffers(Arc<Shelf>);

impl Buffers {
    /// Creates a pool that keeps up to `kept_max` buffers of each size.
    #[must_use]
    pub fn new(kept_max: usize) -> Self {
        Self(Arc::new(Shelf { sizes: Default::default(), kept_max }))
    }

    /// Takes a buffer with as many blocks as `bytes` need, at least one. Its content is unspecified.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Buffer {
        let count = blocks(bytes);
        let shelved = self.0.sizes.get(count - 1).and_then(|size| size.lock().pop());
        let pages = shelved.unwrap_or_else(|| bytemuck::zeroed_vec(count));
        Buffer { pages, home: Some(self.0.clone()) }
    }
}

/// Free pages, indexed by the number of blocks minus one.
struct Shelf {
    sizes: [Mutex<Vec<Vec<Page>>>; SHELVED_BLOCKS],
    kept_max: usize,
}

impl Shelf {
    fn put(&self, pages: Vec<Page>) {
        let size = pages.len().checked_sub(1).and_then(|at| self.sizes.get(at));
        if let Some(mut kept) = size.map(Mutex::lock).filter(|kept| kept.len() < self.kept_max) {
            kept.push(pages);
        }
    }
}

fn blocks(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK).max(1)
}

/// A block with the alignment that direct I/O needs.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK]);

const _: () = assert!(align_of::<Page>() == BLOCK && size_of::<Page>() == BLOCK);

/// Buffers of more blocks are freed instead of kept.
const SHELVED_BLOCKS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_whole_blocks_and_are_used_again() {
        let shelf = Buffers::new(1);
        for (bytes, len) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (1 << 20, 1 << 20)] {
            let buffer = shelf.take(bytes);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().align_offset(BLOCK), 0);
        }
        let mut one = shelf.take(10);
        one[0] = 7;
        let (at, other) = (one.as_ptr(), shelf.take(10));
        drop(one);
        drop(other);
        let again = shelf.take(4096);
        assert_eq!((again.as_ptr(), again[0]), (at, 7), "the shelf keeps one, the first");
        assert!(Buffer::zeroed(5).iter().all(|&byte| byte == 0));
    }
}
