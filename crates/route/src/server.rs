//! The address of a server and how to talk to it: what mcrouter's configuration writes as one string.
//!
//! ```text
//! host:port[:protocol[:security[:compression]]]      ascii, caret, thrift · plain, ssl, … · compressed, notcompressed
//! [v6]:port…                                         an IPv6 address is written in brackets
//! unix:/path[:protocol…]                             a path has no port
//! ```
//! Caret and thrift are mcrouter's own protocols. Servers with these protocols are asked in the text protocol, which
//! every memcached and every mcrouter supports too.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use guira_client::Address;
use guira_etcd::EtcdFlags;
use guira_front::certificates::PeerTlsFiles;

/// The address of a server and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// A name, an address without brackets, or a path.
    pub(crate) host: String,
    /// 0 for a path.
    pub(crate) port: u16,
    /// Whether the host is the path of a unix socket.
    pub(crate) is_unix: bool,
    /// The protocol's name as written, for display.
    pub(crate) protocol: String,
    /// The security of the connection, as written: usually `plain` or `ssl`.
    pub(crate) security: String,
    /// As written. In the text protocol nothing is compressed.
    pub(crate) is_compressed: bool,
}

/// The description of a leaf.
#[derive(Clone, Debug)]
pub(crate) struct LeafSpec {
    /// The server that it sends to.
    pub(crate) server: Server,
    /// The time limit of a reply.
    pub(crate) timeout: Duration,
    /// The time limit for opening a connection.
    pub(crate) connect_timeout: Duration,
    /// Whether keys are sent with their routing prefix.
    pub(crate) keep_routing_prefix: bool,
    /// The pool that the leaf belongs to.
    pub(crate) pool: Rc<str>,
    /// Its place in the pool, from 0.
    pub(crate) index: usize,
    /// The byte that marks the pool's packets for the network (DSCP); 0: none.
    pub(crate) dscp: u8,
    /// The limits of a pool that fails open. If a server fails while the first number is marked, no more are marked,
    /// until at most the second number is.
    pub(crate) fail_open: Option<(usize, usize)>,
    /// The failure domain, whose servers fail together. `Route::failure_domain` returns it; 0: unknown.
    pub(crate) failure_domain: u32,
    /// How many seconds a deleted value is kept for lease requests; 0: not at all.
    pub(crate) stale_on_delete_s: u32,
    /// The number of connections per proxy thread to the server, at least one.
    pub(crate) connections: u32,
}

/// The description of a cluster of stores.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSpec {
    /// The place of its view: `etcd:HOST:PORT/NAME`, or `etcds:`.
    pub(crate) place: String,
    /// The credentials and certificates for etcd.
    pub(crate) etcd: EtcdFlags,
    /// How long a node may take before another is asked.
    pub(crate) timeout: Duration,
    /// Whether nodes are asked over TLS.
    pub(crate) is_secured: bool,
    /// The cache of the hottest keys, if there is one.
    pub(crate) hot_cache: Option<HotSpec>,
    /// The certificate for links to nodes that speak TLS with each other.
    pub(crate) peer_tls: Option<PeerTlsFiles>,
}

/// The description of a cache in front of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HotSpec {
    /// How many keys it has: k·n·ln n + 1 for n nodes.
    pub(crate) k: f64,
    /// How many keys it has, whatever `k` says.
    pub(crate) entries: Option<usize>,
    /// Larger values are left to the nodes.
    pub(crate) value_bytes_max: usize,
}

impl Server {
    /// Parses one server. Missing parts are taken from `defaults`.
    ///
    /// # Errors
    /// A message about the part that can't be parsed.
    pub(crate) fn parse(text: &str, defaults: &Server) -> Result<Server, String> {
        let bad = |what: &str| {
            format!("{what} in server '{text}': write host:port, [v6]:port or unix:/path")
        };
        let is_unix = text.starts_with("unix:");
        let rest = text.strip_prefix("unix:").unwrap_or(text);
        let (host, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| bad("no ']'"))?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        if host.is_empty() {
            return Err(bad("no host"));
        }
        let mut parts = match rest.strip_prefix(':') {
            Some(parts) => parts.split(':'),
            None if rest.is_empty() => "".split(':'),
            None => return Err(bad("no ':' after the host")),
        };
        let port = match (is_unix, defaults.port) {
            (true, _) => 0,
            (false, 0) => {
                let port = parts.next().filter(|port| !port.is_empty());
                let port = port.ok_or_else(|| bad("no port"))?;
                port.parse()
                    .map_err(|_| bad(&format!("'{port}' is no port, a number from 1 to 65535,")))?
            }
            (false, port) => {
                parts.next();
                port
            }
        };
        let mut server = Server { host: host.to_owned(), port, is_unix, ..defaults.clone() };
        if let Some(protocol) = parts.next().filter(|part| !part.is_empty()) {
            if !PROTOCOLS.contains(&protocol) {
                return Err(bad(&format!("no protocol '{protocol}'")));
            }
            protocol.clone_into(&mut server.protocol);
        }
        if let Some(security) = parts.next() {
            checked_security(security)?.clone_into(&mut server.security);
        }
        match parts.next() {
            Some("compressed") => server.is_compressed = true,
            Some("notcompressed") => server.is_compressed = false,
            Some(other) => return Err(bad(&format!("no compression '{other}'"))),
            None => {}
        }
        if parts.next().is_some() {
            return Err(bad("too many parts"));
        }
        Ok(server)
    }

    /// The address for connections to it.
    #[must_use]
    pub(crate) fn address(&self) -> Address {
        if self.is_unix {
            Address::Unix(self.host.clone().into())
        } else {
            Address::Tcp { host: self.host.clone(), port: self.port }
        }
    }

    /// Whether it is asked in meta commands.
    #[must_use]
    pub(crate) fn speaks_meta(&self) -> bool {
        self.protocol == "meta"
    }

    /// Whether it is asked over TLS.
    #[must_use]
    pub(crate) fn is_secured(&self) -> bool {
        self.security != "plain"
    }

    /// `host:port`: the name under which the server's state is shared and shown.
    #[must_use]
    pub(crate) fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The names of protocols.
pub(crate) const PROTOCOLS: &[&str] = &["ascii", "caret", "thrift", "meta"];
/// The ways to secure a connection.
pub(crate) const SECURITIES: &[&str] = &["plain", "ssl", "tls", "fizz", "ktls12"];

/// Checks the name of a way to secure a connection. The names are mcrouter's, and all except `plain` mean TLS.
pub(crate) fn checked_security(word: &str) -> Result<&str, String> {
    match word {
        known if SECURITIES.contains(&known) => Ok(word),
        "tls_to_plain" => Err("no security 'tls_to_plain': TLS stays on here, write ssl".into()),
        other => Err(format!("no security '{other}': write plain or ssl")),
    }
}

impl Default for Server {
    /// No host, text protocol, no TLS, and the port of the string. A default with a port overrides the string's.
    fn default() -> Self {
        let (protocol, security) = ("ascii".to_owned(), "plain".to_owned());
        Self {
            host: String::new(),
            port: 0,
            is_unix: false,
            protocol,
            security,
            is_compressed: false,
        }
    }
}

impl fmt::Display for Server {
    /// `host:port:ascii:plain:notcompressed`, as mcrouter shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compression = if self.is_compressed { "compressed" } else { "notcompressed" };
        write!(f, "{}:{}:{}:{compression}", self.host_port(), self.protocol, self.security)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_as_mcrouter_reads_it() {
        for (text, shown) in [
            ("localhost:11211", "localhost:11211:ascii:plain:notcompressed"),
            ("127.0.0.1:1:caret", "127.0.0.1:1:caret:plain:notcompressed"),
            ("[::1]:5:ascii:ssl", "[::1]:5:ascii:ssl:notcompressed"),
            ("h:1:ascii:plain:compressed", "h:1:ascii:plain:compressed"),
            ("unix:/run/a.sock", "/run/a.sock:0:ascii:plain:notcompressed"),
            ("unix:/run/a.sock:ascii", "/run/a.sock:0:ascii:plain:notcompressed"),
        ] {
            let server = Server::parse(text, &Server::default());
            assert_eq!(server.map(|server| server.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in
            ["", ":1", "h", "h:x", "h:99999", "[::1:1", "h:1:http", "h:1:ascii:plain:zip", "[a]1"]
        {
            assert!(Server::parse(text, &Server::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_that_is_given_beforehand_replaces_the_one_in_the_text() {
        let defaults = Server { port: 7, ..Server::default() };
        let server = Server::parse("h:1:caret", &defaults).map(|server| server.to_string());
        assert_eq!(server, Ok("h:7:caret:plain:notcompressed".to_owned()));
    }
}
