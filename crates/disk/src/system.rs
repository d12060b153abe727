//! The real file system.
//!
//! Reads and writes continue after `EINTR` and after short transfers. `O_DIRECT` is set after the file is open. So a
//! file system that refuses it doesn't make the call fail, and leaves no empty file. Bad at: file systems that can't
//! allocate in advance (`fallocate` unsupported). There a write can run out of space that seemed to be allocated.

use crate::disk::{Disk, DiskFile, FileAccess, check_aligned};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Disk for System {
    fn create(&self, path: &Path, direct: bool) -> io::Result<Arc<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(Arc::new(open(path, flags, direct)?))
    }

    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        let flags = if how.write { OFlags::RDWR } else { OFlags::RDONLY };
        Ok(Arc::new(open(path, flags, how.direct)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(dir)?;
        let mut paths = entries.map(|it| it.map(|it| it.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        match rustix::fs::mkdir(dir, Mode::RWXU) {
            Err(Errno::EXIST) if dir.is_dir() => Ok(()),
            made => Ok(made?),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = again(|| rustix::fs::open(dir, flags, Mode::empty()))?;
        Ok(again(|| rustix::fs::fsync(&dir))?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = again(|| rustix::fs::open(path, flags, OWNER))?;
        again(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))?;
        Ok(Box::new(file))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let facts = rustix::fs::statvfs(dir)?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }
}

fn open(path: &Path, flags: OFlags, direct: bool) -> io::Result<SystemFile> {
    let flags = flags | OFlags::CLOEXEC;
    let fd = again(|| rustix::fs::open(path, flags, OWNER))?;
    if direct {
        match rustix::fs::fcntl_getfl(&fd)
            .and_then(|now| rustix::fs::fcntl_setfl(&fd, now | OFlags::DIRECT))
        {
            // This file system doesn't support direct I/O: the file is read through its cache.
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(SystemFile { fd, direct })
}

struct SystemFile {
    fd: OwnedFd,
    direct: bool,
}

impl SystemFile {
    fn check(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.direct { check_aligned(bytes, offset) } else { Ok(()) }
    }
}

impl DiskFile for SystemFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(bytes, offset)?;
        read_whole(bytes, offset, |part, at| rustix::io::pread(&self.fd, part, at))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(bytes, offset)?;
        write_whole(bytes, offset, |part, at| rustix::io::pwrite(&self.fd, part, at))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(again(|| rustix::fs::fdatasync(&self.fd))?)
    }

    fn len(&self) -> io::Result<u64> {
        u64::try_from(rustix::fs::fstat(&self.fd)?.st_size).map_err(io::Error::other)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(again(|| rustix::fs::ftruncate(&self.fd, len))?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match again(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.len()? < len => self.set_len(len),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            done => Ok(done?),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

/// Fills `bytes` with as many calls of `read` as needed.
fn read_whole(
    bytes: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match again(|| read(&mut bytes[done..], offset + done as u64)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // A direct file may end inside a block. Then a read can't continue from its end, which isn't aligned.
            Err(Errno::INVAL) if done > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read?,
        }
    }
    Ok(())
}

/// Writes `bytes` with as many calls of `write` as needed.
fn write_whole(
    bytes: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match again(|| write(&bytes[done..], offset + done as u64))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}

/// Makes a system call, and repeats it after a signal.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// The owner may read and write.
const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn signals_and_short_transfers_are_gone_on_from() {
        let text = b"the bananaquit eats sugar";
        let mut script = VecDeque::from([Err(Errno::INTR), Ok(3), Err(Errno::INTR), Ok(1), Ok(99)]);
        let mut bytes = [0; 20];
        let read = |part: &mut [u8], at: u64| {
            let at = usize::try_from(at).unwrap();
            let count = script.pop_front().unwrap()?.min(part.len());
            part[..count].copy_from_slice(&text[at..at + count]);
            Ok(count)
        };
        read_whole(&mut bytes, 4, read).unwrap();
        assert_eq!(bytes, text[4..24]);

        let mut script = VecDeque::from([Ok(2), Err(Errno::INTR), Ok(0), Ok(9)]);
        let short = read_whole(&mut bytes, 0, |_, _| script.pop_front().unwrap());
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);

        let mut script = VecDeque::from([Ok(7), Err(Errno::INTR), Ok(1), Err(Errno::NOSPC)]);
        let mut written = Vec::new();
        let full = write_whole(text, 0, |part, at| {
            assert_eq!(at, written.len() as u64);
            let count = script.pop_front().unwrap()?;
            written.extend_from_slice(&part[..count]);
            Ok(count)
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(written, text[..8]);
    }
}
