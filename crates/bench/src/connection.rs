//! A non-blocking connection with its requests, and the poller that wakes a thread for its connections.
//!
//! Used by the modes that parse replies; busy mode has a simpler connection of its own.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use socket2::Socket;

use crate::address::ServerAddress;
use crate::crew::{Tally, Watch};
use crate::error::BenchError;
use crate::plan::Plan;
use crate::requests::{Asked, Request, Requests};
use crate::verify::{Counts, settle};

/// A connection, its requests, and the replies it waits for.
pub(crate) struct Connection {
    socket: Socket,
    pub(crate) requests: Requests,
    pub(crate) asked: Asked,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    filled: usize,
    verify: bool,
}

impl Connection {
    /// Connects as connection number `lane` of the plan.
    pub(crate) fn open(
        plan: &Plan,
        address: &ServerAddress,
        lane: usize,
    ) -> Result<Self, BenchError> {
        let socket = address.connect()?;
        socket.set_nonblocking(true).map_err(BenchError::io("setting up a connection"))?;
        Ok(Self {
            socket,
            requests: Requests::new(&plan.workload, (lane, plan.connections), plan.seed),
            asked: Asked::default(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            verify: plan.verify,
        })
    }

    /// Appends the requests of one pipeline, and sends what the socket takes.
    pub(crate) fn send_batch(&mut self, at_ns: u64) -> Result<(), BenchError> {
        self.requests.append_batch(&mut self.out, &mut self.asked, at_ns);
        self.flush()
    }

    /// Appends one operation, due at `at_ns`, without sending it.
    pub(crate) fn add(&mut self, at_ns: u64) {
        self.requests.append(&mut self.out, &mut self.asked, at_ns);
    }

    /// Sends what the socket takes; the poller wakes the thread when it takes more.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        while self.sent < self.out.len() {
            match (&self.socket).write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error, "sending requests")),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives what has arrived, and counts it for the measured part or the warm-up. Returns the number
    /// of measured operations.
    pub(crate) fn tally(&mut self, watch: &Watch, tally: &mut Tally) -> Result<u64, BenchError> {
        let now = watch.clock.now_ns();
        let is_measured = watch.counts(now);
        let Tally { counts, warmup, latency, .. } = tally;
        let mut operations = 0;
        self.receive(if is_measured { counts } else { warmup }, |request| {
            operations += u64::from(request.keys);
            if watch.counts(request.at_ns) {
                latency.record(request, now);
            }
        })?;
        Ok(if is_measured { operations } else { 0 })
    }

    /// Receives what has arrived and settles it; `done` is called for each request that is answered.
    fn receive(
        &mut self,
        counts: &mut Counts,
        mut done: impl FnMut(Request),
    ) -> Result<(), BenchError> {
        loop {
            match (&self.socket).read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(BenchError::Closed),
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(lost(error, "receiving replies")),
            }
            let filled = &self.input[..self.filled];
            let used = settle(filled, &mut self.asked, self.verify, counts, &mut done)?;
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
            if self.filled == self.input.len() {
                self.input.resize(self.filled * 2, 0);
            }
        }
    }
}

/// Converts an error. A broken connection is attributed to the server, whichever call notices it.
pub(crate) fn lost(error: std::io::Error, doing: &'static str) -> BenchError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => BenchError::Closed,
        _ => BenchError::io(doing)(error),
    }
}

/// Wakes a thread when one of its connections can be read or written.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// Watches `connections`; each event holds the connection's index.
    pub(crate) fn new(connections: &[Connection]) -> Result<Self, BenchError> {
        let refused =
            |errno: rustix::io::Errno| BenchError::io("watching connections")(errno.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        // Edge-triggered, because both loops read and write until the socket is exhausted.
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        for (place, connection) in connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&epoll, &connection.socket, data, wanted).map_err(refused)?;
        }
        Ok(Self { epoll, events: Vec::with_capacity(connections.len().max(1)) })
    }

    /// Waits for at most `timeout`. Returns the indices of the connections that are ready.
    pub(crate) fn wait(
        &mut self,
        timeout: Duration,
    ) -> Result<impl Iterator<Item = usize> + '_, BenchError> {
        let timeout = Timespec::try_from(timeout).expect("timeouts are below a minute");
        let refused =
            |errno: rustix::io::Errno| BenchError::io("waiting for replies")(errno.into());
        // epoll_pwait rounds timeouts up to milliseconds; ppoll on the epoll descriptor does not.
        let mut readable = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut readable, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(refused(errno)),
        }
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&self.epoll, room, Some(&NO_TIME)).map_err(refused)?;
        let place = |event: &epoll::Event| {
            usize::try_from(event.data.u64()).expect("it was a usize when it was registered")
        };
        Ok(self.events.iter().map(place))
    }
}

/// The initial size of the receive buffer, which grows to hold the largest value.
const INPUT_BYTES: usize = 64 * 1024;

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
