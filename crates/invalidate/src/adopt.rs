//! What another daemon's position means in this one's state folder: whoever becomes active goes on from there.
//!
//! # Invariants
//! 1. All that is after the position is read again, so no cursor lies before: what the folder's journal has of an earlier term is
//!    on its way to nobody.
//! 2. A destination that was given up stays so.
//!
//! Bad at: `replay`. Each daemon's journal has what that one has read.

use std::path::Path;

use crate::journal::Journal;
use crate::position::{CourierState, Stored};

/// Replaces the position of a source's folder: the number that its next entry gets.
///
/// # Errors
/// In a sentence.
pub(crate) fn adopt(folder: &Path, shared: &Stored, destinations: &[&str]) -> Result<u64, String> {
    let words = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(words)?;
    // Whatever it has, nothing of it is needed.
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
