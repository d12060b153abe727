//! Reading: replies are handed out as they are whole, and a long value is looked after while it comes.
//!
//! # Costs
//! A look at the queue for each stretch of a long value; short replies share one for all that was read at once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use super::{Driver, LONG_BYTES, READ_BYTES, TURN_BYTES, broken, yield_turn};
use crate::connection::stream::Stream;
use crate::{Outcome, Reply};

impl Driver<'_> {
    /// Reads until nothing more is there, or much came, handing out replies; ready when the connection is over.
    pub(super) fn poll_read(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut read_bytes = 0;
        loop {
            if read_bytes >= TURN_BYTES {
                // Those who got replies take them before more come.
                yield_turn(cx);
                return Poll::Pending;
            }
            if self.input.capacity() - self.input.len() < READ_BYTES_MIN {
                self.make_room();
            }
            let mut room = (&mut self.input).limit(TURN_BYTES);
            let read = pin!(stream.read_buf(&mut room));
            match ready!(read.poll(cx)) {
                Ok(0) => {
                    let words = "connection closed by the server";
                    return Poll::Ready(Reply::failure(Outcome::RemoteError, words));
                }
                Err(error) => return Poll::Ready(broken(Outcome::RemoteError, &error)),
                Ok(n) => {
                    read_bytes += n;
                    if self.input.len() >= self.look_at
                        && let Err(reply) = self.receive()
                    {
                        return Poll::Ready(reply);
                    }
                }
            }
        }
    }

    fn make_room(&mut self) {
        let (read, missing) =
            (self.input.len(), self.wanted_bytes.saturating_sub(self.input.len()));
        // What a server announces is believed once it has sent enough: then it is copied no more.
        let believed = if read < TRUSTED_BYTES { TRUSTED_BYTES } else { missing };
        let room = missing.min(believed) + READ_BYTES;
        self.is_roomy |= room > LONG_BYTES;
        self.input.reserve(room);
    }

    /// Does what is to be done with what was read; fails if it can't be replies to what was asked.
    fn receive(&mut self) -> Result<(), Reply> {
        if self.away.is_some() && !self.read_away()? {
            return Ok(());
        }
        if self.input.len() >= self.wanted_bytes {
            self.hand_out()?;
        }
        self.look_at = self.wanted_bytes;
        if self.wanted_bytes > LONG_BYTES {
            if self.input.len() >= LONG_BYTES {
                self.note_stretch();
            }
            return self.arrives();
        }
        if std::mem::take(&mut self.is_roomy) {
            self.note_stretch();
            // What is left has come with the end of a long value, and would keep all of its room.
            let rest = std::mem::replace(&mut self.input, BytesMut::with_capacity(READ_BYTES));
            self.input.extend_from_slice(&rest);
        }
        Ok(())
    }

    /// Much of a long value has come.
    fn note_stretch(&self) {
        self.shared.state.lock().stretch_at = Some(Instant::now());
    }

    /// Looks at what came of a long value, and gives up one that nobody waits for or pays.
    pub(super) fn arrives(&mut self) -> Result<(), Reply> {
        let whole = self.wanted_bytes;
        let mut state = self.shared.state.lock();
        state.queue.came(Some(Instant::now()));
        let arrives = state.queue.arrives(&self.input, whole, &mut self.woken);
        let arrives = arrives.map_err(|e| Reply::failure(Outcome::RemoteError, e.0))?;
        let charge = if arrives { None } else { state.queue.forgo() };
        drop(state);
        if arrives {
            self.look_at = whole.min(self.input.len() + LONG_BYTES);
            return Ok(());
        }
        let body = whole - CRLF.len();
        let end = self.input.split_off(self.input.len().min(body));
        let away = body - self.input.len();
        self.forget_input();
        self.input.extend_from_slice(&end);
        self.away = Some(away);
        tokio::spawn(async move {
            // What was freed is still resident: others may not fill as much yet.
            sleep(FREED_AFTER).await;
            drop(charge);
        });
        Ok(())
    }

    /// Drops what came of a value that was given up. True: that was all of it.
    fn read_away(&mut self) -> Result<bool, Reply> {
        let away = self.away.unwrap_or(0);
        let n = self.input.len().min(away);
        self.input.advance(n);
        self.away = Some(away - n);
        self.look_at = if n < away { LONG_BYTES.min(away - n + CRLF.len()) } else { CRLF.len() };
        self.note_stretch();
        if n < away || self.input.len() < CRLF.len() {
            return Ok(false);
        }
        if !self.input.starts_with(CRLF) {
            let words = "a value has another length than announced";
            return Err(Reply::failure(Outcome::RemoteError, words));
        }
        self.input.advance(CRLF.len());
        self.away = None;
        Ok(true)
    }

    /// Hands out the replies that were read.
    fn hand_out(&mut self) -> Result<(), Reply> {
        let mut state = self.shared.state.lock();
        let shown = self.tap().map(|_| (self.input.clone(), state.queue.asked()));
        state.queue.came(Some(Instant::now()));
        let asked = state.queue.outstanding();
        let received = state.queue.receive(&mut self.input, &mut self.woken);
        self.has_answered |= state.queue.outstanding() < asked;
        drop(state);
        if let (Some(tap), Some((mut replies, asked))) = (self.tap(), shown) {
            replies.truncate(replies.len() - self.input.len());
            tap.received(replies.freeze(), asked);
        }
        self.wanted_bytes = received.map_err(|e| Reply::failure(Outcome::RemoteError, e.0))?;
        Ok(())
    }
}

/// Less room is made more before a read.
const READ_BYTES_MIN: usize = 4 << 10;
/// A value's announced length is made room for at once up to this, and all of it when so much came: its copies would stay
/// with the allocator for a while, and room that isn't read into takes no memory. Bytes.
const TRUSTED_BYTES: usize = 1 << 20;
/// An allocator gives freed memory back to the system after a while; `guira route` has its own do so after a millisecond.
const FREED_AFTER: Duration = Duration::from_millis(200);
const CRLF: &[u8] = b"\r\n";
