//! The driver task of a connection: it connects, writes, reads, and enforces deadlines.
//!
//! One turn is one poll. It writes what was queued, then reads and hands out replies, at most about 256 KiB each. The
//! wakers of answered callers are called after the lock is released.
//!
//! # Invariants
//! 1. A long value is charged to its caller as it arrives. A value that no caller waits for or can pay for is read and
//!    discarded.
//! 2. The memory of a long value is released with it.
//!
//! # Weaknesses
//! Other replies wait while a value is discarded. If it arrives slowly, they are late until the connection is given up.

mod reading;

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::moving::Mover;
use super::options::Event;
use super::output::Output;
use super::shared::{ConnectionCore, Driven, State};
use super::stream::Stream;
use super::tap::Tap;
use crate::{Outcome, Reply};

/// Serves the connection's handles until the last is dropped.
pub(super) async fn drive(driven: Driven) {
    let mut driver = Driver::new(&driven.0);
    let mut failures = 0;
    while driver.wanted().await {
        let mut stream = match driver.connected().await {
            Ok(stream) => stream,
            Err(reply) => {
                failures += 1;
                driver.fail(&reply, failures);
                continue;
            }
        };
        failures = 0;
        let reply = loop {
            driver.up(&stream);
            match driver.talk(stream).await {
                End::Over(reply) => break reply,
                End::Moved(next) => stream = next,
            }
        };
        driver.fail(&reply, 0);
    }
}

/// The end of a connection.
enum End {
    /// The connection is over. All waiting requests get this reply.
    Over(Reply),
    /// The next connection is open, and no request waits for a reply from this one.
    Moved(Stream),
}

struct Driver<'s> {
    shared: &'s Arc<ConnectionCore>,
    /// Bytes taken from the queue and not yet written.
    output: Output,
    /// Bytes that were read and aren't a whole reply yet.
    input: BytesMut,
    /// With fewer bytes, `input` has no whole reply.
    wanted_bytes: usize,
    /// The size of `input` at which there is something to do.
    look_at: usize,
    /// Whether `input` was enlarged for a long value.
    is_roomy: bool,
    /// While a value is being discarded: how many of its bytes have yet to come.
    away: Option<usize>,
    /// Whether the server has answered anything on this connection.
    has_answered: bool,
    /// The wakers to call after the lock is released.
    woken: Vec<Waker>,
    timer: Pin<Box<Sleep>>,
    /// When `timer` expires, if it is set.
    armed: Option<Instant>,
    /// Checks whether the server's name still leads to this address.
    mover: Option<Mover>,
    /// Observes the data.
    tap: Option<Box<dyn Tap>>,
}

impl<'s> Driver<'s> {
    fn new(shared: &'s Arc<ConnectionCore>) -> Self {
        Self {
            shared,
            output: Output::default(),
            input: BytesMut::with_capacity(READ_BYTES),
            wanted_bytes: 1,
            look_at: 1,
            is_roomy: false,
            away: None,
            has_answered: false,
            woken: Vec::new(),
            timer: Box::pin(sleep_until(Instant::now())),
            armed: None,
            mover: None,
            tap: None,
        }
    }

    /// Waits for the first request. Returns false if all handles were dropped and no request waits.
    async fn wanted(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.state.lock();
            state.queue.park(cx.waker());
            state.is_reset = false;
            match (state.queue.outstanding(), state.is_closed) {
                (0, true) => Poll::Ready(false),
                (0, false) => Poll::Pending,
                _ => Poll::Ready(true),
            }
        })
        .await
    }

    async fn connected(&mut self) -> Result<Stream, Reply> {
        let shared = self.shared;
        let limit = shared.options.connect_timeout;
        let mut connecting =
            pin!(timeout(limit, Stream::connect(&shared.address, &shared.options)));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = connecting.as_mut().poll(cx) {
                return Poll::Ready(match done {
                    Ok(Ok(stream)) => Ok(stream),
                    Ok(Err(error)) => Err(broken(whose(&error), &error)),
                    Err(_) => Err(Reply::failure(Outcome::ConnectTimeout, "connect timed out")),
                });
            }
            let mut state = self.shared.state.lock();
            state.queue.park(cx.waker());
            let is_given_up = state.is_reset;
            drop(state);
            if is_given_up {
                return Poll::Ready(Err(Reply::failure(Outcome::ConnectError, GIVEN_UP)));
            }
            self.poll_deadlines(cx);
            Poll::Pending
        })
        .await
    }

    fn up(&mut self, stream: &Stream) {
        let options = &self.shared.options;
        self.mover = Mover::new(options, stream.peer());
        self.has_answered = false;
        self.tap = options.taps.as_ref().map(|taps| taps(stream.peer(), stream.local()));
        let mut state = self.shared.state.lock();
        state.queue.connected();
        state.is_reset = false;
        drop(state);
        self.tell(&Event::Up);
    }

    /// Answers all outstanding requests with `reply`. After `failures` failures to connect in a row, backs off.
    fn fail(&mut self, reply: &Reply, failures: u32) {
        let options = &self.shared.options;
        let pause = options.backoff.filter(|_| failures > 0).map(|(first, most)| {
            let grown = first.saturating_mul(1 << (failures - 1).min(20)).min(most);
            grown.mul_f64(fastrand::f64().mul_add(0.5, 0.75))
        });
        let mut state = self.shared.state.lock();
        state.refusal = pause.map(|pause| (Some(Instant::now() + pause), reply.clone()));
        state.queue.came(None);
        state.queue.fail_all(reply, &mut self.woken);
        drop(state);
        self.output.clear();
        self.forget_input();
        self.armed = None;
        self.wake();
        let has_answered = std::mem::take(&mut self.has_answered);
        self.tell(&Event::Down { why: reply.clone(), has_answered });
    }

    /// Drops what was read, because the next connection begins with a new reply.
    fn forget_input(&mut self) {
        self.input = BytesMut::with_capacity(READ_BYTES);
        (self.wanted_bytes, self.look_at, self.is_roomy, self.away) = (1, 1, false, None);
    }

    fn tell(&self, event: &Event) {
        if let Some(observer) = &self.shared.options.observer {
            observer(event);
        }
    }

    /// Wakes the callers that got replies.
    fn wake(&mut self) {
        self.shared.wake(&mut self.woken);
    }

    /// Exchanges requests and replies until the connection ends.
    async fn talk(&mut self, mut stream: Stream) -> End {
        std::future::poll_fn(|cx| {
            let is_leaving = self.is_leaving(cx);
            let end = self.poll_turn(&mut stream, cx);
            if is_leaving && let Some(next) = self.leave(&end) {
                return Poll::Ready(End::Moved(next));
            }
            end.map(End::Over)
        })
        .await
    }

    /// Whether the next connection is already open, so that this one only has to be finished.
    fn is_leaving(&mut self, cx: &mut Context<'_>) -> bool {
        let shared = self.shared;
        let is_leaving = self.mover.as_mut().is_some_and(|mover| mover.poll_leaving(cx, shared));
        if is_leaving {
            shared.state.lock().queue.pause();
        }
        is_leaving
    }

    /// Returns the next connection, once this one is finished or has ended.
    fn leave(&mut self, end: &Poll<Reply>) -> Option<Stream> {
        let mut state = self.shared.state.lock();
        state.queue.came(None);
        match end {
            Poll::Ready(reply) => state.queue.fail_sent(reply, &mut self.woken),
            Poll::Pending if state.queue.is_given_up() => {
                state.queue.fail_sent(&Reply::new(Outcome::RemoteError), &mut self.woken);
            }
            Poll::Pending if self.output.is_empty() && state.queue.is_quiet() => {}
            Poll::Pending => return None,
        }
        drop(state);
        self.output.clear();
        self.forget_input();
        self.wake();
        self.mover.as_mut().and_then(Mover::take)
    }

    fn poll_turn(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<Reply> {
        if let Some(end) = self.take(cx.waker()) {
            if self.shared.state.lock().queue.outstanding() > 0 {
                stream.forget_unsent();
            }
            return Poll::Ready(end);
        }
        if let Poll::Ready(Err(error)) = self.poll_write(stream, cx) {
            return Poll::Ready(broken(Outcome::RemoteError, &error));
        }
        // TLS may hold data for which the socket had no room.
        if let Poll::Ready(Err(error)) = Pin::new(&mut *stream).poll_flush(cx) {
            return Poll::Ready(broken(Outcome::RemoteError, &error));
        }
        let end = self.poll_read(stream, cx);
        self.wake();
        if end.is_pending() && self.poll_deadlines(cx) {
            stream.forget_unsent();
            return Poll::Ready(Reply::failure(Outcome::RemoteError, "the server fell silent"));
        }
        end
    }

    /// Takes what is to be written. Returns a reply if the connection must end.
    fn take(&mut self, waker: &Waker) -> Option<Reply> {
        let mut state = self.shared.state.lock();
        let State { queue, is_closed, is_reset, .. } = &mut *state;
        queue.park(waker);
        let is_done = *is_closed && queue.outstanding() == 0;
        if is_done || *is_reset {
            return Some(Reply::failure(Outcome::RemoteError, GIVEN_UP));
        }
        if self.output.is_empty() {
            queue.take_output(&mut self.output);
            drop(state);
            self.show_output();
        }
        None
    }

    /// Returns the tap, if anyone watches.
    fn tap(&self) -> Option<&dyn Tap> {
        self.tap.as_deref().filter(|tap| tap.is_open())
    }

    fn show_output(&self) {
        if let Some(tap) = self.tap().filter(|_| !self.output.is_empty()) {
            tap.sent(self.output.copy());
        }
    }

    /// Writes all of `output`, and what was queued while it waited for the socket.
    fn poll_write(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut written_bytes = 0;
        while !self.output.is_empty() {
            if written_bytes >= TURN_BYTES {
                yield_turn(cx);
                return Poll::Pending;
            }
            let stream = Pin::new(&mut *stream);
            let n = if let Some(bytes) = self.output.single() {
                ready!(stream.poll_write(cx, &bytes[..bytes.len().min(TURN_BYTES)]))?
            } else {
                let mut slices = [IoSlice::new(b""); SLICES];
                let used = self.output.slices(&mut slices, TURN_BYTES);
                ready!(stream.poll_write_vectored(cx, &slices[..used]))?
            };
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            written_bytes += n;
            self.output.advance(n);
            if self.output.is_empty() {
                self.shared.state.lock().queue.take_output(&mut self.output);
                self.show_output();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Answers overdue requests and sets the timer for the next. Returns true if the server has been silent for too
    /// long.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> bool {
        let stall = self.shared.options.stall;
        loop {
            let earliest = self.shared.state.lock().queue.earliest();
            if let Some(at) = earliest
                && self.armed.is_none_or(|armed| at < armed)
            {
                self.armed = Some(at);
                self.timer.as_mut().reset(at);
            }
            if self.armed.is_none() || self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.armed = None;
            let mut state = self.shared.state.lock();
            let is_stalled = state.queue.expire(Instant::now(), stall, &mut self.woken);
            drop(state);
            if self.wanted_bytes > LONG_BYTES {
                // The request of the arriving value may be among them. Invalid data is detected with its next byte.
                let _ = self.arrives();
            }
            self.wake();
            if is_stalled {
                return true;
            }
        }
    }
}

/// Has the task polled again, after the runtime has checked its sockets and run other tasks.
fn yield_turn(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// Tells whose fault a failed connect is: a process without descriptors or memory can't connect to any server.
fn whose(error: &io::Error) -> Outcome {
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    match Errno::from_io_error(error) {
        Some(errno) if own.contains(&errno) => Outcome::LocalError,
        _ => Outcome::ConnectError,
    }
}

fn broken(outcome: Outcome, error: &io::Error) -> Reply {
    Reply::failure(outcome, Bytes::from(error.to_string()))
}

/// The message for requests whose connection was reset or closed by its handle.
const GIVEN_UP: &str = "the connection was given up";
/// The free room for a read, in bytes.
const READ_BYTES: usize = 16 << 10;
/// The size in bytes from which a value is charged as it arrives. It is charged in steps of this size.
const LONG_BYTES: usize = 64 << 10;
/// The number of bytes after which a turn ends its reading, or its writing.
const TURN_BYTES: usize = 256 << 10;
/// The number of slices of a vectored write.
const SLICES: usize = 32;
