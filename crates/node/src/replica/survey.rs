//! A look at a node's slots: its roles, what waits, and what it lacks.
//!
//! # Costs
//! Roles are counted anew when the view changes or a slot has come further, over all slots. Otherwise a look costs as much as
//! there are groups, and slots in which something is to be committed.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::frames::PeerHello;
use guira_chain::promises::Promises;
use guira_chain::slot::Slot;
use guira_chain::{Chart, Group, NodeId};

use super::figures::Seen;
use super::slots::Slots;

/// What is kept from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The epoch of the view, and the number of the slots' steps, when roles were counted.
    counted_at: Option<(u64, u64)>,
    roles: Seen,
    reads: Vec<Reads>,
    /// The slots in which something is to be committed: the last committed effect, and since when it has been that.
    waits: BTreeMap<u16, (u64, u64)>,
}

/// Slots whose reads the node answers, with promises of the same others.
#[derive(Debug)]
struct Reads {
    others: Vec<NodeId>,
    slots: u64,
    /// Of these, the slots that aren't filled yet.
    unfilled: u64,
}

impl Survey {
    /// Looks at the slots of the node `me`; `now` in microseconds.
    pub(super) fn look(
        &mut self,
        (me, chart): (&PeerHello, Option<&Chart>),
        slots: &Slots,
        promises: &Promises,
        now: u64,
    ) -> Seen {
        let Some(chart) = chart.filter(|it| it.view.names(me.node, &me.run)) else {
            let epoch = chart.map_or(0, |chart| chart.view.epoch);
            return Seen { epoch, ..Seen::default() };
        };
        let (me, at) = (me.node, (chart.view.epoch, slots.steps()));
        if self.counted_at.replace(at) != Some(at) {
            self.count(me, chart, slots);
        }
        let mut seen = Seen { epoch: chart.view.epoch, is_member: true, ..self.roles };
        let mut missing = BTreeSet::new();
        for Reads { others, slots, unfilled } in &self.reads {
            let lacking: Vec<NodeId> =
                others.iter().copied().filter(|node| !promises.has(*node, now)).collect();
            seen.unreadable += if lacking.is_empty() { *unfilled } else { *slots };
            missing.extend(lacking);
        }
        seen.promises_missing = missing.len() as u64;
        let others = chart.view.nodes.keys().filter(|node| **node != me);
        seen.promises = others.filter(|node| promises.has(**node, now)).count() as u64;
        self.look_at_waits(&mut seen, (me, chart, slots), now);
        seen
    }

    fn look_at_waits(
        &mut self,
        seen: &mut Seen,
        (me, chart, slots): (NodeId, &Chart, &Slots),
        now: u64,
    ) {
        let mut waits = BTreeMap::new();
        for (number, slot) in slots.open() {
            let (last, committed) = slot.progress();
            let is_on_path = chart.group(number).is_some_and(|group| group.is_on_path(me));
            if is_on_path && slot.is_filled() && committed < last {
                seen.uncommitted += last - committed;
                seen.uncommitted_bytes += slot.queued_bytes() as u64;
                let before = self.waits.get(&number).filter(|it| it.0 == committed);
                waits.insert(number, *before.unwrap_or(&(committed, now)));
            }
        }
        self.waits = waits;
        let oldest = self.waits.values().map(|it| it.1).min().unwrap_or(now);
        #[expect(clippy::cast_precision_loss, reason = "a wait is short")]
        let lag_s = now.saturating_sub(oldest) as f64 / 1e6;
        seen.lag_s = lag_s;
    }

    /// Counts the node's roles.
    fn count(&mut self, me: NodeId, chart: &Chart, slots: &Slots) {
        (self.roles, self.reads) = (Seen::default(), Vec::new());
        for group in chart.view.groups.iter().filter(|it| it.members().any(|node| node == me)) {
            let mut unfilled = 0;
            for slot in group.slots.iter().filter_map(|slot| slots.get(slot)) {
                note_roles(&mut self.roles, me, group, slot);
                unfilled += u64::from(!slot.is_filled());
            }
            if group.reader() == Some(me) {
                let others = group.path().filter(|node| *node != me).collect();
                self.reads.push(Reads { others, slots: group.slots.len() as u64, unfilled });
            }
        }
    }
}

fn note_roles(seen: &mut Seen, me: NodeId, group: &Group, slot: &Slot) {
    let (is_head, is_reader) = (group.head() == Some(me), group.reader() == Some(me));
    seen.head += u64::from(is_head);
    seen.reader += u64::from(is_reader);
    seen.middle += u64::from(group.serving.contains(&me) && !is_head && !is_reader);
    seen.joining += u64::from(group.joining.contains(&me));
    seen.syncing += u64::from(group.syncing.contains(&me));
    if !group.serving.contains(&me) {
        let place = if slot.is_filled() { &mut seen.filled } else { &mut seen.to_receive };
        *place += 1;
    }
    let fills = group.path().last() == Some(me);
    seen.to_send += if fills { group.syncing.len() as u64 } else { 0 };
}
