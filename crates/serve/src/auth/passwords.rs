//! Files of users and passwords, and a comparison whose time reveals nothing.
//!
//! ```text
//! -Y        user:password        every line must have this form; the password may contain colons
//! pwdb      user:password:…      other lines are skipped; the password ends at a colon or at the end of the line
//! ```
//! memcached takes at most eight users from the file of `-Y` and silently ignores the rest; here only the
//! size of the file is limited.

use parking_lot::Mutex;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use subtle::{Choice, ConstantTimeEq};

/// Users with their passwords.
#[derive(Default)]
pub(super) struct Passwords(Vec<Entry>);

struct Entry {
    user: Vec<u8>,
    password: Vec<u8>,
}

/// The format of a file of passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// memcached's `-Y`.
    AuthFile,
    /// memcached's `MEMCACHED_SASL_PWDB`.
    Pwdb,
}

/// The reason why no passwords could be read.
#[derive(Debug)]
pub(crate) enum PasswordsError {
    /// The file can't be read.
    Io(io::Error),
    /// The file is larger than [`FILE_BYTES_MAX`].
    TooLarge,
    /// The line of this number isn't `user:password`, or is longer than 255 bytes.
    Malformed(usize),
    /// The file of `-Y` is empty.
    Empty,
}

impl fmt::Display for PasswordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{error}: the server's user (-u) must be able to read it")
            }
            Self::Io(error) => write!(f, "the file of passwords can't be read: {error}"),
            Self::TooLarge => write!(f, "a file of passwords has at most {FILE_BYTES_MAX} bytes"),
            Self::Malformed(line) => {
                write!(f, "line {line} is malformed: user:password, at most 255 bytes, is wanted")
            }
            Self::Empty => {
                f.write_str("the file is empty: write a line user:password for each user")
            }
        }
    }
}

impl Passwords {
    /// Reads a whole file of passwords.
    pub(super) fn read(path: &Path, format: Format) -> Result<Passwords, PasswordsError> {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(PasswordsError::Io)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(PasswordsError::Io)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(PasswordsError::TooLarge);
        }
        Self::parse(&text, format)
    }

    fn parse(text: &[u8], format: Format) -> Result<Passwords, PasswordsError> {
        if text.is_empty() && format == Format::AuthFile {
            return Err(PasswordsError::Empty);
        }
        let mut entries = Vec::new();
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|&b| b == b'\n');
        for (at, line) in lines.enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = line.iter().position(|&b| b == b':').filter(|_| line.len() < ENTRY_BYTES);
            let (Some(colon), format) = (colon, format) else {
                match format {
                    Format::AuthFile => return Err(PasswordsError::Malformed(at + 1)),
                    Format::Pwdb => continue,
                }
            };
            let (user, rest) = (&line[..colon], &line[colon + 1..]);
            let ends = rest.iter().enumerate().filter(|&(_, &b)| b == b':').map(|(at, _)| at);
            let ends = ends.filter(|_| format == Format::Pwdb).chain([rest.len()]);
            for end in ends {
                entries.push(Entry { user: user.to_vec(), password: rest[..end].to_vec() });
            }
        }
        Ok(Passwords(entries))
    }

    /// Whether there are no users.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `user` has this password.
    pub(super) fn admit(&self, user: &[u8], password: &[u8]) -> bool {
        self.admit_by(user, |own| same(own, password))
    }

    /// Whether `user` has a password for which `is_right` returns true. `is_right` is called once for
    /// each user of the file, with an empty password for all except `user`. The time therefore doesn't
    /// reveal whether the user exists.
    pub(super) fn admit_by(&self, user: &[u8], is_right: impl Fn(&[u8]) -> Choice) -> bool {
        let mut admitted = Choice::from(0);
        for entry in &self.0 {
            let is_user = same(&entry.user, user);
            let password = if is_user.into() { &entry.password[..] } else { b"" };
            admitted |= is_user & is_right(password);
        }
        admitted.into()
    }
}

/// Whether `a` and `b` are equal, in a time that depends on neither.
pub(super) fn same(a: &[u8], b: &[u8]) -> Choice {
    let padded = |bytes: &[u8]| {
        let mut room = [0; ENTRY_BYTES];
        let used = bytes.len().min(ENTRY_BYTES);
        room[..used].copy_from_slice(&bytes[..used]);
        room
    };
    padded(a).ct_eq(&padded(b)) & (a.len() as u64).ct_eq(&(b.len() as u64))
}

/// A file of [`Format::Pwdb`] that is read again when it has changed.
pub(super) struct Watched {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    stamp: Option<Stamp>,
    passwords: Passwords,
}

/// The fields of a file's metadata that change when the file does: inode, size, and the seconds and nanoseconds of ctime.
type Stamp = (u64, u64, i64, i64);

impl Watched {
    pub(super) fn new(path: PathBuf) -> Watched {
        Watched { path, seen: Mutex::default() }
    }

    /// Calls `ask` with the users that the file holds now. A file that doesn't exist has no users.
    pub(super) fn with(&self, ask: impl Fn(&Passwords) -> bool) -> bool {
        let mut seen = self.seen.lock();
        let stamp = std::fs::metadata(&self.path)
            .ok()
            .map(|m| (m.ino(), m.size(), m.ctime(), m.ctime_nsec()));
        if stamp.is_none() || seen.stamp != stamp {
            let passwords = Passwords::read(&self.path, Format::Pwdb).unwrap_or_default();
            *seen = Seen { stamp, passwords };
        }
        ask(&seen.passwords)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// The limit of a line's bytes, including its end.
const ENTRY_BYTES: usize = 256;
/// The limit of a file's size: about a thousand users. Each login is compared with all of them.
const FILE_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, format: Format) -> Passwords {
        Passwords::parse(text.as_bytes(), format).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn each_line_is_a_user_and_the_last_needs_no_newline() {
        let passwords = parse("foo:bar\r\nbaaaz:qu:ux", Format::AuthFile);
        assert!(passwords.admit(b"foo", b"bar") && passwords.admit(b"baaaz", b"qu:ux"));
        for (user, password) in [("foo", "ba"), ("foo", "bar\r"), ("fo", "bar"), ("baaaz", "qu")] {
            assert!(!passwords.admit(user.as_bytes(), password.as_bytes()), "{user} {password}");
        }
    }

    #[test]
    fn a_malformed_line_spoils_an_auth_file_and_is_skipped_in_a_pwdb() {
        let long = format!("u:{}", "p".repeat(254));
        for (text, line) in [("no colon\n", 1), ("a:b\n\nc:d\n", 2), (&long, 1)] {
            let error = Passwords::parse(text.as_bytes(), Format::AuthFile).err();
            assert!(matches!(error, Some(PasswordsError::Malformed(n)) if n == line), "{text}");
        }
        let pwdb = parse("# users\n\na:b:mallory\n", Format::Pwdb);
        assert!(pwdb.admit(b"a", b"b") && pwdb.admit(b"a", b"b:mallory"));
        assert!(!pwdb.admit(b"a", b"") && !pwdb.admit(b"a", b"b:"));
    }

    #[test]
    fn bytes_behind_the_room_for_the_comparison_are_not_forgotten() {
        let long = [b'p'; ENTRY_BYTES + 1];
        assert!(bool::from(same(&long[..ENTRY_BYTES], &long[..ENTRY_BYTES])));
        assert!(!bool::from(same(&long, &long[..ENTRY_BYTES])));
        assert!(!bool::from(same(b"p", b"p\0")));
    }
}
