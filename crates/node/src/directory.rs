//! The check that a store is made in a directory of its own.
//!
//! A store's files have names such as `L-0000000000000001`, and only their owner may read them. In a directory with other
//! files, people may take them for rubbish, and users who may write there can remove them.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Refuses a directory that has foreign files and no store, a path that is no directory, and one whose parent is none.
///
/// # Errors
/// A sentence: why it is refused.
pub(crate) fn check(directory: &Path) -> Result<(), String> {
    let place = directory.display();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = directory.parent().filter(|it| !it.as_os_str().is_empty());
            return match parent.filter(|it| !it.exists()) {
                Some(parent) => Err(format!(
                    "{place} can't be made, as there is no {}: make that first",
                    parent.display()
                )),
                None => Ok(()),
            };
        }
        Err(error) => return Err(format!("can't read the directory {place}: {error}")),
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let foreign = names.iter().find(|name| !is_own(name));
    match foreign.filter(|_| !names.iter().any(|name| name == CURRENT)) {
        Some(name) => Err(format!(
            "{place} has other files, such as {}, and no store: name an empty directory, or one that does not exist",
            name.display()
        )),
        None => Ok(()),
    }
}

/// Whether the directory has a store.
pub(crate) fn has_store(directory: &Path) -> bool {
    directory.join(CURRENT).exists()
}

/// Whether users besides its owner may write in a directory, and so remove the store's files.
pub(crate) fn is_open_to_others(directory: &Path) -> bool {
    let mode = fs::metadata(directory).map(|found| found.permissions().mode());
    // With the sticky bit, each user can only remove own files.
    mode.is_ok_and(|mode| mode & 0o022 != 0 && mode & 0o1000 == 0)
}

fn is_own(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_numbered = || {
        let (kind, number) = name.split_once('-')?;
        let is_hex = number.split('.').next()?.chars().all(|c| c.is_ascii_hexdigit());
        (["L", "R", "M"].contains(&kind) && is_hex).then_some(())
    };
    name.starts_with(CURRENT) || ["LOCK", "lost+found"].contains(&name) || is_numbered().is_some()
}

const CURRENT: &str = "CURRENT";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_made_in_a_directory_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        assert_eq!(check(&at.join("none")), Ok(()));
        assert_eq!(check(at), Ok(()));
        let said = check(&at.join("none/store")).expect_err("its parent isn't there");
        assert!(said.ends_with(&format!("no {}: make that first", at.join("none").display())));
        for own in ["LOCK", "L-00000000000000ff", "lost+found", "M-1.tmp"] {
            fs::write(at.join(own), "").expect("a file");
            assert_eq!(check(at), Ok(()), "{own}");
        }
        fs::write(at.join("thesis.tex"), "").expect("a file");
        let said = check(at).expect_err("somebody else's");
        assert!(said.contains("such as thesis.tex, and no store"), "{said}");
        fs::write(at.join("CURRENT"), "").expect("a file");
        assert_eq!(check(at), Ok(()), "a store is there already");
        let said = check(&at.join("CURRENT")).expect_err("a file");
        assert!(said.contains("can't read the directory"), "{said}");
    }

    #[test]
    fn a_directory_that_others_may_write_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        for (mode, is_open) in [(0o700, false), (0o755, false), (0o777, true), (0o1777, false)] {
            let mode_of = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path(), mode_of).expect("its owner may");
            assert_eq!(is_open_to_others(folder.path()), is_open, "{mode:o}");
        }
    }
}
