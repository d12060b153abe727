//! A source: follows a database's log from a position, and turns it into entries of a line. The modules here follow
//! MariaDB's log. MySQL's is nearly the same: [`mysql`] and [`postgres`] have what is different.
//!
//! ```text
//! session: login, settings, the dump ─▶ follow: events ─▶ transaction: keys ─▶ line
//! barrier: a session of its own, asks what can be read ─▶ line
//! ```
//! The databases share everything except their protocol. [`follower`] retries, [`naming`] makes keys from rows and
//! texts, and [`watch`] asks for the barrier.
//!
//! # Invariants
//! 1. What can't be read is never skipped. Unknown events, changes of ruled tables without names, and lost pieces of
//!    the log each have an answer, and a way to stop.
//! 2. After an error the log is read again from the line's position: keys may come twice.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod any;
mod postgres;
mod run;
mod setup;
mod sample;
mod mysql;
mod follow;
#[cfg(any(test, fuzzing))]
mod made;
mod prepared;
mod recovery;
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
mod begun;
mod lost;
mod follower;
mod ended;
mod bytes;
mod halt;

pub(crate) use any::{check, init, run, run_barrier};
pub(crate) use begun::Begun;
pub(crate) use follower::{Follower, unsynced};
#[cfg(fuzzing)]
pub use fuzz::{fuzz_answers, fuzz_binlog, fuzz_pgoutput};
pub(crate) use halt::{BAD, Halt, UNREADABLE, UNUSABLE};
