//! What members of a chain send each other: effects down, acknowledgements up, and a copy to a member that lacks too much.

use super::{Around, SEQ_MAX, Slot};
use crate::planted::{Mistake, is_planted};
use crate::slot::message::{Message, SlotAction, SlotCopy};
use crate::view::NodeId;
use std::collections::BTreeMap;

impl Slot {
    pub(super) fn hear(
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
            for (key, own) in around.contents.all(true).into_iter().flatten() {
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
    pub(super) fn flow(&mut self, around: Around<'_>, now: u64, out: &mut Vec<SlotAction>) {
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
            // While the owner has yet to carry out these actions, a copy would lack them.
            let is_late =
                out.iter().any(|it| matches!(it, SlotAction::Apply(_) | SlotAction::Replace(..)));
            let is_urgent = self.group.is_on_path(node);
            let items = if is_late { None } else { around.contents.all(is_urgent) };
            let Some(items) = items else {
                // The next event sends it.
                self.next.insert(node, None);
                return;
            };
            let whole = SlotCopy {
                last: self.last,
                items,
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
}
