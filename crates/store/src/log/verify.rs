//! Reads all of a log and compares every checksum. Each place without a whole record is told.

use crate::error::StoreError;
use crate::log::record::UNIT;
use crate::log::scan::Scan;
use crate::log::segment::{LOG_START, LogFile};

/// Tells each damage: where it is, and what is wrong there.
///
/// # Errors
/// A failing read.
pub(crate) fn verify(
    log: &LogFile,
    tell: &mut dyn FnMut(u64, &'static str),
) -> Result<(), StoreError> {
    let end = log.written();
    let mut scan = Scan::new(&**log.file(), log.path(), log.salt(), end);
    let mut at = LOG_START;
    while at < end {
        if let Some(record) = scan.record(at)? {
            at += record.head.len() as u64;
        } else {
            tell(at, "a record fails its checksum");
            at = scan.next_head(at + UNIT as u64)?.unwrap_or(end);
        }
    }
    Ok(())
}
