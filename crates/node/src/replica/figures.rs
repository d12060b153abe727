//! A node's figures of replication: the driver fills them in, `stats cluster` and scrapes read them.

use guira_chain::slot::{Message, Stand, Told};
use parking_lot::Mutex;

/// What a node counts, and what it looked at last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplicaFigures {
    pub(super) counted: Counted,
    pub(super) seen: Seen,
}

/// Events since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) views: u64,
    pub(super) updates_sent: u64,
    pub(super) updates_received: u64,
    pub(super) acks_sent: u64,
    pub(super) acks_received: u64,
    pub(super) unsent: u64,
    pub(super) copies_sent: u64,
    pub(super) copies_received: u64,
    pub(super) copy_bytes_sent: u64,
    pub(super) copy_bytes_received: u64,
    pub(super) promises_granted: u64,
    pub(super) promises_refused: u64,
    pub(super) stale: u64,
    pub(super) busy: u64,
    pub(super) few_copies: u64,
    pub(super) unknown: u64,
    pub(super) holds_granted: u64,
    pub(super) holds_refused: u64,
    pub(super) invalidations_sent: u64,
    pub(super) invalidations_answered: u64,
}

/// The state of the node's slots at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) epoch: u64,
    pub(super) is_member: bool,
    pub(super) is_leader: bool,
    pub(super) head: u64,
    pub(super) middle: u64,
    pub(super) reader: u64,
    pub(super) joining: u64,
    pub(super) syncing: u64,
    pub(super) uncommitted: u64,
    pub(super) uncommitted_bytes: u64,
    pub(super) lag_s: f64,
    pub(super) to_receive: u64,
    pub(super) to_send: u64,
    pub(super) filled: u64,
    pub(super) promises: u64,
    pub(super) promises_missing: u64,
    pub(super) unreadable: u64,
    pub(super) refused_links: u64,
    pub(super) links_down: u64,
    pub(super) lost: u64,
    pub(super) read_only: u64,
    pub(super) degraded: u64,
    pub(super) holds: u64,
    pub(super) hold_bytes: u64,
    pub(super) holds_run_out: u64,
}

/// The figures that other threads may read.
#[derive(Debug, Default)]
pub(crate) struct ReplicaBoard(Mutex<ReplicaFigures>);

impl Counted {
    /// Counts a message that was put into a lane.
    pub(super) fn sent(&mut self, message: &Message) {
        match message {
            Message::Effect(_) => self.updates_sent += 1,
            Message::Ack(_) => self.acks_sent += 1,
            Message::Copy(copy) => {
                self.copies_sent += 1;
                self.copy_bytes_sent += bytes_of(&copy.items);
            }
            Message::Durable(_) | Message::State(_) => {}
        }
    }

    /// Counts a message that arrived. A copy counts when it is taken.
    pub(super) fn received(&mut self, message: &Message) {
        match message {
            Message::Effect(_) => self.updates_received += 1,
            Message::Ack(_) => self.acks_received += 1,
            _ => {}
        }
    }

    /// Counts a copy that is taken.
    pub(super) fn took(&mut self, items: &[(Vec<u8>, Stand)]) {
        self.copies_received += 1;
        self.copy_bytes_received += bytes_of(items);
    }

    /// Counts the answer to a front-end that asked for a hold.
    pub(super) fn held(&mut self, term: u64) {
        if term > 0 {
            self.holds_granted += 1;
        } else {
            self.holds_refused += 1;
        }
    }

    /// Counts an answer that is a refusal.
    pub(super) fn told(&mut self, told: &Told) {
        match told {
            Told::Stale => self.stale += 1,
            Told::Busy => self.busy += 1,
            Told::Refused => self.few_copies += 1,
            Told::Unknown => self.unknown += 1,
            Told::Wrote(_) | Told::Read(_) => {}
        }
    }
}

fn bytes_of(items: &[(Vec<u8>, Stand)]) -> u64 {
    let of = |(key, stand): &(Vec<u8>, Stand)| key.len() + stand.value.as_ref().map_or(0, Vec::len);
    items.iter().map(of).sum::<usize>() as u64
}

impl ReplicaBoard {
    pub(super) fn show(&self, figures: ReplicaFigures) {
        *self.0.lock() = figures;
    }

    /// The figures of the last second.
    pub(crate) fn read(&self) -> ReplicaFigures {
        *self.0.lock()
    }
}

/// A figure: as a metric it has its label, as a line of `stats cluster` the label's value at its end.
pub(crate) struct ReplicaRow {
    pub(crate) name: &'static str,
    pub(crate) label: Option<(&'static str, &'static str)>,
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) read: fn(&ReplicaFigures) -> f64,
}

impl ReplicaRow {
    /// The name of the line in `stats cluster`.
    pub(crate) fn line(&self) -> String {
        match self.label {
            Some((_, value)) => format!("{}_{value}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// What the metric means: with a label, all its rows.
    pub(crate) fn help(&self) -> &'static str {
        let found = WITH_LABELS.iter().find(|(name, _)| *name == self.name);
        found.map_or(self.meaning, |(_, help)| help)
    }

    /// The metric's name.
    pub(crate) fn metric(&self) -> String {
        let end = if self.kind == "counter" { "_total" } else { "" };
        format!("guira_store_{}{end}", self.name)
    }
}

macro_rules! rows {
    ($($kind:ident $name:ident $([$label:ident $value:literal])?, $part:ident . $field:ident, $meaning:literal;)*) => {
        pub(crate) const REPLICA_FIGURES: &[ReplicaRow] = &[$(ReplicaRow {
            name: stringify!($name),
            label: rows!(@label $([$label $value])?),
            kind: stringify!($kind),
            meaning: $meaning,
            read: |it| number(it.$part.$field),
        }),*];
    };
    (@label) => { None };
    (@label [$label:ident $value:literal]) => { Some((stringify!($label), $value)) };
}

rows! {
    gauge cluster_epoch, seen.epoch, "epoch of the view that the node follows";
    counter cluster_views, counted.views, "views that it followed";
    gauge cluster_is_member, seen.is_member, "1 while the view names this process";
    gauge cluster_is_leader, seen.is_leader, "1 while the node's controller believes that it leads";
    gauge cluster_slots [role "head"], seen.head, "slots whose writes it orders";
    gauge cluster_slots [role "middle"], seen.middle, "slots that it serves as neither head nor reader";
    gauge cluster_slots [role "reader"], seen.reader, "slots whose reads it answers; a slot with one copy is the head's and the reader's";
    gauge cluster_slots [role "joining"], seen.joining, "slots whose writes it acknowledges, and which it doesn't serve yet";
    gauge cluster_slots [role "syncing"], seen.syncing, "slots in which it is being filled";
    gauge cluster_slots_unreadable, seen.unreadable, "slots of which it is the reader, and can't answer: a promise is missing, or it isn't filled";
    counter cluster_updates_sent, counted.updates_sent, "changes that it sent on along chains, also again";
    counter cluster_updates_received, counted.updates_received, "changes that it received along chains, also again";
    counter cluster_acks_sent, counted.acks_sent, "acknowledgements that it sent to the node before it in a chain; one may acknowledge many changes";
    counter cluster_acks_received, counted.acks_received, "acknowledgements that it received";
    counter cluster_frames_unsent, counted.unsent, "messages that were lost because a link was down or full; they are sent again";
    gauge cluster_lag_updates, seen.uncommitted, "changes that the node has, and of which it doesn't know yet that all of the chain have them";
    gauge cluster_lag_bytes, seen.uncommitted_bytes, "their bytes";
    gauge cluster_lag_seconds, seen.lag_s, "how long the slot that waits longest has committed nothing though it has something to commit";
    gauge cluster_copies_under_way [direction "in"], seen.to_receive, "slots that the node is still to be filled with";
    gauge cluster_copies_under_way [direction "out"], seen.to_send, "slots that it fills other nodes with";
    gauge cluster_copies_filled, seen.filled, "slots that it was filled with, and doesn't serve yet";
    counter cluster_copied_slots [direction "in"], counted.copies_received, "copies of slots that it took";
    counter cluster_copied_slots [direction "out"], counted.copies_sent, "copies of slots that it sent";
    counter cluster_copied_bytes [direction "in"], counted.copy_bytes_received, "bytes of keys and values in the copies that it took";
    counter cluster_copied_bytes [direction "out"], counted.copy_bytes_sent, "bytes of keys and values in the copies that it sent";
    gauge cluster_promises, seen.promises, "other nodes of which it has a promise that lasts";
    gauge cluster_promises_missing, seen.promises_missing, "other nodes whose promise it lacks, and needs to answer reads";
    counter cluster_promises_asked [outcome "granted"], counted.promises_granted, "promises that it gave";
    counter cluster_promises_asked [outcome "refused"], counted.promises_refused, "promises that it refused, because the node that asked has an older view";
    gauge cluster_links_refused, seen.refused_links, "nodes at whose address nobody listened when they were dialled last";
    gauge cluster_links_down, seen.links_down, "nodes of the view to which there is no link now, for whatever reason: the log says why";
    gauge cluster_slots_lost, seen.lost, "at the leader: slots without a living copy. Their requests fail. Other nodes show 0";
    gauge cluster_slots_read_only, seen.read_only, "at the leader: slots with fewer living copies than a write needs";
    gauge cluster_slots_degraded, seen.degraded, "at the leader: slots with fewer living copies than are wanted, and enough for writes";
    gauge cluster_holds, seen.holds, "values that front-ends may keep now, each counted once for each link of a front-end";
    gauge cluster_hold_bytes, seen.hold_bytes, "the node's memory for them; above 8 MiB it grants no more";
    counter cluster_holds_asked [outcome "granted"], counted.holds_granted, "times that it let a front-end keep a value";
    counter cluster_holds_asked [outcome "refused"], counted.holds_refused, "times that it didn't, because it can't answer for the key now, has no room, or waited for a front-end that didn't drop the key";
    counter cluster_holds_run_out, seen.holds_run_out, "times that changes of a key waited for a front-end that didn't drop its value within the term; then that front-end gets no hold of the key for 10 s, and nobody does if it happens again";
    counter cluster_invalidations_sent, counted.invalidations_sent, "times that it asked a front-end to drop a value, also again";
    counter cluster_invalidations_answered, counted.invalidations_answered, "times that a front-end said that it dropped one";
    counter cluster_refusals [reason "stale"], counted.stale, "requests refused because its view, or its role, isn't the one that was asked for; they are asked again elsewhere";
    counter cluster_refusals [reason "busy"], counted.busy, "changes refused because too much waits";
    counter cluster_refusals [reason "few_copies"], counted.few_copies, "changes refused because fewer copies serve than a write needs";
    counter cluster_refusals [reason "unknown"], counted.unknown, "repeated changes of which the node doesn't know whether they happened";
}

/// The metrics with a label.
const WITH_LABELS: [(&str, &str); 7] = [
    (
        "cluster_slots",
        "slots by the node's `role`: head (orders their writes), middle, reader (answers their reads), joining (acknowledges their writes, doesn't serve yet), syncing (is being filled). One with a single copy is the head's and the reader's",
    ),
    (
        "cluster_copies_under_way",
        "slots of which a copy is under way, by `direction`: in (the node is still to be filled), out (it fills others)",
    ),
    ("cluster_copied_slots", "copies of slots by `direction`: in (taken), out (sent)"),
    ("cluster_copied_bytes", "bytes of keys and values in these copies, by `direction`"),
    (
        "cluster_promises_asked",
        "promises that others asked for, by `outcome`: granted, refused (the node that asked has an older view)",
    ),
    (
        "cluster_holds_asked",
        "times that a front-end asked to keep a value, by `outcome`: granted, refused (the node can't answer for the key now, has no room, or waited for a front-end that didn't drop the key)",
    ),
    (
        "cluster_refusals",
        "requests that were refused, by `reason`: stale (by another view or role than the node has: asked again elsewhere), busy (too much waits), few_copies (fewer than a write needs), unknown (a repeated change of which the node doesn't know whether it happened)",
    ),
];

/// A value of a figure.
trait Figure {
    fn number(self) -> f64;
}

impl Figure for u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "above 2^53 it may be off by one in ten quadrillions"
    )]
    fn number(self) -> f64 {
        self as f64
    }
}

impl Figure for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Figure for bool {
    fn number(self) -> f64 {
        u64::from(self).number()
    }
}

fn number(value: impl Figure) -> f64 {
    value.number()
}
