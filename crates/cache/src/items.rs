//! Items: the contents of a chunk, published or being made.

mod unpublished;
mod item;
mod layout;
mod header;
mod key;

pub(crate) use header::{Header, IDLE_MAX_S};
pub(crate) use item::EXPTIME_MAX;
pub use item::{Claim, ItemRef};
pub use key::Key;
pub(crate) use layout::{Extras, Fields, LINK_WORDS, Shape};
pub use unpublished::Unpublished;
