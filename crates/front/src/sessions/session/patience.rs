//! How long a client may take no replies.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Runs while the client takes none.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that its socket had taken, as far as that is counted, when it was looked at last.
    taken: u64,
}

impl Patience {
    /// The client took some.
    pub(super) fn renew(&mut self) {
        self.timer = None;
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
}
