//! All slots of a node, and what is known of them without looking at each one: which are due, in which something waits, and
//! whether any has come further.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use guira_chain::slot::{Around, ClientId, Slot, SlotAction, SlotEvent};
use guira_chain::{Group, NodeId, SLOTS};

use super::holds::Holds;
use super::rests::Rests;

/// See the module's head.
pub(super) struct Slots {
    all: Vec<Slot>,
    rests: Rests,
    /// Slots in which reads wait.
    reading: BTreeSet<u16>,
    /// Slots in which something is to be committed.
    open: BTreeSet<u16>,
    pub(super) holds: Holds,
    queued_bytes: usize,
    /// How often a slot came to another epoch, was filled, or found another node ready.
    steps: u64,
}

impl Slots {
    /// The slots of a node that knows no view. Their numbers go on after `first`.
    pub(super) fn new(me: NodeId, first: u64, now: u64) -> Self {
        Self {
            // The chain waits for what the engine calls durable, whatever `--durability` means by it.
            all: (0..SLOTS).map(|_| Slot::new(me, true, first, now)).collect(),
            rests: Rests::new(now),
            reading: BTreeSet::new(),
            open: BTreeSet::new(),
            holds: Holds::default(),
            queued_bytes: 0,
            steps: 0,
        }
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> &[Slot] {
        &self.all
    }

    pub(super) fn get(&self, slot: u16) -> Option<&Slot> {
        self.all.get(usize::from(slot))
    }

    /// Passes an event to a slot. The actions have to be carried out, and then comes [`Slots::look_at`].
    pub(super) fn step(
        &mut self,
        slot: u16,
        around: Around<'_>,
        event: SlotEvent,
        now: u64,
    ) -> Vec<SlotAction> {
        let Some(state) = self.all.get_mut(usize::from(slot)) else { return Vec::new() };
        let far = |state: &Slot| (state.is_filled(), state.ready().len());
        let (bytes, holds, before) = (state.queued_bytes(), state.holds_granted(), far(state));
        let actions = state.step(around, event, now);
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes) + state.queued_bytes();
        self.holds.note(slot, holds, state);
        self.steps += u64::from(far(state) != before);
        actions
    }

    /// Gives a slot its group in a newer view, if that changes it. The actions have to be carried out.
    pub(super) fn set_group(
        &mut self,
        slot: u16,
        group: &Group,
        is_member: bool,
        now: u64,
    ) -> Option<Vec<SlotAction>> {
        let state = self.all.get_mut(usize::from(slot))?;
        if group.epoch <= state.epoch() {
            return None;
        }
        let before = state.queued_bytes();
        let actions = state.set_group(group, is_member, now);
        self.queued_bytes = self.queued_bytes.saturating_sub(before) + state.queued_bytes();
        self.steps += 1;
        self.rests.wake(slot, now);
        Some(actions)
    }

    /// Notes what waits in a slot, after its actions were carried out. Returns up to which effect it has committed.
    pub(super) fn look_at(&mut self, slot: u16, around: Around<'_>, now: u64) -> Option<u64> {
        let state = self.all.get(usize::from(slot))?;
        note(&mut self.reading, slot, state.waiting_reads() > 0);
        let (last, committed) = state.progress();
        note(&mut self.open, slot, committed < last);
        if !state.is_member() {
            self.rests.leave(slot);
        } else if state.has_waiting() {
            self.rests.hurry(slot, now);
        } else if !state.is_settled(around, now) {
            self.rests.keep_open(slot, now);
        } else if !state.has_joiners() {
            self.rests.calm(slot);
        }
        Some(committed)
    }

    /// When [`Slots::next_due`] returns a slot next.
    pub(super) fn next_time(&self) -> u64 {
        self.rests.next_time()
    }

    /// A slot that is to be checked now.
    pub(super) fn next_due(&mut self, now: u64) -> Option<u16> {
        self.rests.next_due(now)
    }

    /// Notes that a frame of a slot was not sent, because too much waits for the peer. Nobody else tells the peer.
    pub(super) fn lost(&mut self, slot: u16, now: u64) {
        self.rests.lost(slot, now);
    }

    /// Checks soon the slots in which this node follows a peer, because the peer is to be told about them.
    pub(super) fn wake(&mut self, peer: NodeId, now: u64) {
        for (slot, _) in (0..).zip(&self.all).filter(|it| it.1.follows(peer)) {
            self.rests.wake(slot, now);
        }
    }

    /// Notes that the node before was just told about some slots, and is to be told very soon about others.
    pub(super) fn are_told(&mut self, told: &[u16], others: &[u16], now: u64) {
        told.iter().for_each(|slot| self.rests.begin(*slot, now));
        others.iter().for_each(|slot| self.rests.wake(*slot, now));
    }

    /// The slots that came to one of these epochs last, and of which something is so.
    pub(super) fn that(
        &self,
        epochs: RangeInclusive<u64>,
        is_so: impl Fn(&Slot) -> bool,
    ) -> Vec<u16> {
        let all = (0..).zip(&self.all);
        all.filter(|it| epochs.contains(&it.1.epoch()) && is_so(it.1)).map(|it| it.0).collect()
    }

    /// The slots in which reads wait.
    pub(super) fn reading(&self) -> Vec<u16> {
        self.reading.iter().copied().collect()
    }

    /// The slots in which something is to be committed. Some may have done that, or have left their chain.
    pub(super) fn open(&self) -> impl Iterator<Item = (u16, &Slot)> {
        self.open.iter().filter_map(|slot| Some((*slot, self.get(*slot)?)))
    }

    /// The memory of all uncommitted effects.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// As long as this number is the same, no slot came to another epoch, was filled, or found another node ready.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether a hold may run that was granted by an older view.
    pub(super) fn has_old_holds(&self) -> bool {
        self.holds.has_old(&self.all)
    }

    /// Whether peers believe that such a hold runs, and none does any more.
    pub(super) fn is_news_of_holds(&self) -> bool {
        self.holds.is_news(&self.all)
    }

    /// Whether a front-end may have a hold of a key.
    pub(super) fn may_hold(&mut self, place: &(u16, Vec<u8>), client: ClientId, now: u64) -> bool {
        self.holds.look_at(place, &self.all, now);
        self.holds.has_room() && !self.holds.is_barred(place, client)
    }

    /// Notes which holds ran out.
    pub(super) fn look_at_holds(&mut self, now: u64) {
        self.holds.look(&self.all, now);
    }

    /// Notes that a front-end said that it dropped its value of a key, once the slot was told.
    pub(super) fn dropped(&mut self, place: &(u16, Vec<u8>), client: ClientId, now: u64) {
        if let Some(state) = self.all.get(usize::from(place.0)) {
            self.holds.answered(place, client, state, now);
        }
    }
}

fn note(set: &mut BTreeSet<u16>, slot: u16, is_in: bool) {
    if is_in {
        set.insert(slot);
    } else {
        set.remove(&slot);
    }
}
