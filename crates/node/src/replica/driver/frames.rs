//! What other nodes and front-ends send, as a driver takes it.

use guira_chain::frames::PeerFrame;
use guira_chain::slot::{ClientId, Message, SlotEvent};
use guira_chain::{NodeId, View};

use super::{Driver, clock};
use crate::engine::Engine;
use crate::peers::is_front;

impl<E: Engine> Driver<E> {
    /// Takes a peer's frame.
    pub(super) fn hear(&mut self, from: NodeId, frame: PeerFrame) {
        if is_front(from) {
            self.hear_front(from, frame);
            return;
        }
        match frame {
            PeerFrame::Hello(hello) => {
                self.note_epoch(from, hello.epoch);
                // Frames that were under way may be lost.
                self.slots.wake(from, clock());
            }
            PeerFrame::Slot { slot, epoch, message } => {
                self.note_epoch(from, epoch);
                self.counted.received(&message);
                let is_copy = matches!(message, Message::Copy(_));
                let is_load = is_copy || matches!(message, Message::Effect(_));
                // A frame that can't be taken now is as good as lost: it is sent again.
                let may_take = !is_load || !self.keeper.is_burdened();
                if may_take && (!is_copy || self.keeper.can_replace()) {
                    self.step(slot, SlotEvent::Peer(from, epoch, message));
                }
            }
            PeerFrame::Renew { epoch, asked, run, has_old_holds } => {
                self.note_epoch(from, epoch);
                if !self.promises.grant(from, epoch, has_old_holds, clock()) {
                    self.counted.promises_refused += 1;
                } else {
                    self.counted.promises_granted += 1;
                    let _ = self.peers.send(from, &PeerFrame::Granted { asked, run });
                    self.end_waits_for(from, (epoch, has_old_holds));
                }
            }
            PeerFrame::Granted { asked, run } if run == self.me.run => {
                let now = clock();
                self.promises.granted(from, asked, now);
                self.direct.promised(from, self.promises.until(from));
                self.go_on();
            }
            PeerFrame::AskView => {
                let known = self.chart.borrow().clone();
                if let Some(known) = known {
                    let _ =
                        self.peers.send(from, &PeerFrame::View(Box::new(View::clone(&known.view))));
                }
            }
            PeerFrame::View(view) => self.learn(*view, &format!("node {from}")),
            PeerFrame::Ask { slot, epoch, number, asked } => {
                self.note_epoch(from, epoch);
                self.answer(from, (slot, epoch, number), asked);
            }
            PeerFrame::Told { number, told } => self.requests.answer(number, told),
            // Front-ends ask nodes for holds; nodes don't ask each other.
            PeerFrame::Granted { .. }
            | PeerFrame::Hold { .. }
            | PeerFrame::Held { .. }
            | PeerFrame::Invalidate { .. }
            | PeerFrame::Invalidated { .. } => {}
        }
    }

    /// Takes a front-end's frame.
    fn hear_front(&mut self, from: ClientId, frame: PeerFrame) {
        match frame {
            PeerFrame::Hold { slot, epoch, number, key } => {
                let own = self.chart.borrow().as_ref().and_then(|it| Some(it.place(&key)?.0));
                let place = (slot, key);
                let may_hold = own == Some(slot) && self.slots.may_hold(&place, from, clock());
                self.read(from, (slot, epoch, number), place.1, may_hold);
            }
            PeerFrame::Invalidated { slot, number, key } => {
                self.counted.invalidations_answered += 1;
                let place = (slot, key.clone());
                self.step(slot, SlotEvent::Invalidated { from, id: number, key });
                self.slots.dropped(&place, from, clock());
            }
            // The link lets no other frame through.
            _ => {}
        }
    }

    /// Records an epoch that a peer named: of its view, or of a slot.
    fn note_epoch(&mut self, from: NodeId, epoch: u64) {
        let known = self.epochs.entry(from).or_default();
        let before = std::mem::replace(known, epoch.max(*known));
        if epoch > before {
            // What the peer was told of these slots came too early. Clients wait until it is told again.
            let early = self.slots.that(before + 1..=epoch, |slot| slot.is_beside(from));
            self.tick(&early);
        }
        let (own, now) = (self.epoch(), clock());
        if epoch > own && now >= self.asked_view_at {
            self.asked_view_at = now + ASK_VIEW_EVERY;
            let _ = self.peers.send(from, &PeerFrame::AskView);
        }
    }

    /// Lets changes go on that waited for a reader of before, because it follows a newer view now.
    fn end_waits_for(&mut self, reader: NodeId, named: (u64, bool)) {
        let before = self.granted.insert(reader, named);
        if before == Some(named) {
            return;
        }
        for slot in self.slots.that(0..=named.0, |slot| slot.had_reader(reader)) {
            self.step(slot, SlotEvent::Synced(0));
        }
    }

    /// Lets reads go on that waited, because promises came.
    fn go_on(&mut self) {
        for slot in self.slots.reading() {
            self.step(slot, SlotEvent::Synced(0));
        }
    }
}

/// In microseconds: a peer may name a newer epoch in each frame.
const ASK_VIEW_EVERY: u64 = 100_000;
