//! Verification of a log: reads all of it, checks every checksum, and reports each place without a whole record.

use crate::error::StoreError;
use crate::log::record::UNIT;
use crate::log::scan::Scan;
use crate::log::segment::{LOG_START, LogFile};

/// Passes each corrupt place to `tell`: its offset, and what is wrong there.
///
/// # Errors
/// If a read fails.
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
