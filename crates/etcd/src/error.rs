//! Why a call to etcd failed.

use std::fmt;

/// Why a call failed; with several endpoints, why the last one did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The endpoint can't be reached, or didn't answer in time. A write may have been done.
    Away {
        /// Its URL.
        endpoint: String,
        /// Why.
        words: String,
    },
    /// etcd refuses the request.
    Refused {
        /// Its URL.
        endpoint: String,
        /// The status code of gRPC, 0 if there was none. 5 is something that doesn't exist, 7 and 16 are about a login.
        code: u64,
        /// etcd's words.
        words: String,
    },
    /// The response is no answer of etcd's.
    Unreadable {
        /// Its URL.
        endpoint: String,
        /// What is wrong with it.
        words: String,
    },
    /// A file of certificates or the login can't be used; nothing was asked.
    Files(String),
    /// etcd ended a watch.
    Ended {
        /// Its URL.
        endpoint: String,
        /// etcd's words.
        words: String,
    },
}

impl Error {
    /// Whether etcd says that something doesn't exist, such as a lease that has ended.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: NOT_FOUND, .. })
    }

    /// Whether nothing can be read or written now: the endpoint doesn't answer, or too few members of etcd do.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Away { .. } => true,
            Self::Refused { code, .. } => [DEADLINE_EXCEEDED, UNAVAILABLE].contains(code),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { endpoint, words } => {
                write!(f, "etcd at {endpoint} doesn't answer ({words})")
            }
            Self::Refused { endpoint, words, .. } => write!(f, "etcd at {endpoint}: {words}"),
            Self::Unreadable { endpoint, words } => {
                write!(f, "etcd at {endpoint}: its answer can't be used: {words}")
            }
            Self::Files(words) => f.write_str(words),
            Self::Ended { endpoint, words } => {
                write!(f, "etcd at {endpoint}: it ended the watch: {words}")
            }
        }
    }
}

impl std::error::Error for Error {}

const DEADLINE_EXCEEDED: u64 = 4;
const NOT_FOUND: u64 = 5;
const UNAVAILABLE: u64 = 14;
