//! How a connection behaves, as its caller wants it, and what a caller gives along with a request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use guira_proto::KEY_BYTES_MAX;
use guira_proto::reply::ReplyLimits;
use tokio::sync::watch;

use super::purse::Purse;
use super::tap::Taps;
use crate::{Credentials, Reply, Tls};

/// How a connection behaves.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// Text, or meta where there is a command for it.
    pub protocol: Protocol,
    /// Encrypts, over TCP.
    pub tls: Option<Tls>,
    /// Logs in before anything else.
    pub login: Option<Credentials>,
    /// Longest wait for a connection, name look-up, handshake and login included.
    pub connect_timeout: Duration,
    /// After a failed connect requests fail at once for so long, a little more or less at random, doubled with
    /// each failure up to the second. `None`: each request may try again.
    pub backoff: Option<(Duration, Duration)>,
    /// A connection whose oldest request is overdue by this is given up: the path or the server is gone.
    pub stall: Duration,
    /// Longest key; servers other than memcached may take more than its 250. Bytes.
    pub key_bytes_max: usize,
    /// Longest reply value; a longer one closes the connection. Bytes.
    pub value_bytes_max: usize,
    /// Maximum number of requests without a reply.
    pub outstanding_max: usize,
    /// Maximum number of bytes that wait for the socket; a request may exceed it if it is the only one.
    pub unsent_bytes_max: usize,
    /// Where the very first value of a connection names another key than was asked, tell values by their order from then
    /// on, as mcrouter does: for proxies that change keys on their way and not back. Otherwise such a value closes the
    /// connection.
    pub trusts_order: bool,
    /// Maximum number of keys that neighbouring gets put on one line; 1: each get has a line of its own.
    pub keys_per_line_max: u32,
    /// The byte that marks packets for the network (DSCP and ECN bits, as `IP_TOS`); 0: as the system has it.
    pub traffic_class: u8,
    /// Tells where the host's name leads, and has the connection follow it without failing a request. `None`: the system
    /// is asked at each connect, and a connection stays where it is.
    pub whereabouts: Option<Whereabouts>,
    /// Called from the driver task when the connection comes and goes.
    pub observer: Option<Observer>,
    /// Who may look at what goes through.
    pub taps: Option<Taps>,
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol, with mcrouter's `lease-get` and `lease-set`.
    #[default]
    Text,
    /// Meta commands: leases on stock memcached from 1.6 on.
    Meta,
}

/// Whom to tell of a reply, and who pays for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// Told of the reply as if the [`Ask`](super::Ask) had been polled with it already: spares that poll, and its lock.
    pub waker: Option<&'a Waker>,
    /// Pays for the value from when it comes. `None`: whoever asks holds few replies.
    pub purse: Option<&'a Arc<dyn Purse>>,
}

/// Told when a connection comes and goes.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// What an observer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connected.
    Up,
    /// Could not connect, or lost the connection.
    Down {
        /// Why, as those who asked were told.
        why: Reply,
        /// The server had answered something on the connection that was lost.
        has_answered: bool,
    },
}

impl Default for ConnectionOptions {
    /// A second to connect, back-off from 50 ms to 5 s, 64 Ki requests, 64 MiB.
    fn default() -> Self {
        Self {
            protocol: Protocol::Text,
            tls: None,
            login: None,
            connect_timeout: Duration::from_secs(1),
            backoff: Some((Duration::from_millis(50), Duration::from_secs(5))),
            stall: Duration::from_secs(5),
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: ReplyLimits::DEFAULT.value_bytes_max,
            outstanding_max: 64 << 10,
            unsent_bytes_max: 64 << 20,
            trusts_order: false,
            keys_per_line_max: 100,
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

/// What is known of where a name leads: addresses to be tried in their order, or why there are none. `None`: nobody
/// has answered yet.
pub type Known = Option<Result<Arc<[SocketAddr]>, Arc<str>>>;

/// Tells where a name leads, from now on and whenever that changes.
pub type Whereabouts = watch::Receiver<Known>;
