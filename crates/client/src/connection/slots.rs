//! Where the replies to what was asked wait for those who asked.
//!
//! # Invariants
//! 1. A slot is freed once: by its caller when it was answered, by its last reply when its caller went away.
//! 2. A waker that was kept is called when its slot is answered, once the lock over the queue is let go.
//!
//! # Costs
//! A slot is reused; a reply is moved in and out.

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
    /// When the server sent what is being answered; `None`: it didn't.
    now: Option<Instant>,
    /// What was charged for the value that is on its way.
    pub(super) ahead: Option<Charge>,
}

#[derive(Debug)]
enum Slot {
    Free,
    /// By whom: who is told, and who pays.
    Asked(Option<Waker>, Payer),
    /// And when the server sent it.
    Answered(Reply, Option<Instant>),
    /// Several keys, of which so many are not answered yet, and when the server sent the last of the others.
    Keys {
        replies: Vec<Reply>,
        missing: u32,
        waker: Option<Waker>,
        payer: Payer,
        at: Option<Instant>,
    },
    /// Nobody waits, though so many replies are still to come.
    Abandoned(u32),
}

pub(super) type Payer = Option<Arc<dyn Purse>>;

impl Slots {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), now: None, ahead: None }
    }

    /// What is answered from now on the server sent at `now`; `None`: it didn't.
    pub(super) fn came(&mut self, now: Option<Instant>) {
        self.now = now;
    }

    /// A slot for one reply.
    pub(super) fn asked(&mut self, caller: Caller<'_>) -> u32 {
        self.enter(Slot::Asked(caller.waker.cloned(), caller.purse.cloned()))
    }

    /// A slot that holds its reply already.
    pub(super) fn answered(&mut self, reply: Reply) -> u32 {
        self.enter(Slot::Answered(reply, None))
    }

    /// A slot whose keys are all answered, until [`keys_asked`](Self::keys_asked).
    pub(super) fn keys(&mut self, replies: Vec<Reply>) -> u32 {
        self.enter(Slot::Keys { replies, missing: 0, waker: None, payer: None, at: None })
    }

    /// Of the keys whose replies would be these, so many are yet to come.
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
            // There is nothing to drop in a free one, and the compiler can't know.
            std::mem::forget(std::mem::replace(&mut self.slots[at as usize], slot));
            return at;
        }
        self.slots.push(slot);
        u32::try_from(self.slots.len() - 1).expect("outstanding_max is less than 2^32")
    }

    /// Whether the reply is here, or all of them.
    pub(super) fn is_answered(&self, slot: u32) -> bool {
        matches!(&self.slots[slot as usize], Slot::Answered(..) | Slot::Keys { missing: 0, .. })
    }

    /// Whether somebody waits for a reply here; `None`: there is no such slot.
    pub(super) fn is_waited_for(&self, slot: u32) -> Option<bool> {
        let slot = self.slots.get(slot as usize)?;
        Some(matches!(slot, Slot::Asked(..) | Slot::Keys { .. }))
    }

    /// Who pays for a value that is to come here; `None`: nobody waits for it.
    pub(super) fn payer(&self, slot: u32) -> Option<Payer> {
        match self.slots.get(slot as usize)? {
            Slot::Asked(_, payer) | Slot::Keys { payer, .. } => Some(payer.clone()),
            _ => None,
        }
    }

    /// Leaves `reply` in its place of its slot, unless the caller went away.
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
                // Both were taken: nothing is left to drop, and the compiler can't know.
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

    /// The reply in `slot` and when the server sent it; the slot is free then. Else `waker` is kept until there is one.
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

    /// The replies in `slot` and when the last came, once all are there; the slot is free then. Else `waker` is kept until
    /// they are.
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

    /// Nobody waits for `slot` any more.
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

    /// One reply less to come for a slot that was abandoned, or a slot less.
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

/// Keeps `waker` in the place of another that wakes somebody else.
pub(super) fn keep(kept: &mut Option<Waker>, waker: &Waker) {
    if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *kept = Some(waker.clone());
    }
}
