//! Where a server is and how it's spoken to: what mcrouter's configuration writes as one string.
//!
//! ```text
//! host:port[:protocol[:security[:compression]]]      ascii, caret, thrift · plain, ssl, … · compressed, notcompressed
//! [v6]:port…                                         an IPv6 address stands in brackets
//! unix:/path[:protocol…]                             a path has no port
//! ```
//! Caret and thrift are mcrouter's own protocols. A server that is said to speak them is asked in text, which every
//! memcached and every mcrouter speaks too.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use guira_client::Address;
use guira_etcd::EtcdFlags;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// A name, an address without brackets, or a path.
    pub host: String,
    /// 0 for a path.
    pub port: u16,
    /// The host is the path of a unix socket.
    pub is_unix: bool,
    /// The protocol's name as written, for people.
    pub protocol: String,
    /// How the connection is secured, as written: `plain` or `ssl`, mostly.
    pub security: String,
    /// As written; nothing is compressed in text.
    pub is_compressed: bool,
}

/// What a leaf is asked for.
#[derive(Clone, Debug)]
pub struct LeafSpec {
    /// Where it sends.
    pub server: Server,
    /// How long a reply may take.
    pub timeout: Duration,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// Send the key with its routing prefix, instead of without.
    pub keep_routing_prefix: bool,
    /// The pool that the leaf stands in.
    pub pool: Rc<str>,
    /// Its place there, from 0.
    pub index: usize,
    /// The byte that marks the pool's packets for the network (DSCP); 0 is none.
    pub dscp: u8,
    /// When too many of the pool's servers fail, go on using them: above the first number, until below the second.
    pub fail_open: Option<(usize, usize)>,
    /// Servers of one domain fail together, and its leaf says so by `Route::failure_domain`; 0: unknown.
    pub failure_domain: u32,
    /// Seconds for which a deleted value is kept for those who ask for leases; 0: none.
    pub stale_on_delete_s: u32,
    /// Connections a proxy thread to the server, at least one.
    pub connections: u32,
}

/// What a cluster of stores is asked with.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Where its view is: `etcd:HOST:PORT/NAME`, or `etcds:`.
    pub place: String,
    /// How etcd lets us in.
    pub etcd: EtcdFlags,
    /// How long a node may take before another is asked.
    pub timeout: Duration,
    /// Nodes are asked over TLS.
    pub is_secured: bool,
}

impl Server {
    /// Reads one server; what it leaves out is as `defaults` has it.
    ///
    /// # Errors
    /// In words: what can't be read.
    pub fn parse(text: &str, defaults: &Server) -> Result<Server, String> {
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

    /// Where a connection to it goes.
    #[must_use]
    pub fn address(&self) -> Address {
        if self.is_unix {
            Address::Unix(self.host.clone().into())
        } else {
            Address::Tcp { host: self.host.clone(), port: self.port }
        }
    }

    /// Whether it is asked in meta commands.
    #[must_use]
    pub fn speaks_meta(&self) -> bool {
        self.protocol == "meta"
    }

    /// Whether it is asked over TLS.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.security != "plain"
    }

    /// `host:port`, the name under which the server's state is shared and shown.
    #[must_use]
    pub fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Protocols by name.
pub(crate) const PROTOCOLS: &[&str] = &["ascii", "caret", "thrift", "meta"];
/// How a connection may be secured.
pub(crate) const SECURITIES: &[&str] = &["plain", "ssl", "tls", "fizz", "ktls12"];

/// How a connection is secured, if there is such a thing: mcrouter's words, of which three are TLS.
pub(crate) fn checked_security(word: &str) -> Result<&str, String> {
    match word {
        known if SECURITIES.contains(&known) => Ok(word),
        "tls_to_plain" => Err("no security 'tls_to_plain': TLS stays on here, write ssl".into()),
        other => Err(format!("no security '{other}': write plain or ssl")),
    }
}

impl Default for Server {
    /// No host; text, plain, and the port is what the string says. A default with a port overrides the string's.
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
    /// `host:port:ascii:plain:notcompressed`, as mcrouter names it.
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
