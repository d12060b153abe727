//! A source: a database's log, followed from a position, as entries of a line. MariaDB's stands here. MySQL's is nearly the same: what
//! it has of its own stands below, and so does PostgreSQL's.
//!
//! ```text
//! session: login, settings, the dump ─▶ follow: events ─▶ transaction: keys ─▶ line
//! barrier: a session of its own, asks what can be read ─▶ line
//! ```
//! All databases share what isn't their protocol: [`follower`] tries again, [`naming`] makes keys of rows and texts, [`watch`]
//! asks for the barrier.
//!
//! # Invariants
//! 1. What can't be read is never passed by: an unknown event, a change of a ruled table without names, a lost piece of the
//!    log each have an answer, and a way to stop.
//! 2. After an error the log is read again from the line's position: keys may come twice.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod any;
mod postgres;
mod run;
mod setup;
mod mysql;
mod follow;
#[cfg(any(test, fuzzing))]
mod made;
mod prepared;
mod shorten;
mod tables;
mod transaction;
mod barrier;
mod watch;
mod statement;
mod rows;
mod table;
mod values;
mod payload;
mod mysql_gtid;
mod event;
mod inflate;
mod columns;
mod naming;
mod checked;
mod role;
mod session;
mod login;
mod packets;
mod dial;
mod lost;
mod follower;
mod bytes;
mod halt;

pub(crate) use any::{check, init, run, run_barrier};
pub(crate) use follower::{Follower, unsynced};
#[cfg(fuzzing)]
pub use fuzz::{fuzz_answers, fuzz_binlog, fuzz_pgoutput};
pub(crate) use halt::{BAD, Halt, UNREADABLE, UNUSABLE};
