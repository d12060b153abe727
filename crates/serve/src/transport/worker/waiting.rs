//! The wait between two turns: for how long, and for how many events.
//!
//! # Invariants
//! 1. A worker that may block is offline in the cache while it waits; one that doesn't block quiesces.
//! 2. A worker whose turn was used up yields its processor once, and then sees the events of a whole crowd.
//!
//! # Costs
//! One `epoll_wait`. Room for more events is allocated only when a crowd comes or goes.

use super::{EVENTS_MAX, Patience, Worker};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;

impl Worker<'_> {
    /// Ends the former turn and waits for events. It doesn't wait if a connection has requests left. If all
    /// such connections wait for memory, it waits a moment, otherwise without a limit or until the next
    /// timer.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let at_most = |tv_sec, tv_nsec| Some(Timespec { tv_sec, tv_nsec });
        let closes_idle = self.process.settings.extended.idle_timeout_s > 0;
        let timeout = match self.patience {
            Patience::None => at_most(0, 0),
            Patience::Moment => at_most(0, 1_000_000),
            Patience::Long if self.is_stopping || !self.paused.is_empty() => at_most(0, 20_000_000),
            Patience::Long if closes_idle || !self.handshakes.is_empty() => at_most(1, 0),
            Patience::Long => None,
        };
        let has_had_enough = self.has_had_enough();
        self.make_room_for_events(has_had_enough);
        let (queue, events) = (&self.queue, &mut self.events);
        let mut wait =
            || epoll::wait(queue, rustix::buffer::spare_capacity(events), timeout.as_ref());
        let waited = match self.patience {
            Patience::None => {
                self.handle.quiesce();
                if has_had_enough {
                    std::thread::yield_now();
                }
                wait()
            }
            _ => self.handle.asleep(wait),
        };
        self.patience = Patience::Long;
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the turn ended because its share of work, of costly commands or of handshakes was used up.
    /// There may be more workers than processors. Without a pause, busy workers keep a processor for as
    /// long as the system lets them, some milliseconds each. A worker whose clients ask for little would
    /// have to wait for them.
    fn has_had_enough(&self) -> bool {
        self.work_left.get() == 0 || !(self.costly.is_empty() && self.shaking.is_empty())
    }

    /// Makes room for the events taken at a time. If it `is_crowded`, there is room for the events of a
    /// whole crowd, so that those of other connections are seen in each turn.
    #[inline]
    fn make_room_for_events(&mut self, is_crowded: bool) {
        if is_crowded || self.events.capacity() > EVENTS_MAX {
            self.make_other_room(is_crowded);
        }
    }

    #[cold]
    fn make_other_room(&mut self, is_crowded: bool) {
        let crowd = self.connections.len().next_power_of_two().clamp(EVENTS_MAX, CROWD_EVENTS_MAX);
        let room = if is_crowded { crowd } else { EVENTS_MAX };
        if self.events.capacity() != room {
            self.events = Vec::with_capacity(room);
        }
    }
}

/// The most events taken at a time while most of them belong to a crowd that waits for a later turn. The
/// system lists the connections whose requests arrived last at the end.
const CROWD_EVENTS_MAX: usize = 1024;
