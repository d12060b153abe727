//! Reads a manifest, and distinguishes the traces of a crash from corruption.
//!
//! | the first place without a whole record | result |
//! |---|---|
//! | is inside the part that a mark declares durable | the manifest is corrupt |
//! | is after that | it is a torn tail: its edit was never acknowledged |

use super::edits::{self, Edit, FileSet};
use super::mark::{Marks, RECORDS_START};
use super::names::{CURRENT, current_id, file_name};
use super::record;
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, FileKind, Header};
use guira_disk::{Disk, FileAccess};
use std::io;
use std::path::{Path, PathBuf};

/// The manifest that `CURRENT` names.
pub(crate) struct FoundManifest {
    /// Its number.
    pub(crate) id: u64,
    /// Its file.
    pub(crate) path: PathBuf,
    /// The files that it names.
    pub(crate) set: FileSet,
    /// The identity of the hash, from the header.
    pub(crate) hash_id: u64,
    /// Where its last whole record ends.
    pub(crate) end: u64,
    /// The file's length. The records are followed by zeros: space that was allocated in advance.
    pub(super) len: u64,
    /// Whether other bytes than zeros follow the records.
    pub(super) is_torn: bool,
    /// The marks: how far the file is known to be durable.
    pub(super) marks: Marks,
}

/// Reads the current manifest. None if the directory holds no store.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundManifest>, StoreError> {
    let current = dir.join(CURRENT);
    let text = match read_whole(disk, &current) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        other => other?,
    };
    let id = current_id(&text)
        .ok_or_else(|| StoreError::corrupt(&current, 0, "it doesn't name a manifest"))?;
    let path = dir.join(file_name(FileKind::Manifest, id));
    let bytes = read_whole(disk, &path).map_err(|e| e.missing_from(&current))?;
    let refuse = |what| StoreError::Foreign { path: path.clone(), what };
    let block = bytes.get(..BLOCK_BYTES).unwrap_or(&bytes);
    let corrupt = |at: usize, what| StoreError::corrupt(&path, at as u64, what);
    // `CURRENT` names it: what isn't whole was, and is damaged.
    let header = Header::decode(block)
        .map_err(|what| if Header::is_whole(block) { refuse(what) } else { corrupt(0, what) })?;
    let marks = Marks::read(&bytes, id);
    let durable = marks.durable().ok_or_else(|| {
        corrupt(BLOCK_BYTES, "nothing says how far this list of files was durable")
    })?;
    let (set, end) = replay(&bytes, id, corrupt)?;
    if (end as u64) < durable {
        return Err(corrupt(end, "a part of this list of files that was durable is not whole"));
    }
    let wanted =
        Header { file_id: id, uuid: set.identity.uuid, kind: FileKind::Manifest, ..header };
    header.expect(&wanted).map_err(refuse)?;
    let is_torn = bytes[end..].iter().any(|&byte| byte != 0);
    let (hash_id, end, len) = (header.hash_id, end as u64, bytes.len() as u64);
    Ok(Some(FoundManifest { id, path, set, hash_id, end, len, is_torn, marks }))
}

/// Applies the whole records. Returns the set of files, and where the records end.
fn replay(
    bytes: &[u8],
    id: u64,
    corrupt: impl Fn(usize, &'static str) -> StoreError,
) -> Result<(FileSet, usize), StoreError> {
    let mut at = usize::try_from(RECORDS_START).unwrap_or(usize::MAX);
    let mut set = None;
    while let Some((body, used)) = record::at(bytes, at, id) {
        let wrong = || corrupt(at, "an edit of this list of files makes no sense");
        let body = edits::decode(body).ok_or_else(wrong)?;
        let set = match (&mut set, body.edits.first()) {
            (Some(set), _) => set,
            (none, Some(Edit::Identity(identity))) => none.insert(FileSet::new(*identity)),
            _ => return Err(wrong()),
        };
        body.edits.iter().try_for_each(|edit| set.apply(edit)).ok_or_else(wrong)?;
        set.next_id = set.next_id.max(body.next_id);
        set.last_seq = set.last_seq.max(body.last_seq);
        at += used;
    }
    let set =
        set.ok_or_else(|| corrupt(at, "the first part of this list of files is not whole"))?;
    Ok((set, at))
}

/// Reads a small file.
fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, StoreError> {
    let read = || {
        let file = disk.open(path, FileAccess::default())?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    read().map_err(|e| StoreError::io("read", path, e))
}
