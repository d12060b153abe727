//! The elected controller: one of the nodes, which reads the register and writes the next view.
//!
//! # Invariants
//! 1. A view is written in one transaction with a check of the election. So a controller that was deposed, and doesn't know
//!    it, writes nothing.
//! 2. Whoever stands for election ends the lead of a node that two others can't reach. That is safe, should they err: see 1.
//! 3. A controller builds only on the view that its process took (`watch.rs`). While the process refuses what etcd
//!    has, it doesn't lead.
//! 4. While etcd isn't well, nodes without keys may live: nothing is decided until they are back, or etcd has been well for as
//!    long as a lease lasts. So a leader that begins after etcd hung puts out nobody who lives.
//! 5. A newcomer doesn't lead while a process lives that the view names: see `newcomer.rs`.
//! 6. A controller keeps nothing that the next one needs: the next one goes on with the view that is there, and with what
//!    was written of nodes that are gone.
//!
//! # Costs
//! One thread. A node that doesn't lead has no lease, and asks etcd twice within a lease's time. The leader renews its lease,
//! and reads all of the register at each change of it, at most 20 times a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use guira_chain::NodeId;
use guira_chain::controller::next;
use guira_etcd::EtcdKeys;
use parking_lot::Mutex;

use crate::facts::{Memory, Now, Waits, is_leader_refused, keyless, lacks_own};
use crate::fault::{Fault, Told};
use crate::put_out::put_out;
use crate::records::unix_s;
use crate::register::Register;
use crate::snapshot::{Lead, RegisterSnapshot};
use crate::watch::no_thread;
use crate::wishes::{Shortage, name_of};

/// How long a controller waits.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Seconds for which a controller leads without renewing its lease. etcd may make it longer.
    pub ttl_s: u64,
    /// A node that is gone for longer is replaced.
    pub replace_after: Duration,
    /// After this time a promise of one node to another is over, by any node's clock.
    pub promise: Duration,
    /// If all nodes of a chain were lost at once, those that aren't back this long after the first aren't waited for.
    pub restart: Duration,
}

/// A lease of 3 s, ten minutes, a promise of a second with room for clocks that drift, and half a minute.
impl Default for Rules {
    fn default() -> Self {
        Self {
            ttl_s: 3,
            replace_after: Duration::from_secs(600),
            promise: Duration::from_millis(1_050),
            restart: Duration::from_secs(30),
        }
    }
}

/// A thread that stands for election, and decides while it leads. Dropping this gives up the lead.
#[derive(Debug)]
pub struct Controller {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_over: AtomicBool,
    leads: AtomicBool,
    /// What the leader found last.
    shortage: Mutex<Shortage>,
}

impl Controller {
    /// Starts the thread. `who` is the name of the leader that operators are shown.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn begin(register: Arc<Register>, who: String, rules: Rules) -> Result<Self, Fault> {
        let state = Arc::<State>::default();
        let began = Instant::now();
        let Rules { replace_after, promise, restart, .. } = rules;
        let waits = Waits { replace_after, promise, restart };
        let turn = Turn { register, who, rules, waits, began, state: Arc::clone(&state) };
        let spawned = thread::Builder::new().name("controller".to_owned());
        let thread = spawned.spawn(move || turn.stand()).map_err(|error| no_thread(&error))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Whether this controller believes that it leads. Another may have been elected since.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.state.leads.load(Relaxed)
    }

    /// Slots with too few living copies, as the leader found them last. None where another node leads.
    #[must_use]
    pub fn shortage(&self) -> Shortage {
        if self.leads() { *self.state.shortage.lock() } else { Shortage::default() }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        // The lead is given up, which takes as long as a call to etcd may. A thread that waits for the lead of another to end
        // has nothing to give up.
        if self.leads() {
            drop(self.thread.take().map(JoinHandle::join));
        }
    }
}

struct Turn {
    register: Arc<Register>,
    who: String,
    rules: Rules,
    waits: Waits,
    began: Instant,
    state: Arc<State>,
}

/// A lease, and when it was last renewed.
struct Lease {
    id: i64,
    renewed: Instant,
}

impl Turn {
    fn stand(self) {
        let (mut lease, mut told) = (None, Told::default());
        let mut led = None;
        while !self.is_over() {
            let stood = self.stand_once(&mut lease, &mut led);
            self.state.leads.store(false, Relaxed);
            match &stood {
                Ok(()) => told = Told::default(),
                Err(Fault::Deposed | Fault::Overtaken) => {}
                Err(fault) => {
                    self.register.health.suspect(Instant::now());
                    if told.is_new(fault) {
                        tracing::warn!("the cluster's controller: {fault}; it is tried again");
                    }
                    if fault.is_estranged()
                        && let Some(Lease { id, .. }) = lease.take()
                    {
                        // Another node may know the cluster. If this fails, the lease ends by itself.
                        let _ = self.register.etcd.revoke(id);
                    }
                    thread::sleep(REST);
                }
            }
        }
        if let Some(lease) = lease {
            // If this fails, the lease ends by itself.
            let _ = self.register.etcd.revoke(lease.id);
        }
    }

    fn is_over(&self) -> bool {
        self.state.is_over.load(Relaxed)
    }

    fn stand_once(&self, lease: &mut Option<Lease>, led: &mut Option<Lead>) -> Result<(), Fault> {
        if self.follow(lease.as_ref())? {
            return Ok(());
        }
        self.register.still_follows()?;
        if self.register.leaves_the_lead()? {
            thread::sleep(REST);
            return Ok(());
        }
        let id = self.renew(lease)?;
        let Some(lead) = self.register.campaign(&self.who, id)? else { return Ok(()) };
        self.state.leads.store(true, Relaxed);
        // After a fault it goes on with the election that it has won.
        if led.replace(lead) != Some(lead) {
            tracing::info!("this node leads the cluster {}", self.register.name());
        }
        self.lead(lead, lease)
    }

    /// Waits while another one leads; false: nobody else does. If two nodes can't reach the leader's node, its lead ends at
    /// once.
    fn follow(&self, own: Option<&Lease>) -> Result<bool, Fault> {
        let [controller, suspect, end] = ["controller", "suspect/", "suspect0"];
        // The nodes stand between: those who suspect must be there.
        let keys = EtcdKeys::between(self.register.key(controller), self.register.key(end));
        let now = self.register.etcd.range(&keys)?;
        let first = |below: &str| {
            let prefix = self.register.key(below).into_bytes();
            now.pairs.iter().find(|pair| pair.key.starts_with(&prefix))
        };
        let leader = first(controller);
        if leader.is_none_or(|leader| own.is_some_and(|own| own.id == leader.lease)) {
            return Ok(false);
        }
        if first(suspect).is_some() {
            let snapshot = self.register.snapshot()?;
            if let Some((lead, who)) = &snapshot.controller
                && is_leader_refused(&snapshot)
            {
                tracing::info!(
                    "two nodes find nobody at the address of {who}, which leads: its lead ends"
                );
                self.register.depose(*lead)?;
                return Ok(true);
            }
        }
        // If the leader's lease ends, the watch notices that at once. The limit is for a connection that is silent.
        self.wait(&keys, now.revision, Duration::from_secs(self.rules.ttl_s));
        Ok(true)
    }

    fn lead(&self, lead: Lead, lease: &mut Option<Lease>) -> Result<(), Fault> {
        let (mut memory, mut doubted) = (Memory::default(), BTreeMap::new());
        let keys = EtcdKeys::prefix(self.register.key(""));
        while !self.is_over() {
            self.renew(lease)?;
            let known = self.register.known();
            let snapshot = self.register.snapshot()?;
            if !self.register.has_taken(known.as_ref(), &snapshot.seen.view)? {
                thread::sleep(TAKES);
                continue;
            }
            if snapshot.controller.as_ref().is_none_or(|(now, _)| *now != lead) {
                return Err(Fault::Deposed);
            }
            if let Some(left) = self.doubt(&snapshot, &mut doubted) {
                self.rest_until(&keys, snapshot.revision, (left.max(PAUSE), lease))?;
                thread::sleep(PAUSE);
                continue;
            }
            *self.state.shortage.lock() = Shortage::of(&snapshot, &BTreeSet::new());
            let now = Now { steady: self.began.elapsed(), unix_s: unix_s() };
            let facts = memory.facts(&snapshot, self.waits, now);
            let changes = memory.away_changes(&snapshot);
            if !changes.is_empty() {
                self.register.write_away(lead, &changes)?;
            }
            let view = &snapshot.seen.view;
            if let Some(next) = next(view, &facts, &snapshot.wish.clone().into()) {
                let told = put_out(&snapshot, &facts, &next);
                let epoch = next.epoch;
                self.register.write(lead, &snapshot.seen, next)?;
                told.iter().for_each(|it| tracing::warn!("epoch {epoch}: {it}"));
                continue;
            }
            let end = memory.next_end(view, self.waits, now.steady);
            let left = end.map_or(LOOK_EVERY, |end| end.saturating_sub(now.steady).min(LOOK_EVERY));
            self.rest_until(&keys, snapshot.revision, (left.max(PAUSE), lease))?;
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// How long it is unknown whether the nodes without keys are gone; `None`: there are none, or they are. `doubted`: since when
    /// that was unknown of each. If etcd goes on being slow, they had time enough to be back.
    fn doubt(
        &self,
        snapshot: &RegisterSnapshot,
        doubted: &mut BTreeMap<NodeId, Instant>,
    ) -> Option<Duration> {
        let (health, now) = (&self.register.health, Instant::now());
        if lacks_own(snapshot, &self.who) {
            health.suspect(now);
        }
        let lease = Duration::from_secs(self.rules.ttl_s);
        let left = lease.saturating_sub(health.well_for(now));
        if left.is_zero() {
            doubted.clear();
            return None;
        }
        let nodes = keyless(snapshot);
        doubted.retain(|id, _| nodes.contains(id));
        let new: Vec<NodeId> = nodes.into_iter().filter(|id| !doubted.contains_key(id)).collect();
        if !new.is_empty() {
            let names: Vec<String> = new.iter().map(|id| name_of(snapshot, *id)).collect();
            tracing::info!(
                "etcd has no key of {}, and wasn't well of late: no chain changes until they had time to be back",
                names.join(", ")
            );
        }
        doubted.extend(new.into_iter().map(|id| (id, now)));
        let last = doubted.values().max()?;
        let most = (lease * DOUBTED_LEASES).saturating_sub(now.saturating_duration_since(*last));
        Some(left.min(most)).filter(|left| !left.is_zero())
    }

    /// Waits until something happens to `keys`, or may have, and renews the lease meanwhile.
    fn rest_until(
        &self,
        keys: &EtcdKeys,
        revision: u64,
        (limit, lease): (Duration, &mut Option<Lease>),
    ) -> Result<(), Fault> {
        let ends = Instant::now() + limit;
        while !self.is_over() {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() || self.wait(keys, revision, left.min(self.rest())) {
                break;
            }
            self.renew(lease)?;
        }
        Ok(())
    }

    /// A third of the lease's time.
    fn rest(&self) -> Duration {
        Duration::from_millis(self.rules.ttl_s * 1000 / 3)
    }

    /// Waits until something happens to `keys`; false: nothing did within `limit`.
    fn wait(&self, keys: &EtcdKeys, revision: u64, limit: Duration) -> bool {
        let watched = self.register.etcd.watch(keys, revision + 1, limit);
        match watched.and_then(|mut watch| watch.next_events()) {
            Ok(told) => told.is_some(),
            Err(_) => {
                thread::sleep(PAUSE);
                true
            }
        }
    }

    fn renew(&self, lease: &mut Option<Lease>) -> Result<i64, Fault> {
        let now = Instant::now();
        if let Some(held) = lease {
            if now.duration_since(held.renewed) < self.rest() {
                return Ok(held.id);
            }
            let kept = self.register.etcd.keep_alive(held.id);
            self.register.health.renewed((now, Instant::now()), matches!(kept, Ok(Some(_))));
            if kept?.is_some() {
                held.renewed = now;
                return Ok(held.id);
            }
            *lease = None;
            return Err(Fault::Deposed);
        }
        let id = self.register.etcd.grant(self.rules.ttl_s)?.id;
        self.register.health.renewed((now, Instant::now()), true);
        *lease = Some(Lease { id, renewed: now });
        Ok(id)
    }
}

/// The pause after an attempt that failed.
const REST: Duration = Duration::from_millis(500);
/// Nodes without keys are waited for at most as long as so many leases last.
const DOUBTED_LEASES: u32 = 3;
/// The pause between decisions.
const PAUSE: Duration = Duration::from_millis(50);
/// The pause until the process may have heard of a view that etcd has.
const TAKES: Duration = Duration::from_millis(5);
/// The leader reads the register this often though nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(5);
