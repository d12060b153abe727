//! Reads of storage for a worker's connections: waiting, under way, and ended.
//!
//! ```text
//! Next::Parked ─ park ─▶ waiting ─ begin_reads (end of turn, one submission) ─▶ under way ─ reap ─▶ served again
//! ```
//! # Invariants
//! 1. A ticket is used once. An ended read goes to the answers with its ticket. If there are none, their
//!    connection was closed or has moved on, and the read is discarded.
//! 2. At most `ext_inflight` reads, and 32 MiB and one read, are under way or held for reads under way.
//!    Further connections wait in their order.

use super::{Patience, Worker};
use crate::fetched::ParkedMark;
use crate::transport::lane::Slot;
use crate::transport::state::Interest;
use std::sync::atomic::Ordering::Relaxed;

impl Worker<'_> {
    /// Parks a connection that waits for the reads that its answers need.
    #[cold]
    pub(super) fn park(&mut self, place: usize) {
        let (Some(lane), Some(connection)) = (&mut self.lane, &mut self.connections[place]) else {
            return;
        };
        lane.ticket += 1;
        connection.set_ticket(lane.ticket, ParkedMark::new(lane.storage));
        lane.waiting.push_back((place, lane.ticket));
        self.register(place, Interest::Turn);
    }

    /// Begins the reads of the waiting connections, as far as the limits permit.
    pub(super) fn begin_reads(&mut self) {
        let Some(lane) = &mut self.lane else { return };
        while let Some(&(place, ticket)) = lane.waiting.front() {
            let connection = self.connections.get_mut(place).and_then(Option::as_mut);
            let answers = connection.and_then(|connection| connection.answers(ticket));
            let Some(answers) = answers else {
                lane.waiting.pop_front();
                continue;
            };
            while lane.has_room()
                && let Some(wanted) = answers.next_wanted(&lane.held)
            {
                lane.bytes += wanted.bytes;
                let buffer = lane.buffers.take(wanted.bytes);
                let tag = lane.slot(Slot { place, ticket, at: wanted.at, bytes: wanted.bytes });
                lane.reads.submit(tag, wanted.file, buffer, wanted.offset);
                lane.storage.counts.reading.fetch_add(1, Relaxed);
            }
            if answers.wants() {
                break;
            }
            lane.waiting.pop_front();
            if answers.under_way == 0 {
                // All of it was in write buffers.
                answers.parked = None;
                self.again.push(place);
                self.patience = Patience::None;
            }
        }
        if lane.reads.flush().is_err() {
            // The kernel has no room now: the next turn tries again.
            self.patience = self.patience.min(Patience::Moment);
        }
    }

    /// Continues with the connections whose reads have ended.
    #[cold]
    pub(super) fn reap(&mut self) {
        let Some(lane) = &mut self.lane else { return };
        let mut ended = std::mem::take(&mut lane.ended);
        if lane.reads.reap(&mut |tag, read| ended.push((tag, read))).is_err() {
            self.patience = self.patience.min(Patience::Moment);
        }
        let mut ready = Vec::new();
        for (tag, read) in ended.drain(..) {
            let Ok(tag) = usize::try_from(tag) else { continue };
            let Some(&Slot { place, ticket, at, bytes }) = lane.slots.get(tag) else { continue };
            lane.free.push(tag);
            lane.bytes -= bytes;
            lane.storage.counts.reading.fetch_sub(1, Relaxed);
            let connection = self.connections.get_mut(place).and_then(Option::as_mut);
            let Some(answers) = connection.and_then(|connection| connection.answers(ticket)) else {
                lane.storage.counts.aborted.fetch_add(1, Relaxed);
                continue;
            };
            answers.ended(at, read);
            if answers.under_way == 0 && !answers.wants() {
                answers.parked = None;
                ready.push(place);
            }
        }
        lane.ended = ended;
        for place in ready {
            self.serve(place, None);
        }
    }
}
