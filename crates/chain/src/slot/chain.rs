//! The state of one slot on one node.

use super::effect::{
    Contents, Effect, REPEATED, Results, Version, WriteId, WriteKind, WriteVerdict, decide,
};
use super::message::{ClientId, Message, SlotAction, SlotCopy, SlotEvent, Told};
use super::noted::Noted;
use crate::planted::{Mistake, is_planted};
use crate::promises::{Promises, TERM, guarded_for};
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

/// The head refuses writes as busy while its uncommitted effects have more bytes than this.
const QUEUE_BYTES_MAX: usize = 16 << 20;

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
        let is_at_rest = self.is_filled && has_all && self.readers.is_empty();
        !self.is_member() || is_at_rest && !self.holds(around, now)
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

    fn write(
        &mut self,
        around: Around<'_>,
        (from, id, is_repeated): (ClientId, WriteId, bool),
        (key, wanted): (Vec<u8>, WriteKind),
        now: u64,
        out: &mut Vec<SlotAction>,
    ) -> Option<Told> {
        if self.group.head() != Some(self.me) || !self.is_filled {
            return Some(Told::Stale);
        }
        if !is_planted(Mistake::RepeatsWithoutIds) {
            if let Some((seq, verdict)) = self.results.get(id).cloned() {
                if seq <= self.committed {
                    return Some(Told::Wrote(verdict));
                }
                let waiting = self.writers.entry(seq).or_default();
                // The client is answered once, however often it repeats the write.
                if !waiting.iter().any(|it| (it.0, it.1) == (from, id)) {
                    waiting.push((from, id, verdict));
                }
                return None;
            }
            if self.results.is_forgotten(id) {
                return Some(Told::Unknown);
            }
            // The limit is doubled because the repetition may have been under way for long.
            if is_repeated && now < self.complete_since + 2 * REPEATED {
                return Some(Told::Unknown);
            }
        }
        if self.group.serving.len() < around.min_write {
            return Some(Told::Refused);
        }
        if self.queue_bytes > QUEUE_BYTES_MAX {
            return Some(Told::Busy);
        }
        if self.last >= SEQ_MAX {
            return Some(Told::Refused);
        }
        let version = Version { epoch: self.group.epoch, seq: self.last + 1 };
        let now_there = around.contents.get(&key);
        let (change, verdict) = decide(around.contents, now_there.as_ref(), wanted, version.seq);
        if change.is_none() && is_planted(Mistake::FailureAnsweredEarly) {
            return Some(Told::Wrote(verdict));
        }
        self.writers.entry(version.seq).or_default().push((from, id, verdict.clone()));
        self.append(Effect { version, id, key, change, verdict }, now, out);
        None
    }

    fn append(&mut self, effect: Effect, now: u64, out: &mut Vec<SlotAction>) {
        self.last = effect.version.seq;
        self.results.keep(&effect, now);
        if effect.change.is_some() {
            self.noted.change(&effect.key, self.last);
        }
        self.queue_bytes += weight(&effect);
        self.queue.push_back(effect.clone());
        out.push(SlotAction::Apply(effect));
    }

    fn hear(
        &mut self,
        around: Around<'_>,
        from: NodeId,
        message: Message,
        now: u64,
        out: &mut Vec<SlotAction>,
    ) {
        let is_before = self.predecessor() == Some(from);
        let is_after = self.is_filled && self.group.successors(self.me).contains(&from);
        match message {
            Message::Effect(effect) if is_before && self.is_filled => {
                let seq = effect.version.seq;
                if seq <= SEQ_MAX && seq.checked_sub(1) == Some(self.last) {
                    self.append(effect, now, out);
                } else if seq > self.last && self.asked_after != Some(self.last) {
                    // Ask only once: each effect behind the gap would ask for all of it.
                    self.asked_after = Some(self.last);
                    out.push(SlotAction::Send(from, Message::State(Some(self.last))));
                }
            }
            Message::Durable(upto) if is_before && self.is_filled => {
                self.upstream = self.upstream.max(upto);
                if upto > self.last && self.asked_after != Some(self.last) {
                    // Effects were lost, and perhaps no other follows that would reveal the gap.
                    self.asked_after = Some(self.last);
                    out.push(SlotAction::Send(from, Message::State(Some(self.last))));
                }
            }
            // A filled member needs a copy too if its predecessor dropped the effects that were lost on the way.
            Message::Copy(whole) if is_before && whole.last <= SEQ_MAX => {
                let lags = whole.last > self.last && !is_planted(Mistake::LaggardGetsNoCopy);
                if !self.is_filled || lags {
                    self.fill(around, *whole, now, out);
                }
            }
            Message::Ack(upto) if is_after && self.group.is_on_path(from) => {
                self.commit(upto, out);
                let runs = self.has_old_holds() && !is_planted(Mistake::ReadyWhileHoldsRun);
                let may_say =
                    !self.holds(around, now) && !runs || is_planted(Mistake::ReadyWhileHolding);
                if may_say && upto >= self.ready_from && self.group.joining.contains(&from) {
                    self.ready.insert(from);
                }
            }
            Message::State(has) if is_after => {
                self.next.insert(from, self.sent_upto(has));
            }
            _ => {}
        }
    }

    fn fill(&mut self, around: Around<'_>, whole: SlotCopy, now: u64, out: &mut Vec<SlotAction>) {
        let mut items = whole.items;
        if is_planted(Mistake::RestartTrustsItsTail) {
            let mut merged: BTreeMap<_, _> = items.into_iter().collect();
            for (key, own) in around.contents.all() {
                let there = merged.entry(key).or_default();
                if own.version.seq > there.version.seq {
                    *there = own;
                }
            }
            items = merged.into_iter().collect();
        }
        if !self.is_filled {
            // The numbers of what the disk had don't count here.
            (self.is_filled, self.committed, self.synced) = (true, 0, 0);
        }
        // The copy may change any key.
        self.noted.change_all(self.committed + 1);
        self.last = whole.last;
        self.ready_from = self.ready_from.max(self.last);
        // The copy contains the changes of the queue. A successor that lacks one gets a copy too.
        self.queue.clear();
        self.queue_bytes = 0;
        self.results = whole.results;
        self.results.count_from(now);
        self.complete_since = now.saturating_sub(whole.complete_for);
        out.push(SlotAction::Replace(items, whole.last));
    }

    /// Forwards effects, commits, and acknowledges.
    fn flow(&mut self, around: Around<'_>, now: u64, out: &mut Vec<SlotAction>) {
        if !self.is_filled || self.holds(around, now) {
            return;
        }
        for node in self.group.successors(self.me) {
            self.forward(around, node, now, out);
        }
        let Some(at) = self.group.place(self.me) else { return };
        let own = if self.waits_for_disk { self.synced } else { self.last };
        let own = match self.noted.first_change() {
            Some(change) if !is_planted(Mistake::ChangesOvertakeHolds) => own.min(change - 1),
            _ => own,
        };
        let is_free = at == 0 || is_planted(Mistake::CommitBeforeUpstreamDurable);
        let durable = if is_free { own } else { own.min(self.upstream) };
        if let Some(after) = self.group.path().nth(at + 1) {
            if self.told_down.replace(durable) != Some(durable) {
                out.push(SlotAction::Send(after, Message::Durable(durable)));
            }
        } else {
            self.commit(durable, out);
        }
        if let Some(before) = self.predecessor()
            && self.told_up.replace(self.committed) != Some(self.committed)
        {
            out.push(SlotAction::Send(before, Message::Ack(self.committed)));
        }
    }

    fn forward(&mut self, around: Around<'_>, node: NodeId, now: u64, out: &mut Vec<SlotAction>) {
        let Some(sent) = self.next.insert(node, Some(self.last)) else {
            // The node hasn't reported what it has.
            self.next.remove(&node);
            return;
        };
        let Some(sent) = sent else {
            if out.iter().any(|it| matches!(it, SlotAction::Apply(_) | SlotAction::Replace(..))) {
                // The owner has yet to carry out these actions, so a copy made now would lack them. The next event
                // sends it.
                self.next.insert(node, None);
                return;
            }
            let whole = SlotCopy {
                last: self.last,
                items: around.contents.all(),
                results: self.results.clone(),
                complete_for: now.saturating_sub(self.complete_since),
            };
            out.push(SlotAction::Send(node, Message::Copy(Box::new(whole))));
            return;
        };
        for effect in self.queue.iter().filter(|it| it.version.seq > sent) {
            let mut effect = effect.clone();
            let is_again = effect.version.seq <= self.sent_max;
            if is_again && effect.change == Some(None) && is_planted(Mistake::ResendForgetsDelete) {
                effect.change = None;
            }
            out.push(SlotAction::Send(node, Message::Effect(effect)));
        }
        self.sent_max = self.last;
    }

    /// Commits all effects up to `upto` and answers their writes.
    fn commit(&mut self, upto: u64, out: &mut Vec<SlotAction>) {
        self.committed = self.committed.max(upto.min(self.last));
        while let Some(effect) = self.queue.pop_front_if(|it| it.version.seq <= self.committed) {
            self.queue_bytes -= weight(&effect);
        }
        let later = self.writers.split_off(&self.committed.saturating_add(1));
        for (client, id, verdict) in
            std::mem::replace(&mut self.writers, later).into_values().flatten()
        {
            out.push(SlotAction::Answer(client, id.1, Told::Wrote(verdict)));
        }
    }

    fn answer_reads(&mut self, around: Around<'_>, now: u64, out: &mut Vec<SlotAction>) {
        if self.readers.is_empty() || !self.may_read(around, now) {
            return;
        }
        for reader in take(&mut self.readers) {
            let stand = around.contents.get(&reader.key);
            if stand.as_ref().is_some_and(|it| it.version.seq > self.committed) {
                self.readers.push(reader);
                continue;
            }
            let found = stand.and_then(|it| Some((it.value?, it.version.seq)));
            // What this event changes isn't in the contents yet, and its change ends no hold that is granted now.
            let is_old = || out.iter().any(|it| it.changes(&reader.key));
            if reader.holds && (!is_old() || is_planted(Mistake::HoldBesideChange)) {
                self.grant_hold(around, &reader, now, out);
            }
            out.push(SlotAction::Answer(reader.from, reader.id, Told::Read(found)));
        }
    }

    fn grant_hold(
        &mut self,
        around: Around<'_>,
        reader: &Reader,
        now: u64,
        out: &mut Vec<SlotAction>,
    ) {
        let others = self.group.path().filter(|node| *node != self.me);
        let left = others.map(|node| around.promises.left(node, now)).min().unwrap_or(TERM);
        let is_long = is_planted(Mistake::HoldLongerThanPromises);
        let term = if is_long { TERM } else { left.min(TERM) };
        let (client, until) = ((reader.from, reader.id), now + guarded_for(term));
        if term > 0 && self.noted.note(&reader.key, client, self.group.epoch, until) {
            out.push(SlotAction::Hold(reader.from, reader.id, term));
        }
    }

    fn may_read(&self, around: Around<'_>, now: u64) -> bool {
        let mut others = self.group.path().filter(|node| *node != self.me).peekable();
        if others.peek().is_none() {
            return !self.holds(around, now);
        }
        let asks = |node: &NodeId| {
            !is_planted(Mistake::PromisesOfServingOnly) || self.group.serving.contains(node)
        };
        is_planted(Mistake::ReadsWithoutPromises)
            || others.filter(asks).all(|node| around.promises.has(node, now))
    }

    fn holds(&self, around: Around<'_>, now: u64) -> bool {
        if around.promises.is_fresh(now) {
            return true;
        }
        let skipped = match is_planted(Mistake::HoldForLastReaderOnly) {
            true => self.group.past.len().saturating_sub(1),
            false => 0,
        };
        let mut past =
            self.group.past.iter().skip(skipped).filter(|it| !self.group.is_on_path(**it));
        !is_planted(Mistake::NoHold)
            && past.any(|reader| around.promises.protects(*reader, self.group.epoch, now))
    }

    fn reads(&self) -> bool {
        let planted = is_planted(Mistake::JoinerServes) && self.group.joining.contains(&self.me);
        planted || self.group.reader() == Some(self.me)
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

fn weight(effect: &Effect) -> usize {
    let value = effect.change.as_ref().and_then(Option::as_ref).map_or(0, Vec::len);
    effect.key.len() + value + size_of::<Effect>()
}
