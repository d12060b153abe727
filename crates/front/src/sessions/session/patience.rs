//! How long a client may take no replies, and how long it may leave lying what others need.
//!
//! A client that holds more than a little is looked at each [`LOOK_EVERY`]. If it has moved less than [`SLOW_BYTES`] since, and
//! others need the memory, it gives way. One that doesn't is looked at again.
//!
//! # Costs
//! A client that takes its replies, or holds little: two comparisons a turn. Another one: a timer.

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
    /// Runs while the client takes none.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that its socket had taken, as far as that is counted, when it was looked at last.
    taken: u64,
    /// Runs while the client holds more than a little.
    look: Option<Pin<Box<Sleep>>>,
    /// Bytes that it has sent and taken since the last look.
    moved: usize,
    /// Refusals of anybody until then.
    wanted: u64,
}

impl Patience {
    /// The client took so many bytes.
    pub(super) fn took(&mut self, bytes: usize) {
        self.timer = None;
        self.moved += bytes;
    }

    /// The client sent so many bytes.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.moved += bytes;
    }

    /// Fails if replies wait and the client has taken none for the length of `limit`; 0: it may take any time.
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

    /// Whether the client is to give way, of which it depends what it holds: `is_its_turn` to send or to take more.
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

/// How often a client is looked at that holds more than a little.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A client that moves less than this between two looks may have to give way: a MiB in half a minute.
const SLOW_BYTES: usize = 64 << 10;
