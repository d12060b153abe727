//! Checkpoints: a copy of a snapshot in another folder of the same file system, made of hard links and its own manifest.
//!
//! The files are frozen, so both folders can share them. The copy opens as an independent store with its own log.

use super::snapshot::Snapshot;
use crate::error::StoreError;
use crate::file::FileKind;
use crate::manifest::{self, FileSet, Manifest, YoungEntry};
use crate::version::Version;
use std::path::Path;
use std::sync::Arc;

/// Creates the copy in `dir`, which must not have files of a store.
pub(crate) fn write(snapshot: &Snapshot, dir: &Path) -> Result<(), StoreError> {
    let (core, version) = (snapshot.core(), snapshot.version());
    let disk = &core.disk;
    // Only a store that is open for reading has such a log. Its owner may be writing to it, and the copy would seal it.
    if version.logs.iter().any(|it| !it.log.is_sealed()) {
        return Err(StoreError::Option(
            "the log isn't sealed; only a store that is open for writing can copy it",
        ));
    }
    disk.make_dir(dir).map_err(|e| StoreError::io("make", dir, e))?;
    let there = disk.list(dir).map_err(|e| StoreError::io("list", dir, e))?;
    let is_store = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name == manifest::CURRENT || manifest::parse_name(name).is_some()
    };
    if there.iter().any(is_store) {
        let what = "a checkpoint goes into a folder without a store";
        return Err(StoreError::Foreign { path: dir.to_owned(), what });
    }
    let logs = version.logs.iter().map(|it| it.log.path());
    let runs = version.runs().map(|it| it.path());
    for path in logs.chain(runs) {
        let Some(name) = path.file_name() else { continue };
        disk.link(path, &dir.join(name)).map_err(|e| StoreError::io("link", path, e))?;
    }
    let set = set_of(snapshot, version);
    let id = set.next_id;
    let set = FileSet { next_id: id + 1, ..set };
    let header = core.header(FileKind::Manifest, id);
    let copy = Manifest::create((disk, dir), (id, header.hash_id), set, &Arc::default())?;
    // The folder's own name is made durable before the copy counts as made.
    if let Some(parent) = dir.parent().filter(|it| !it.as_os_str().is_empty()) {
        disk.sync_dir(parent).map_err(|e| StoreError::io("sync", parent, e))?;
    }
    copy.make_current()
}

fn set_of(snapshot: &Snapshot, version: &Version) -> FileSet {
    let core = snapshot.core();
    let next_id = core.new_id();
    FileSet {
        logs_from: version.logs.iter().map(|it| it.id).min().unwrap_or(next_id),
        horizon: version.horizon,
        young: version
            .young
            .iter()
            .map(|it| YoungEntry { id: it.id, merged_to: it.merged_to })
            .collect(),
        last: version.last.iter().map(|it| (it.from, it.id)).collect(),
        next_id,
        last_seq: snapshot.last_seq(),
        ..FileSet::new(core.identity)
    }
}
