//! Why a command did nothing, or not all.

use guira_etcd::Error;

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
        let is_foreign = matches!(fault, Fault::Etcd(Error::Unreadable { .. }));
        Self::Refused(match fault.is_of_etcd_away() {
            true => format!("{fault}: {WITHOUT_ETCD}"),
            false if is_foreign => format!("{fault}: is this etcd's address?"),
            false => fault.to_string(),
        })
    }
}

/// What holds while etcd is away, and what helps.
pub(crate) const WITHOUT_ETCD: &str = "is this etcd's address? If it is, nodes and routers go on by the view that they have, and no chain changes; start etcd, and don't restart nodes";
