//! What a node logs about its part in a new view.

use guira_chain::frames::PeerHello;
use guira_chain::{Group, View};

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
