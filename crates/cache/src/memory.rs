//! Item memory: chunks, and when a chunk may be used again. It knows nothing of items.

mod slab;
mod limit;
mod chunks;
mod page;
mod head;
#[expect(unsafe_code, reason = "the one mapping that items live in; everything above is safe code")]
mod arena;
mod classes;
mod epochs;

pub use arena::release_code;
pub(crate) use arena::{Arena, HEAD_BYTES, back};
pub(crate) use chunks::{Chunks, MEMORY_MAX, Plan};
pub use classes::Slabs;
pub(crate) use classes::{CHUNK_MIN, Class, Classes};
pub(crate) use epochs::Epochs;
pub(crate) use head::{Head, LAYOUT, MAGIC, Purpose, Seen};
pub(crate) use slab::{Allocated, ClassState, Ledger, Owned, Slab};
