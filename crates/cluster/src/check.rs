//! What is wrong with a cluster, and what helps: `guira cluster check`. It asks and prints; what is found is each child's.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::ask::Keyless;
use crate::counted::counted;
use crate::fault::Fault;
use crate::register::Register;
use crate::snapshot::RegisterSnapshot;
use crate::trouble::{Trouble, WITHOUT_ETCD};

mod answers;
mod slots;
mod nodes;
mod register;
mod etcd;
mod moving;
mod findings;

use findings::{Finding, Findings, Grade};
use moving::{ask_twice, behind};

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    cluster: String,
    /// The view's epoch; `None`: etcd didn't say.
    epoch: Option<u64>,
    /// The nodes that were asked themselves, and answered.
    nodes: usize,
    findings: Vec<Finding>,
}

impl Check {
    /// Looks at etcd, the register and the nodes.
    pub(crate) fn of(register: &Register) -> Result<Self, Trouble> {
        let mut found = Findings::default();
        etcd::find(&mut found, &register.etcd.health());
        let snapshot = match register.snapshot() {
            Err(fault) if fault.is_of_etcd_away() => {
                return Ok(Self::blind(found, register, &fault));
            }
            snapshot => snapshot?,
        };
        if snapshot.is_new() {
            found.problem("no node has ever entered this cluster", NO_NODE);
            return Ok(Self::full(found, &snapshot, 0));
        }
        let (said, moving) = ask_twice(&snapshot);
        register::find(&mut found, &snapshot);
        register::find_lead(&mut found, register, &snapshot, &behind(&said, &moving));
        let keyless = Keyless::of(&snapshot);
        nodes::find(&mut found, &snapshot, &keyless);
        slots::find(&mut found, &snapshot, &keyless.serving);
        answers::find(&mut found, &snapshot, &said, &moving);
        // Read now, since a node may have heard of it before the snapshot's end.
        answers::find_ahead(&mut found, &snapshot, &said, register.view()?.view.epoch);
        Ok(Self::full(found, &snapshot, said.values().filter(|it| it.is_ok()).count()))
    }

    /// What can be said without what stands in etcd.
    fn blind(mut found: Findings, register: &Register, fault: &Fault) -> Self {
        if !found.0.iter().any(|it| it.grade == Grade::Problem) {
            found.problem(fault.to_string(), WITHOUT_ETCD);
        }
        Self { cluster: register.name().to_owned(), epoch: None, nodes: 0, findings: found.0 }
    }

    /// All that was found, worst first.
    fn full(mut found: Findings, snapshot: &RegisterSnapshot, nodes: usize) -> Self {
        found.0.sort_by_key(|it| it.grade);
        let view = &snapshot.seen.view;
        Self { cluster: view.cluster.clone(), epoch: Some(view.epoch), nodes, findings: found.0 }
    }

    /// Whether nothing was found out but about etcd.
    pub(crate) fn is_blind(&self) -> bool {
        self.epoch.is_none()
    }

    pub(crate) fn is_well(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.findings.len()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, epoch, nodes, findings } = self;
        match epoch {
            Some(epoch) => {
                let nodes = counted(nodes, "node", "nodes");
                writeln!(f, "cluster     {cluster}, epoch {epoch}; {nodes} answered")?;
            }
            None => writeln!(f, "cluster     {cluster}; only etcd was asked")?,
        }
        if findings.is_empty() {
            return writeln!(f, "nothing was found");
        }
        for Finding { grade, what, fix } in findings {
            let grade = if *grade == Grade::Problem { "problem" } else { "warning" };
            writeln!(f, "\n{grade}     {what}\n            {fix}")?;
        }
        Ok(())
    }
}

const NO_NODE: &str = "start one: guira store --cluster …; if there was a cluster of this name before, start none: its keys are lost (docs/how-to/lost-etcd.md)";

#[cfg(test)]
mod tests;
