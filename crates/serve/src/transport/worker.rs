//! A worker: one thread, one event queue, and its share of the connections. [`Worker::turn`] is the heart of the server.
//!
//! ```text
//! turn:  wait for events ─ for each ready connection: receive, parse, execute, send ─ quiesce ─ timers
//! ```
//! # Invariants
//! 1. A connection is registered for exactly one of readable and writable. It changes only when the
//!    client doesn't read its replies (connection.rs).
//! 2. `again` holds the connections with requests that weren't executed yet; their events are ignored
//!    until they are.
//! 3. In a turn at most [`HANDSHAKES_A_TURN`] connections continue their TLS handshakes: each may cost a
//!    signature, a millisecond during which all others wait. The others are put off (`turn.rs`), and
//!    their events ignored meanwhile.
//! 4. Connections whose commands cost a worker much (`stats`) are put off in the same way:
//!    [`COSTLY_A_TURN`] of these commands are executed in a turn, whoever sent them, in the order in
//!    which they were put off. A client that sends many waits itself; the others wait for one.
//! 5. A turn has a limit of work, [`WORK_BYTES_A_TURN`]: bytes of long replies sent, of values copied and
//!    of long receives, and other work of the same cost. Once it is used up, some connections wait for
//!    the next turn (worker/limits.rs): those with requests left in their input, and those that took long
//!    to serve last. Clients that ask for little are thus served soon.
//! 6. A worker that may block is offline in the cache ([`Handle::asleep`]), so it doesn't delay the
//!    reclaiming of memory.
//!
//! # Costs
//! One `epoll_wait` per turn, one `recv` and one `send` per ready connection. The clock is read once; in
//! every sixteenth turn a finer clock as well (process/measure.rs).

mod arrivals;
mod closing;
mod limits;
mod reads;
mod waiting;

use crate::batch::Rooms;
use crate::process::Process;
use crate::process::budget::Queue;
use crate::process::gauges::Gauge;
use crate::process::measure::Sample;
use crate::process::roster::Held;
use crate::process::watch::CloseReason;
use crate::time::clock_ms;
use crate::transport::connection::Connection;
use crate::transport::datagrams::Datagrams;
use crate::transport::lane::Lane;
use crate::transport::state::{Interest, Next};
use crate::turn::{PutOff, Turn};
use guira_cache::Handle;
use guira_proto::WatchKinds;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;

/// One worker thread's state.
pub(crate) struct Worker<'s> {
    process: &'s Process,
    handle: Handle<'s>,
    number: usize,
    queue: OwnedFd,
    events: Vec<epoll::Event>,
    /// The worker's UDP sockets; empty once the server stops.
    datagrams: Vec<Datagrams>,
    connections: Vec<Option<Box<Connection>>>,
    /// Free places in `connections`.
    vacant: Vec<usize>,
    again: Vec<usize>,
    patience: Patience,
    rooms: Rooms,
    /// How many connections keep part of a request.
    pieces: usize,
    /// Connections that are charged for an incomplete request.
    unfinished: Queue,
    /// Connections that are charged for replies that their clients haven't taken yet.
    unsent: Queue,
    now: u32,
    turns: u32,
    sample: Option<Sample<'s>>,
    is_stopping: bool,
    /// While stopping: when more connections are closed, and which.
    closes: Option<(u64, Closes)>,
    /// The second of the last search for idle connections.
    searched_idle_s: u32,
    /// Connections whose handshakes continue in a later turn.
    shaking: PutOff,
    /// Connections whose costly commands are executed in a later turn.
    costly: PutOff,
    /// Work that is left in this turn, in bytes.
    work_left: Cell<usize>,
    /// Connections that wait, with the millisecond of the system's clock until which they do.
    paused: VecDeque<(u64, usize)>,
    /// Reads of storage; only with `-o ext_path`.
    lane: Option<Lane<'s>>,
    /// The seconds by which handshakes must be complete, soonest first, with the places of their connections.
    handshakes: VecDeque<(u32, usize)>,
}

impl<'s> Worker<'s> {
    /// Creates worker `number` with its UDP sockets and without connections.
    ///
    /// # Errors
    /// The system can't create an event queue.
    pub(crate) fn new(
        process: &'s Process,
        number: usize,
        datagrams: Vec<Datagrams>,
    ) -> io::Result<Worker<'s>> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        let bell = process.mailboxes[number].bell.as_fd();
        epoll::add(&queue, bell, epoll::EventData::new_u64(MAILBOX), readable)?;
        epoll::add(&queue, process.stop.as_fd(), epoll::EventData::new_u64(STOP), readable)?;
        for (at, socket) in datagrams.iter().enumerate() {
            let data = epoll::EventData::new_u64(DATAGRAMS + at as u64);
            epoll::add(&queue, socket, data, readable)?;
        }
        let lane = process.storage.as_ref().map(Lane::open).transpose()?;
        if let Some(lane) = &lane {
            epoll::add(&queue, lane.event_fd(), epoll::EventData::new_u64(READS), readable)?;
        }
        Ok(Worker {
            process,
            lane,
            handle: process.cache.handle(),
            number,
            queue,
            events: Vec::with_capacity(EVENTS_MAX),
            datagrams,
            connections: Vec::new(),
            vacant: Vec::new(),
            again: Vec::new(),
            patience: Patience::Long,
            rooms: Rooms::default(),
            pieces: 0,
            unfinished: Queue::default(),
            unsent: Queue::default(),
            now: process.time.now(),
            turns: 0,
            sample: None,
            is_stopping: false,
            closes: None,
            searched_idle_s: 0,
            shaking: PutOff::new(HANDSHAKES_A_TURN),
            costly: PutOff::new(COSTLY_A_TURN),
            work_left: Cell::new(0),
            paused: VecDeque::new(),
            handshakes: VecDeque::new(),
        })
    }

    /// Serves until the server stops and the last connection is closed.
    ///
    /// # Errors
    /// The event queue can't be read.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_done()? {
            self.turn()?;
        }
        Ok(())
    }

    /// Whether the server stops, no connection is left, and none can arrive any more.
    fn is_done(&mut self) -> io::Result<bool> {
        let has_nobody = |this: &Self| this.connections.len() == this.vacant.len();
        let has_ended = |this: &Self| this.process.is_listener_gone.load(Ordering::Acquire);
        if !self.is_stopping || !has_nobody(self) || !has_ended(self) {
            return Ok(false);
        }
        // The listener may have left some last connections.
        self.welcome();
        Ok(has_nobody(self))
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut unfinished = std::mem::take(&mut self.again);
        self.wait()?;
        self.now = self.process.time.now();
        self.handle.tick(self.now);
        self.turns = self.turns.wrapping_add(1);
        self.sample = self.process.measures[self.number].sample(self.turns);
        let had_too_much = self.work_left.replace(WORK_BYTES_A_TURN) == 0;
        let (handshakes, costly) = (self.shaking.begin_turn(), self.costly.begin_turn());
        let mut events = std::mem::take(&mut self.events);
        if had_too_much {
            self.serve_calm_ones(&mut unfinished, &mut events)?;
        }
        for event in events.drain(..) {
            self.see_to(event)?;
        }
        self.events = events;
        if !unfinished.is_empty() {
            self.serve_at_hand(unfinished);
        }
        if handshakes + costly > 0 {
            self.go_on(handshakes, costly);
        }
        if !self.paused.is_empty() {
            self.end_pauses();
        }
        if self.lane.is_some() {
            self.begin_reads();
        }
        self.close_idle();
        self.close_half_open();
        self.close_more();
        Ok(())
    }

    /// Handles an event.
    #[inline]
    fn see_to(&mut self, event: epoll::Event) -> io::Result<()> {
        let (data, ready) = (event.data, event.flags);
        match data.u64() {
            MAILBOX => {
                self.welcome();
                for place in self.process.mailboxes[self.number].take_calls() {
                    self.serve(place, None);
                }
                if self.process.unfinished.is_used_up() {
                    self.keep_unfinished(None);
                }
            }
            STOP => self.stop()?,
            READS => self.reap(),
            at @ DATAGRAMS.. => self.serve_datagrams(place_of(at - DATAGRAMS)),
            place => self.serve(place_of(place), Some(ready)),
        }
        Ok(())
    }

    /// Continues with the connections whose pause has ended.
    #[cold]
    fn end_pauses(&mut self) {
        let now_ms = clock_ms();
        while let Some((_, place)) = self.paused.pop_front_if(|paused| paused.0 <= now_ms) {
            self.serve(place, None);
        }
    }

    /// Serves one connection. `ready` are the flags of its event; `None`: it has requests left, or was called.
    fn serve(&mut self, place: usize, ready: Option<epoll::EventFlags>) {
        if self.work_left.get() == 0 && self.waits_for_next_turn(place, ready.is_none()) {
            return;
        }
        // Every connection that is handshaking is in `handshakes`, so the check is skipped if that is empty.
        if !self.handshakes.is_empty() && self.puts_off(place) {
            return self.register(place, Interest::Turn);
        }
        if self.work(place, |connection, turn, rooms| connection.serve(turn, rooms, ready)) {
            self.keep_budgets(place);
        }
    }

    /// Whether a connection's handshake has to continue in a later turn; if so, puts it off.
    #[cold]
    fn puts_off(&mut self, place: usize) -> bool {
        let connection = self.connections[place].as_ref();
        let is_shaking = connection.is_some_and(|it| it.handshake_ends_s().is_some());
        if !is_shaking || self.shaking.take() {
            return false;
        }
        self.shaking.put_off(place);
        self.patience = Patience::None;
        self.process.gauges.count(Gauge::HandshakesPutOff);
        true
    }

    /// Runs `what` on one connection, and handles what it asks for next. Returns whether it holds more of
    /// what budgets limit.
    #[inline]
    fn work(
        &mut self,
        place: usize,
        what: impl FnOnce(&mut Connection, &Turn<'_>, &mut Rooms) -> Next,
    ) -> bool {
        // The connection may have been closed since the event, or since it was put off.
        let Some(connection) = &mut self.connections[place] else { return false };
        let (process, sample) = (self.process, self.sample);
        let (costly, work_left) = (&self.costly, &self.work_left);
        let watched = process.watch.kinds();
        let (handle, now) = (&self.handle, self.now);
        let turn = Turn { process, handle, now, costly, work_left, watched, sample };
        let kept_piece = connection.keeps_piece();
        if watched.meets(WatchKinds::EVICTIONS) {
            self.handle.note_evictions(self.now);
        }
        let mut next = what(connection, &turn, &mut self.rooms);
        if watched.meets(WatchKinds::EVICTIONS) {
            self.process.watch.tell_evictions(&self.handle, self.now, &self.process.mailboxes);
        }
        let keeps_piece = connection.keeps_piece();
        self.pieces = self.pieces + usize::from(keeps_piece) - usize::from(kept_piece);
        if keeps_piece && self.pieces > self.process.allowance.pieces {
            self.process.gauges.count(Gauge::PiecesRefused);
            next = Next::Close;
        }
        let (held, holds) = (connection.charge.bytes, connection.unfinished_bytes(&self.handle));
        if holds != held {
            process.shares.lock().recount(connection.address(), held, holds);
            let charge = (&mut connection.charge, place);
            self.unfinished.charge_steps(charge, holds, &self.process.unfinished);
            connection.seat().set_held(Held::Unfinished, holds);
        }
        let kept = connection.unsent_charge.bytes + connection.unsent_free;
        let keeps = connection.unsent_bytes();
        if keeps != kept {
            connection.charge_unsent((&mut self.unsent, place), keeps, process);
        }
        let waits = connection.backlog_bytes();
        if waits != connection.backlog_charged {
            self.process.backlog.recount(&mut connection.backlog_charged, waits);
            connection.seat().set_held(Held::Backlog, waits);
        }
        self.settle(place, next);
        holds > held || keeps > kept
    }

    /// Handles what a connection asks for next.
    #[inline]
    fn settle(&mut self, place: usize, next: Next) {
        let Some(connection) = &mut self.connections[place] else { return };
        match next {
            Next::Wait(interest) => {
                let is_done =
                    self.is_stopping && connection.is_idle() && !connection.may_ask_yet(self.now);
                self.register(place, interest);
                if is_done {
                    self.close(place, CloseReason::Shutdown);
                }
            }
            Next::Again => {
                self.again.push(place);
                self.patience = Patience::None;
            }
            Next::Later { first } => {
                self.again.push(place);
                let patience = if first { Patience::None } else { Patience::Moment };
                self.patience = self.patience.min(patience);
                if !first {
                    self.register(place, Interest::Turn);
                }
            }
            Next::PutOff => {
                self.costly.put_off(place);
                self.patience = Patience::None;
                self.register(place, Interest::Turn);
            }
            Next::Pause { until_ms } => {
                self.process.gauges.count(Gauge::LoginsPaused);
                self.paused.push_back((until_ms, place));
                self.register(place, Interest::Turn);
            }
            Next::Fed => {
                connection.settle_feed(self.number, place);
                // Bytes added before the feed was settled haven't called this worker.
                self.again.push(place);
                self.patience = Patience::None;
            }
            Next::Parked => self.park(place),
            Next::Nothing => {}
            Next::Close => {
                let reason = connection.close_reason();
                self.close(place, reason);
            }
        }
    }

    /// Registers what a connection waits for, if that has changed.
    #[inline]
    fn register(&mut self, place: usize, interest: Interest) {
        let Some(connection) = &mut self.connections[place] else { return };
        let Some(flags) = connection.change_interest(interest) else { return };
        self.modify(place, flags);
    }

    #[cold]
    fn modify(&mut self, place: usize, flags: epoll::EventFlags) {
        let Some(connection) = &self.connections[place] else { return };
        let data = epoll::EventData::new_u64(place as u64);
        if let Err(error) = epoll::modify(&self.queue, &**connection, data, flags) {
            self.process.gauges.count(Gauge::ConnectionsLost);
            tracing::warn!("<{} can't be watched: {error}", connection.fd());
            self.close(place, CloseReason::Error);
        }
    }

    /// Replies to the datagrams that wait at one UDP socket.
    fn serve_datagrams(&mut self, at: usize) {
        let Some(socket) = self.datagrams.get_mut(at) else { return }; // The socket was closed since the event.
        let (process, sample, handle) = (self.process, self.sample, &self.handle);
        let (watched, now) = (process.watch.kinds(), self.now);
        let (costly, work_left) = (&self.costly, &self.work_left);
        let turn = Turn { process, handle, now, costly, work_left, watched, sample };
        socket.serve(&turn, &mut self.rooms);
    }
}

/// Which connections a stop closes next.
#[derive(Clone, Copy)]
enum Closes {
    Silent,
    All,
}

/// How long a worker may wait for its next events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Patience {
    None,
    Moment,
    Long,
}

fn place_of(data: u64) -> usize {
    usize::try_from(data).expect("the number of a place in a Vec")
}

/// TLS handshakes that continue in one turn.
const HANDSHAKES_A_TURN: usize = 1;
/// Costly commands that are executed in one turn. Each takes about as long as hundreds of gets.
const COSTLY_A_TURN: usize = 1;
/// The work of a turn, in bytes sent: a quarter of a millisecond. Workers beyond the number of processors take turns.
const WORK_BYTES_A_TURN: usize = 256 << 10;
const MAILBOX: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const READS: u64 = u64::MAX - 2;
/// The first of the numbers for UDP sockets; there are never as many connections.
const DATAGRAMS: u64 = 1 << 62;
/// The most events taken at a time. Each is a connection with a batch, so a turn stays short.
const EVENTS_MAX: usize = 128;

#[cfg(test)]
mod tests;
