//! The slots in which replies wait for their callers.
//!
//! # Invariants
//! 1. A slot is freed once: by its caller after the reply, or by its last reply after the caller has gone.
//! 2. A stored waker is called when its slot is answered, after the queue's lock is released.
//!
//! # Costs
//! Slots are reused. A reply is moved in and out.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::options::Caller;
use super::purse::{Charge, Purse, pay};
use crate::Reply;

#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// When the server sent what is being answered. `None` if the reply isn't the server's.
    now: Option<Instant>,
    /// The charge for the value that is arriving.
    pub(super) ahead: Option<Charge>,
}

#[derive(Debug)]
enum Slot {
    Free,
    /// Waits for a reply: the waker to call, and the purse that pays.
    Asked(Option<Waker>, Payer),
    /// The reply, and when the server sent it.
    Answered(Reply, Option<Instant>),
    /// Waits for the replies to several keys. `missing` of them have yet to come; `at` is when the server sent the
    /// last.
    Keys {
        replies: Vec<Reply>,
        missing: u32,
        waker: Option<Waker>,
        payer: Payer,
        at: Option<Instant>,
    },
    /// The caller has gone, and this number of replies has yet to come.
    Abandoned(u32),
}

pub(super) type Payer = Option<Arc<dyn Purse>>;

impl Slots {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), now: None, ahead: None }
    }

    /// Sets when the server sent the following replies. `None` if they aren't the server's.
    pub(super) fn came(&mut self, now: Option<Instant>) {
        self.now = now;
    }

    /// Creates a slot for one reply.
    pub(super) fn asked(&mut self, caller: Caller<'_>) -> u32 {
        self.enter(Slot::Asked(caller.waker.cloned(), caller.purse.cloned()))
    }

    /// Creates a slot that already has its reply.
    pub(super) fn answered(&mut self, reply: Reply) -> u32 {
        self.enter(Slot::Answered(reply, None))
    }

    /// Creates a slot whose keys are all answered, until [`keys_asked`](Self::keys_asked) is called.
    pub(super) fn keys(&mut self, replies: Vec<Reply>) -> u32 {
        self.enter(Slot::Keys { replies, missing: 0, waker: None, payer: None, at: None })
    }

    /// Makes the slot wait for `missing` replies. The others are already in `replies`.
    pub(super) fn keys_asked(
        &mut self,
        slot: u32,
        replies: Vec<Reply>,
        missing: u32,
        caller: Caller<'_>,
    ) {
        let (waker, payer) = (caller.waker.cloned(), caller.purse.cloned());
        self.slots[slot as usize] = Slot::Keys { replies, missing, waker, payer, at: None };
    }

    fn enter(&mut self, slot: Slot) -> u32 {
        if let Some(at) = self.free.pop() {
            // A free slot has nothing to drop, but the compiler can't know that.
            std::mem::forget(std::mem::replace(&mut self.slots[at as usize], slot));
            return at;
        }
        self.slots.push(slot);
        u32::try_from(self.slots.len() - 1).expect("outstanding_max is less than 2^32")
    }

    /// Whether the reply is there, or all replies of several keys.
    pub(super) fn is_answered(&self, slot: u32) -> bool {
        matches!(&self.slots[slot as usize], Slot::Answered(..) | Slot::Keys { missing: 0, .. })
    }

    /// Whether a caller waits for a reply in this slot. `None` if there is no such slot.
    pub(super) fn is_waited_for(&self, slot: u32) -> Option<bool> {
        let slot = self.slots.get(slot as usize)?;
        Some(matches!(slot, Slot::Asked(..) | Slot::Keys { .. }))
    }

    /// Returns the payer of a value that arrives for this slot. `None` if no caller waits for it.
    pub(super) fn payer(&self, slot: u32) -> Option<Payer> {
        match self.slots.get(slot as usize)? {
            Slot::Asked(_, payer) | Slot::Keys { payer, .. } => Some(payer.clone()),
            _ => None,
        }
    }

    /// Stores `reply` in its place of the slot, unless the caller has gone.
    pub(super) fn settle(
        &mut self,
        (slot, place): (u32, u32),
        mut reply: Reply,
        woken: &mut Vec<Waker>,
    ) {
        let now = self.now;
        match &mut self.slots[slot as usize] {
            Slot::Asked(waker, payer) => {
                woken.extend(waker.take());
                pay(&mut reply, payer.take().as_ref(), &mut self.ahead);
                // Both were taken, so there is nothing to drop, but the compiler can't know that.
                let settled = Slot::Answered(reply, now);
                std::mem::forget(std::mem::replace(&mut self.slots[slot as usize], settled));
            }
            Slot::Keys { replies, missing, waker, payer, at } => {
                pay(&mut reply, payer.as_ref(), &mut self.ahead);
                replies[place as usize] = reply;
                *missing -= 1;
                if *missing == 0 {
                    *at = now;
                    woken.extend(waker.take());
                }
            }
            _ => self.release(slot),
        }
    }

    /// Takes the reply in `slot` and when the server sent it, and frees the slot. If there is none yet, stores `waker`.
    pub(super) fn poll(&mut self, slot: u32, waker: &Waker) -> Option<(Reply, Option<Instant>)> {
        let at = &mut self.slots[slot as usize];
        if let Slot::Asked(kept, _) = at {
            keep(kept, waker);
            return None;
        }
        let Slot::Answered(reply, came) = std::mem::replace(at, Slot::Free) else {
            return None;
        };
        self.free.push(slot);
        Some((reply, came))
    }

    /// Takes the replies in `slot` and when the last one was sent, once all are there, and frees the slot. Until then,
    /// stores `waker`.
    pub(super) fn poll_keys(
        &mut self,
        slot: u32,
        waker: &Waker,
    ) -> Option<(Vec<Reply>, Option<Instant>)> {
        let Slot::Keys { replies, missing, waker: kept, at, .. } = &mut self.slots[slot as usize]
        else {
            return None;
        };
        if *missing > 0 {
            keep(kept, waker);
            return None;
        }
        let (replies, at) = (std::mem::take(replies), *at);
        self.release(slot);
        Some((replies, at))
    }

    /// Records that the caller of `slot` has gone.
    pub(super) fn abandon(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        match at {
            Slot::Asked(..) => *at = Slot::Abandoned(1),
            Slot::Keys { missing: missing @ 1.., .. } => *at = Slot::Abandoned(*missing),
            _ => self.release(slot),
        }
    }

    #[cfg(test)]
    pub(super) fn is_all_free(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Counts one reply to an abandoned slot. Frees the slot if it was the last.
    pub(super) fn release(&mut self, slot: u32) {
        match &mut self.slots[slot as usize] {
            Slot::Abandoned(missing @ 2..) => *missing -= 1,
            at => {
                *at = Slot::Free;
                self.free.push(slot);
            }
        }
    }
}

/// Stores `waker`, unless the stored one wakes the same task.
pub(super) fn keep(kept: &mut Option<Waker>, waker: &Waker) {
    if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *kept = Some(waker.clone());
    }
}
