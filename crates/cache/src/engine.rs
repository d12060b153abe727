//! The engine: items by their keys, in memory that threads share, each thread with its own part.
//!
//! It alone owns the index, the slab and the epochs. It knows no command, no lease and no sweep.

mod swap;
mod fill;
mod room;
mod local;
mod shared;
mod walk;
mod limbo;
mod notes;
mod cas;

pub(crate) use local::Local;
pub use notes::Evicted;
pub use room::NoRoom;
pub(crate) use shared::{Engine, Terms};
pub(crate) use swap::{Change, Decision, Swap, Swapped};
#[cfg(test)]
pub(crate) use walk::WALK_STEP;
pub(crate) use walk::{WalkPosition, items_in};
