//! Why PostgreSQL can't be asked, and what to do about it.

use std::fmt;
use std::io;

use crate::source::bytes::Broken;
use crate::source::dial::{NoTls, said_of};
use crate::source::follower::{Calling, Calls, Stopped};

/// Why PostgreSQL can't be asked.
#[derive(Debug)]
pub(super) enum PgTrouble {
    /// The connection failed: another try may succeed.
    Io(io::Error),
    /// The server's own message, with its SQLSTATE.
    Server { code: String, words: String },
    /// What the server sent can't be read.
    Broken(String),
    /// Trying again doesn't help, for this reason.
    Refused(String),
}

impl fmt::Display for PgTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&said_of(error)),
            Self::Server { code, words } if code.starts_with("28") => write!(
                f,
                "{words} ({code}): mend 'user' or 'password_file', make the role by the SQL that 'guira invalidate init' prints, or \
                 let it in by pg_hba.conf"
            ),
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

/// The classes of SQLSTATE that need an administrator: a refused login, a missing database or publication, a missing
/// right.
const FOR_SOMEBODY: &[&str] = &["28", "3D", "42"];
