//! The steps before a client's first request: the handshake of TLS, and a login where one is needed.
//!
//! Logins are memcached's for the text protocol (`-Y`): a `set` whose value is `user password`.
//!
//! A client that opens a connection and says nothing costs a socket and the memory of a handshake. A thread keeps at most
//! `ENTERING_MAX` of them; one more makes the oldest give way. A flood of silent clients thus takes bounded memory, and
//! keeps out no client that shakes hands at once. Clients that shake hands at the same time don't keep the thread from
//! others either. A handshake takes longer than thousands of short gets, so each waits for its turn ([`Rounds`]) once the
//! client's hello is there.
//!
//! # Invariants
//! 1. No request of a client is begun before the client is let in.
//! 2. A client that isn't let in within `ENTRANCE_MAX` is closed, and before that if too many others wait.
//!
//! # Costs
//! Nothing for clients without TLS and login. For others a small allocation, and a search among the clients that came
//! earlier and aren't let in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::ready;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use guira_proto::{TextLogin, fixed, parse_login};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::sessions::clients::Clients;
use crate::sessions::lanes::{Lanes, Rounds};
use crate::sessions::logins::Logins;
use crate::sessions::stream::{Arrival, Stream};

/// Lets a client in. Returns its stream, and the bytes that it sent behind its login.
pub(crate) async fn enter(
    arrival: Arrival,
    clients: &Clients,
    (others, lanes): (&Entering, &Rc<Lanes>),
) -> io::Result<(Stream, BytesMut)> {
    let has_to_wait = matches!(arrival, Arrival::Tls(_)) || clients.logins.is_some();
    let place = has_to_wait.then(|| others.begin());
    let entering = async {
        let turn = Rounds::turn(lanes, HANDSHAKE_COST);
        let mut stream = arrival.into_stream(|| clients.certificates(), turn).await?;
        let input = match &clients.logins {
            None => BytesMut::new(),
            Some(logins) => log_in(&mut stream, logins).await?,
        };
        Ok((stream, input))
    };
    let too_late = || Err(io::ErrorKind::TimedOut.into());
    let in_time = async { timeout(ENTRANCE_MAX, entering).await.unwrap_or_else(|_| too_late()) };
    let Some(place) = &place else { return in_time.await };
    tokio::select! {
        entered = in_time => entered,
        () = place.gives_way() => Err(io::Error::other("too many others were not let in yet")),
    }
}

async fn log_in(stream: &mut Stream, logins: &Logins) -> io::Result<BytesMut> {
    let mut input = BytesMut::new();
    loop {
        let (answer, used, is_through) = match parse_login(&input) {
            TextLogin::Line | TextLogin::Value => {
                read_some(stream, &mut input).await?;
                continue;
            }
            TextLogin::Junk => return Err(io::ErrorKind::InvalidData.into()),
            TextLogin::Refused { reply, used } => (reply, used, false),
            TextLogin::Token { user, password, used } if logins.admit(user, password) => {
                (fixed::STORED, used, true)
            }
            TextLogin::Token { used, .. } => (fixed::AUTH_FAILED, used, false),
        };
        input.advance(used.min(input.len()));
        write_all(stream, answer).await?;
        if is_through {
            return Ok(input);
        }
    }
}

async fn read_some(stream: &mut Stream, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(READ_BYTES);
    let n = std::future::poll_fn(|cx| stream.poll_read(cx, input));
    if n.await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    std::future::poll_fn(|cx| {
        while !bytes.is_empty() {
            let n = ready!(stream.poll_write(cx, bytes))?;
            bytes = &bytes[n..];
        }
        stream.poll_flush(cx)
    })
    .await
}

/// The clients of a thread that are not let in yet.
#[derive(Debug, Default)]
pub(crate) struct Entering(RefCell<VecDeque<Rc<Notify>>>);

impl Entering {
    /// A place for a newcomer. If none is free, the oldest client gives way.
    fn begin(&self) -> EntrancePlace<'_> {
        let mine = Rc::new(Notify::new());
        let mut places = self.0.borrow_mut();
        if places.len() >= ENTERING_MAX
            && let Some(oldest) = places.pop_front()
        {
            oldest.notify_one();
        }
        places.push_back(Rc::clone(&mine));
        EntrancePlace { entering: self, mine }
    }
}

/// A client's place among those that are not let in yet; free when it is dropped.
#[derive(Debug)]
struct EntrancePlace<'e> {
    entering: &'e Entering,
    mine: Rc<Notify>,
}

impl EntrancePlace<'_> {
    /// Completes when the client has to give way.
    async fn gives_way(&self) {
        self.mine.notified().await;
    }
}

impl Drop for EntrancePlace<'_> {
    fn drop(&mut self) {
        self.entering.0.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.mine));
    }
}

/// The longest time for handshake and login together.
const ENTRANCE_MAX: Duration = Duration::from_secs(10);
/// The cost of a handshake, as bytes that could be moved in that time: a quarter of a millisecond.
const HANDSHAKE_COST: usize = 64 << 10;
/// Room for a read.
const READ_BYTES: usize = 4 << 10;
/// Most clients of a thread that may be on their way in at once.
const ENTERING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_oldest_gives_way_and_those_that_are_through_count_no_more() {
        let entering = Entering::default();
        let first = entering.begin();
        drop(entering.begin());
        let mut others: Vec<_> = (1..ENTERING_MAX).map(|_| entering.begin()).collect();
        assert!(first.gives_way().now_or_never().is_none(), "there was room for all");
        others.push(entering.begin());
        assert!(first.gives_way().now_or_never().is_some(), "the oldest has to go");
        assert!(others.iter().all(|place| place.gives_way().now_or_never().is_none()));
        drop(first);
        assert_eq!(entering.0.borrow().len(), ENTERING_MAX);
    }
}
