//! The slots in which front-ends keep values by holds: see [`guira_chain::slot`].

use guira_chain::slot::Slot;
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Holds {
    slots: BTreeSet<u16>,
    count: usize,
    bytes: usize,
    /// Whether the last requests for promises said that holds of older views may run.
    had_old: bool,
}

impl Holds {
    /// Whether the holds have so little memory that the node may grant one more.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < HOLD_BYTES_MAX
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

    /// The number of holds, and their memory in bytes.
    pub(super) fn figures(&self) -> (u64, u64) {
        (self.count as u64, self.bytes as u64)
    }
}

/// The memory above which a node grants no holds.
const HOLD_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::Group;
    use guira_chain::promises::{Promises, TERM};
    use guira_chain::slot::{Around, Contents, Decision, SlotEvent, Stand, WriteVerdict};

    struct Nothing;

    impl Contents for Nothing {
        fn get(&self, _: &[u8]) -> Option<Stand> {
            None
        }
        fn all(&self) -> Vec<(Vec<u8>, Stand)> {
            Vec::new()
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
        let (count, bytes) = holds.figures();
        assert_eq!(count, 1024 * slots.len() as u64, "each was granted");
        assert!((8 << 20..9 << 20).contains(&bytes), "{bytes}");
        assert_eq!(holds.slots().len(), slots.len());
        for (at, slot) in (0..).zip(&mut slots) {
            let before = slot.holds_granted();
            slot.step(around, SlotEvent::Tick, now + 2 * TERM);
            holds.note(at, before, slot);
        }
        assert_eq!(holds.figures(), (0, 0));
        assert!(holds.slots().is_empty() && holds.has_room());
    }
}
