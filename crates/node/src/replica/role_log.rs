//! What a node logs about its part in a new view, and about how far that has come.

use guira_chain::frames::PeerHello;
use guira_chain::slot::Slot;
use guira_chain::{Chart, Group, NodeId, SLOTS, View};

use super::slots::Slots;

/// Logs the part of the node `me` in a view. `is_registered`: its views come from a register.
pub(super) fn log_role(me: &PeerHello, view: &View, is_member: bool, is_registered: bool) {
    let (run, me, epoch) = (&me.run, me.node, view.epoch);
    if !is_member && is_registered {
        tracing::info!("epoch {epoch}: node {me} has no part yet");
        return;
    }
    if !is_member {
        tracing::warn!(
            "epoch {epoch}: node {me} has no part. This process is run {run}: a view has to name it"
        );
        return;
    }
    let count = |is: &dyn Fn(&Group) -> bool| -> usize {
        view.groups.iter().filter(|group| is(group)).map(|group| group.slots.len()).sum()
    };
    tracing::info!(
        "epoch {epoch}: node {me} is the head of {} slots, the reader of {}, and in the chains of {}",
        count(&|group| group.head() == Some(me)),
        count(&|group| group.reader() == Some(me)),
        count(&|group| group.members().any(|node| node == me)),
    );
}

/// What is still to be logged about a view, for the operator, who may change views: that this node is filled, and that the
/// nodes that join are ready.
#[derive(Debug, Default)]
pub(super) struct Progress {
    untold: [bool; 2],
    /// The number of the slots' steps when they were looked at.
    looked_at: Option<u64>,
}

impl Progress {
    /// Of a view that was just learned.
    pub(super) fn of(is_member: bool) -> Self {
        Self { untold: [is_member; 2], looked_at: None }
    }

    /// Logs what has come about since the last call.
    pub(super) fn tell(&mut self, me: NodeId, chart: &Chart, slots: &Slots) {
        if self.untold == [false; 2] || self.looked_at.replace(slots.steps()) == Some(slots.steps())
        {
            return;
        }
        let epoch = chart.view.epoch;
        let of = |slot: u16| Some((chart.group(slot)?, slots.get(slot)?));
        let own = (0..SLOTS).filter_map(of).filter(|it| it.0.members().any(|node| node == me));
        let joined = own
            .clone()
            .filter(|(group, _)| group.reader() == Some(me) && !group.joining.is_empty());
        if self.untold[0]
            && own.clone().next().is_some()
            && own.clone().all(|(_, slot)| slot.is_filled())
        {
            self.untold[0] = false;
            tracing::info!("epoch {epoch}: node {me} is filled");
        }
        let is_ready = |(group, slot): (&Group, &Slot)| {
            group.joining.iter().all(|node| slot.ready().contains(node))
        };
        if self.untold[1] && joined.clone().next().is_some() && joined.clone().all(is_ready) {
            self.untold[1] = false;
            tracing::info!(
                "epoch {epoch}: those that join have all that node {me} has: they may serve"
            );
        }
    }
}
