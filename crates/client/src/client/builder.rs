//! The builder of clients: their servers, and how they communicate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Client, Inner, OnNoLeases, Server};
use crate::ring::{Ketama, KeyHash, Rendezvous, Ring, server_name};
use crate::{Address, BadAddress, Connection, ConnectionOptions, Udp, Window};

/// The ring that a client makes of its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingKind {
    /// As in libmemcached with `KETAMA_WEIGHTED`. Takes weights.
    #[default]
    Ketama,
    /// As in mcrouter, with `host:port` as the tag. Takes weights.
    Rendezvous,
    /// As mcrouter's default. Takes no weights.
    Ch3,
    /// Jump hashing over the servers in their order. Takes no weights.
    Jump,
    /// As mcrouter's `Crc32`. Takes no weights.
    Crc32,
    /// As in libmemcached without ketama. Takes no weights.
    Modula(KeyHash),
}

/// Collects the settings of a [`Client`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    servers: Vec<(Address, u32)>,
    ring: RingKind,
    connections: usize,
    deadline: Duration,
    window: Option<Window>,
    has_udp: bool,
    options: ConnectionOptions,
    on_no_leases: OnNoLeases,
}

/// The reason why no client can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// A server's address can't be read.
    Address(BadAddress),
    /// There is no server.
    NoServer,
    /// There are weights, but the ring takes none.
    Weights(RingKind),
    /// All weights are 0.
    NoWeight,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Address(error) => error.fmt(f),
            BuildError::NoServer => f.write_str("a client needs a server: call server(address)"),
            BuildError::Weights(ring) => {
                write!(f, "{ring:?} takes no weights: leave them out, or take Ketama")
            }
            BuildError::NoWeight => f.write_str("all weights are 0: give one server more"),
        }
    }
}

impl std::error::Error for BuildError {}

impl Client {
    /// Starts building a client: add servers, then call [`build`](Builder::build).
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    fn new() -> Self {
        Self {
            servers: Vec::new(),
            ring: RingKind::default(),
            connections: 1,
            deadline: Duration::from_secs(1),
            window: None,
            has_udp: false,
            options: ConnectionOptions::default(),
            on_no_leases: OnNoLeases::default(),
        }
    }

    /// Adds a server. The order matters to every ring except [`RingKind::Ketama`] and [`RingKind::Rendezvous`].
    ///
    /// # Errors
    /// The address can't be read.
    pub fn server(self, address: &str) -> Result<Self, BuildError> {
        self.weighted_server(address, 1)
    }

    /// Adds a server that gets keys in proportion to its weight.
    ///
    /// # Errors
    /// The address can't be read.
    pub fn weighted_server(mut self, address: &str, weight: u32) -> Result<Self, BuildError> {
        self.servers.push((address.parse().map_err(BuildError::Address)?, weight));
        Ok(self)
    }

    /// Sets the ring. All clients that share the servers must agree on it.
    pub fn ring(mut self, ring: RingKind) -> Self {
        self.ring = ring;
        self
    }

    /// Sets the number of connections to each server, used in turn. One is best, except for long values. Default 1.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets how long each request may take, including connecting. Default 1 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets a [window](Window) for all requests. Clients may share one.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// Sends plain gets over UDP, to the port number that the server has for TCP. Servers on unix sockets are excepted.
    pub fn udp(mut self, has_udp: bool) -> Self {
        self.has_udp = has_udp;
        self
    }

    /// Sets the options of each connection: protocol, back-off, limits.
    pub fn options(mut self, options: ConnectionOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets a function to call when [`Client::get_or_load`] finds that a server gives no leases, and fills misses there
    /// by `add`. It is called once, and again if this is still so a minute later.
    pub fn on_no_leases(mut self, observer: impl Fn(&Address) + Send + Sync + 'static) -> Self {
        self.on_no_leases = OnNoLeases(Some(Arc::new(observer)));
        self
    }

    /// Builds the client, which connects with the first request.
    ///
    /// # Errors
    /// See [`BuildError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn build(self) -> Result<Client, BuildError> {
        let ring = self.make_ring()?;
        let servers = self.servers.iter().map(|(address, _)| Server {
            connections: (0..self.connections)
                .map(|_| Connection::new(address.clone(), self.options.clone()))
                .collect(),
            turn: AtomicUsize::new(0),
            udp: match address {
                Address::Tcp { host, port } if self.has_udp => Some(Udp::new(host, *port)),
                _ => None,
            },
            leaseless_until: Mutex::default(),
        });
        let servers = servers.collect();
        let Self { deadline, window, on_no_leases, .. } = self;
        let inner = Inner { servers, ring, deadline, window, on_no_leases };
        Ok(Client { inner: Arc::new(inner) })
    }

    fn make_ring(&self) -> Result<Ring, BuildError> {
        let servers = self.servers.len();
        if servers == 0 {
            return Err(BuildError::NoServer);
        }
        let takes_weights = matches!(self.ring, RingKind::Ketama | RingKind::Rendezvous);
        if !takes_weights && self.servers.iter().any(|&(_, weight)| weight != 1) {
            return Err(BuildError::Weights(self.ring));
        }
        if self.servers.iter().all(|&(_, weight)| weight == 0) {
            return Err(BuildError::NoWeight);
        }
        let named = |name: &dyn Fn(&Address) -> String| -> Vec<(String, u32)> {
            self.servers.iter().map(|(address, weight)| (name(address), *weight)).collect()
        };
        Ok(match self.ring {
            RingKind::Ketama => Ring::Ketama(Ketama::new(&named(&server_name))),
            RingKind::Rendezvous => {
                let named = named(&ToString::to_string);
                if named.iter().all(|&(_, weight)| weight == named[0].1) {
                    let tags: Vec<String> = named.into_iter().map(|(tag, _)| tag).collect();
                    Ring::Rendezvous(Rendezvous::new(&tags))
                } else {
                    let weighted: Vec<(String, f64)> =
                        named.into_iter().map(|(tag, weight)| (tag, weight.into())).collect();
                    Ring::Rendezvous(Rendezvous::weighted(&weighted))
                }
            }
            RingKind::Ch3 => Ring::Ch3(servers),
            RingKind::Jump => Ring::Jump(servers),
            RingKind::Crc32 => Ring::Crc32(servers),
            RingKind::Modula(hash) => Ring::Modula(hash, servers),
        })
    }
}
