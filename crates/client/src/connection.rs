//! A pipelined connection to one server, shared by all tasks that use it.
//!
//! ```text
//! ask ─┐                       ┌─ one write per turn ─▶ server
//! ask ─┼─▶ queue ─▶ driver task┤
//! ask ─┘     ▲                 └─ replies in order ◀─── server
//!            └──── reply, waker ────┘
//! ```
//! [`Connection::ask`] turns a request into bytes at once. The driver task sends what was queued in a turn of the
//! runtime in one write, and neighbouring gets as one line. It connects when the first request comes. After the
//! connection is lost, it connects again with the next request.
//!
//! # Invariants
//! 1. Replies are matched to requests by their order. A request that timed out or was dropped keeps its place, and its
//!    reply is dropped.
//! 2. [`Outcome::ConnectError`] and [`Outcome::ConnectTimeout`] mean that the server never saw the request. After
//!    [`Outcome::Timeout`] and [`Outcome::RemoteError`] it may have.
//! 3. Bytes that can't be the answer close the connection, and all outstanding requests fail.
//! 4. When a connection is given up, its requests don't reach the server later, unless they are already there.
//! 5. No request waits past its deadline. The number of outstanding requests is limited: beyond the limit, the reply is
//!    [`Outcome::Busy`].
//!
//! # Costs A request takes an uncontended lock three times, or twice if it brings its waker ([`Connection::ask_for`]).
//! It allocates for the value that comes back. The requests of a turn share two system calls. The caller reads the
//! clock once, because deadlines are instants. The table shows the processor time of the client's thread per get of 100
//! bytes, in three runs each. The server, memcached 1.6.18, ran on the same, loaded machine.
//!
//! | `cargo run --release -p guira-client --example cost 127.0.0.1:11211 …` | µs per get |
//! |---|---|
//! | `1 16 2`: sixteen outstanding on one connection | 0.85 – 0.94 |
//! | `50 800 2`: sixteen outstanding on each of fifty | 1.07 – 1.17 |
//! | `50 50 2`: one outstanding on each of fifty | 4.3 – 5.7 |
//!
//! # Bad at
//! Long and short values over the same connection: replies wait for those before them.

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
pub use options::{Caller, ConnectionOptions, Event, Known, Protocol, Whereabouts};
pub use output::Output;
pub use purse::{CHARGED_BYTES_MIN, NO_ROOM, Purse, charged};
pub(crate) use stream::Stream;
pub use tap::{Tap, Taps};

#[cfg(doc)]
use crate::Outcome;
