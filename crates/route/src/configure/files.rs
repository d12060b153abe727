//! Files that a running router reads repeatedly: regular files of a size that a configuration may have.
//!
//! Opening a FIFO would block, and a device has no end.

use std::fmt::Write as _;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use md5::{Digest, Md5};

/// Reads the text of a regular file.
///
/// # Errors
/// A message: the file doesn't exist, isn't regular, is too large, or isn't UTF-8.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = String::from_utf8(bytes(path)?);
    text.map_err(|_| format!("{shown}: stream did not contain valid UTF-8"))
}

/// As [`read`], for any bytes.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    // Check before opening, because opening some devices has side effects.
    check(&fs::metadata(path).map_err(failed)?).map_err(|words| format!("{shown}: {words}"))?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    check(&file.metadata().map_err(failed)?).map_err(|words| format!("{shown}: {words}"))?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile, or report a wrong size.
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("{shown}: {}", too_large()));
    }
    Ok(bytes)
}

/// The digest of a file's contents, if it can be read.
pub(super) fn file_digest(path: &Path) -> Option<String> {
    bytes(path).ok().map(|bytes| digest(&bytes))
}

/// The MD5 digest, as mcrouter shows it. It distinguishes configurations, and is no protection against attackers.
pub(super) fn digest(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string doesn't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Replaces a file atomically: a reader finds the old text or the new one.
pub(super) fn replace(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    // Each router needs a temporary file of its own: several may share the directory.
    let mut fresh = tempfile::NamedTempFile::new_in(dir)?;
    fresh.write_all(text.as_bytes())?;
    fresh.persist(dir.join(name))?;
    Ok(())
}

fn check(file: &Metadata) -> Result<(), String> {
    let kind = file.file_type();
    if kind.is_file() {
        return if file.len() > BYTES_MAX { Err(too_large()) } else { Ok(()) };
    }
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(format!("is {what}, not a regular file"))
}

fn too_large() -> String {
    format!("has more than {} MB", BYTES_MAX >> 20)
}

/// Far more than any configuration needs.
const BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_of_a_bearable_size_is_refused_at_once() {
        let dir = std::env::temp_dir().join(format!("guira-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("link")).unwrap();
        std::os::unix::fs::symlink(path("loop"), path("loop")).unwrap();
        fs::File::create(path("huge")).unwrap().set_len(BYTES_MAX + 1).unwrap();
        fs::write(path("binary"), [0xff, 0xfe]).unwrap();
        fs::write(path("good"), "{}").unwrap();
        for (name, said) in [
            ("fifo", "is a FIFO, not a regular file"),
            ("link", "is a device, not a regular file"),
            (".", "is a directory, not a regular file"),
            ("huge", "has more than 16 MB"),
            ("binary", "valid UTF-8"),
            ("none", "No such file"),
            ("loop", "symbolic links"),
        ] {
            let words = read(&path(name)).unwrap_err();
            assert!(words.contains(said), "{name}: {words}");
        }
        assert_eq!(read(&path("good")), Ok("{}".to_owned()));
        fs::remove_dir_all(dir).unwrap();
    }

    /// With a shared temporary file, a router's text could become another's, or be lost.
    #[test]
    fn routers_that_keep_their_configurations_in_one_directory_do_not_meet() {
        let dir = tempfile::tempdir().expect("a directory");
        let routers: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .map(|name| {
                let dir = dir.path().join("kept");
                fs::create_dir_all(&dir).expect("a directory");
                std::thread::spawn(move || {
                    for n in 0..200 {
                        let text = format!("{name}{n}").repeat(1000);
                        replace(&dir, name, &text).expect("it is kept");
                        assert!(fs::read_to_string(dir.join(name)).is_ok_and(|kept| kept == text));
                    }
                })
            })
            .collect();
        for router in routers {
            router.join().expect("each finds its own");
        }
        let left = fs::read_dir(dir.path().join("kept")).expect("it is there").count();
        assert_eq!(left, 4, "and nothing else");
    }
}
