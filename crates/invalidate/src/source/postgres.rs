//! Follows PostgreSQL's log by logical replication: pgoutput's messages over a replication connection, from a slot.
//!
//! ```text
//! wire: login, SQL, the stream ─▶ stream: rows and messages to keys ─▶ line
//! snapshot: a session of its own, asks what can be read ─▶ line
//! ```
//! # Invariants
//! 1. The slot is told a position only after it was stored: the database keeps what isn't in the journal on the device.
//! 2. A gap is a slot that is gone, lost or ahead of our position, or a log that doesn't have what was read. Nothing
//!    else is.
//! 3. A length in a message is trusted only as far as the message goes.
//!
//! # Bad at
//! DROP TABLE and other DDL, which PostgreSQL doesn't put into this stream.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod follow;
mod settings;
mod stream;
mod snapshot;
mod wire;
mod input;
mod login;
mod trouble;
mod pgoutput;

pub(super) use follow::run;
#[cfg(any(test, fuzzing))]
pub(super) use fuzz::{fuzz_login, fuzz_stream};
pub(super) use settings::{check, init};
pub(super) use snapshot::run as run_barrier;
