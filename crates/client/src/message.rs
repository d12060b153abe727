//! A request for one key, and its reply. Both own their data.
//!
//! A multiget is many requests. So code that splits keys over servers, retries one of them or fails over deals with
//! keys, not with lines. The connection merges neighbouring gets into one `get` line before it sends them.
//!
//! # Invariants
//! 1. A key has the form in which it travels to the server. It has 1 to 250 bytes, or more where a route allows it,
//!    without blanks or control characters.
//! 2. An [`Outcome`] has all that a caller may base decisions on. `message` is for people.
//!
//! # Costs
//! `Bytes` are reference-counted: a clone of a request or reply copies no value.

use std::sync::Arc;

use bytes::Bytes;

/// What a request asks for: memcached's commands, and mcrouter's commands for leases and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `get`
    Get,
    /// `gets`: the reply has the cas unique in [`Reply::token`].
    Gets,
    /// `gat`: gets, and sets the expiry to [`Request::exptime`].
    Gat,
    /// `gats`
    Gats,
    /// `lease-get`: gets a value, or a token with which to fill the miss.
    LeaseGet,
    /// `metaget`: gets the metadata of an item, without its value.
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
    /// `delete`. [`Request::exptime`] is the hold-off in seconds.
    Delete,
    /// `touch`
    Touch,
    /// `incr` by [`Request::delta`].
    Incr,
    /// `decr` by [`Request::delta`].
    Decr,
    /// `flush_all`, after [`Request::exptime`] seconds.
    FlushAll,
    /// `version`. Probes send this.
    Version,
}

impl Op {
    /// Whether it reads an item. Its failure may be answered as a miss.
    #[must_use]
    pub const fn is_get(self) -> bool {
        matches!(self, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet | Op::MetaGet)
    }

    /// Whether it stores a value under a key.
    #[must_use]
    pub const fn is_update(self) -> bool {
        use Op::{Add, Append, Cas, LeaseSet, Prepend, Replace, Set};
        matches!(self, Set | Add | Replace | Append | Prepend | Cas | LeaseSet)
    }

    /// Whether it counts.
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
    /// The key. Empty for [`Op::FlushAll`] and [`Op::Version`].
    pub key: Bytes,
    /// The value to store.
    pub value: Bytes,
    /// The client's flags, stored next to the value.
    pub flags: u32,
    /// The expiry as memcached reads it: seconds from now, or a Unix time above 30 days. Negative means at once.
    pub exptime: i64,
    /// The cas unique or the lease token.
    pub token: u64,
    /// The number to add or subtract.
    pub delta: u64,
    /// The other flags of a meta command, as they travel, separated by blanks. A request that has this is sent as a
    /// meta command, whatever protocol the connection uses. Its key is sent in base64 if necessary.
    pub meta: Option<Arc<[u8]>>,
}

impl Request {
    /// Creates a request that has only a key.
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
    /// Done, where no other outcome fits: `OK`, `VERSION`.
    Ok,
    /// A value was found, or a number was counted.
    Found,
    /// A deleted value was found that is kept for clients that prefer it to waiting (a hot miss).
    FoundStale,
    /// Stored.
    Stored,
    /// Stored as stale: the lease was no longer valid.
    StaleStored,
    /// Deleted.
    Deleted,
    /// Touched.
    Touched,
    /// The cas unique has changed.
    Exists,
    /// There is no such key.
    NotFound,
    /// There is no such key, and another client holds the lease. Wait, then ask again.
    NotFoundHot,
    /// A condition of the store was not met.
    NotStored,
    /// The connection was up, but no reply came before the deadline. The request may have been carried out.
    Timeout,
    /// There was no connection before the deadline.
    ConnectTimeout,
    /// There was no connection. The server never saw the request.
    ConnectError,
    /// The server is marked as failed: until it answers a probe, no request is sent to it.
    Tko,
    /// The server sheds load, or too many requests are under way.
    Busy,
    /// The server refuses this request, but not the next.
    TryAgain,
    /// The server is shutting down.
    Shutdown,
    /// The deadline passed before the request was sent.
    DeadlineExceeded,
    /// The key is invalid.
    BadKey,
    /// The value is invalid or too large.
    BadValue,
    /// The command is unknown or switched off.
    BadCommand,
    /// Any other fault of the request: `CLIENT_ERROR`.
    ClientError,
    /// A fault of the server: `SERVER_ERROR`, or the connection broke before the reply.
    RemoteError,
    /// A local fault: no route, no memory, no descriptor, or no place to write.
    LocalError,
}

impl Outcome {
    /// Whether the request failed, for any reason.
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

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How the request ended.
    pub outcome: Outcome,
    /// The value that was found.
    pub value: Bytes,
    /// The client's flags, stored next to the value.
    pub flags: u32,
    /// The cas unique, or the lease token (1: another client holds the lease).
    pub token: u64,
    /// The number after counting.
    pub number: u64,
    /// The error message of the server or router, for people. For [`Op::MetaGet`] the metadata, for [`Op::Version`] the
    /// version.
    pub message: Bytes,
    /// The flags of a meta command's reply, if the request had [`meta`](Request::meta).
    pub meta: Option<Arc<[u8]>>,
}

impl Reply {
    /// Creates a reply that has only an outcome.
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

    /// Creates the reply of a failure, with a message for people.
    #[must_use]
    pub fn failure(outcome: Outcome, message: impl Into<Bytes>) -> Self {
        Self { message: message.into(), ..Self::new(outcome) }
    }
}
