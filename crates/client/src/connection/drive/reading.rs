//! The reading side of the driver: it hands out complete replies, and checks on a long value while it arrives.
//!
//! # Costs
//! One access to the queue for each stretch of a long value. The short replies of one read share an access.

use std::future::Future;
use std::io;
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
    /// Reads until no more data is there, or a turn's worth has come, and hands out replies. Ready when the connection
    /// is over.
    pub(super) fn poll_read(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut read_bytes = 0;
        loop {
            if read_bytes >= TURN_BYTES {
                // Let callers take their replies before more arrive.
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
                Err(error) => {
                    // TLS 1.3 ends the handshake before the server has looked at the client's certificate.
                    let is_refused = !self.has_answered && refuses_certificate(&error);
                    let outcome =
                        if is_refused { Outcome::ConnectError } else { Outcome::RemoteError };
                    return Poll::Ready(broken(outcome, &error));
                }
                Ok(n) => {
                    read_bytes += n;
                    if !self.has_answered && self.input.starts_with(TLS_ALERT) {
                        // No request was readable to it, so none was carried out.
                        return Poll::Ready(Reply::failure(Outcome::ConnectError, SPEAKS_TLS));
                    }
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
        // An announced length is trusted once the server has sent enough. Then the whole rest is reserved, so that
        // nothing is copied again.
        let believed = if read < TRUSTED_BYTES { TRUSTED_BYTES } else { missing };
        let room = missing.min(believed) + READ_BYTES;
        self.is_roomy |= room > LONG_BYTES;
        self.input.reserve(room);
    }

    /// Processes what was read. Fails if it can't be replies to the requests.
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
            // The rest came with the end of a long value, and would keep all of its buffer.
            let rest = std::mem::replace(&mut self.input, BytesMut::with_capacity(READ_BYTES));
            self.input.extend_from_slice(&rest);
        }
        Ok(())
    }

    /// Records that a stretch of a long value has arrived.
    fn note_stretch(&self) {
        self.shared.state.lock().stretch_at = Some(Instant::now());
    }

    /// Checks on a long value that is arriving. Gives it up if no caller waits for it or can pay for it.
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
            // The freed memory is still resident, so other callers may not use as much yet.
            sleep(FREED_AFTER).await;
            drop(charge);
        });
        Ok(())
    }

    /// Discards what has come of a value that was given up. Returns true if that was all of it.
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

/// Whether this is an alert by which a server refuses the client's certificate.
fn refuses_certificate(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    let told = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::AlertReceived(alert)) = told else { return false };
    let refusals = [
        Alert::CertificateRequired,
        Alert::BadCertificate,
        Alert::UnsupportedCertificate,
        Alert::CertificateRevoked,
        Alert::CertificateExpired,
        Alert::CertificateUnknown,
        Alert::UnknownCA,
        Alert::AccessDenied,
    ];
    refusals.contains(alert)
}

/// With less free room than this, the buffer grows before a read.
const READ_BYTES_MIN: usize = 4 << 10;
/// The bytes that must arrive of a long value before all of its announced length is reserved; before that, at most this
/// much is. Growing step by step would leave copies with the allocator for a while. Reserved room takes no memory until
/// it is filled.
const TRUSTED_BYTES: usize = 1 << 20;
/// After this time, an allocator has returned freed memory to the system. `guira` sets its own to a millisecond.
const FREED_AFTER: Duration = Duration::from_millis(200);
const CRLF: &[u8] = b"\r\n";
/// So an alert of TLS begins (RFC 8446 §5.1). A server with TLS answers the first request without it by one.
const TLS_ALERT: &[u8] = &[21, 3];
const SPEAKS_TLS: &str = "it speaks TLS, and this client doesn't";
