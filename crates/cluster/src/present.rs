//! A node's keys in the register, under one lease that a thread renews.
//!
//! # Invariants
//! 1. The keys go when the process does, at most the lease's time later. They go at once when this is dropped.
//! 2. A lease that ended is replaced by a new one, and the keys are written anew.
//! 3. Keys that somebody deletes though the lease lasts are written anew, unless etcd has lost the cluster: the node's own
//!    at once, so that the nodes of a cluster are back together.
//!
//! # Costs
//! Two threads. One renews the lease each second. The other watches the node's key, and looks for all of them each
//! [`WATCH_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use guira_chain::{Member, NodeId};
use guira_etcd::EtcdKeys;
use parking_lot::{Condvar, Mutex};

use crate::fault::{Fault, Told};
use crate::records::Report;
use crate::register::{OPS_MAX, Register, json};
use crate::watch::no_thread;

/// What a node says of itself in the register while it lives.
#[derive(Debug)]
pub struct Present {
    shared: Arc<Shared>,
    lease: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    register: Arc<Register>,
    id: NodeId,
    ttl_s: u64,
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    /// The values that should stand below the root, by key.
    wanted: BTreeMap<String, String>,
    /// The values that stand there, under the lease.
    written: BTreeMap<String, String>,
    /// A key that wasn't there.
    missed: Option<String>,
    lease: Option<Held>,
    is_over: bool,
}

/// A lease, when etcd last took its renewal, and how long the slowest attempt since then took.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: i64,
    renewed: Instant,
    slowest: Duration,
}

impl Present {
    /// Begins to say that the node lives. The register shows the node for at most `ttl_s` seconds after its process has
    /// ended.
    ///
    /// # Errors
    /// The first attempt failed, or the system has no thread.
    pub fn begin(
        register: Arc<Register>,
        id: NodeId,
        member: &Member,
        ttl_s: u64,
    ) -> Result<Self, Fault> {
        let said = Mutex::new(Said {
            wanted: [(format!("nodes/{id}"), json(member))].into(),
            ..Said::default()
        });
        let shared = Arc::new(Shared { register, id, ttl_s, said, changed: Condvar::new() });
        await_place(&shared.register, Some(id), (&member.name, &member.peers), ttl_s)?;
        shared.renew()?;
        shared.register.know_process(id, &member.run);
        let start = |name: &str, work: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
            spawned.map_err(|error| no_thread(&error))
        };
        // If the second one can't be started, the first one ends with this.
        let present =
            Self { lease: Some(start("lease", Shared::keep)?), shared: Arc::clone(&shared) };
        // It notices the end only once its watch ends, and writes nothing. So nobody waits for it.
        drop(start("keys", Shared::watch_keys)?);
        Ok(present)
    }

    /// Reports what the node's slots know and have, in place of the report before.
    pub fn report(&self, report: &Report) {
        let key = format!("sync/{}", self.shared.id);
        self.want(|wanted| drop(wanted.insert(key, json(report))));
    }

    /// Reports which nodes refuse this node's connections: the number, and the run that is meant.
    pub fn suspect(&self, nodes: &BTreeSet<(NodeId, String)>) {
        let by = self.shared.id;
        self.want(|wanted| {
            wanted.retain(|key, _| !key.starts_with("suspect/"));
            let said = nodes.iter().map(|(id, run)| (format!("suspect/{id}/{by}"), run.clone()));
            wanted.extend(said);
        });
    }

    fn want(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        change(&mut self.shared.said.lock().wanted);
        self.shared.changed.notify_all();
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.shared.said.lock().is_over = true;
        self.shared.changed.notify_all();
        // This waits for etcd at most as long as a call may take. A thread that panicked has logged that.
        drop(self.lease.take().map(JoinHandle::join));
    }
}

impl Said {
    /// The keys to look for, unless one is known to be missing, and their lease.
    fn to_look_for(&self) -> (Vec<String>, Option<i64>) {
        // Suspicions come and go, and the node writes them often enough.
        let own = self.written.keys().filter(|key| !key.starts_with("suspect/"));
        let keys = if self.missed.is_some() { Vec::new() } else { own.cloned().collect() };
        (keys, self.lease_id())
    }

    fn lease_id(&self) -> Option<i64> {
        self.lease.map(|lease| lease.id)
    }
}

/// Waits until no process that lives has the name, or `own` number at another address than `peers`. The lease of one that
/// has just died lasts for a while, `ttl_s` seconds as a rule. One at the same address is dead: this process listens there.
///
/// # Errors
/// [`Fault::NameTaken`], [`Fault::NumberTaken`], or etcd fails.
pub fn await_place(
    register: &Register,
    own: Option<NodeId>,
    (name, peers): (&str, &str),
    ttl_s: u64,
) -> Result<(), Fault> {
    let waits = usize::try_from(ttl_s).unwrap_or(0).min(NAME_WAITS_MAX) + 1;
    let mut waited = 0;
    while let Some(taken) = taken(&register.snapshot()?.nodes, own, (name, peers)) {
        if waited == waits {
            return Err(taken);
        }
        waited += 1;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Why a process with this number, name and address can't enter beside those that live.
fn taken(
    living: &BTreeMap<NodeId, Member>,
    own: Option<NodeId>,
    (name, peers): (&str, &str),
) -> Option<Fault> {
    living.iter().find_map(|(&id, it)| {
        let (name, at) = (name.to_owned(), it.peers.clone());
        match (Some(id) == own, it.name == name, at == peers) {
            (true, _, false) => Some(Fault::NumberTaken { by: id, at }),
            (false, true, _) => Some(Fault::NameTaken { name, by: id }),
            _ => None,
        }
    })
}

impl Shared {
    fn keep(&self) {
        let (mut is_away, mut told) = (false, Told::default());
        loop {
            {
                let mut said = self.said.lock();
                let is_whole = said.wanted == said.written && said.missed.is_none();
                if !said.is_over && (is_away || is_whole) {
                    let rest = Duration::from_millis(self.ttl_s * 1000 / 3);
                    self.changed.wait_for(&mut said, rest);
                }
                if said.is_over {
                    break;
                }
            }
            let renewed = self.renew();
            match &renewed {
                Err(fault) if told.is_new(fault) => {
                    tracing::warn!("the node's lease in etcd: {fault}; it is tried again");
                }
                Ok(()) if is_away => {
                    told = Told::default();
                    tracing::info!("the node's lease in etcd holds again");
                }
                _ => {}
            }
            is_away = renewed.is_err();
        }
        if let Some(lease) = self.said.lock().lease {
            // If this fails, the lease ends by itself.
            let _ = self.register.etcd.revoke(lease.id);
        }
    }

    /// Renews the lease, or begins one, and writes what isn't written yet.
    fn renew(&self) -> Result<(), Fault> {
        let etcd = &self.register.etcd;
        let lease = match self.keep_alive()? {
            Some(lease) => {
                self.forget_missed()?;
                lease
            }
            None => {
                // A lease ends with etcd's data, too.
                self.register.still_knows()?;
                let renewed = Instant::now();
                let id = etcd.grant(self.ttl_s)?.id;
                self.register.health.renewed((renewed, Instant::now()), true);
                let mut said = self.said.lock();
                said.lease = Some(Held { id, renewed, slowest: Duration::ZERO });
                said.written.clear();
                said.missed = None;
                id
            }
        };
        let (wanted, written) = {
            let said = self.said.lock();
            (said.wanted.clone(), said.written.clone())
        };
        let is_new = |it: &(&String, &String)| written.get(it.0) != Some(it.1);
        let puts = wanted.iter().filter(is_new);
        let puts = puts.map(|(key, value)| self.register.put(key, value.clone(), Some(lease)));
        let gone = written.keys().filter(|key| !wanted.contains_key(*key));
        let deletes = gone.map(|key| self.register.delete(key));
        let ops: Vec<_> = puts.chain(deletes).collect();
        for ops in ops.chunks(OPS_MAX) {
            etcd.txn(&[], ops)?;
        }
        self.said.lock().written = wanted;
        Ok(())
    }

    /// If a key wasn't there though the lease lasts, all are to be written anew.
    fn forget_missed(&self) -> Result<(), Fault> {
        let mut said = self.said.lock();
        if let Some(key) = said.missed.take() {
            said.written.clear();
            self.register.health.suspect(Instant::now());
            tracing::warn!(
                "the key {} in etcd was deleted, or put without a lease, though this node's lease lasts: the node writes its keys again, and may have been put out of its chains",
                self.register.key(&key)
            );
        }
        let is_lost = said.written.is_empty();
        drop(said);
        // Whoever deleted the keys may have deleted the cluster.
        if is_lost { self.register.still_knows() } else { Ok(()) }
    }

    fn watch_keys(&self) {
        let mut is_good = true;
        loop {
            let (keys, lease) = {
                let mut said = self.said.lock();
                if !is_good && !said.is_over {
                    self.changed.wait_for(&mut said, LOOK_AGAIN);
                }
                if said.is_over {
                    return;
                }
                said.to_look_for()
            };
            // If etcd is away, the other thread tells.
            let revision = self.look_for(&keys, lease);
            is_good = revision.is_some_and(|revision| self.await_change(revision));
        }
    }

    /// Looks for keys, and notes one that is missing. Returns etcd's revision if none is.
    fn look_for(&self, keys: &[String], lease: Option<i64>) -> Option<u64> {
        let mut first = None;
        for key in keys {
            let found = self.register.etcd.range(&EtcdKeys::one(self.register.key(key))).ok()?;
            // A key of another lease is that of a later process.
            if found.pairs.first().is_none_or(|it| it.lease == 0) {
                let mut said = self.said.lock();
                // Those of a lease that has ended are written anew.
                if said.lease_id() == lease {
                    said.missed = Some(key.clone());
                    self.changed.notify_all();
                }
                return None;
            }
            first.get_or_insert(found.revision);
        }
        first
    }

    /// Waits until something has happened to the node's key since then, or [`WATCH_MAX`] has passed; `false`: etcd is away.
    fn await_change(&self, revision: u64) -> bool {
        let own = EtcdKeys::one(self.register.key(&format!("nodes/{}", self.id)));
        let watch = self.register.etcd.watch(&own, revision + 1, WATCH_MAX);
        watch.and_then(|mut watch| watch.next_events()).is_ok()
    }

    /// Renews the lease. `None`: there is none, or it has ended, which is logged once.
    fn keep_alive(&self) -> Result<Option<i64>, Fault> {
        let Some(held) = self.said.lock().lease else { return Ok(None) };
        let begun = Instant::now();
        let kept = self.register.etcd.keep_alive(held.id);
        let took = begun.elapsed();
        let (is_kept, slowest) = (matches!(kept, Ok(Some(_))), held.slowest.max(took));
        self.register.health.renewed((begun, begun + took), is_kept);
        self.said.lock().lease = match kept {
            Ok(None) => None,
            _ if is_kept => Some(Held { renewed: begun, slowest: Duration::ZERO, ..held }),
            _ => Some(Held { slowest, ..held }),
        };
        if is_kept {
            return Ok(Some(held.id));
        }
        kept?;
        tracing::warn!(
            "the node's lease in etcd has ended: it lasts {} s, the last renewal was sent {} ms ago, and the slowest since then took {} ms; the node enters etcd anew, and may have been put out of its chains",
            self.ttl_s,
            begun.saturating_duration_since(held.renewed).as_millis(),
            slowest.as_millis()
        );
        Ok(None)
    }
}

/// A watch ends after this time, so that a silent connection is noticed, and other keys that are missing.
const WATCH_MAX: Duration = Duration::from_secs(10);
/// The pause until keys are looked for again while some are missing, or etcd is away.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The longest wait for the lease of a process that had the name or the number. Seconds.
const NAME_WAITS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_number_are_one_living_process_s() {
        let member = |name: &str, peers: &str| Member {
            name: name.to_owned(),
            peers: peers.to_owned(),
            clients: String::new(),
            zone: String::new(),
            weight: 1,
            run: String::new(),
        };
        let living = [(1, member("heron", "h:1")), (2, member("ibis", "i:1"))].into();
        let taken = |own, name, peers| taken(&living, own, (name, peers));
        let number = Some(Fault::NumberTaken { by: 1, at: "h:1".to_owned() });
        let name = Some(Fault::NameTaken { name: "ibis".to_owned(), by: 2 });
        assert_eq!(taken(Some(1), "heron", "h:1"), None, "its own former process");
        assert_eq!(taken(Some(1), "heron", "h:2"), number, "on a copy of its directory");
        assert_eq!(taken(Some(1), "jay", "h:2"), number, "that has another name");
        assert_eq!(taken(Some(1), "ibis", "h:1"), name, "renamed");
        assert_eq!(taken(None, "ibis", "j:1"), name, "a new node");
        assert_eq!(taken(None, "jay", "h:1"), None, "a new node in a dead one's place");
        assert_eq!(taken(Some(3), "jay", "j:1"), None);
    }
}
