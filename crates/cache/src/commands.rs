//! What clients ask of the cache, command by command.

mod list;
mod flush;
mod arithmetic;
mod lease;
mod change;
mod join;
mod store;
mod get;
mod commit;

pub use arithmetic::{Arithmetic, Counted};
pub use change::{Invalidate, Touched};
pub(crate) use commit::Actor;
pub use get::Miss;
pub use lease::{Leased, Stale, Vivified};
pub use list::Walk;
pub use store::{Compare, Deleted, Mode, Store, Stored};
