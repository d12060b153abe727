//! Writes at the head, and effects at every member: taken in order, kept until they are committed, then answered.

use super::{Around, SEQ_MAX, Slot};
use crate::planted::{Mistake, is_planted};
use crate::slot::effect::{Effect, REPEATED, Version, WriteId, WriteKind, decide};
use crate::slot::message::{ClientId, SlotAction, Told};

/// The head refuses writes as busy while its uncommitted effects have more bytes than this.
const QUEUE_BYTES_MAX: usize = 16 << 20;

impl Slot {
    pub(super) fn write(
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

    pub(super) fn append(&mut self, effect: Effect, now: u64, out: &mut Vec<SlotAction>) {
        self.last = effect.version.seq;
        self.results.keep(&effect, now);
        if effect.change.is_some() {
            self.noted.change(&effect.key, self.last);
        }
        self.queue_bytes += weight(&effect);
        self.queue.push_back(effect.clone());
        out.push(SlotAction::Apply(effect));
    }

    /// Commits all effects up to `upto` and answers their writes.
    pub(super) fn commit(&mut self, upto: u64, out: &mut Vec<SlotAction>) {
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
}

fn weight(effect: &Effect) -> usize {
    let value = effect.change.as_ref().and_then(Option::as_ref).map_or(0, Vec::len);
    effect.key.len() + value + size_of::<Effect>()
}
