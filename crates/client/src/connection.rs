//! A pipelined connection to one server, shared by all who ask it.
//!
//! ```text
//! ask ─┐                       ┌─ one write a turn ─▶ server
//! ask ─┼─▶ queue ─▶ driver task┤
//! ask ─┘     ▲                 └─ replies in order ◀─ server
//!            └──── reply, waker ────┘
//! ```
//! [`Connection::ask`] turns a request into bytes at once; the driver task sends what a turn of the runtime brought
//! together in one write, and neighbouring gets as one line. It connects when the first request comes, and again when
//! one comes after the connection was lost.
//!
//! # Invariants
//! 1. Replies meet their requests by order. Whoever was too late or went away keeps its place, and its reply is
//!    dropped.
//! 2. [`Outcome::ConnectError`] and [`Outcome::ConnectTimeout`] mean that the server never saw the request. After
//!    [`Outcome::Timeout`] and [`Outcome::RemoteError`] it may have.
//! 3. Bytes that cannot be the answer close the connection, and fail all that is outstanding.
//! 4. What was asked of a connection that is given up doesn't reach the server later, unless it was there already.
//! 5. No request waits past its deadline, and what is outstanding is bounded: beyond, [`Outcome::Busy`].
//!
//! # Costs
//! A request takes an uncontended lock three times, twice where its waker goes along ([`Connection::ask_for`]), and
//! allocates for the value that comes back; a turn's requests share two system calls. One clock read is the caller's:
//! deadlines are instants. Measured beside memcached 1.6.18 on a loaded machine, three runs each, processor time of the
//! client's thread a get of 100 bytes:
//!
//! | `cargo run --release -p guira-client --example cost 127.0.0.1:11211 …` | us a get |
//! |---|---|
//! | `1 16 2`: sixteen outstanding on one connection | 0.85 – 0.94 |
//! | `50 800 2`: sixteen outstanding on each of fifty | 1.07 – 1.17 |
//! | `50 50 2`: one outstanding on each of fifty | 4.3 – 5.7 |
//!
//! Bad at: a long value and short ones over the same connection: replies wait for those before them.

mod handle;
mod drive;
mod moving;
mod shared;
mod stream;
mod queue;
mod slots;
mod options;
mod output;
mod purse;
mod tap;

pub use handle::{Ask, AskKeys, Connection};
pub use options::{Caller, ConnectionOptions, Event, Known, Observer, Protocol, Whereabouts};
pub use output::Output;
pub use purse::{CHARGED_BYTES_MIN, NO_ROOM, Purse, charged};
pub(crate) use stream::Stream;
pub use tap::{Tap, Taps};

#[cfg(doc)]
use crate::Outcome;
