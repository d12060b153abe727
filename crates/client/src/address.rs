//! The address of a server, as text and as a value.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A name or an IP address, and a port. A name is looked up for each connection.
    Tcp {
        /// The name or the address. An IPv6 address has no brackets here.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// The error for a text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "{text:?} is no address: write host:port, [ipv6]:port, unix:/path or /path")
    }
}

impl std::error::Error for BadAddress {}

impl FromStr for Address {
    type Err = BadAddress;

    /// Parses `host`, `host:port`, `[ipv6]:port`, `unix:/path` or `/path`. Without a port, it is 11211.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.into());
        if let Some(path) = text.strip_prefix("unix:").or(text.starts_with('/').then_some(text)) {
            return if path.is_empty() { Err(bad()) } else { Ok(Address::Unix(path.into())) };
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(bad)?;
                if port.is_empty() {
                    (host, None)
                } else {
                    (host, Some(port.strip_prefix(':').ok_or_else(bad)?))
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(bad());
        }
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| bad()))?;
        Ok(Address::Tcp { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    /// Writes the form that `from_str` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// memcached's port.
const PORT: u16 = 11211;

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for (text, canonical) in [
            ("10.0.0.1:11212", "10.0.0.1:11212"),
            ("cache-1.example", "cache-1.example:11211"),
            ("[::1]:7", "[::1]:7"),
            ("[::1]", "[::1]:11211"),
            ("unix:/run/x", "unix:/run/x"),
            ("/run/x", "unix:/run/x"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_hint() {
        for text in ["", ":1", "host:", "host:x", "host:65536", "[::1", "[::1]7", "::1", "unix:"] {
            let refused = text.parse::<Address>().unwrap_err();
            assert!(refused.to_string().contains("host:port"), "{text}");
        }
    }
}
