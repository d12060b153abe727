//! Why a command did nothing, or not all.

use crate::fault::Fault;

/// Why a command did nothing, or not all; a sentence for the operator.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A flag or a value can't be used.
    Usage(String),
    /// etcd can't be asked, or the cluster is as it must not be for this.
    Refused(String),
    /// It isn't done yet, or something needs the operator.
    Unfinished(String),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault.to_string())
    }
}
