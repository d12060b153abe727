//! What stands in a register, as read from etcd's keys: all of it at one revision, or the view alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use guira_chain::{Member, NodeId, View};
use guira_etcd::{KeyValue, Range};
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::records::{AwayRecord, Report, WishRecord};

/// A view, and the revision of etcd at which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The view, which is valid.
    pub view: Arc<View>,
    /// The `mod_revision` of its key.
    pub mod_revision: u64,
}

/// The proof of an election: the key `controller` of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    pub(crate) create_revision: u64,
}

/// All that stands in the register, at one revision.
#[derive(Debug, Clone)]
pub struct RegisterSnapshot {
    /// The view.
    pub seen: Seen,
    /// What the operator wants.
    pub wish: WishRecord,
    /// The processes whose leases last.
    pub nodes: BTreeMap<NodeId, Member>,
    /// Nodes that others say they can't reach: the run that is meant, and the node that says so.
    pub suspects: BTreeMap<NodeId, BTreeSet<(String, NodeId)>>,
    /// What nodes report of their slots.
    pub reports: BTreeMap<NodeId, Report>,
    /// Nodes that are to be restarted: the runs that leave their chains before.
    pub restarts: BTreeMap<NodeId, String>,
    /// Nodes of the view that are gone, as a controller has noticed.
    pub away: BTreeMap<NodeId, AwayRecord>,
    /// The leader, if there is one.
    pub controller: Option<(Lead, String)>,
    /// Whether its key ends with a lease. A key without one outlives the leader, and no other node ever leads.
    pub is_lead_leased: bool,
    /// Keys whose values can't be read. They are ignored.
    pub unread: Vec<String>,
    /// etcd's revision.
    pub revision: u64,
}

impl RegisterSnapshot {
    /// Reads the keys below `root`; `None`: there is no view.
    ///
    /// # Errors
    /// The view, or what the operator wants, can't be read. Other keys like that are in `unread`.
    pub(crate) fn read(root: &str, range: &Range) -> Result<Option<Self>, Fault> {
        let below = |pair: &KeyValue| {
            let key = String::from_utf8_lossy(&pair.key);
            key.strip_prefix(root).unwrap_or_default().to_owned()
        };
        let named = |name: &str| range.pairs.iter().find(|pair| below(pair) == name);
        let Some(view) = named("view") else { return Ok(None) };
        let seen = read_view(view)?;
        let wish = match named("wish") {
            Some(pair) => record(pair)?,
            None => WishRecord::of(&seen.view),
        };
        let controller = named("controller");
        let mut snapshot = Self {
            seen,
            wish,
            nodes: BTreeMap::new(),
            suspects: BTreeMap::new(),
            reports: BTreeMap::new(),
            restarts: BTreeMap::new(),
            away: BTreeMap::new(),
            controller: controller.map(leader),
            is_lead_leased: controller.is_some_and(|pair| pair.lease != 0),
            unread: Vec::new(),
            revision: range.revision,
        };
        for pair in &range.pairs {
            let key = below(pair);
            if snapshot.take(&key, pair).is_none() {
                snapshot.unread.push(key);
            }
        }
        Ok(Some(snapshot))
    }

    /// Whether no process was ever a node. The view has a node all the same, which all slots belong to.
    pub(crate) fn is_new(&self) -> bool {
        self.nodes.is_empty() && self.seen.view.is_draft()
    }

    /// Whether a node that lives is to be restarted: its process, not a later one.
    pub(crate) fn is_to_restart(&self, id: NodeId) -> bool {
        let run = self.nodes.get(&id).map(|it| &it.run);
        run.is_some() && self.restarts.get(&id) == run
    }

    /// What the key `controller` says, if no lease ends it and it names no node that lives: somebody put it there by hand.
    pub(crate) fn stray_lead(&self) -> Option<String> {
        let (_, who) = self.controller.as_ref().filter(|_| !self.is_lead_leased)?;
        let lives = self.nodes.values().any(|it| it.name == *who);
        let was = self.seen.view.nodes.values().any(|it| it.name == *who);
        let is = if was { "doesn't live" } else { "is no node" };
        (!lives).then(|| format!("names {who}, which {is}"))
    }

    /// Takes one key; `None`: its value can't be read.
    fn take(&mut self, key: &str, pair: &KeyValue) -> Option<()> {
        let mut parts = key.split('/');
        let (kind, id) = (parts.next()?, parts.next().map(str::parse::<NodeId>));
        match (kind, id) {
            ("nodes", Some(id)) => drop(self.nodes.insert(id.ok()?, record(pair).ok()?)),
            ("sync", Some(id)) => drop(self.reports.insert(id.ok()?, record(pair).ok()?)),
            ("restart", None) => self.restarts = record(pair).ok()?,
            ("away", Some(id)) => drop(self.away.insert(id.ok()?, record(pair).ok()?)),
            ("suspect", Some(id)) => {
                let by = parts.next()?.parse().ok()?;
                let run = String::from_utf8(pair.value.clone()).ok()?;
                self.suspects.entry(id.ok()?).or_default().insert((run, by));
            }
            _ => {}
        }
        Some(())
    }
}

/// Reads the key `view`.
pub(crate) fn read_view(pair: &KeyValue) -> Result<Seen, Fault> {
    let text = String::from_utf8_lossy(&pair.value);
    let view = View::from_json(&text).map_err(Fault::View)?.into();
    Ok(Seen { view, mod_revision: pair.mod_revision })
}

/// Reads a record from JSON.
pub(crate) fn record<T: DeserializeOwned>(pair: &KeyValue) -> Result<T, Fault> {
    serde_json::from_slice(&pair.value).map_err(|error| Fault::Record {
        key: String::from_utf8_lossy(&pair.key).into_owned(),
        words: error.to_string(),
    })
}

/// Reads the key `controller`.
pub(crate) fn leader(pair: &KeyValue) -> (Lead, String) {
    let who = String::from_utf8_lossy(&pair.value).into_owned();
    (Lead { create_revision: pair.create_revision }, who)
}
