//! The engine: items by their keys, in memory that threads share, each thread with its own part.
//!
//! It alone owns the index, the slab and the epochs. It knows no command, no lease and no sweep. [`Engine`] is what all threads
//! share, [`Local`] one thread's part.
//!
//! # Contracts
//! 1. Whoever looks at items is online: between the making of a [`Local`] and its drop, and not asleep. What a search, a
//!    walk or a change gives out stays readable until that thread's turn ends.
//! 2. An item that leaves the index is marked as retired before its key's place is unlocked; the stamp that its chunks wait
//!    for is taken after that, at the end of the turn.
//! 3. A key's unique advances with the key's place locked, after the index has changed.
//! 4. A closure that decides with a key's place locked takes no lock, and sees the key's unique stand still.
//! 5. No lock is held over a turn.
//!
//! Items come into the index and leave it here, except at a start over a memory file (persist/rebuild.rs).

mod swap;
mod fill;
mod under;
mod room;
mod local;
mod shared;
mod walk;
mod limbo;
mod notes;
mod cas;
mod lower;

pub(crate) use local::Local;
pub use lower::Below;
pub(crate) use lower::Lower;
pub use notes::Evicted;
pub use room::NoRoom;
pub(crate) use shared::{Engine, Terms};
pub(crate) use swap::{Change, Decision, Swap, Swapped};
#[cfg(test)]
pub(crate) use walk::WALK_STEP;
pub(crate) use walk::{WalkPosition, items_in};
