//! The keys of a cluster in etcd, read and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guira_chain::{NodeId, View};
use guira_etcd::{Etcd, EtcdAccess, EtcdCompare, EtcdKeys, EtcdOp, EtcdPlace};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::health::Health;
use crate::names::is_name;
use crate::newcomer::Newcomer;
use crate::records::{AwayRecord, WishRecord};
use crate::snapshot::{Lead, RegisterSnapshot, Seen, leader, read_view, record};

/// A cluster's keys in etcd. Calls block their thread, for 2 s per endpoint at most.
#[derive(Debug)]
pub struct Register {
    pub(crate) etcd: Etcd,
    name: String,
    /// What this process knows of the cluster. What etcd says may not contradict it.
    known: Mutex<Option<Known>>,
    pub(crate) newcomer: Newcomer,
    pub(crate) health: Health,
}

#[derive(Debug, Clone)]
pub(crate) struct Known {
    seed: String,
    epoch: u64,
    /// The highest epoch that other nodes follow, as they say. Its view was in etcd before.
    heard: u64,
    /// The newest view that the process took.
    view: Option<Arc<View>>,
    /// Why the newest view that the process saw is refused, if it is.
    refused: Option<Fault>,
}

impl Register {
    /// The register at `etcd:HOST:PORT,…/NAME`, or at `etcds:…` for TLS, which `access` must then have. Nothing is asked
    /// yet.
    ///
    /// # Errors
    /// [`Fault::Place`] if the text has another form.
    pub fn open(place: &str, access: EtcdAccess) -> Result<Self, Fault> {
        let wrong = || Fault::Place(place.to_owned());
        let parsed = EtcdPlace::parse(place).ok_or_else(wrong)?;
        if !is_name(&parsed.path) {
            return Err(wrong());
        }
        let etcd = Etcd::new(&parsed, access).with_limit(LIMIT);
        let health = Health::new(Instant::now());
        let (known, newcomer) = (Mutex::default(), Newcomer::default());
        Ok(Self { etcd, name: parsed.path, known, newcomer, health })
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes note of the seed that a store's records have, and of the epoch that its node knew before: etcd's cluster must have
    /// the same seed, and no lower epoch.
    pub fn know_former(&self, seed: &str, epoch: u64) {
        let seed = seed.to_owned();
        *self.known.lock() = Some(Known { seed, epoch, heard: 0, view: None, refused: None });
    }

    /// Takes note of a view of this cluster that another node follows. A register with an older one has lost it.
    pub fn heard(&self, view: &View) {
        if let Some(known) = self.known.lock().as_mut().filter(|known| known.seed == view.seed) {
            known.heard = known.heard.max(view.epoch);
        }
    }

    pub(crate) fn know(&self, view: &Arc<View>) {
        self.newcomer.took(view);
        let (seed, epoch) = (view.seed.clone(), view.epoch);
        let view = Some(Arc::clone(view));
        let mut known = self.known.lock();
        let heard = known.as_ref().filter(|known| known.seed == seed).map_or(0, |it| it.heard);
        *known = Some(Known { seed, epoch, heard, view, refused: None });
    }

    /// Takes note of which process of which node this is.
    pub(crate) fn know_process(&self, id: NodeId, run: &str) {
        let view = self.known().and_then(|known| known.view);
        self.newcomer.become_node(id, run, view.as_deref());
    }

    /// Whether the process is a newcomer's, and another one lives that the view names: that one knows better which view is
    /// right, and leads.
    pub(crate) fn leaves_the_lead(&self) -> Result<bool, Fault> {
        let Some(own) = self.newcomer.node() else { return Ok(false) };
        let snapshot = self.snapshot()?;
        let mut others = snapshot.nodes.iter().filter(|(id, _)| **id != own);
        Ok(others.any(|(id, it)| snapshot.seen.view.names(*id, &it.run)))
    }

    /// Records that the process refuses what etcd has.
    pub(crate) fn refuse(&self, why: &Fault) {
        if let Some(known) = self.known.lock().as_mut() {
            known.refused = Some(why.clone());
        }
    }

    pub(crate) fn known(&self) -> Option<Known> {
        self.known.lock().clone()
    }

    /// Refuses a view that contradicts `known`, which must have been asked for before the view was read.
    pub(crate) fn check(&self, known: Option<&Known>, view: &View) -> Result<(), Fault> {
        match known {
            Some(known) if known.seed != view.seed => Err(Fault::Other(self.name.clone())),
            Some(known) if known.epoch > view.epoch => {
                Err(Fault::Older { epoch: view.epoch, known: known.epoch })
            }
            _ => Ok(()),
        }
    }

    /// As [`Register::check`], for the view that etcd has now: it isn't older either than what other nodes follow.
    pub(crate) fn check_now(&self, known: Option<&Known>, view: &View) -> Result<(), Fault> {
        self.check(known, view)?;
        match known {
            Some(known) if known.heard > view.epoch => {
                Err(Fault::Older { epoch: view.epoch, known: known.heard })
            }
            _ => Ok(()),
        }
    }

    /// As [`Register::check_now`], and whether the process took this view: the next one may only be built on one that it took.
    /// It hasn't if etcd had the view just before the process heard of it.
    ///
    /// # Errors
    /// As [`Register::check`]; or why the process refuses what etcd has.
    pub(crate) fn has_taken(&self, known: Option<&Known>, view: &View) -> Result<bool, Fault> {
        self.check_now(known, view)?;
        let Some(Known { view: taken, refused, .. }) = known else { return Ok(true) };
        match refused {
            Some(why) => Err(why.clone()),
            None => Ok(taken.as_ref().is_none_or(|taken| **taken == *view)),
        }
    }

    /// Whether the process refuses what etcd has, and so what it hears of others too.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.known.lock().as_ref().is_some_and(|known| known.refused.is_some())
    }

    /// Refuses to go on while the process refuses what etcd has.
    pub(crate) fn still_follows(&self) -> Result<(), Fault> {
        self.still_knows()?;
        self.known().and_then(|known| known.refused).map_or(Ok(()), Err)
    }

    /// Refuses to go on if etcd has lost the cluster that this process knows, or has another in its place.
    pub(crate) fn still_knows(&self) -> Result<(), Fault> {
        let known = self.known();
        if known.is_none() {
            return Ok(());
        }
        self.check_now(known.as_ref(), &self.view()?.view)
    }

    /// Why there is no view.
    pub(crate) fn nothing(&self) -> Fault {
        let of = if self.known().is_some() { Fault::Lost } else { Fault::NoCluster };
        of(self.name.clone())
    }

    pub(crate) fn key(&self, below: &str) -> String {
        format!("/guira/{}/{below}", self.name)
    }

    /// Makes the cluster: its first view and wish.
    ///
    /// # Errors
    /// [`Fault::Exists`] if there is one of this name; [`Fault::View`] if the view is invalid.
    pub fn create(&self, view: &View) -> Result<(), Fault> {
        self.create_with(view, &[self.put("wish", json(&WishRecord::of(view)), None)])
    }

    /// Puts the view of a cluster that etcd has lost back. What operators want stays if it is there. Numbers of nodes go on far
    /// above those in the view: nodes that left it may have had the next ones. Returns whether what operators want was there.
    ///
    /// # Errors
    /// As [`Register::create`].
    pub(crate) fn put_back(&self, view: &View) -> Result<bool, Fault> {
        let is_absent = |below| {
            let range = self.etcd.range(&EtcdKeys::one(self.key(below)));
            range.map(|range| range.pairs.is_empty())
        };
        let (lacks_wish, lacks_ids) = (is_absent("wish")?, is_absent("ids")?);
        let highest = view.nodes.keys().max().copied().unwrap_or(0);
        let wish = lacks_wish.then(|| self.put("wish", json(&WishRecord::of(view)), None));
        let ids = lacks_ids.then(|| self.put("ids", (highest + IDS_LEFT_OUT).to_string(), None));
        let puts: Vec<_> = wish.into_iter().chain(ids).collect();
        self.create_with(view, &puts)?;
        Ok(!lacks_wish)
    }

    /// Writes the view, and what else there is to put, unless there is a view.
    fn create_with(&self, view: &View, more: &[EtcdOp]) -> Result<(), Fault> {
        view.validate().map_err(Fault::View)?;
        let absent = EtcdCompare::CreateRevision { key: self.key("view").into(), revision: 0 };
        let puts = [&[self.put("view", view.to_json(), None)], more].concat();
        let is_done = self.etcd.txn(&[absent], &puts)?.is_done;
        // The answer to a first attempt may have been lost: then the view that exists is the one that was written.
        if is_done || self.view().is_ok_and(|seen| *seen.view == *view) {
            Ok(())
        } else {
            Err(Fault::Exists(self.name.clone()))
        }
    }

    /// The view.
    ///
    /// # Errors
    /// [`Fault::NoCluster`] or [`Fault::Lost`] if there is none; etcd fails; or the view is invalid.
    pub fn view(&self) -> Result<Seen, Fault> {
        Ok(self.view_now()?.0)
    }

    /// As [`Register::view`], with etcd's revision at which that was the view.
    pub(crate) fn view_now(&self) -> Result<(Seen, u64), Fault> {
        let range = self.etcd.range(&EtcdKeys::one(self.key("view")))?;
        let pair = range.pairs.into_iter().next();
        Ok((read_view(&pair.ok_or_else(|| self.nothing())?)?, range.revision))
    }

    /// Writes the view after `seen`, if no other view was written and no other controller elected since.
    ///
    /// # Errors
    /// [`Fault::Step`] if the view may not follow: then etcd isn't asked. [`Fault::Deposed`] or [`Fault::Overtaken`].
    pub fn write(&self, lead: Lead, seen: &Seen, next: View) -> Result<Seen, Fault> {
        next.may_follow(&seen.view).map_err(Fault::Step)?;
        let [view, controller] = ["view", "controller"].map(|key| self.key(key).into_bytes());
        let compares = [
            EtcdCompare::ModRevision { key: view, revision: seen.mod_revision },
            EtcdCompare::CreateRevision { key: controller, revision: lead.create_revision },
        ];
        let put = self.put("view", next.to_json(), None);
        let txn = self.etcd.txn(&compares, &[put])?;
        if txn.is_done {
            return Ok(Seen { view: next.into(), mod_revision: txn.revision });
        }
        if self.leader()?.is_none_or(|(now, _)| now != lead) {
            return Err(Fault::Deposed);
        }
        // The answer to a first attempt may have been lost.
        let now = self.view()?;
        if *now.view == next { Ok(now) } else { Err(Fault::Overtaken) }
    }

    /// Writes since when nodes are gone; `None` for those that aren't.
    ///
    /// # Errors
    /// [`Fault::Deposed`], or etcd fails.
    pub(crate) fn write_away(
        &self,
        lead: Lead,
        changes: &[(NodeId, Option<AwayRecord>)],
    ) -> Result<(), Fault> {
        let controller = self.key("controller").into_bytes();
        let leads = EtcdCompare::CreateRevision { key: controller, revision: lead.create_revision };
        let ops = changes.iter().map(|(id, record)| match record {
            Some(record) => self.put(&format!("away/{id}"), json(record), None),
            None => self.delete(&format!("away/{id}")),
        });
        let ops: Vec<_> = ops.collect();
        for ops in ops.chunks(OPS_MAX) {
            if !self.etcd.txn(std::slice::from_ref(&leads), ops)?.is_done {
                return Err(Fault::Deposed);
            }
        }
        Ok(())
    }

    /// Stands for election; `None` if another controller leads. The elected one leads until `lease` ends.
    ///
    /// # Errors
    /// etcd fails: the lease may have ended.
    pub fn campaign(&self, who: &str, lease: i64) -> Result<Option<Lead>, Fault> {
        let key = self.key("controller");
        let absent = EtcdCompare::CreateRevision { key: key.into(), revision: 0 };
        let put = self.put("controller", who.to_owned(), Some(lease));
        let txn = self.etcd.txn(&[absent], &[put])?;
        if txn.is_done {
            return Ok(Some(Lead { create_revision: txn.revision }));
        }
        // The answer to a first attempt may have been lost.
        let range = self.etcd.range(&EtcdKeys::one(self.key("controller")))?;
        let own = range.pairs.first().filter(|pair| pair.lease == lease);
        Ok(own.map(|pair| Lead { create_revision: pair.create_revision }))
    }

    /// The controller that leads, if there is one.
    ///
    /// # Errors
    /// etcd fails.
    pub fn leader(&self) -> Result<Option<(Lead, String)>, Fault> {
        let range = self.etcd.range(&EtcdKeys::one(self.key("controller")))?;
        Ok(range.pairs.first().map(leader))
    }

    /// Ends a controller's lead, unless another one leads already. It writes no view any more.
    ///
    /// # Errors
    /// etcd fails.
    pub(crate) fn depose(&self, lead: Lead) -> Result<(), Fault> {
        let (key, revision) = (self.key("controller").into(), lead.create_revision);
        let same = EtcdCompare::CreateRevision { key, revision };
        self.etcd.txn(&[same], &[self.delete("controller")])?;
        Ok(())
    }

    /// A number for a node with a new disk, which no other node has. The first is 1.
    ///
    /// # Errors
    /// etcd fails. A number may then be lost, which does no harm.
    pub fn take_id(&self) -> Result<NodeId, Fault> {
        for _ in 0..ATTEMPTS {
            let range = self.etcd.range(&EtcdKeys::one(self.key("ids")))?;
            let (last, revision) = match range.pairs.first() {
                None => (0, 0),
                Some(pair) => (record::<NodeId>(pair)?, pair.mod_revision),
            };
            // If the key was lost, the view and the leases still show numbers that were given away.
            let next = last.max(self.highest_id()?) + 1;
            let same = EtcdCompare::ModRevision { key: self.key("ids").into(), revision };
            let put = self.put("ids", next.to_string(), None);
            if self.etcd.txn(&[same], &[put])?.is_done {
                return Ok(next);
            }
        }
        Err(Fault::Overtaken)
    }

    fn highest_id(&self) -> Result<NodeId, Fault> {
        let now = self.snapshot()?;
        let named = now.seen.view.nodes.iter().filter(|(_, it)| !it.run.is_empty());
        let ids = named.map(|(id, _)| id).chain(now.nodes.keys()).chain(now.away.keys());
        Ok(ids.copied().max().unwrap_or(0))
    }

    /// Writes what the operator wants.
    ///
    /// # Errors
    /// etcd fails.
    pub fn wish(&self, wish: &WishRecord) -> Result<(), Fault> {
        Ok(self.etcd.put(self.key("wish").as_bytes(), json(wish).as_bytes(), None)?)
    }

    /// Changes what the operator wants, whoever else does so at the same time. Returns what is wanted then.
    ///
    /// # Errors
    /// As [`Register::view`]; or [`Fault::Overtaken`], again and again.
    pub fn change_wish(&self, change: impl FnMut(&mut WishRecord)) -> Result<WishRecord, Fault> {
        self.change("wish", || Ok(WishRecord::of(&self.view()?.view)), change)
    }

    /// Changes which nodes are to be restarted, whoever else does so at the same time. Returns those of then.
    ///
    /// # Errors
    /// etcd fails; or [`Fault::Overtaken`], again and again.
    pub(crate) fn change_restarts(
        &self,
        change: impl FnMut(&mut BTreeMap<NodeId, String>),
    ) -> Result<BTreeMap<NodeId, String>, Fault> {
        self.change("restart", || Ok(BTreeMap::new()), change)
    }

    /// Changes the record at a key; `first` makes it if there is none.
    fn change<T: Clone + PartialEq + Serialize + DeserializeOwned>(
        &self,
        below: &str,
        first: impl Fn() -> Result<T, Fault>,
        mut change: impl FnMut(&mut T),
    ) -> Result<T, Fault> {
        for _ in 0..ATTEMPTS {
            let range = self.etcd.range(&EtcdKeys::one(self.key(below)))?;
            let (before, revision) = match range.pairs.first() {
                Some(pair) => (record::<T>(pair)?, pair.mod_revision),
                None => (first()?, 0),
            };
            let mut after = before.clone();
            change(&mut after);
            let same = EtcdCompare::ModRevision { key: self.key(below).into(), revision };
            let put = self.put(below, json(&after), None);
            if after == before || self.etcd.txn(&[same], &[put])?.is_done {
                return Ok(after);
            }
        }
        Err(Fault::Overtaken)
    }

    /// All that stands in the register, at one revision.
    ///
    /// # Errors
    /// As [`Register::view`]; or the register is longer than 8 MiB.
    pub fn snapshot(&self) -> Result<RegisterSnapshot, Fault> {
        let root = self.key("");
        let range = self.etcd.range(&EtcdKeys::prefix(&root))?;
        RegisterSnapshot::read(&root, &range)?.ok_or_else(|| self.nothing())
    }

    pub(crate) fn delete(&self, below: &str) -> EtcdOp {
        EtcdOp::Delete { key: self.key(below).into() }
    }

    pub(crate) fn put(&self, below: &str, value: String, lease: Option<i64>) -> EtcdOp {
        EtcdOp::Put { key: self.key(below).into(), value: value.into(), lease }
    }
}

pub(crate) fn json<T: Serialize>(record: &T) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

/// The time limit per endpoint. A lease of 3 s outlives an endpoint that is silent.
const LIMIT: Duration = Duration::from_secs(2);
/// Most operations of a transaction; etcd takes 128.
pub(crate) const OPS_MAX: usize = 100;
/// After a loss of the numbers that were given away, so many are left out.
const IDS_LEFT_OUT: NodeId = 1000;
/// Attempts to take a number, while other nodes take theirs.
const ATTEMPTS: usize = 100;
