//! Time limits for a client: how long it may leave replies unread, and how long it may hold memory that others need.
//!
//! A client that holds more than [`LITTLE_BYTES`] is checked every [`LOOK_EVERY`]. It gives way if it has moved less than
//! [`SLOW_BYTES`] since the last check, and others need the memory. Otherwise it is checked again.
//!
//! # Costs
//! Two comparisons per turn for a client that takes its replies and holds little; a timer for any other.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::sessions::memory::{Account, LITTLE_BYTES};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Runs while replies wait and the client takes none.
    timer: Option<Pin<Box<Sleep>>>,
    /// The count of bytes that the socket had taken at the last poll, for streams that count them.
    taken: u64,
    /// Runs until the next check, while the client holds more than [`LITTLE_BYTES`].
    look: Option<Pin<Box<Sleep>>>,
    /// Bytes that the client has sent and taken since the last check.
    moved: usize,
    /// How many clients had been refused for lack of memory at the last check.
    wanted: u64,
}

impl Patience {
    /// Records that the client took this many bytes of replies.
    pub(super) fn took(&mut self, bytes: usize) {
        self.timer = None;
        self.moved += bytes;
    }

    /// Records that the client sent this many bytes.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.moved += bytes;
    }

    /// Fails if replies wait (`do_wait`) and the client has taken none for the length of `limit`; zero: it never fails.
    /// `taken` is the count of bytes that the socket has taken.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
        (do_wait, taken): (bool, u64),
    ) -> Poll<io::Result<()>> {
        if !do_wait || limit.is_zero() {
            self.timer = None;
            return Poll::Pending;
        }
        if std::mem::replace(&mut self.taken, taken) != taken {
            self.timer = None;
        }
        let start = || Box::pin(tokio::time::sleep_until(Instant::now() + limit));
        let timer = self.timer.get_or_insert_with(start);
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns whether the client must give way. `is_its_turn`: it is up to the client to send or take more before its
    /// memory is free again.
    #[inline]
    pub(super) fn is_over(
        &mut self,
        cx: &mut Context<'_>,
        account: &Account,
        is_its_turn: bool,
    ) -> bool {
        if !is_its_turn || account.held() <= LITTLE_BYTES {
            self.look = None;
            return false;
        }
        self.look_at(cx, account)
    }

    #[cold]
    fn look_at(&mut self, cx: &mut Context<'_>, account: &Account) -> bool {
        loop {
            let Some(look) = &mut self.look else {
                (self.moved, self.wanted) = (0, account.wanted());
                self.look = Some(Box::pin(tokio::time::sleep(LOOK_EVERY)));
                continue;
            };
            if look.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.look = None;
            if self.moved < SLOW_BYTES && account.is_needed(self.wanted) {
                return true;
            }
        }
    }
}

/// How often a client that holds more than a little is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A client that moves less than this between two checks may have to give way: a MiB in half a minute.
const SLOW_BYTES: usize = 64 << 10;
