//! Reads: when the reader may answer, with which holds, and when a member holds.

use super::{Around, Reader, Slot};
use crate::planted::{Mistake, is_planted};
use crate::promises::{TERM, guarded_for};
use crate::slot::message::{SlotAction, Told};
use crate::view::NodeId;
use std::mem::take;

impl Slot {
    pub(super) fn answer_reads(&mut self, around: Around<'_>, now: u64, out: &mut Vec<SlotAction>) {
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

    pub(super) fn holds(&self, around: Around<'_>, now: u64) -> bool {
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

    pub(super) fn reads(&self) -> bool {
        let planted = is_planted(Mistake::JoinerServes) && self.group.joining.contains(&self.me);
        planted || self.group.reader() == Some(self.me)
    }
}
