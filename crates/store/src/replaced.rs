//! Replaces a small file as a whole: after a crash the file is the old one or the new one.
//!
//! The new bytes are written to a file next to the old one, which is then renamed over it.

use crate::error::StoreError;
use guira_disk::Disk;
use std::path::Path;

/// Writes the new content durably to the file `new`.
pub(crate) fn prepare(disk: &dyn Disk, new: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // An earlier attempt may have left a file.
    let _ = disk.remove(new);
    let write = || {
        let file = disk.create(new, false)?;
        file.write_at(bytes, 0)?;
        file.sync_data()
    };
    write().map_err(|e| StoreError::io("write", new, e))
}

/// Renames `new` to `path`, durably. After an error `path` may be the old file or the new one.
pub(crate) fn replace(disk: &dyn Disk, new: &Path, path: &Path) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let replaced = disk.rename(new, path).and_then(|()| disk.sync_dir(dir));
    replaced.map_err(|e| StoreError::io("replace", path, e))
}
