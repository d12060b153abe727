//! The settings of `-o`: what they come to ([`Extended`]), how one is declared ([`Suboption`]), and what refuses them.

mod row;
mod extended;
mod storage;
mod queues;
mod tls;
mod size;
mod refusal;

pub use extended::Extended;
pub(crate) use extended::PAGE_BYTES;
pub(crate) use queues::Queues;
pub use refusal::{EXIT_CODES, Refusal};
pub(crate) use refusal::{EXIT_NO_USER, EXIT_SYSTEM, EXIT_USAGE, EXIT_VALUE};
pub(crate) use row::{Shown, Suboption, Takes, Unset, yes};
pub(crate) use size::{GB, KB, MB, parse as parse_size};
pub use storage::StorageOptions;
pub use tls::{KeyFormat, TlsSettings, Verify};
pub(crate) use tls::{is_only_tls13, suites};
