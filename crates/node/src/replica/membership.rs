//! A node's part in the register: that it lives, what its slots have, and the controller that it may be.
//!
//! # Invariants
//! 1. What the register is told belongs to the view that the driver follows, and to the run that the view names.
//! 2. The driver never waits for etcd: a thread of `guira-cluster` does.
//!
//! # Costs
//! Slots are looked at when one of them has come further; etcd is asked only when something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use guira_chain::frames::PeerHello;
use guira_chain::slot::Slot;
use guira_chain::{Chart, Member, NodeId, Ranges, SLOTS, View};
use guira_cluster::{
    Controller, Fault, GroupReport, Present, Register, Report, Rules, Shortage, Sight,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch::Receiver;

use super::event::Event;
use super::slots::Slots;

/// See the module's head. Dropping it removes the node from the register.
pub(super) struct Membership {
    register: Arc<Register>,
    present: Present,
    told: (Report, BTreeSet<(NodeId, String)>),
    /// The epoch of the view, the number of the slots' steps, and whether the process was fresh, when they were looked at.
    looked_at: (u64, u64, bool),
    controller: Controller,
}

impl Membership {
    /// Enters the node into the register, and stands for election.
    ///
    /// # Errors
    /// etcd fails, or the system has no thread.
    pub(super) fn begin(
        register: &Arc<Register>,
        id: NodeId,
        member: &Member,
    ) -> Result<Self, Fault> {
        let rules = Rules::default();
        let present = Present::begin(Arc::clone(register), id, member, LEASE_S)?;
        let controller = Controller::begin(Arc::clone(register), member.name.clone(), rules)?;
        let (register, told) = (Arc::clone(register), Default::default());
        Ok(Self { register, present, told, looked_at: (0, 0, true), controller })
    }

    /// Whether this process refuses the view in the register.
    pub(super) fn refuses(&self) -> bool {
        self.register.refuses()
    }

    /// Takes note of a view that another node sent.
    pub(super) fn heard(&self, view: &View) {
        self.register.heard(view);
    }

    /// Whether this node's controller believes that it leads.
    pub(super) fn leads(&self) -> bool {
        self.controller.leads()
    }

    /// Slots with too few living copies, if this node leads.
    pub(super) fn shortage(&self) -> Shortage {
        self.controller.shortage()
    }

    /// Tells the register what slots have, and which nodes refuse connections, if that differs from what it was told
    /// before.
    pub(super) fn tell(
        &mut self,
        me: &PeerHello,
        chart: &Chart,
        (slots, refused): (&Slots, &BTreeSet<NodeId>),
        is_fresh: bool,
    ) {
        let run_of = |node: &NodeId| chart.view.nodes.get(node).map(|it| (*node, it.run.clone()));
        let suspects: BTreeSet<_> = refused.iter().filter_map(run_of).collect();
        if suspects != self.told.1 {
            self.present.suspect(&suspects);
            self.told.1 = suspects;
        }
        let now = (chart.view.epoch, slots.steps(), is_fresh);
        if std::mem::replace(&mut self.looked_at, now) == now {
            return;
        }
        let report = report(me, chart, slots.all(), is_fresh);
        if report != self.told.0 {
            self.present.report(&report);
            self.told.0 = report;
        }
    }
}

/// The report on the slots in whose chains the node is. `is_fresh`: the process holds all changes for now, because it forgot
/// what it promised before its start. So it calls no slot filled whose changes don't wait for it yet.
fn report(me: &PeerHello, chart: &Chart, slots: &[Slot], is_fresh: bool) -> Report {
    let mut alike: BTreeMap<_, Vec<u16>> = BTreeMap::new();
    let is_named = chart.view.names(me.node, &me.run);
    for slot in (0..SLOTS).filter(|_| is_named) {
        let Some(group) = chart.group(slot) else { continue };
        if group.members().any(|node| node == me.node) {
            let state = &slots[usize::from(slot)];
            let may_join = !is_fresh || !group.syncing.contains(&me.node);
            let said = (state.epoch(), state.is_filled() && may_join, state.ready());
            alike.entry(said).or_default().push(slot);
        }
    }
    let groups = alike.into_iter().map(|((epoch, is_filled, ready), slots)| GroupReport {
        slots: slots.into_iter().collect::<Ranges>(),
        epoch,
        is_filled,
        ready: ready.clone(),
    });
    Report { run: me.run.clone(), groups: groups.collect() }
}

/// Passes on the views of the register, forever.
pub(super) async fn follow(mut sights: Receiver<Sight>, events: UnboundedSender<Event>) {
    loop {
        let view = sights.borrow_and_update().view.clone();
        let view = view.map(|view| Event::View(Box::new(View::clone(&view)), FROM_REGISTER));
        let is_heard = view.is_none_or(|view| events.send(view).is_ok());
        if !is_heard || sights.changed().await.is_err() {
            return;
        }
    }
}

/// What views of the register are said to come from.
pub(super) const FROM_REGISTER: &str = "etcd";
/// A node that doesn't renew its lease for this long is gone. Seconds; etcd may make it longer.
pub(super) const LEASE_S: u64 = 3;
