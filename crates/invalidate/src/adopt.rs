//! Takes another daemon's position over into this daemon's state folder, so that this daemon goes on from there.
//!
//! # Invariants
//! 1. Everything after the position is read again, so no cursor lies before it. Entries of an earlier term in the
//!    folder's journal are sent to no destination.
//! 2. A destination that was given up stays given up.
//!
//! # Bad at
//! `replay`: each daemon's journal has only what that daemon has read.

use std::path::Path;

use crate::journal::Journal;
use crate::position::{CourierState, Stored};

/// Replaces the position of a source's folder. Returns the number that the next entry gets.
///
/// # Errors
/// A sentence: the folder can't be used.
pub(crate) fn adopt(folder: &Path, shared: &Stored, destinations: &[&str]) -> Result<u64, String> {
    let words = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(words)?;
    // None of the journal's entries is needed, whatever it has.
    let next = Journal::open(folder, 1, 1, 0)?.next();
    let state = |name: &&str| {
        let is_tainted = shared.couriers.get(*name).is_some_and(|it| it.is_tainted);
        ((*name).to_owned(), CourierState { cursor: next, is_tainted })
    };
    let Stored { read, timeline, .. } = shared.clone();
    let couriers = destinations.iter().map(state).collect();
    Stored { read, timeline, next, couriers }.write(folder).map_err(words)?;
    Ok(next)
}
