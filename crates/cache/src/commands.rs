//! What clients ask of the cache, command by command.

mod arithmetic;
mod lease;
mod change;
mod join;
mod store;
mod get;

pub use arithmetic::{Arithmetic, Counted};
pub use change::{Invalidate, Touched};
pub use get::Miss;
pub use lease::{Leased, Stale, Vivified};
pub use store::{Compare, Deleted, Mode, Store, Stored};
