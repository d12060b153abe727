//! The error of a server that doesn't start: a sentence, and the exit code of the process.
//!
//! The sentences and codes are memcached's where it has them, because scripts match them: 64 for flags
//! that don't go together, 1 for bad values, 71 for errors of the system.

use guira_log::Format;
use nix::unistd::{Uid, User};
use std::{fmt, io};

/// A refusal to start: the sentence and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong and what to do about it.
    pub(crate) message: String,
    /// The exit code of the process.
    pub code: u8,
}

/// Flags that don't go together, or a value out of range (`EX_USAGE`).
pub(crate) const EXIT_USAGE: u8 = 64;
/// An invalid value of a flag.
pub(crate) const EXIT_VALUE: u8 = 1;
/// The user doesn't exist (`EX_NOUSER`).
pub(crate) const EXIT_NO_USER: u8 = 67;
/// The operating system refused a request (`EX_OSERR`).
pub(crate) const EXIT_SYSTEM: u8 = 71;

/// Each exit code of a server with its meaning, for the documentation.
pub const EXIT_CODES: [(u8, &str); 5] = [
    (
        0,
        "ended by a signal or by `shutdown`; the successor serves; nothing more was asked than to print",
    ),
    (EXIT_VALUE, "an unknown flag, or a value that can't be read, such as the file of `-Y`"),
    (
        EXIT_USAGE,
        "flags that don't go together or that Guira lacks, a port or a size of items or of storage that can't be, a certificate \
         or a key that can't be used",
    ),
    (EXIT_NO_USER, "there is no user of the name that `-u` gives"),
    (
        EXIT_SYSTEM,
        "the system refuses: a port that another program has, an address or a name that isn't there, memory, a memory \
         file, a file of storage, a pid file",
    ),
];

impl Refusal {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), code }
    }

    /// A refusal of an invalid value.
    pub(crate) fn value(message: impl Into<String>) -> Refusal {
        Refusal::new(EXIT_VALUE, message)
    }

    /// A refusal of flags that don't go together, or of a value out of range.
    pub(crate) fn usage(message: impl Into<String>) -> Refusal {
        Refusal::new(EXIT_USAGE, message)
    }

    /// A refusal of a setting of `-o` that lacks its value.
    pub(crate) fn missing(name: &str) -> Refusal {
        Refusal::value(format!("Missing {name} argument"))
    }

    /// A refusal because the system doesn't provide `what`, which the server needs.
    pub(crate) fn system(what: &str, error: &io::Error) -> Refusal {
        Refusal::new(EXIT_SYSTEM, format!("failed to set up {what}: {error}"))
    }

    /// Writes the message to standard error, in the format of the log's lines.
    pub fn say(&self, format: Format) {
        guira_log::refuse(format, &self.message);
    }
}

/// What to do about an error of a file that the server writes, as the end of a sentence; `None` if nothing is known.
pub(crate) fn remedy(error: io::ErrorKind) -> Option<String> {
    match error {
        io::ErrorKind::PermissionDenied => {
            let uid = Uid::effective();
            let user = User::from_uid(uid).ok().flatten().map(|user| user.name);
            let user = user.unwrap_or_else(|| uid.to_string());
            Some(format!("the server's user {user} (-u) must be able to write there"))
        }
        io::ErrorKind::NotFound => Some("make its directory, or name a file elsewhere".to_owned()),
        _ => None,
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
