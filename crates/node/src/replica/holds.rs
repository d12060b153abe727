//! The slots in which front-ends keep values by holds: see [`guira_chain::slot`]. And the keys of which front-ends get no hold
//! for a while, because one didn't drop a value when it was asked to.
//!
//! A change waits for the holds of its key until they are dropped, or their terms run out. A term that runs out is no harm
//! once: a front-end may have died. But one that asks for a hold again and again, and never drops it, would delay each
//! change of the key. So the link on which that happened gets no hold of the key for [`BARRED_FOR`]. Other links may have
//! one: when a router is killed, others still need their holds of hot keys. If it happens again meanwhile, on whichever
//! link, nobody gets a hold of the key. An answer that comes [`LATE`] counts as none. A link's number tells nothing of who dialled, so a program may come back by another
//! one.
//!
//! # Invariants
//! 1. Within [`BARRED_FOR`] at most two changes of a key wait for terms that run out, as long as the node has all promises.
//! 2. No hold depends on this: a front-end without a hold asks the reader each time.
//!
//! Weakness: keys are barred one by one. A program that has another key of the slot changed each time delays each of these.

use std::collections::{BTreeMap, BTreeSet};

use guira_chain::slot::{ClientId, Slot};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Holds {
    slots: BTreeSet<u16>,
    count: usize,
    bytes: usize,
    /// Whether the last requests for promises said that holds of older views may run.
    had_old: bool,
    /// The keys whose values were to be dropped, while a change waits for that.
    asked: BTreeMap<Place, Asked>,
    bars: BTreeMap<Place, Bar>,
    ran_out: u64,
}

/// A slot and a key.
type Place = (u16, Vec<u8>);

/// The front-ends that were asked to drop their values of a key.
#[derive(Debug)]
struct Asked {
    /// When the first one was, in microseconds.
    since: u64,
    /// Those that haven't said yet that they did.
    silent: BTreeSet<ClientId>,
    late: BTreeSet<ClientId>,
}

impl Asked {
    /// Whether a hold still runs.
    fn runs(&self, (slot, key): &Place, slots: &[Slot]) -> bool {
        let state = slots.get(usize::from(*slot));
        state.is_some_and(|state| self.silent.iter().any(|client| state.keeps(key, *client)))
    }

    /// The front-ends for which the change waited, once no hold runs any more.
    fn at_fault(self, now: u64) -> BTreeSet<ClientId> {
        let Self { since, silent, mut late } = self;
        // A hold that would have ended just then anyway delays nothing.
        if now >= since + LATE {
            late.extend(silent);
        }
        late
    }
}

/// Who gets no hold of a key, and until when, in microseconds.
#[derive(Debug)]
struct Bar {
    until: u64,
    /// `None`: nobody does.
    links: Option<BTreeSet<ClientId>>,
}

impl Holds {
    /// Whether the holds, and the keys that are barred, have so little memory that the node may grant one more.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < HOLD_BYTES_MAX && self.bars.len() < BARS_MAX
    }

    /// Records that a front-end is asked to drop its value of a key.
    pub(super) fn asked(&mut self, place: Place, client: ClientId, now: u64) {
        let nobody = || Asked { since: now, silent: BTreeSet::new(), late: BTreeSet::new() };
        self.asked.entry(place).or_insert_with(nobody).silent.insert(client);
    }

    /// Records that a front-end said that it dropped its value of a key. `state` knows it already.
    pub(super) fn answered(&mut self, place: &Place, client: ClientId, state: &Slot, now: u64) {
        if let Some(asked) = self.asked.get_mut(place)
            && !state.keeps(&place.1, client)
            && asked.silent.remove(&client)
            && now >= asked.since + LATE
        {
            asked.late.insert(client);
        }
    }

    /// Bars keys that were to be dropped, and of which a hold ran out instead.
    pub(super) fn look(&mut self, slots: &[Slot], now: u64) {
        self.bars.retain(|_, bar| now < bar.until);
        let over: Vec<(Place, Asked)> =
            self.asked.extract_if(.., |place, asked| !asked.runs(place, slots)).collect();
        for (place, asked) in over {
            self.bar(place, asked.at_fault(now), now);
        }
    }

    /// As [`Self::look`], at one key: a request for a hold costs no walk of all.
    pub(super) fn look_at(&mut self, place: &Place, slots: &[Slot], now: u64) {
        if self.bars.get(place).is_some_and(|bar| now >= bar.until) {
            self.bars.remove(place);
        }
        if self.asked.get(place).is_some_and(|asked| !asked.runs(place, slots))
            && let Some(asked) = self.asked.remove(place)
        {
            self.bar(place.clone(), asked.at_fault(now), now);
        }
    }

    fn bar(&mut self, place: Place, at_fault: BTreeSet<ClientId>, now: u64) {
        if at_fault.is_empty() {
            return;
        }
        self.ran_out += 1;
        // Those who were barred had no hold: somebody else let one run out.
        let links = if self.bars.contains_key(&place) { None } else { Some(at_fault) };
        self.bars.insert(place, Bar { until: now + BARRED_FOR, links });
    }

    /// Whether a front-end gets no hold of a key.
    pub(super) fn is_barred(&self, place: &Place, client: ClientId) -> bool {
        let bar = self.bars.get(place);
        // While a change waits, so does who asks: the answer may come once the bar would have to be there.
        let must_wait = |asked: &Asked| bar.is_some() || asked.silent.contains(&client);
        self.asked.get(place).is_some_and(must_wait)
            || bar.is_some_and(|bar| bar.links.as_ref().is_none_or(|links| links.contains(&client)))
    }

    /// Records that an event changed a slot, which had `before` holds and bytes.
    pub(super) fn note(&mut self, slot: u16, before: (usize, usize), state: &Slot) {
        let (count, bytes) = state.holds_granted();
        self.count = self.count.saturating_sub(before.0) + count;
        self.bytes = self.bytes.saturating_sub(before.1) + bytes;
        if count > 0 {
            self.slots.insert(slot);
        } else if before.0 > 0 {
            self.slots.remove(&slot);
        }
    }

    /// Whether nothing here ends in time.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.asked.is_empty() && self.bars.is_empty() && !self.had_old
    }

    /// The slots with holds. Their terms have to be looked at.
    pub(super) fn slots(&self) -> Vec<u16> {
        self.slots.iter().copied().collect()
    }

    /// Whether a hold may run that was granted by an older view.
    pub(super) fn has_old(&self, slots: &[Slot]) -> bool {
        self.slots.iter().any(|slot| slots[usize::from(*slot)].has_old_holds())
    }

    /// Records what a request for promises says about that.
    pub(super) fn said(&mut self, has_old: bool) {
        self.had_old = has_old;
    }

    /// Whether peers believe that such a hold runs, and none does any more.
    pub(super) fn is_news(&self, slots: &[Slot]) -> bool {
        self.had_old && !self.has_old(slots)
    }

    /// The number of holds, their memory in bytes, and how often changes waited for terms that ran out.
    pub(super) fn figures(&self) -> (u64, u64, u64) {
        (self.count as u64, self.bytes as u64, self.ran_out)
    }
}

/// The memory above which a node grants no holds.
const HOLD_BYTES_MAX: usize = 8 << 20;
/// The number of barred keys above which a node grants no holds.
const BARS_MAX: usize = 4096;
/// For how long a key is barred. Microseconds.
const BARRED_FOR: u64 = 10_000_000;
/// After this time an answer comes so late that the change has waited for it. Microseconds.
const LATE: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::Group;
    use guira_chain::promises::{Promises, TERM};
    use guira_chain::slot::{
        Around, Contents, Decision, SlotAction, SlotEvent, Stand, WriteKind, WriteVerdict,
    };

    struct Nothing;

    impl Contents for Nothing {
        fn get(&self, _: &[u8]) -> Option<Stand> {
            None
        }
        fn all(&self, _: bool) -> Option<Vec<(Vec<u8>, Stand)>> {
            Some(Vec::new())
        }
        fn decide(&self, _: Option<&Stand>, _: &[u8], _: u64) -> Decision {
            (None, WriteVerdict::Missing)
        }
    }

    #[test]
    fn the_memory_of_holds_is_bounded_and_given_back_when_they_end() {
        let now = 2 * TERM;
        let promises = Promises::new(0);
        let around = Around { promises: &promises, contents: &Nothing, min_write: 1 };
        let (mut holds, mut slots) = (Holds::default(), Vec::new());
        while holds.has_room() {
            let at = u16::try_from(slots.len()).unwrap();
            let mut slot = Slot::new(1, false, 0, 0);
            let alone = Group { epoch: 5, serving: vec![1], base: Some(1), ..Group::default() };
            slot.set_group(&alone, true, now);
            for id in 0..1024 {
                let key = vec![b'k'; 250];
                let read = SlotEvent::Read { from: 1 << 31, epoch: 5, id, key, holds: true };
                let before = slot.holds_granted();
                slot.step(around, read, now);
                holds.note(at, before, &slot);
            }
            slots.push(slot);
            assert!(slots.len() < 100, "{:?}", holds.figures());
        }
        let (count, bytes, _) = holds.figures();
        assert_eq!(count, 1024 * slots.len() as u64, "each was granted");
        assert!((8 << 20..9 << 20).contains(&bytes), "{bytes}");
        assert_eq!(holds.slots().len(), slots.len());
        for (at, slot) in (0..).zip(&mut slots) {
            let before = slot.holds_granted();
            slot.step(around, SlotEvent::Tick, now + 2 * TERM);
            holds.note(at, before, slot);
        }
        assert_eq!(holds.figures(), (0, 0, 0));
        assert!(holds.slots().is_empty() && holds.has_room());
    }

    /// A slot whose only node may grant holds, and the holds of front-ends there.
    struct Alone {
        slots: Vec<Slot>,
        promises: Promises,
        holds: Holds,
        now: u64,
        seq: u64,
    }

    const KEY: &[u8] = b"hot";

    impl Alone {
        fn new() -> Self {
            let now = 2 * TERM;
            let mut slot = Slot::new(1, false, 0, 0);
            let alone = Group { epoch: 5, serving: vec![1], base: Some(1), ..Group::default() };
            slot.set_group(&alone, true, now);
            let (promises, holds) = (Promises::new(0), Holds::default());
            Self { slots: vec![slot], promises, holds, now, seq: 0 }
        }

        fn step(&mut self, event: SlotEvent) -> Vec<SlotAction> {
            let around = Around { promises: &self.promises, contents: &Nothing, min_write: 1 };
            let before = self.slots[0].holds_granted();
            let actions = self.slots[0].step(around, event, self.now);
            self.holds.note(0, before, &self.slots[0]);
            for action in &actions {
                if let SlotAction::Invalidate(client, _, key) = action {
                    self.holds.asked((0, key.clone()), *client, self.now);
                }
            }
            actions
        }

        /// Whether a front-end that asks gets a hold.
        fn gets(&mut self, client: ClientId) -> bool {
            self.holds.look_at(&(0, KEY.to_vec()), &self.slots, self.now);
            let holds = !self.holds.is_barred(&(0, KEY.to_vec()), client);
            self.seq += 1;
            let (id, key) = (self.seq, KEY.to_vec());
            let said = self.step(SlotEvent::Read { from: client, epoch: 5, id, key, holds });
            said.iter().any(|it| matches!(it, SlotAction::Hold(..)))
        }

        /// Changes the key. Returns the front-ends that are asked to drop it.
        fn change(&mut self) -> Vec<ClientId> {
            self.seq += 1;
            let (id, key, wanted) = ((1, self.seq), KEY.to_vec(), WriteKind::Set(b"v".to_vec()));
            let is_repeated = false;
            let event = SlotEvent::Write { from: 1, epoch: 5, id, is_repeated, key, wanted };
            let asked = self.step(event);
            let client = |it: &SlotAction| match it {
                SlotAction::Invalidate(client, ..) => Some(*client),
                _ => None,
            };
            asked.iter().filter_map(client).collect()
        }

        fn drops(&mut self, client: ClientId) {
            let (id, key) = (self.seq, KEY.to_vec());
            self.step(SlotEvent::Invalidated { from: client, id, key });
            self.holds.answered(&(0, KEY.to_vec()), client, &self.slots[0], self.now);
        }

        /// Time passes, and the slot and its holds are looked at.
        fn wait(&mut self, span: u64) {
            self.now += span;
            self.step(SlotEvent::Synced(0));
            self.holds.look(&self.slots, self.now);
        }
    }

    const A: ClientId = 1 << 31;
    const B: ClientId = A + 1;
    const C: ClientId = A + 2;

    #[test]
    fn who_lets_a_hold_run_out_gets_none_of_the_key_and_then_nobody_does() {
        let mut alone = Alone::new();
        assert!(alone.gets(A) && alone.gets(B));
        // Both are asked, and one of them is silent.
        assert_eq!(alone.change(), [A, B]);
        alone.drops(B);
        assert!(!alone.gets(B), "the change waits for the other one");
        alone.wait(TERM / 2);
        assert!(!alone.gets(B), "it waits on");
        alone.wait(TERM);
        assert!(!alone.gets(A) && alone.gets(B));
        assert_eq!(alone.change(), [B]);
        alone.drops(B);
        assert!(alone.gets(B), "it answered");
        // Another link lets one run out.
        assert!(alone.gets(C));
        assert_eq!(alone.change(), [B, C]);
        alone.drops(B);
        alone.wait(2 * TERM);
        assert!(![A, B, C].into_iter().any(|it| alone.gets(it)));
        assert_eq!(alone.holds.figures(), (0, 0, 2));
        alone.wait(BARRED_FOR - 1);
        assert!(!alone.gets(B));
        alone.wait(1);
        assert!([A, B, C].into_iter().all(|it| alone.gets(it)));
    }

    #[test]
    fn links_that_are_silent_at_one_change_count_once_and_a_term_that_ends_unasked_does_not() {
        let mut alone = Alone::new();
        assert!(alone.gets(A));
        alone.wait(2 * TERM);
        assert!(alone.gets(A), "nobody asked for the value");
        alone.wait(TERM / 2);
        assert!(alone.gets(B));
        // Their terms run out one after the other.
        assert_eq!(alone.change(), [A, B]);
        alone.wait(TERM * 3 / 4);
        alone.wait(TERM);
        assert!(!alone.gets(A) && !alone.gets(B) && alone.gets(C));
        assert_eq!(alone.holds.figures().2, 1);
    }

    #[test]
    fn who_answers_late_is_barred_too_and_whose_hold_ended_by_itself_is_not() {
        let mut alone = Alone::new();
        assert!(alone.gets(A) && alone.gets(B));
        assert_eq!(alone.change(), [A, B]);
        alone.wait(LATE - 1);
        alone.drops(B);
        alone.wait(1);
        alone.drops(A);
        assert!(!alone.gets(A) && alone.gets(B));
        assert_eq!(alone.holds.figures().2, 1);
        // B's hold ends just after the change.
        alone.wait(TERM - LATE / 2);
        assert_eq!(alone.change(), [B]);
        // The node lets it run a little longer than the front-end does.
        alone.wait(LATE - 1);
        assert_eq!(alone.holds.figures().2, 1, "the change waited for nobody");
        assert!(alone.gets(B));
    }

    #[test]
    fn a_node_with_many_barred_keys_grants_no_holds_until_they_are_forgotten() {
        let mut holds = Holds::default();
        for number in 0..BARS_MAX {
            assert!(holds.has_room());
            holds.asked((0, number.to_string().into_bytes()), A, 0);
            holds.look(&[Slot::new(1, false, 0, 0)], LATE);
        }
        assert!(!holds.has_room() && holds.asked.is_empty());
        holds.look(&[], LATE + BARRED_FOR);
        assert!(holds.has_room());
    }
}
