//! `guira lab trace`: a recorded trace, replayed through any eviction policy.

mod format;
mod read;
mod recorded;
mod request;
mod source;
mod synthetic;
mod zstd;

pub use format::Format;
pub use read::{Columns, ColumnsError};
pub use recorded::{Lifetime, Step, Trace};
pub use request::{Op, Place, ReadError, Request};
pub use source::{Reading, Source};
pub use synthetic::Synthetic;
