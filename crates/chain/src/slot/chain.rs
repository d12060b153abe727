//! The state of one slot on one node.

mod neighbours;
mod writes;
mod reads;

use super::effect::{Contents, Effect, Results, WriteId, WriteVerdict};
use super::message::{ClientId, Message, SlotAction, SlotEvent, Told};
use super::noted::Noted;
use crate::planted::{Mistake, is_planted};
use crate::promises::Promises;
use crate::view::{Group, NodeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;

/// What a slot consults besides its own state.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The node's promises.
    pub promises: &'a Promises,
    /// The store.
    pub contents: &'a dyn Contents,
    /// The number of serving copies below which writes are refused.
    pub min_write: usize,
}

/// The greatest number of an effect. No cluster comes near it: a peer that names a greater one is faulty.
const SEQ_MAX: u64 = u64::MAX >> 1;

/// One slot on one node.
#[derive(Debug, Clone, Hash)]
pub struct Slot {
    me: NodeId,
    waits_for_disk: bool,
    group: Group,
    /// Whether the store has the slot's content. A node that was added has it for this `attempt` only.
    is_filled: bool,
    attempt: u64,
    last: u64,
    committed: u64,
    synced: u64,
    /// The number up to which effects are durable at all earlier nodes, as `Durable` reported in this epoch.
    upstream: u64,
    /// Uncommitted effects, in order, up to `last`.
    queue: VecDeque<Effect>,
    queue_bytes: usize,
    results: Results,
    complete_since: u64,
    /// For each successor, the number up to which it was sent effects; `None` if it needs a copy.
    next: BTreeMap<NodeId, Option<u64>>,
    sent_max: u64,
    told_up: Option<u64>,
    told_down: Option<u64>,
    /// The last effect before a gap that was asked for since the last tick.
    asked_after: Option<u64>,
    ready_from: u64,
    ready: BTreeSet<NodeId>,
    writers: BTreeMap<u64, Vec<(ClientId, WriteId, WriteVerdict)>>,
    readers: Vec<Reader>,
    noted: Noted,
}

/// A read that waits.
#[derive(Debug, Clone, Hash)]
struct Reader {
    from: ClientId,
    id: u64,
    key: Vec<u8>,
    holds: bool,
}

impl Slot {
    /// Creates the slot of a process that started at `now` with effects up to `last` on its disk. With
    /// `waits_for_disk`, an effect is committed only when it is on the disks of the whole write path.
    #[must_use]
    pub fn new(me: NodeId, waits_for_disk: bool, last: u64, now: u64) -> Self {
        Self {
            me,
            waits_for_disk,
            group: Group::default(),
            is_filled: false,
            attempt: 0,
            last,
            committed: 0,
            synced: last,
            upstream: 0,
            queue: VecDeque::new(),
            queue_bytes: 0,
            results: Results::default(),
            complete_since: now,
            next: BTreeMap::new(),
            sent_max: 0,
            told_up: None,
            told_down: None,
            asked_after: None,
            ready_from: 0,
            ready: BTreeSet::new(),
            writers: BTreeMap::new(),
            readers: Vec::new(),
            noted: Noted::default(),
        }
    }

    /// The slot's epoch as this node knows it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.group.epoch
    }

    /// The numbers of the last effect and of the last committed one.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.last, self.committed)
    }

    /// Whether the store has the slot's content.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// The number of reads that wait here.
    #[must_use]
    pub fn waiting_reads(&self) -> usize {
        self.readers.len()
    }

    /// The memory of the effects that wait here to be committed, in bytes.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// The number of holds that this node granted and that may run, and their memory in bytes.
    #[must_use]
    pub fn holds_granted(&self) -> (usize, usize) {
        (self.noted.count(), self.noted.bytes())
    }

    /// Whether a hold of this key may run that this node granted the client.
    #[must_use]
    pub fn keeps(&self, key: &[u8], client: ClientId) -> bool {
        self.noted.has(key, client)
    }

    /// Whether a hold may run that this node granted in an earlier epoch of the slot. Then the node's requests for promises
    /// must say so: see [`Promises::grant`].
    #[must_use]
    pub fn has_old_holds(&self) -> bool {
        self.noted.has_older_than(self.group.epoch)
    }

    /// Whether this node answers the slot's reads, and all that it has of the slot is committed. Then, and as long as no
    /// event changes the slot's content or its chain, whoever has seen that the promises last may read the store, once it shows
    /// all changes: see [`direct`](crate::direct). A copy that is alone on the write path needs no promise, and must not hold.
    #[must_use]
    pub fn is_open(&self, around: Around<'_>, now: u64) -> bool {
        let is_committed = self.committed == self.last || is_planted(Mistake::OpenBeforeCommitted);
        let is_alone = self.group.path().all(|node| node == self.me);
        let holds = is_alone && self.holds(around, now);
        self.is_filled && self.reads() && is_committed && !holds
    }

    /// Whether a client may wait for something here.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        let is_under_way = self.group.place(self.me).is_some() && self.committed < self.last;
        self.is_filled && is_under_way || !self.readers.is_empty()
    }

    /// Whether this node takes the slot's messages from `node`.
    #[must_use]
    pub fn follows(&self, node: NodeId) -> bool {
        self.predecessor() == Some(node)
    }

    /// Whether this node and `node` send each other the slot's messages.
    #[must_use]
    pub fn is_beside(&self, node: NodeId) -> bool {
        self.follows(node) || self.group.successors(self.me).contains(&node)
    }

    /// Whether `node` answered the slot's reads in an earlier epoch, and changes may wait until that is over.
    #[must_use]
    pub fn had_reader(&self, node: NodeId) -> bool {
        self.group.past.contains(&node)
    }

    /// Whether this node has a part in the slot's chain.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.group.members().any(|it| it == self.me)
    }

    /// Whether nothing waits here. Then an occasional [`SlotEvent::Tick`] is enough, in case a message was lost.
    #[must_use]
    pub fn is_settled(&self, around: Around<'_>, now: u64) -> bool {
        let has_all = match self.group.place(self.me) {
            Some(_) => self.committed == self.last,
            None => true,
        };
        let lacks_none = self.asked_after != Some(self.last);
        let is_at_rest = self.is_filled && has_all && lacks_none && self.readers.is_empty();
        !self.is_member() || is_at_rest && !self.holds(around, now)
    }

    /// Whether nodes are to come into the slot's chain. The node before one has to learn what it has.
    #[must_use]
    pub fn has_joiners(&self) -> bool {
        !self.group.joining.is_empty() || !self.group.syncing.is_empty()
    }

    /// Whether a member with the last number `has` needs a copy of everything: see [`Contents::all`].
    #[must_use]
    pub fn needs_copy(&self, has: Option<u64>) -> bool {
        self.sent_upto(has).is_none()
    }

    /// The number up to which a member that reports `has` needs no effects. `None` if it needs a copy.
    fn sent_upto(&self, has: Option<u64>) -> Option<u64> {
        let first = self.queue.front().map_or(self.last, |it| it.version.seq - 1);
        has.filter(|it| (first..=self.last).contains(it))
    }

    #[cfg(test)]
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk
    }

    #[cfg(test)]
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    #[cfg(test)]
    pub(crate) fn is_head(&self) -> bool {
        self.group.head() == Some(self.me)
    }

    #[cfg(test)]
    pub(crate) fn is_reader(&self) -> bool {
        self.reads()
    }

    /// Joining nodes that have all that this node had when it learned of this epoch. They may serve.
    #[must_use]
    pub fn ready(&self) -> &BTreeSet<NodeId> {
        &self.ready
    }

    /// Takes the group of a newly learned view. `is_member` is whether the view names this process (its run). Returns
    /// answers to all requests that waited.
    pub fn set_group(&mut self, group: &Group, is_member: bool, now: u64) -> Vec<SlotAction> {
        if group.epoch <= self.group.epoch {
            return Vec::new();
        }
        self.group = if is_member {
            group.clone()
        } else {
            Group { epoch: group.epoch, ..Group::default() }
        };
        if self.group.serving.contains(&self.me) {
            // The base starts with the content of its disk. If that is empty, no earlier write can have a lost result.
            // Any other serving node that isn't filled waits for a copy.
            if !self.is_filled && self.group.base == Some(self.me) {
                let is_new = self.last == 0 || is_planted(Mistake::BaseKnowsAllResults);
                (self.is_filled, self.complete_since) = (true, if is_new { 0 } else { now });
            }
        } else if !self.group.joining.contains(&self.me) && !self.group.syncing.contains(&self.me) {
            self.is_filled = false;
        } else if self.attempt != self.group.attempt || !self.is_filled {
            (self.is_filled, self.attempt) = (false, self.group.attempt);
            (self.last, self.committed, self.synced) = (0, 0, 0);
            self.queue.clear();
            self.queue_bytes = 0;
        }
        (self.upstream, self.told_up, self.told_down) = (0, None, None);
        self.ready_from = self.last;
        self.ready.clear();
        self.next.clear();
        if is_planted(Mistake::ReplacedReaderForgets) && !self.reads() {
            self.noted = Noted::default();
        }
        // The next holds are limited by the promises of the new chain.
        self.noted.recall();
        self.refuse_all()
    }

    /// Takes an event. Returns the actions to carry out, in order.
    pub fn step(&mut self, around: Around<'_>, event: SlotEvent, now: u64) -> Vec<SlotAction> {
        let mut out = Vec::new();
        self.noted.expire(now);
        match event {
            SlotEvent::Peer(from, epoch, message) => {
                let is_current = epoch == self.group.epoch
                    || (epoch < self.group.epoch && is_planted(Mistake::OldEpochTaken));
                if is_current {
                    self.hear(around, from, message, now, &mut out);
                }
            }
            SlotEvent::Write { from, epoch, id, is_repeated, key, wanted } => {
                let answer = if epoch == self.group.epoch {
                    self.write(around, (from, id, is_repeated), (key, wanted), now, &mut out)
                } else {
                    Some(Told::Stale)
                };
                out.extend(answer.map(|told| SlotAction::Answer(from, id.1, told)));
            }
            SlotEvent::Read { from, epoch, id, key, holds } => {
                let reads = self.is_filled && self.reads();
                if epoch == self.group.epoch && reads {
                    self.readers.push(Reader { from, id, key, holds });
                } else {
                    out.push(SlotAction::Answer(from, id, Told::Stale));
                }
            }
            SlotEvent::GaveUp { from, id } => {
                self.readers.retain(|it| (it.from, it.id) != (from, id));
            }
            SlotEvent::Invalidated { from, id, key } => self.noted.release(&key, from, id),
            SlotEvent::Synced(upto) => self.synced = self.synced.max(upto.min(self.last)),
            SlotEvent::Tick => {
                (self.told_up, self.told_down, self.asked_after) = (None, None, None);
                self.noted.ask_again();
                if let Some(before) = self.predecessor() {
                    let has = self.is_filled.then_some(self.last);
                    out.push(SlotAction::Send(before, Message::State(has)));
                }
            }
        }
        self.noted.ask(&mut out);
        self.flow(around, now, &mut out);
        self.answer_reads(around, now, &mut out);
        out
    }

    fn refuse_all(&mut self) -> Vec<SlotAction> {
        let writers = take(&mut self.writers).into_values().flatten().map(|it| (it.0, it.1.1));
        let readers = take(&mut self.readers).into_iter().map(|it| (it.from, it.id));
        let all = writers.chain(readers);
        all.map(|(client, id)| SlotAction::Answer(client, id, Told::Stale)).collect()
    }

    fn predecessor(&self) -> Option<NodeId> {
        self.group.predecessor(self.me)
    }
}
