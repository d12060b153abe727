//! A look at all slots of a node: its roles, what waits, and what it lacks.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::promises::Promises;
use guira_chain::slot::Slot;
use guira_chain::{Chart, Group, NodeId, SLOTS};

use super::figures::Seen;

/// What is kept from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The slots in which something is to be committed: the last committed effect, and since when it has been that.
    waits: BTreeMap<u16, (u64, u64)>,
}

impl Survey {
    /// Looks at the slots of a node that the view names; `now` in microseconds.
    pub(super) fn look(
        &mut self,
        me: NodeId,
        (chart, slots, promises): (&Chart, &[Slot], &Promises),
        now: u64,
    ) -> Seen {
        let mut seen = Seen::default();
        let (mut waits, mut missing) = (BTreeMap::new(), BTreeSet::new());
        for number in 0..SLOTS {
            let (Some(group), Some(slot)) = (chart.group(number), slots.get(usize::from(number)))
            else {
                continue;
            };
            if !group.members().any(|node| node == me) {
                continue;
            }
            note_roles(&mut seen, me, group, slot);
            if group.reader() == Some(me) {
                let lacks = |node: &NodeId| *node != me && !promises.has(*node, now);
                let lacking: Vec<NodeId> = group.path().filter(lacks).collect();
                seen.unreadable += u64::from(!lacking.is_empty() || !slot.is_filled());
                missing.extend(lacking);
            }
            let (last, committed) = slot.progress();
            if group.is_on_path(me) && slot.is_filled() && committed < last {
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
        let others = chart.view.nodes.keys().filter(|node| **node != me);
        let promised = others.filter(|node| promises.has(**node, now)).count();
        Seen {
            epoch: chart.view.epoch,
            is_member: true,
            lag_s,
            promises: promised as u64,
            promises_missing: missing.len() as u64,
            ..seen
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
