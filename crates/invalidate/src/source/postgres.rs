//! PostgreSQL's log, by logical replication: pgoutput's messages over a replication connection, from a slot.
//!
//! ```text
//! wire: login, SQL, the stream ─▶ stream: rows and messages to keys ─▶ line
//! snapshot: a session of its own, asks what can be read ─▶ line
//! ```
//! # Invariants
//! 1. The slot is told of a position after it is stored: what isn't in the journal on the device is kept by the database.
//! 2. A slot that is gone, lost or ahead of our position is a gap, and nothing else is.
//! 3. A length in a message is believed as far as the message goes.
//!
//! Bad at: DROP TABLE and other DDL, which PostgreSQL doesn't put into this stream.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod follow;
mod settings;
mod stream;
mod snapshot;
mod wire;
mod login;
mod trouble;
mod pgoutput;

pub(super) use follow::run;
#[cfg(any(test, fuzzing))]
pub(super) use fuzz::{fuzz_login, fuzz_stream};
pub(super) use settings::{check, init};
pub(super) use snapshot::run as run_barrier;
