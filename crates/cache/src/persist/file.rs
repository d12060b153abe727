//! The files of a memory file: opened so that they are this server's own, and synced.
//!
//! The directory is often one in which any user may create files (`/dev/shm`). So symbolic links are not followed,
//! and a file is accepted only if no other user can have made it or may write to it.

use crate::memory::MAGIC;
use rustix::fs::{FlockOperation, OFlags, flock, fstatvfs};
use rustix::io::retry_on_intr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Opens the file at `path`, or creates it, and locks it for this process alone. A new file gets its magic at once,
/// so that it is recognized as ours from its first byte on.
///
/// # Errors
/// The file can't be opened, another process has it, or it is not a memory file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = own(File::options().read(true).write(true).create(true), path)?;
    lock(&file)?;
    if file.metadata()?.len() == 0 {
        begin(&file)?;
        return Ok(file);
    }
    let mut first = [0; 4];
    // A file shorter than the magic is not ours either.
    let is_read = file.read_exact_at(&mut first, 0).is_ok();
    if is_read && u32::from_le_bytes(first) == MAGIC {
        return Ok(file);
    }
    refuse("it is not a memory file of Guira; give another name")
}

/// Writes the magic into an empty file.
pub(crate) fn begin(file: &File) -> io::Result<()> {
    file.write_all_at(&MAGIC.to_le_bytes(), 0)
}

/// Opens a file that belongs to this user alone, without following a link.
///
/// # Errors
/// The file can't be opened, or it doesn't belong to this user alone.
pub(super) fn own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for its other end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = options.mode(0o600).custom_flags(flags).open(path);
    let file = opened.or_else(|error| {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            return refuse("it is a symbolic link; give the name that it stands for");
        }
        Err(error)
    })?;
    check(&file.metadata()?, rustix::process::geteuid().as_raw())?;
    Ok(file)
}

/// Creates a new file for a draft, replacing one that a crash left.
pub(super) fn draft(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// The bytes of memory that the file has, or could have if nothing else on its file system grows.
pub(super) fn room(file: &File) -> io::Result<u64> {
    let left = retry_on_intr(|| fstatvfs(file))?;
    Ok(file.metadata()?.blocks() * BLOCK_BYTES + left.f_bavail * left.f_frsize)
}

/// Syncs the directory of `path`, which makes files created, renamed and removed in it durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    super::steps::note("directory synced");
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn check(found: &Metadata, user: u32) -> io::Result<()> {
    if !found.is_file() {
        return refuse("it is not a file");
    }
    if found.uid() != user {
        return refuse(&format!(
            "it belongs to user {}, and this server runs as {user}; remove it, or give another name",
            found.uid()
        ));
    }
    if found.mode() & 0o022 != 0 {
        return refuse("others may write it; chmod go-w, if its content can be trusted");
    }
    if found.nlink() != 1 {
        return refuse("the file has another name, too; remove one of them");
    }
    Ok(())
}

fn lock(file: &File) -> io::Result<()> {
    for attempt in 0..LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            // A killed server's memory is released before its lock is.
            Err(_) if attempt + 1 < LOCK_TRIES => std::thread::sleep(LOCK_PAUSE),
            Err(_) => {}
        }
    }
    refuse("another server has it; stop that one, or give another name")
}

fn refuse<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why.to_owned()))
}

/// The unit of `st_blocks`, whatever the file system's is.
const BLOCK_BYTES: u64 = 512;
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn another_users_file_is_refused() {
        let found = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let refused = check(&found, found.uid() + 1).unwrap_err().to_string();
        assert!(refused.contains("belongs to user"), "{refused}");
    }
}
