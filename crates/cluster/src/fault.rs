//! Why the register couldn't be read or written.

use std::collections::HashSet;
use std::fmt;
use std::mem::{Discriminant, discriminant};

use guira_chain::{IllegalStep, InvalidView, NodeId};
use guira_etcd::Error;

use crate::names::NAME_FORM;

/// Why the register couldn't be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The place of a cluster has another form.
    Place(String),
    /// etcd can't be asked, or refuses.
    Etcd(Error),
    /// There is no cluster of this name.
    NoCluster(String),
    /// The process knows the cluster, and etcd has it no more.
    Lost(String),
    /// The process knows another cluster of this name.
    Other(String),
    /// The view is older than one that the process knows.
    Older {
        /// Its epoch.
        epoch: u64,
        /// The known one's.
        known: u64,
    },
    /// Another node that lives has the name.
    NameTaken {
        /// The name.
        name: String,
        /// The other node.
        by: NodeId,
    },
    /// Another process that lives has the node's number.
    NumberTaken {
        /// The number.
        by: NodeId,
        /// Where other nodes reach that process.
        at: String,
    },
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

/// Which kinds of faults the log has since the last success: an attempt that fails twice a second is told of once.
#[derive(Debug, Default)]
pub(crate) struct Told(HashSet<Discriminant<Fault>>);

impl Told {
    pub(crate) fn is_new(&mut self, fault: &Fault) -> bool {
        self.0.insert(discriminant(fault))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(text) => write!(
                f,
                "{text}: write etcd:HOST:PORT/NAME, or more of HOST:PORT, with commas; {NAME_FORM}"
            ),
            Self::Etcd(error) => error.fmt(f),
            Self::NoCluster(name) => write!(
                f,
                "there is no cluster {name}. If there was one, make no new one: etcd has lost its keys (docs/how-to/lost-etcd.md). If there was none: guira cluster init etcd:HOST:PORT/{name}"
            ),
            Self::Lost(name) => write!(
                f,
                "etcd has lost the cluster {name}: make no new one over it, but put its view back by guira cluster rescue, as docs/how-to/lost-etcd.md says"
            ),
            Self::Other(name) => write!(
                f,
                "the cluster {name} in etcd was made anew, and doesn't know what the nodes of the former one hold: put its view back by guira cluster rescue, as docs/how-to/lost-etcd.md says, or give all items up and start with new directories"
            ),
            Self::Older { epoch, known } => write!(
                f,
                "the view in etcd has epoch {epoch}, and this process knows epoch {known}: put the newest one back (guira cluster rescue), or a right one of a higher epoch, as docs/how-to/lost-etcd.md says"
            ),
            Self::NameTaken { name, by } => write!(
                f,
                "node {by}, which lives, has the name {name}: give this one another --name"
            ),
            Self::NumberTaken { by, at } => write!(
                f,
                "node {by} lives, and its process listens for other nodes at {at}: this directory is that node's, or a copy of it. Give this node an empty directory, or end the other process first"
            ),
            Self::Exists(name) => write!(
                f,
                "there is a cluster {name} already: nothing is to be done, if it is yours; else take another name"
            ),
            Self::Record { key, words } => {
                write!(f, "the key {key} of etcd can't be read: {words}")
            }
            Self::View(why) => write!(
                f,
                "{why}. Delete the key view of etcd, and put the right one back (guira cluster rescue), as docs/how-to/lost-etcd.md says"
            ),
            Self::Step(why) => write!(f, "a view that may not follow the one before: {why}"),
            Self::Deposed => f.write_str("another controller was elected"),
            Self::Overtaken => f.write_str("somebody else has changed it: read it again"),
        }
    }
}

impl Fault {
    /// Whether etcd, or enough of it, doesn't answer.
    #[must_use]
    pub fn is_of_etcd_away(&self) -> bool {
        matches!(self, Self::Etcd(error) if error.is_away())
    }

    /// Whether etcd has another cluster than the process knows, or none, or a view that it refuses: the process must write
    /// nothing there.
    pub(crate) fn is_estranged(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Other(_) | Self::Older { .. } | Self::Step(_))
    }
}

impl std::error::Error for Fault {}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Etcd(error)
    }
}
