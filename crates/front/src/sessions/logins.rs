//! The users that may log in.
//!
//! # Invariants
//! 1. The time that a check of a password takes depends on the number of users and on the lengths of names and passwords.
//!    It doesn't depend on which bytes are right or wrong.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};

/// The users that may log in, from a file of `user:password` lines.
#[derive(Debug)]
pub struct Logins {
    path: PathBuf,
    users: Mutex<Vec<User>>,
    failures: AtomicU64,
}

/// A line `user:password`; its `Debug` output shows the name only.
pub struct User {
    /// The part before the colon.
    pub name: Vec<u8>,
    /// The part after the colon.
    pub password: Vec<u8>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({}, …)", self.name.escape_ascii())
    }
}

impl User {
    /// Reads the first user of a file.
    ///
    /// # Errors
    /// A sentence: the file can't be read, names nobody, or has a line that is no `user:password`.
    pub fn first(path: &Path) -> Result<Self, String> {
        let first = users(path)?.into_iter().next();
        first.ok_or_else(|| format!("{}: no user:password in it", path.display()))
    }
}

impl Logins {
    /// Reads the file.
    ///
    /// # Errors
    /// A sentence: the file can't be read, or which line is no `user:password`.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let users = Mutex::new(users(&path)?);
        Ok(Self { path, users, failures: AtomicU64::new(0) })
    }

    /// Reads the file again; if that fails, the users stay as they were.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn refresh(&self) -> Result<(), String> {
        let fresh = users(&self.path)?;
        *self.users.lock() = fresh;
        Ok(())
    }

    /// Logins with a wrong user or password since the start.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// Whether this is the name and password of a user; counts a failure if not.
    pub(crate) fn admit(&self, name: &[u8], password: &[u8]) -> bool {
        let is_it = |user: &User| user.name.ct_eq(name) & user.password.ct_eq(password);
        let users = self.users.lock();
        let found = users.iter().fold(Choice::from(0), |found, user| found | is_it(user));
        let is_known = bool::from(found);
        self.failures.fetch_add(u64::from(!is_known), Relaxed);
        is_known
    }
}

fn users(path: &Path) -> Result<Vec<User>, String> {
    let shown = path.display();
    let text = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    let lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| match line.iter().position(|&b| b == b':') {
            Some(colon) => {
                Ok(User { name: line[..colon].to_vec(), password: line[colon + 1..].to_vec() })
            }
            None => Err(format!("{shown}: line {} is no user:password", at + 1)),
        })
        .collect()
}
