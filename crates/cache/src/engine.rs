//! The engine: items by their keys, in memory that threads share, each thread with its own part.
//!
//! Only the engine touches the index, the slab and the epochs. It knows nothing of commands, leases or sweeps.
//! [`Engine`] is what all threads share; [`Local`] is one thread's part.
//!
//! # Contracts
//! 1. A thread that looks at items is online: from the creation of its [`Local`] until the drop, except while asleep.
//!    Items that a search, a walk or a change returns stay readable until that thread's turn ends.
//! 2. An item that leaves the index is marked as retired before its key's place is unlocked. The stamp that its
//!    chunks wait for is taken after that, at the end of the turn.
//! 3. A key's unique advances with the key's place locked, after the index has changed.
//! 4. A closure that decides with a key's place locked takes no lock. The key's unique does not change while it runs.
//! 5. No lock is held across turns.
//!
//! Items enter and leave the index only here, except when a cache starts over a memory file (persist/rebuild.rs).

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
pub(crate) use walk::{WALK_STEP, WalkPosition, items_in};
