//! The engine: items by their keys, in memory that threads share, each thread with its own part.
//!
//! It alone owns the index, the slab and the epochs. It knows no command, no lease and no sweep.

mod walk;
mod shared;
mod limbo;
mod cas;

pub(crate) use limbo::Limbo;
pub(crate) use shared::{Engine, Terms};
pub(crate) use walk::{heads_in, items_in};

/// Why there is no memory for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Memory is on its way: end the turn ([`Handle::quiesce`](crate::Handle::quiesce)) and try again.
    Later,
    /// The cache is full and may not evict, or the index has no place for the key.
    OutOfMemory,
    /// No chunk, and no chain of chunks, can hold the item.
    TooLarge,
}
