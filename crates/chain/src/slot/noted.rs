//! The holds of one slot's keys: which clients may keep a value, and until when.
//!
//! # Invariants
//! 1. A hold ends when its client says that it dropped the value, or when its term ran out here. The client counts the
//!    term from when it asked, less the drift; this node counts it from when it granted, plus the drift. So the term ends
//!    here after it ended there.
//! 2. While a client may keep a value, no change of its key goes on from here: see [`Noted::first_change`].

use super::message::{ClientId, SlotAction};
use crate::planted::{Mistake, is_planted};
use std::collections::BTreeMap;

/// The holds of a slot.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Noted {
    keys: BTreeMap<Vec<u8>, Note>,
    holds: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Default, Hash)]
struct Note {
    holds: Vec<Hold>,
    /// The number of the first effect that changes the key.
    change: Option<u64>,
    /// Whether the clients are to drop the value.
    is_recalled: bool,
}

#[derive(Debug, Clone, Hash)]
struct Hold {
    client: ClientId,
    id: u64,
    /// The slot's epoch when it was granted.
    epoch: u64,
    until: u64,
    /// Whether the client was asked to drop the value since the last tick.
    is_asked: bool,
}

impl Noted {
    /// Notes a hold of `client`. Returns whether that is possible: there is room, and the value isn't to be dropped.
    pub(super) fn note(
        &mut self,
        key: &[u8],
        (client, id): (ClientId, u64),
        epoch: u64,
        until: u64,
    ) -> bool {
        if self.holds >= HOLDS_MAX || self.keys.get(key).is_some_and(|it| it.is_recalled) {
            return false;
        }
        let note = self.keys.entry(key.to_vec()).or_default();
        note.holds.push(Hold { client, id, epoch, until, is_asked: false });
        (self.holds, self.bytes) = (self.holds + 1, self.bytes + weight(key));
        true
    }

    /// Records that the effect `seq` changes the key.
    pub(super) fn change(&mut self, key: &[u8], seq: u64) {
        if let Some(note) = self.keys.get_mut(key) {
            note.change = Some(note.change.map_or(seq, |it| it.min(seq)));
            note.is_recalled = true;
        }
    }

    /// Records that effects from `seq` on may have changed any key.
    pub(super) fn change_all(&mut self, seq: u64) {
        for note in self.keys.values_mut() {
            note.change = Some(note.change.map_or(seq, |it| it.min(seq)));
            note.is_recalled = true;
        }
    }

    /// Has all clients drop what they keep.
    pub(super) fn recall(&mut self) {
        self.keys.values_mut().for_each(|note| note.is_recalled = true);
    }

    /// Records that a client dropped what it kept of the key under its holds up to `id`.
    pub(super) fn release(&mut self, key: &[u8], client: ClientId, id: u64) {
        if let Some(note) = self.keys.get_mut(key) {
            note.holds.retain(|it| it.client != client || it.id > id);
            self.tidy();
        }
    }

    /// Forgets holds whose term ran out.
    pub(super) fn expire(&mut self, now: u64) {
        if self.keys.is_empty() {
            return;
        }
        let holds = self.keys.values().flat_map(|note| &note.holds);
        if holds.min_by_key(|it| it.until).is_some_and(|it| it.until <= now) {
            self.keys.values_mut().for_each(|note| note.holds.retain(|it| now < it.until));
            self.tidy();
        }
    }

    fn tidy(&mut self) {
        self.keys.retain(|_, note| !note.holds.is_empty());
        (self.holds, self.bytes) = (0, 0);
        for (key, note) in &self.keys {
            self.holds += note.holds.len();
            self.bytes += weight(key) * note.holds.len();
        }
    }

    /// The number of the first effect that must not go on yet: a client may keep the value that it changes.
    pub(super) fn first_change(&self) -> Option<u64> {
        self.keys.values().filter_map(|note| note.change).min()
    }

    /// The requests to clients to drop values, each once until [`Noted::ask_again`].
    pub(super) fn ask(&mut self, out: &mut Vec<SlotAction>) {
        for (key, note) in self.keys.iter_mut().filter(|it| it.1.is_recalled) {
            let mut last = BTreeMap::new();
            for hold in note.holds.iter_mut().filter(|it| !it.is_asked) {
                hold.is_asked = true;
                let id: &mut u64 = last.entry(hold.client).or_default();
                *id = hold.id.max(*id);
            }
            out.extend(
                last.into_iter().map(|(to, id)| SlotAction::Invalidate(to, id, key.clone())),
            );
        }
    }

    /// Has the requests sent again, because they may have been lost.
    pub(super) fn ask_again(&mut self) {
        for hold in self.keys.values_mut().flat_map(|note| &mut note.holds) {
            if is_planted(Mistake::LostInvalidateForgotten) && hold.is_asked {
                hold.until = 0;
            }
            hold.is_asked = false;
        }
    }

    /// Whether a hold of an epoch before `epoch` may still run.
    pub(super) fn has_older_than(&self, epoch: u64) -> bool {
        self.keys.values().flat_map(|note| &note.holds).any(|it| it.epoch < epoch)
    }

    /// Whether a hold of the client on the key may still run.
    pub(super) fn has(&self, key: &[u8], client: ClientId) -> bool {
        let note = self.keys.get(key);
        note.is_some_and(|note| note.holds.iter().any(|it| it.client == client))
    }

    /// The memory of the holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of holds.
    pub(super) fn count(&self) -> usize {
        self.holds
    }
}

/// The number of holds in a slot. Each event of the slot looks at all of them.
const HOLDS_MAX: usize = 1024;

/// The memory of one hold of a key.
fn weight(key: &[u8]) -> usize {
    key.len() + size_of::<Note>() + size_of::<Hold>()
}
