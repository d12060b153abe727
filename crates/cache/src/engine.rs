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
