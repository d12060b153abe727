//! The commands that clients ask of the cache.
//!
//! A command is a method of [`Actor`]. It is documented at the method of the same name on [`Handle`](crate::Handle).

mod below;
mod list;
mod flush;
mod arithmetic;
mod lease;
mod change;
mod join;
mod store;
mod delete;
mod get;
mod commit;

pub use arithmetic::{Counted, Delta};
pub use below::Recalled;
pub use change::{Invalidate, Touched};
pub(crate) use commit::Actor;
pub use delete::Deleted;
pub use get::Miss;
pub use lease::{Leased, Stale, Vivified};
pub use list::Walk;
pub use store::{Compare, Mode, StoreTerms, Stored};
