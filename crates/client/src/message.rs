//! One request for one key, and its reply, owned.
//!
//! A multiget is many requests: whoever splits keys over servers, retries one of them or fails over sees keys, not
//! lines. The connection joins neighbours again into one `get` line before they go out.
//!
//! # Invariants
//! 1. A key is what travels to the server: 1 … 250 bytes without blanks or controls, or longer where a route says so.
//! 2. An [`Outcome`] says all that the caller may decide on; `message` is for people.
//!
//! # Costs
//! `Bytes` are counted references: a copy of a request or reply copies no value.

use std::sync::Arc;

use bytes::Bytes;

/// What a request asks for: memcached's commands, and mcrouter's for leases and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `get`
    Get,
    /// `gets`: with the cas unique, in [`Reply::token`].
    Gets,
    /// `gat`: get, and set the expiry to [`Request::exptime`].
    Gat,
    /// `gats`
    Gats,
    /// `lease-get`: a value, or a token to fill the miss with.
    LeaseGet,
    /// `metaget`: what is known of an item, without its value.
    MetaGet,
    /// `set`
    Set,
    /// `add`
    Add,
    /// `replace`
    Replace,
    /// `append`
    Append,
    /// `prepend`
    Prepend,
    /// `cas`: stores if [`Request::token`] is still the item's cas unique.
    Cas,
    /// `lease-set`: stores if [`Request::token`] is still the key's lease.
    LeaseSet,
    /// `delete`, with [`Request::exptime`] as the hold-off in seconds.
    Delete,
    /// `touch`
    Touch,
    /// `incr` by [`Request::delta`].
    Incr,
    /// `decr` by [`Request::delta`].
    Decr,
    /// `flush_all`, after [`Request::exptime`] seconds.
    FlushAll,
    /// `version`: also what a probe sends.
    Version,
}

impl Op {
    /// Reads a value: a failure of it may be answered as a miss.
    #[must_use]
    pub const fn is_get(self) -> bool {
        matches!(self, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet | Op::MetaGet)
    }

    /// Stores a value under a key.
    #[must_use]
    pub const fn is_update(self) -> bool {
        use Op::{Add, Append, Cas, LeaseSet, Prepend, Replace, Set};
        matches!(self, Set | Add | Replace | Append | Prepend | Cas | LeaseSet)
    }

    /// Counts.
    #[must_use]
    pub const fn is_arithmetic(self) -> bool {
        matches!(self, Op::Incr | Op::Decr)
    }
}

/// One request for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub op: Op,
    /// For which key; empty for [`Op::FlushAll`] and [`Op::Version`].
    pub key: Bytes,
    /// The value to store.
    pub value: Bytes,
    /// The client's flags beside the value.
    pub flags: u32,
    /// Expiry as memcached reads it: seconds from now, or a Unix time past 30 days; negative is at once.
    pub exptime: i64,
    /// Cas unique or lease token.
    pub token: u64,
    /// How much to count by.
    pub delta: u64,
    /// What a meta command says beside all that: flags as they travel, words apart. A request that has this goes out
    /// as a meta command whatever the connection speaks, its key in base64 if it has to be.
    pub meta: Option<Arc<[u8]>>,
}

impl Request {
    /// A request that carries only a key.
    #[must_use]
    pub fn new(op: Op, key: impl Into<Bytes>) -> Self {
        let (value, flags, exptime, token, delta) = (Bytes::new(), 0, 0, 0, 0);
        Self { op, key: key.into(), value, flags, exptime, token, delta, meta: None }
    }
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// How a request ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Outcome {
            $($(#[doc = $doc])* $name,)*
        }

        impl Outcome {
            /// Each outcome, in the order of the discriminants.
            pub const ALL: [Outcome; [$(stringify!($name)),*].len()] = [$(Outcome::$name),*];
        }
    };
}

outcomes! {
    /// Done, where no better word fits: `OK`, `VERSION`.
    Ok,
    /// A value, or a number after counting.
    Found,
    /// A value that was deleted, kept for those who'd rather have it than wait (a hot miss).
    FoundStale,
    /// Stored.
    Stored,
    /// Stored as stale: the lease was void.
    StaleStored,
    /// Deleted.
    Deleted,
    /// Touched.
    Touched,
    /// The cas unique has changed.
    Exists,
    /// No such key.
    NotFound,
    /// No such key, and somebody else holds the lease: wait, ask again.
    NotFoundHot,
    /// A condition of the store was not met.
    NotStored,
    /// No reply within the deadline, over a connection that stood: it may have been carried out.
    Timeout,
    /// No connection within the deadline.
    ConnectTimeout,
    /// No connection, so that the server never saw the request.
    ConnectError,
    /// Nothing is sent to this server until it answers a probe.
    Tko,
    /// The server sheds load.
    Busy,
    /// The server refuses this request, not the next.
    TryAgain,
    /// The server is about to end.
    Shutdown,
    /// The request was too late before it was sent.
    DeadlineExceeded,
    /// Not a key.
    BadKey,
    /// Not a value, or too large a one.
    BadValue,
    /// Not a command, or one that is switched off.
    BadCommand,
    /// The request's own fault otherwise: `CLIENT_ERROR`.
    ClientError,
    /// The server's fault: `SERVER_ERROR`, or the connection broke before the reply.
    RemoteError,
    /// Ours: no route, no memory, no descriptor, nowhere to write.
    LocalError,
}

impl Outcome {
    /// Whether the request failed, for whatever reason.
    #[must_use]
    pub const fn is_error(self) -> bool {
        use Outcome::{
            BadCommand, BadKey, BadValue, Busy, ClientError, ConnectError, ConnectTimeout,
            DeadlineExceeded, LocalError, RemoteError, Shutdown, Timeout, Tko, TryAgain,
        };
        matches!(
            self,
            Timeout
                | ConnectTimeout
                | ConnectError
                | Tko
                | Busy
                | TryAgain
                | Shutdown
                | DeadlineExceeded
                | BadKey
                | BadValue
                | BadCommand
                | ClientError
                | RemoteError
                | LocalError
        )
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How the request ended.
    pub outcome: Outcome,
    /// The value found.
    pub value: Bytes,
    /// The client's flags beside the value.
    pub flags: u32,
    /// Cas unique, or lease token (1: somebody else holds the lease).
    pub token: u64,
    /// The number after counting.
    pub number: u64,
    /// For people: the server's or router's words where it failed; for [`Op::MetaGet`] the answer's text.
    pub message: Bytes,
    /// The flags that a meta command was answered with, where the request's [`meta`](Request::meta) was some.
    pub meta: Option<Arc<[u8]>>,
}

impl Reply {
    /// A reply that says how it ended, and no more.
    #[must_use]
    pub const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            value: Bytes::new(),
            flags: 0,
            token: 0,
            number: 0,
            message: Bytes::new(),
            meta: None,
        }
    }

    /// A failure, in words for people.
    #[must_use]
    pub fn failure(outcome: Outcome, message: impl Into<Bytes>) -> Self {
        Self { message: message.into(), ..Self::new(outcome) }
    }
}
