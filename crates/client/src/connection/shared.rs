//! The state that the handles and the driver of a connection share, under one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use guira_proto::KEY_BYTES_MAX;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::options::ConnectionOptions;
use super::queue::{NOT_A_KEY, Queue};
use crate::wire::verbatim;
use crate::{Address, Op, Outcome, Reply, Request};

/// The state that the handles and the driver share.
#[derive(Debug)]
pub(super) struct ConnectionCore {
    pub(super) state: Mutex<State>,
    /// How often the driver has woken callers. It increments this before it wakes them.
    pub(super) tellings: AtomicU64,
    pub(super) address: Address,
    pub(super) options: ConnectionOptions,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// Whether all handles were dropped.
    pub(super) is_closed: bool,
    /// Whether the connection must be given up, if there is one.
    pub(super) is_reset: bool,
    /// Until when requests are refused, and with which reply. Without an end if the driver is gone.
    pub(super) refusal: Option<(Option<Instant>, Reply)>,
    /// When a stretch of a long value last arrived.
    pub(super) stretch_at: Option<Instant>,
}

impl State {
    /// Returns the reply for requests while the connection backs off, or after it has lost its driver.
    pub(super) fn refused(&self) -> Option<Reply> {
        let (until, reply) = self.refusal.as_ref()?;
        until.is_none_or(|until| Instant::now() < until).then(|| reply.clone())
    }
}

/// The driver's hold on a connection. It is dropped with the driver: at the driver's end, in a panic, or with the
/// runtime, perhaps before the first turn. After that, deadlines aren't enforced, so no request may wait.
#[derive(Debug)]
pub(super) struct Driven(pub(super) Arc<ConnectionCore>);

impl Drop for Driven {
    fn drop(&mut self) {
        let refused = Reply::failure(Outcome::ConnectError, DRIVERLESS);
        let mut woken = Vec::new();
        let mut state = self.0.state.lock();
        state.queue.came(None);
        state.queue.fail_sent(&Reply::failure(Outcome::RemoteError, DRIVERLESS), &mut woken);
        state.queue.fail_all(&refused, &mut woken);
        state.refusal = Some((None, refused));
        drop(state);
        self.0.wake(&mut woken);
    }
}

impl ConnectionCore {
    /// Wakes the callers that got replies. Only the driver calls this.
    pub(super) fn wake(&self, woken: &mut Vec<Waker>) {
        if woken.is_empty() {
            return;
        }
        let tellings = self.tellings.load(Ordering::Relaxed);
        self.tellings.store(tellings + 1, Ordering::Release);
        for waker in woken.drain(..) {
            waker.wake();
        }
    }

    /// Returns the `tellings` that the ask of this slot has seen. The caller holds the lock.
    pub(super) fn seen(&self, queue: &Queue, slot: u32, waker: Option<&Waker>) -> u64 {
        let is_to_be_told = waker.is_some() && !queue.is_answered(slot);
        if is_to_be_told { self.tellings.load(Ordering::Relaxed) } else { NOTHING }
    }

    /// Returns the reply to a request that can't be sent at all.
    pub(super) fn refusal(&self, request: &Request) -> Option<Reply> {
        let key = &request.key[..];
        let is_keyless = matches!(request.op, Op::FlushAll | Op::Version);
        let is_binary = request.meta.is_some();
        let words = request.meta.as_deref();
        if words.is_some_and(|words| !verbatim::is_sound(request.op, words)) {
            let words = &b"meta flags that can't be sent"[..];
            return Some(Reply::failure(Outcome::ClientError, words));
        }
        if !is_keyless && !is_key(key, is_binary) {
            return Some(Reply::failure(Outcome::BadKey, NOT_A_KEY));
        }
        let is_too_long = request.value.len() > VALUE_BYTES_MAX;
        is_too_long.then(|| Reply::failure(Outcome::BadValue, &b"the value is too long"[..]))
    }
}

/// Whether `key` is valid. A binary key may have any bytes.
pub(super) fn is_key(key: &[u8], is_binary: bool) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len()) && (is_binary || is_plain(key))
}

/// Whether no byte is a blank or a control character. Checks eight at a time.
fn is_plain(key: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Subtracts from all bytes at once: a byte below 0x21 borrows for its high bit. The borrow may also mark the next
    // byte wrongly, but only after a byte that was marked rightly.
    let is_plain = |word: u64| {
        let low = word.wrapping_sub(ONES * 0x21) & !word;
        let delete = word ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        (low | delete) & HIGH == 0
    };
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [b'x'; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).all(|&word| is_plain(u64::from_le_bytes(word)))
}

/// The message for requests when the connection has lost its driver.
const DRIVERLESS: &str = "the runtime in which the connection was made is gone";

/// More than `tellings` ever reaches. For a slot that has its reply, or whose caller passed no waker.
const NOTHING: u64 = u64::MAX;

/// The longest value, in bytes, that a request line can announce to memcached.
const VALUE_BYTES_MAX: usize = i32::MAX as usize - 2;

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn a_key_is_plain_if_each_of_its_bytes_is() {
        for length in 0..20 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    for filler in [b'!', b'a', b'~', 0x80, 0xff] {
                        let mut key = vec![filler; length];
                        key[at] = byte;
                        let expected = byte > b' ' && byte != 0x7f;
                        assert_eq!(is_plain(&key), expected, "{}", key.escape_ascii());
                    }
                }
            }
        }
        assert!(is_plain(b""));
    }
}
