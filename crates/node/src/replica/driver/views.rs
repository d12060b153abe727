//! The view that a driver follows.

use std::sync::Arc;

use guira_chain::promises::TERM;
use guira_chain::{Chart, Group, NodeId, SLOTS, View};

use super::{Driver, SlotEvent, clock};
use crate::engine::Engine;
use crate::replica::membership::{FROM_REGISTER, Membership};

/// What is done with a view.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Follow,
    /// It says nothing new.
    Ignore,
    /// Why not, for the operator.
    Refuse(String),
}

/// The nodes of a slot's chain, and those that answered its reads before.
fn in_chain(group: &Group) -> impl Iterator<Item = NodeId> + '_ {
    group.members().chain(group.past.iter().copied())
}

/// Judges a view. `is_own`: it is of the cluster that the store belongs to. `is_registered`: views come from a register.
/// `is_newcomer`: nobody relies on this process yet, and the register has the view.
fn judge(
    known: Option<&View>,
    view: &View,
    is_own: bool,
    (is_registered, is_newcomer): (bool, bool),
) -> Judgement {
    match known {
        Some(known) if known == view => return Judgement::Ignore,
        // A peer sent a newer view before etcd did. An older view in a file goes on to the check, because somebody put it
        // there.
        Some(known) if is_registered && view.epoch < known.epoch => return Judgement::Ignore,
        Some(known) => {
            let step = match is_newcomer {
                true => view.may_supersede(known),
                false => view.may_replace(known),
            };
            if let Err(why) = step {
                return Judgement::Refuse(why.to_string());
            }
        }
        None => {}
    }
    if is_own { Judgement::Follow } else { Judgement::Refuse("it is another cluster's".to_owned()) }
}

impl<E: Engine> Driver<E> {
    /// Follows a view, if that is allowed.
    pub(super) fn learn(&mut self, view: View, source: &str) {
        if view.is_draft() {
            tracing::info!(
                "the view from {source} names no process yet: this one is run {}",
                self.me.run
            );
            return;
        }
        let known = self.chart.borrow().as_ref().map(|chart| Arc::clone(&chart.view));
        let is_registered = self.membership.is_some();
        // A peer that took what is refused here may have a view that is built on it.
        if source != FROM_REGISTER && self.membership.as_ref().is_some_and(Membership::refuses) {
            return;
        }
        let is_newcomer = source == FROM_REGISTER && !self.was_member;
        let ways = (is_registered, is_newcomer);
        match judge(known.as_deref(), &view, self.keeper.is_of(&view), ways) {
            Judgement::Follow => {}
            Judgement::Ignore => return,
            Judgement::Refuse(why) => {
                // A peer sends it ten times a second.
                let told = (view.epoch, why);
                if self.refused.as_ref() != Some(&told) {
                    let (epoch, why) = &told;
                    tracing::warn!("the view of epoch {epoch} from {source} isn't followed: {why}");
                    self.refused = Some(told);
                }
                return;
            }
        }
        if let Some(membership) = self.membership.as_ref().filter(|_| source != FROM_REGISTER) {
            membership.heard(&view);
        }
        self.counted.views += 1;
        let is_member = view.names(self.me.node, &self.me.run);
        self.was_member |= is_member;
        self.roles.learn(&self.me, &view, is_member);
        let chart = Arc::new(Chart::of(Arc::new(view)));
        let view = &chart.view;
        // From here on others may hear of the view, so nobody may read by the one before.
        self.direct.follow(&chart, &self.promises);
        self.promises.set_epoch(view.epoch);
        self.peers.set_epoch(view.epoch);
        let addresses = view.nodes.iter().map(|(node, it)| (*node, it.peers.clone())).collect();
        {
            let _links = self.links.enter();
            self.peers.set_addresses(&addresses);
        }
        // Whoever refused links before was another process than the view names now.
        if let Some(known) = &known {
            let entered = view.nodes.iter().filter(|(node, it)| !known.names(**node, &it.run));
            entered.for_each(|(node, _)| self.peers.forget_refusal(*node));
        }
        self.chart.send_replace(Some(Arc::clone(&chart)));
        self.readiness.note(&chart.view);
        let now = clock();
        let mut changed = Vec::new();
        for slot in 0..SLOTS {
            let Some(group) = chart.group(slot) else { continue };
            if let Some(actions) = self.slots.set_group(slot, group, is_member, now) {
                self.carry_out(slot, actions);
                changed.extend(self.slots.get(slot).filter(|it| it.is_member()).map(|_| slot));
            }
        }
        // Changes wait until each node has told the one before it what it has.
        self.tick(&changed);
        self.set_near(&chart.view, is_member, now);
        if is_member && chart.view.groups.iter().any(|it| it.syncing.contains(&self.me.node)) {
            // Copies will come, and the walk takes a while.
            self.keeper.can_replace();
        }
        self.look();
    }

    /// Tells the nodes beside this one how far it is: in so many slots at once, in the others soon.
    pub(super) fn tick(&mut self, slots: &[u16]) {
        let (first, others) = slots.split_at(slots.len().min(AT_ONCE));
        for slot in first {
            self.step(*slot, SlotEvent::Tick);
        }
        self.slots.are_told(first, others, clock());
    }

    /// Asks those nodes for promises with which this one shares a chain, or shared one: at once, since reads wait for that.
    /// Those that it left hear of its newer view for as long as a promise of theirs may last, so that none waits for it.
    fn set_near(&mut self, view: &View, is_member: bool, now: u64) {
        for until in self.near.values_mut() {
            *until = (*until).min(now + 2 * TERM);
        }
        let me = self.me.node;
        let shares = |group: &&Group| is_member && in_chain(group).any(|node| node == me);
        let near = view.groups.iter().filter(shares).flat_map(in_chain).filter(|node| *node != me);
        self.near.extend(near.map(|node| (node, u64::MAX)));
        self.renew_at = 0;
    }

    /// Logs how far this view has come, and tells the register: what slots have, and which nodes can't be reached.
    pub(super) fn tell_progress(&mut self) {
        let Some(chart) = self.chart.borrow().clone() else { return };
        self.roles.tell(&self.me, &chart, &self.slots, clock());
        if let Some(membership) = &mut self.membership {
            membership.tell(
                &self.me,
                &chart,
                (&self.slots, &self.peers.refused()),
                self.promises.is_fresh(clock()),
            );
        }
    }
}

/// A slot takes some microseconds, in which all others wait.
const AT_ONCE: usize = 4096;
