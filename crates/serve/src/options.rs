//! The settings of `-o`: their values ([`Extended`]), how one is declared ([`Suboption`]), and the error for a bad one.

mod row;
mod extended;
mod storage;
mod queues;
mod tls;
mod size;
mod refusal;

pub(crate) use extended::{Extended, PAGE_BYTES};
pub(crate) use queues::Queues;
pub use refusal::{EXIT_CODES, Refusal};
pub(crate) use refusal::{EXIT_NO_USER, EXIT_SYSTEM, EXIT_USAGE, EXIT_VALUE, remedy};
pub(crate) use row::{Shown, Suboption, Takes, Unset, shown_size, yes};
pub(crate) use size::{GB, KB, MB, parse as parse_size};
pub(crate) use storage::StorageOptions;
pub(crate) use tls::{KeyFormat, TlsSettings, Verify, is_only_tls13, suites};
