//! The memcached text, meta and [`binary`] protocols as pure functions: bytes to requests and replies, and back.
//!
//! Nothing here does I/O, reads a clock, starts a thread or keeps state between calls. A caller has a
//! buffer, lets [`parse`] read its first line, removes `used` bytes and calls it again:
//!
//! ```text
//! buffer  | set k 0 0 5\r\n | hello\r\n | get k\r\n …
//!           ^ parse: Store, used = 13     ^ parse: Get
//!                             ^ body: value_bytes + 2, the caller's
//! ```
//! ```
//! use guira_proto::{Command, Limits, Parsed, parse};
//!
//! let Ok(Parsed::Request { request: Command::Store(store), used }) =
//!     parse(b"set k 0 60 5\r\nhello\r\n", &Limits::DEFAULT)
//! else {
//!     panic!("a whole line")
//! };
//! assert_eq!((store.key, store.exptime, store.value_bytes, used), (&b"k"[..], 60, 5, 14));
//! ```
//! # Laws
//! 1. A prefix is never an error: a request cut anywhere is `Incomplete` until its newline arrives. The
//!    protocol itself has the one exception: a line that is too long (see [`Limits`]) closes the
//!    connection.
//! 2. Bytes beyond `used` aren't examined: the same line gives the same result, whatever follows it.
//! 3. `encode ∘ parse` is the identity on canonical lines (single spaces, `\r\n`, no ignored words).
//! 4. No input causes a panic.
//!
//! # Costs
//! `parse` doesn't allocate; a request borrows its key and flags from the buffer. A short `get`, `mg` or
//! `set` costs about 20 ns. A line that arrives in pieces is searched once if the caller passes the
//! number of bytes already [`scanned`](parse_from).
//!
//! Bad at: a client that sends one key per line without pipelining. The two system calls per request then
//! cost a hundred times as much as parsing.

#![forbid(unsafe_code)]

pub mod binary;
mod login;
pub mod reply;
mod buffer;
mod text;
mod request;
mod admin;
mod meta;
mod base64;
pub mod fixed;
mod line;
mod number;
mod key;
pub mod udp;
mod uri;

pub use admin::{
    Admin, AutomoveCommand, ClockShift, CrawlTarget, ShutdownMode, StorageCommand, StorageSetting,
    WatchKinds,
};
pub use base64::{append_base64, decode_base64};
pub use buffer::{Limits, Parsed, parse, parse_from};
pub use key::{KEY_BYTES_MAX, Words, is_key};
pub use line::{BadLine, Verb};
pub use login::{TextLogin, parse_login};
pub use meta::{Meta, MetaFlag, MetaFlags, MetaVerb};
pub use request::{ArithmeticCommand, Command, Get, StoreCommand};
pub use text::HOLD_OFF_MAX_S;
pub use uri::append_uri;
