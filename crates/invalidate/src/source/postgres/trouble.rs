//! Why PostgreSQL can't be asked, and what that calls for.

use std::fmt;
use std::io;

use crate::source::bytes::Broken;
use crate::source::dial::{NoTls, said_of};
use crate::source::follower::{Calling, Calls, Stopped};

/// Why PostgreSQL can't be asked.
#[derive(Debug)]
pub(super) enum PgTrouble {
    /// The connection: worth another try.
    Io(io::Error),
    /// The server's own words, with their SQLSTATE.
    Server { code: String, words: String },
    /// What it sent can't be read.
    Broken(String),
    /// What can't be mended by trying again: in a sentence.
    Refused(String),
}

impl fmt::Display for PgTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&said_of(error)),
            Self::Server { code, words } => write!(f, "{words} ({code})"),
            Self::Broken(words) => write!(f, "what it sent can't be read: {words}"),
            Self::Refused(words) => f.write_str(words),
        }
    }
}

impl From<io::Error> for PgTrouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NoTls> for PgTrouble {
    fn from(why: NoTls) -> Self {
        match why {
            NoTls::Io(error) => Self::Io(error),
            NoTls::Refused(words) => Self::Refused(words),
        }
    }
}

impl From<Broken> for PgTrouble {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.to_string())
    }
}

impl From<PgTrouble> for Stopped<PgTrouble> {
    fn from(trouble: PgTrouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Calling for PgTrouble {
    fn calls(&self) -> Calls<'_> {
        match self {
            Self::Server { code, .. } if FOR_SOMEBODY.iter().any(|it| code.starts_with(it)) => {
                Calls::Somebody
            }
            Self::Io(_) | Self::Server { .. } => Calls::Again,
            Self::Broken(words) => Calls::Few(words),
            Self::Refused(_) => Calls::Somebody,
        }
    }
}

/// Classes of SQLSTATE: a login that is refused, a database or a publication that isn't there, a missing right.
const FOR_SOMEBODY: &[&str] = &["28", "3D", "42"];
