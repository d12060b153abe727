//! The queue while its connection is being replaced: it sends nothing more over the old connection, and waits for the
//! replies.

use std::task::Waker;

use super::Queue;
use crate::Reply;

impl Queue {
    /// Makes requests wait as if there were no connection. Those already sent are still answered.
    pub(crate) fn pause(&mut self) {
        self.close_line();
        self.is_connected = false;
    }

    /// Whether everything that was sent is answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.order.is_empty() && self.out.is_empty() && !self.is_end_due
    }

    /// Whether all requests that were sent have timed out: the server may be gone.
    pub(crate) fn is_given_up(&self) -> bool {
        !self.order.is_empty() && self.order.iter().all(|entry| entry.slot == super::NONE)
    }

    /// Answers what was sent with `reply`. Requests that wait for a connection go on waiting.
    pub(crate) fn fail_sent(&mut self, reply: &Reply, woken: &mut Vec<Waker>) {
        (self.is_end_due, self.open, self.slots.ahead) = (false, None, None);
        self.out.clear();
        for entry in std::mem::take(&mut self.order) {
            self.answer((entry.slot, entry.place), reply.clone(), woken);
        }
    }
}
