//! The options of a connection, and what a caller passes with a request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use guira_proto::reply::ReplyLimits;
use tokio::sync::watch;

use super::purse::Purse;
use super::tap::Taps;
use crate::{Credentials, Reply, Tls};

/// The options of a connection.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// The protocol: text, or meta where a meta command exists.
    pub protocol: Protocol,
    /// Encrypts the connection. Only over TCP.
    pub tls: Option<Tls>,
    /// Logs in before the first request.
    pub login: Option<Credentials>,
    /// The longest wait for a connection, including the name's lookup, the handshake and the login.
    pub connect_timeout: Duration,
    /// After a failed connect, requests fail at once for the first duration, randomized by up to a quarter. It doubles
    /// with each failure, up to the second duration. `None`: each request may connect again.
    pub backoff: Option<(Duration, Duration)>,
    /// A connection is given up when its oldest request is overdue by this time: the path or the server is gone.
    pub stall: Duration,
    /// The longest value in a reply, in bytes. A longer one closes the connection.
    pub value_bytes_max: usize,
    /// The maximum number of requests without a reply.
    pub outstanding_max: usize,
    /// For proxies that change keys and don't change them back. If a connection's very first value has another key than
    /// was asked for, values are matched by their order from then on, as in mcrouter. If false, such a value closes the
    /// connection.
    pub trusts_order: bool,
    /// The traffic class of packets (DSCP and ECN bits, as in `IP_TOS`). 0: the system's default.
    pub traffic_class: u8,
    /// The addresses of the host's name. The connection follows changes without failing a request. `None`: the system
    /// looks the name up for each connect, and a connection doesn't move.
    pub whereabouts: Option<Whereabouts>,
    /// Called from the driver task when the connection comes up or goes down.
    pub observer: Option<Observer>,
    /// Makes the tap of each connection. A tap observes the data.
    pub taps: Option<Taps>,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol, with mcrouter's `lease-get` and `lease-set`.
    #[default]
    Text,
    /// Meta commands, which give leases on stock memcached from version 1.6.
    Meta,
}

/// The caller of a request: the waker to call for the reply, and the purse that pays for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// Called for the reply as if the [`Ask`](super::Ask) had been polled with it: saves that poll and its lock.
    pub waker: Option<&'a Waker>,
    /// Pays for the value while it arrives. `None`: the caller holds only few replies.
    pub purse: Option<&'a Arc<dyn Purse>>,
}

/// A function that is called when a connection comes up or goes down.
pub(crate) type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// The events for an observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is up.
    Up,
    /// Connecting failed, or the connection was lost.
    Down {
        /// The reason, as the waiting requests got it.
        why: Reply,
        /// Whether the server had answered anything on the lost connection.
        has_answered: bool,
    },
}

impl Default for ConnectionOptions {
    /// One second to connect, back-off from 50 ms to 5 s, 64 Ki requests.
    fn default() -> Self {
        Self {
            protocol: Protocol::Text,
            tls: None,
            login: None,
            connect_timeout: Duration::from_secs(1),
            backoff: Some((Duration::from_millis(50), Duration::from_secs(5))),
            stall: Duration::from_secs(5),
            value_bytes_max: ReplyLimits::DEFAULT.value_bytes_max,
            outstanding_max: 64 << 10,
            trusts_order: false,
            traffic_class: 0,
            whereabouts: None,
            observer: None,
            taps: None,
        }
    }
}

impl fmt::Debug for ConnectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

/// What is known about a name: its addresses in the order in which to try them, or why there are none. `None` if no
/// lookup has ended yet.
pub type Known = Option<Result<Arc<[SocketAddr]>, Arc<str>>>;

/// Provides the addresses of a name, now and after each change.
pub type Whereabouts = watch::Receiver<Known>;
