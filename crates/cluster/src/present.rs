//! A node's keys in the register, under one lease that a thread renews.
//!
//! # Invariants
//! 1. The keys go when the process does, at most the lease's time later. They go at once when this is dropped.
//! 2. A lease that ended is replaced by a new one, and the keys are written anew.
//! 3. Keys that somebody deletes though the lease lasts are written anew, unless etcd has lost the cluster.
//!
//! # Costs
//! Two threads, and two calls a second. One renews the lease; the other looks for the keys, which may take longer.

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
    threads: Vec<JoinHandle<()>>,
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
    /// The key that was looked for last, and when.
    looked: Option<(String, Instant)>,
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
        shared.await_name(&member.name)?;
        shared.renew()?;
        let start = |name: &str, work: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
            spawned.map_err(|error| no_thread(&error))
        };
        // If the second one can't be started, the first one ends with this.
        let mut present = Self { threads: Vec::new(), shared: Arc::clone(&shared) };
        present.threads.push(start("lease", Shared::keep)?);
        present.threads.push(start("keys", Shared::watch_keys)?);
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
        // This waits for etcd at most as long as a call may take.
        for thread in self.threads.drain(..) {
            // A thread that panicked has logged that.
            let _ = thread.join();
        }
    }
}

impl Said {
    /// The key to look for now, if it is time for that.
    fn next_key(&mut self, now: Instant) -> Option<String> {
        let is_soon = |at: &Instant| now.saturating_duration_since(*at) < LOOK_EVERY / 2;
        if self.missed.is_some() || self.looked.as_ref().is_some_and(|it| is_soon(&it.1)) {
            return None;
        }
        let last = self.looked.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        // Suspicions come and go, and the node writes them often enough.
        let mut own = self.written.keys().filter(|key| !key.starts_with("suspect/"));
        let next = own.clone().find(|key| **key > last).or_else(|| own.next()).cloned()?;
        self.looked = Some((next.clone(), now));
        Some(next)
    }
}

impl Shared {
    /// Waits until no other node has the name. The lease of one that has just died lasts for a while.
    fn await_name(&self, name: &str) -> Result<(), Fault> {
        let waits = usize::try_from(self.ttl_s).unwrap_or(0).min(NAME_WAITS_MAX) + 1;
        for wait in 0..=waits {
            let snapshot = self.register.snapshot()?;
            let mut others =
                snapshot.nodes.iter().filter(|(id, it)| **id != self.id && it.name == name);
            match others.next() {
                None => break,
                Some((by, _)) if wait == waits => {
                    return Err(Fault::NameTaken { name: name.to_owned(), by: *by });
                }
                Some(_) => thread::sleep(Duration::from_secs(1)),
            }
        }
        Ok(())
    }

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
        loop {
            let key = {
                let mut said = self.said.lock();
                if !said.is_over {
                    self.changed.wait_for(&mut said, LOOK_EVERY);
                }
                if said.is_over {
                    return;
                }
                said.next_key(Instant::now())
            };
            let Some(key) = key else { continue };
            // If etcd is away, the other thread tells.
            let there = self.register.etcd.range(&EtcdKeys::one(self.register.key(&key)));
            // A key of another lease is that of a later process.
            if there.is_ok_and(|it| it.pairs.first().is_none_or(|it| it.lease == 0)) {
                self.said.lock().missed = Some(key);
                self.changed.notify_all();
            }
        }
    }

    /// Renews the lease. `None`: there is none, or it has ended, which is logged once.
    fn keep_alive(&self) -> Result<Option<i64>, Fault> {
        let Some(held) = self.said.lock().lease else { return Ok(None) };
        let begun = Instant::now();
        let kept = self.register.etcd.keep_alive(held.id);
        let took = begun.elapsed();
        let (is_kept, slowest) = (matches!(kept, Ok(Some(_))), held.slowest.max(took));
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

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for the lease of a node that had the name. Seconds.
const NAME_WAITS_MAX: usize = 5;
