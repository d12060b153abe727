//! Which keys each slot has: a copy of a slot is made of them.
//!
//! The engine finds a key, but it has no list of a slot's keys. So they are collected when a copy is needed: in a walk over all
//! records, which may take seconds. They are forgotten once no copy was needed for [`KEPT`].
//!
//! # Costs
//! About 100 bytes of memory per key while they are known.

use std::collections::HashSet;
use std::mem;

use bytes::Bytes;
use guira_chain::SLOTS;

/// The keys of each slot.
pub(super) type Collected = Vec<HashSet<Bytes>>;

/// See the module's head.
#[derive(Debug)]
pub(super) struct SlotKeys {
    state: State,
    /// When a copy was needed last, in microseconds; 0: since the last look.
    used: u64,
}

#[derive(Debug)]
enum State {
    Unknown,
    /// A walk is on its way. These keys are new since it was ordered.
    Ordered(Collected),
    Known(Collected),
}

impl SlotKeys {
    /// The keys of a store. `is_new`: it has none.
    pub(super) fn of(is_new: bool) -> Self {
        Self { state: if is_new { State::Known(none()) } else { State::Unknown }, used: 0 }
    }

    /// Notes that a slot has a key.
    pub(super) fn note(&mut self, slot: u16, key: &Bytes) {
        match &mut self.state {
            State::Unknown => {}
            State::Ordered(keys) | State::Known(keys) => {
                keys[usize::from(slot)].insert(key.clone());
            }
        }
    }

    /// The keys of a slot, if they are known: perhaps more than it has by now.
    pub(super) fn get(&mut self, slot: u16) -> Option<&HashSet<Bytes>> {
        self.used = 0;
        match &self.state {
            State::Known(keys) => keys.get(usize::from(slot)),
            _ => None,
        }
    }

    /// Orders a walk, unless there is one, or none is needed. Returns whether the caller has to begin it.
    pub(super) fn order(&mut self) -> bool {
        let is_new = matches!(self.state, State::Unknown);
        if is_new {
            self.state = State::Ordered(none());
        }
        is_new
    }

    /// Whether a walk is on its way.
    pub(super) fn are_ordered(&self) -> bool {
        matches!(self.state, State::Ordered(_))
    }

    /// Takes what a walk found.
    pub(super) fn take(&mut self, mut found: Collected) {
        self.used = 0;
        match mem::replace(&mut self.state, State::Unknown) {
            State::Ordered(new) => {
                for (keys, new) in found.iter_mut().zip(new) {
                    keys.extend(new);
                }
                self.state = State::Known(found);
            }
            // Somebody needed them sooner, and has walked as well.
            State::Known(keys) => self.state = State::Known(keys),
            State::Unknown => {}
        }
    }

    /// Forgets the keys if no copy was needed for long; `now` in microseconds. Returns them, because it takes a while to free
    /// many.
    pub(super) fn look(&mut self, now: u64) -> Option<Collected> {
        if self.used == 0 {
            self.used = now;
        }
        if now <= self.used + KEPT || self.are_ordered() {
            return None;
        }
        match mem::replace(&mut self.state, State::Unknown) {
            State::Known(keys) => Some(keys),
            _ => None,
        }
    }
}

/// No keys in any slot.
pub(super) fn none() -> Collected {
    vec![HashSet::new(); usize::from(SLOTS)]
}

/// How long the keys are kept after a copy was needed. Microseconds.
const KEPT: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn what_comes_during_a_walk_is_known_after_it_and_all_is_forgotten_when_unused() {
        let mut keys = SlotKeys::of(false);
        keys.note(3, &key("before"));
        assert_eq!(keys.get(3), None);
        assert!(keys.order());
        assert!(!keys.order() && keys.are_ordered(), "one walk is enough");
        keys.note(3, &key("during"));
        let mut found = none();
        found[3].insert(key("before"));
        keys.take(found);
        keys.note(3, &key("after"));
        let known = keys.get(3).expect("the walk has ended");
        assert_eq!(*known, ["before", "during", "after"].map(key).into());
        assert_eq!(keys.look(1_000_000), None);
        assert_eq!(keys.look(1_000_000 + KEPT), None);
        assert!(keys.get(3).is_some());
        assert_eq!(keys.look(2_000_000 + KEPT), None);
        assert!(keys.look(3_000_000 + 2 * KEPT).is_some(), "nobody needed them");
        assert!(keys.get(3).is_none());
    }

    #[test]
    fn a_new_store_needs_no_walk() {
        let mut keys = SlotKeys::of(true);
        assert!(!keys.order());
        keys.note(5, &key("k"));
        assert_eq!(keys.get(5), Some(&[key("k")].into()));
        assert_eq!(keys.get(4), Some(&HashSet::new()));
    }
}
