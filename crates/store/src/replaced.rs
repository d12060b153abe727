//! A small file that is replaced whole: after a crash it is the old one or the new one.
//!
//! The new bytes are written beside it, then they take its name.

use crate::error::StoreError;
use guira_disk::Disk;
use std::path::Path;

/// Writes what will take the place of a file, durably, under the name `new`.
pub(crate) fn prepare(disk: &dyn Disk, new: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // One may be left of a write that didn't come to its end.
    let _ = disk.remove(new);
    let write = || {
        let file = disk.create(new, false)?;
        file.write_at(bytes, 0)?;
        file.sync_data()
    };
    write().map_err(|e| StoreError::io("write", new, e))
}

/// Puts it in the place of `path`, durably. After an error it may be either.
pub(crate) fn replace(disk: &dyn Disk, new: &Path, path: &Path) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let replaced = disk.rename(new, path).and_then(|()| disk.sync_dir(dir));
    replaced.map_err(|e| StoreError::io("replace", path, e))
}
