//! What MySQL 8.0.29 and later have of their own: what is asked and set before their log is read, how it is asked for, and the barrier.
//! Login, events and rows are read as MariaDB's are.
//!
//! # Invariants
//! 1. A position is the set of all transactions that were read: the database sends what isn't in it, in whatever file it is.
//! 2. A log without GTIDs is refused: it has no position that would hold over a failover, and no barrier.

mod check;
mod dump;
mod settings;
mod barrier;

pub(super) use barrier::run as run_barrier;
pub(super) use check::{check, init};
pub(super) use dump::{begin_dump, history, purged};
pub(super) use settings::{position_now, prepare};
