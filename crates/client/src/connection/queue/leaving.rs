//! What a queue does while its connection is to be replaced by another: it sends nothing more over the old one, and lets it
//! finish.

use std::task::Waker;

use super::Queue;
use crate::Reply;

impl Queue {
    /// From now on requests wait as if there were no connection; those sent are still answered.
    pub(crate) fn pause(&mut self) {
        self.close_line();
        self.is_connected = false;
    }

    /// Whether all that was sent is answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.order.is_empty() && self.out.is_empty() && !self.is_end_due
    }

    /// Whether something was sent that nobody waits for any more: the other end may be gone.
    pub(crate) fn is_given_up(&self) -> bool {
        !self.order.is_empty() && self.order.iter().all(|entry| entry.slot == super::NONE)
    }

    /// Answers what was sent with `reply`; what waits for a connection goes on waiting.
    pub(crate) fn fail_sent(&mut self, reply: &Reply, woken: &mut Vec<Waker>) {
        (self.is_end_due, self.open, self.slots.ahead) = (false, None, None);
        self.out.clear();
        for entry in std::mem::take(&mut self.order) {
            self.answer((entry.slot, entry.place), reply.clone(), woken);
        }
    }
}
