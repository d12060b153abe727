//! Why a server doesn't start: a sentence, and the exit code of the process.
//!
//! The sentences and codes are memcached's where memcached has one (scripts match them): 64 for combinations that make no
//! sense, 1 for bad values, 71 for what the system refuses.

use guira_log::Format;
use std::{fmt, io};

/// A refusal of the command line: the sentence and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong and what to do about it.
    pub message: String,
    /// The exit code of the process.
    pub code: u8,
}

/// A flag combination or value out of range after parsing (`EX_USAGE`).
pub(crate) const EXIT_USAGE: u8 = 64;
/// A flag's value that can't be.
pub(crate) const EXIT_VALUE: u8 = 1;
/// There is no such user (`EX_NOUSER`).
pub(crate) const EXIT_NO_USER: u8 = 67;
/// The operating system refused (`EX_OSERR`).
pub(crate) const EXIT_SYSTEM: u8 = 71;

/// Each exit code of a server, and when, for the documentation.
pub const EXIT_CODES: [(u8, &str); 5] = [
    (
        0,
        "ended by a signal or by `shutdown`; the successor serves; nothing more was asked than to print",
    ),
    (EXIT_VALUE, "an unknown flag, or a value that can't be read, such as the file of `-Y`"),
    (
        EXIT_USAGE,
        "flags that don't go together, a port or a size of items that can't be, a certificate or a key that can't be used",
    ),
    (EXIT_NO_USER, "there is no user of the name that `-u` gives"),
    (
        EXIT_SYSTEM,
        "the system refuses: a port that another program has, an address or a name that isn't there, memory, a memory \
         file, a pid file",
    ),
];

impl Refusal {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), code }
    }

    /// A value that can't be.
    pub(crate) fn value(message: impl Into<String>) -> Refusal {
        Refusal::new(EXIT_VALUE, message)
    }

    /// Flags that don't go together, or a value out of range.
    pub(crate) fn usage(message: impl Into<String>) -> Refusal {
        Refusal::new(EXIT_USAGE, message)
    }

    /// A setting of `-o` without its value.
    pub(crate) fn missing(name: &str) -> Refusal {
        Refusal::value(format!("Missing {name} argument"))
    }

    /// The system refuses `what` the server needs.
    pub(crate) fn system(what: &str, error: &io::Error) -> Refusal {
        Refusal::new(EXIT_SYSTEM, format!("failed to set up {what}: {error}"))
    }

    /// Says so on standard error, as the log's lines look.
    pub fn say(&self, format: Format) {
        guira_log::refuse(format, &self.message);
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
