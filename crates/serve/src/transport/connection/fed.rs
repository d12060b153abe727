//! A connection that another thread answers: the bytes of its feed are sent as the client takes them.
//!
//! The client of a listing isn't read from until the listing is over; its disconnect is noticed when a
//! send fails. The client of a feed that never ends is read from only to notice its disconnect, and what
//! it sends is discarded.

use super::Connection;
use crate::batch::Rooms;
use crate::process::feed::Phase;
use crate::process::roster::Doing;
use crate::transport::state::{Interest, Next, State};
use crate::turn::Turn;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

impl Connection {
    /// Sends what the feed holds. `ready` are the flags of the socket's event; `None`: the feed called.
    pub(super) fn serve_fed(
        &mut self,
        turn: &Turn<'_>,
        rooms: &mut Rooms,
        ready: Option<EventFlags>,
    ) -> Next {
        let has_gone = ready.is_some_and(|r| r.intersects(EventFlags::HUP | EventFlags::ERR));
        if has_gone || self.send_on(turn, rooms).is_err() {
            return Next::Close;
        }
        let State::Fed(fed) = &self.state else { return Next::Nothing };
        let is_for_ever = fed.is_for_ever;
        if self.unsent.is_empty() {
            let (bytes, phase) = fed.feed.take();
            if phase == Phase::Gone {
                return Next::Close;
            }
            if bytes.is_empty() && phase == Phase::Ended {
                self.state = State::Requests;
                self.seat.set_doing(Doing::Reading);
                return Next::Again;
            }
            if self.stream.queue(bytes, &mut rooms.wire, &mut self.unsent).is_err() {
                return Next::Close;
            }
            if self.send_on(turn, rooms).is_err() {
                return Next::Close;
            }
            // The end must be looked for in another turn, because the feed doesn't call again.
            if phase == Phase::Ended && self.unsent.is_empty() {
                return Next::Again;
            }
        }
        if !self.unsent.is_empty() {
            self.seat.set_doing(Doing::Writing);
            return Next::Wait(Interest::Write);
        }
        self.seat.set_doing(Doing::Fed);
        if !is_for_ever {
            return Next::Wait(Interest::Feed);
        }
        if ready.is_some_and(|r| r.contains(EventFlags::IN)) && !self.drop_input(turn, rooms) {
            return Next::Close;
        }
        Next::Wait(Interest::Read)
    }

    /// Whether the connection is a watcher, which may be closed at any time.
    pub(crate) fn is_watching(&self) -> bool {
        matches!(&self.state, State::Fed(fed) if fed.is_for_ever)
    }

    /// Tells the feed which worker and place to call.
    pub(crate) fn settle_feed(&self, worker: usize, place: usize) {
        if let State::Fed(fed) = &self.state {
            fed.feed.settle(worker, place);
        }
    }

    /// Receives and discards; returns `false` at the end of the stream.
    fn drop_input(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) -> bool {
        let (mut input, _) = self.lend_input(turn, rooms);
        let received = self.receive(turn, &mut input, rooms);
        let all = input.len();
        self.keep_input(input, all, rooms);
        matches!(received, Ok(1..) | Err(Errno::AGAIN | Errno::INTR))
    }
}
