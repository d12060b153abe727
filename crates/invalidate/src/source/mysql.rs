//! The parts that only MySQL 8.0.29 and later need: settings to check and set, the request for the log, and the
//! barrier. Login, events and rows are read as MariaDB's are.
//!
//! # Invariants
//! 1. A position is the set of all transactions that were read. The database sends what isn't in the set, whatever file
//!    it is in.
//! 2. A log without GTIDs is refused: it has no position that survives a failover, and no barrier.

mod check;
mod dump;
mod settings;
mod barrier;

pub(super) use barrier::run as run_barrier;
pub(super) use check::{check, init};
pub(super) use dump::{begin_dump, history, own_name, purged};
pub(super) use settings::{position_now, prepare};
