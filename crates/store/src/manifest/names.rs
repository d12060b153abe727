//! The names of the store's files, and the content of `CURRENT`.

use crate::checksum::crc32c;
use crate::file::FileKind;
use std::ffi::OsStr;

/// The name of a file of the store.
pub(crate) fn file_name(kind: FileKind, id: u64) -> String {
    let letter = match kind {
        FileKind::Log => 'L',
        FileKind::Run => 'R',
        FileKind::Manifest => 'M',
        FileKind::Fixed => 'F',
    };
    format!("{letter}-{id:016x}")
}

/// The kind and the number of the file with this name.
pub(crate) fn parse_name(name: &OsStr) -> Option<(FileKind, u64)> {
    let name = name.to_str()?;
    let id = u64::from_str_radix(name.get(2..)?, 16).ok()?;
    let kind = match name.get(..2)? {
        "L-" => FileKind::Log,
        "R-" => FileKind::Run,
        "M-" => FileKind::Manifest,
        "F-" => FileKind::Fixed,
        _ => return None,
    };
    // No store gives so many numbers, and the next number must not overflow.
    (file_name(kind, id) == name && id <= u64::MAX / 2).then_some((kind, id))
}

/// The content of `CURRENT` when it names this manifest.
pub(super) fn current_text(id: u64) -> String {
    let name = file_name(FileKind::Manifest, id);
    format!("{name} {:08x}\n", crc32c(&[name.as_bytes()]))
}

/// The manifest that `CURRENT` names.
pub(super) fn current_id(text: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(text).ok()?.split(' ').next()?;
    let (kind, id) = parse_name(OsStr::new(name))?;
    (kind == FileKind::Manifest && current_text(id).as_bytes() == text).then_some(id)
}

/// The file that names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// The file that will become `CURRENT`.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// The file that is locked by the process that has the store open.
pub(crate) const LOCK: &str = "LOCK";
