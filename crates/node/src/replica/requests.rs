//! Requests that wait for their answers: what this node's clients asked, here or elsewhere, and reads of this node's slots.

use std::collections::{HashMap, VecDeque};

use guira_chain::slot::{ClientId, Told};
use tokio::sync::oneshot;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Requests {
    asked: HashMap<u64, oneshot::Sender<Told>>,
    reads: VecDeque<Read>,
}

/// A read that waits in a slot, and when it is given up. Microseconds.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) until: u64,
    pub(super) slot: u16,
    pub(super) from: ClientId,
    pub(super) id: u64,
}

impl Requests {
    /// Remembers who waits for the answer with this number.
    pub(super) fn ask(&mut self, number: u64, reply: oneshot::Sender<Told>) {
        self.asked.insert(number, reply);
    }

    /// Passes an answer on. Perhaps nobody waits any more.
    pub(super) fn answer(&mut self, number: u64, told: Told) {
        if let Some(reply) = self.asked.remove(&number) {
            let _ = reply.send(told);
        }
    }

    /// Remembers a read that waits. Reads are given up in the order of these calls.
    pub(super) fn read(&mut self, read: Read) {
        self.reads.push_back(read);
    }

    /// A read whose time is over.
    pub(super) fn next_late(&mut self, now: u64) -> Option<Read> {
        self.reads.pop_front_if(|it| it.until <= now)
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.reads.is_empty()
    }

    /// Forgets those who wait no longer.
    pub(super) fn tidy(&mut self) {
        self.asked.retain(|_, reply| !reply.is_closed());
    }
}
