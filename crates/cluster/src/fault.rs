//! Why the register couldn't be read or written.

use std::fmt;

use guira_chain::view::{IllegalStep, InvalidView};
use guira_etcd::Error;

/// Why the register couldn't be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The place of a cluster has another form.
    Place(String),
    /// etcd can't be asked, or refuses.
    Etcd(Error),
    /// There is no cluster of this name.
    NoCluster(String),
    /// There is already one of this name.
    Exists(String),
    /// The value of a key can't be read.
    Record {
        /// The key.
        key: String,
        /// What is wrong.
        words: String,
    },
    /// The value of the view's key is no valid view.
    View(InvalidView),
    /// The view may not follow the one before.
    Step(IllegalStep),
    /// Another controller was elected.
    Deposed,
    /// Somebody else has changed what was to be written. The caller must read it again.
    Overtaken,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(text) => write!(
                f,
                "{text}: write etcd:HOST:PORT/NAME, or more of HOST:PORT, with commas; a name has letters, digits, - _ and ."
            ),
            Self::Etcd(error) => error.fmt(f),
            Self::NoCluster(name) => write!(
                f,
                "there is no cluster {name}: make it by guira cluster init etcd:HOST:PORT/{name}"
            ),
            Self::Exists(name) => write!(
                f,
                "there is a cluster {name} already: take another name, or remove it with all its data's places by etcdctl del --prefix /guira/{name}/"
            ),
            Self::Record { key, words } => {
                write!(f, "the key {key} of etcd can't be read: {words}")
            }
            Self::View(why) => why.fmt(f),
            Self::Step(why) => write!(f, "a view that may not follow the one before: {why}"),
            Self::Deposed => f.write_str("another controller was elected"),
            Self::Overtaken => f.write_str("somebody else has changed it: read it again"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Etcd(error)
    }
}
