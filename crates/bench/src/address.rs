//! The address of a server: `HOST:PORT`, `unix:/path`, and for comparisons `name=ADDRESS@PID`.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::BenchError;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// `HOST:PORT`; without a port, port 11211.
    Tcp(String),
    /// `unix:/path`.
    Unix(PathBuf),
}

impl ServerAddress {
    /// Connects in blocking mode, with Nagle's algorithm off.
    pub(crate) fn connect(&self) -> Result<Socket, BenchError> {
        self.try_connect()
            .map_err(|source| BenchError::Connect { address: self.to_string(), source })
    }

    fn try_connect(&self) -> io::Result<Socket> {
        let text = match self {
            Self::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.connect(&SockAddr::unix(path)?)?;
                return Ok(socket);
            }
            Self::Tcp(text) => text,
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in text.to_socket_addrs()? {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            match socket.connect_timeout(&address.into(), CONNECT_TIMEOUT) {
                Ok(()) => {
                    socket.set_tcp_nodelay(true)?;
                    return Ok(socket);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: wants a path, as in unix:/run/guira.sock".into())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if text.is_empty() {
            return Err("an address is HOST:PORT or unix:/path".into());
        }
        let bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
        Ok(Self::Tcp(match text.rsplit_once(':') {
            _ if bare_v6 => format!("[{text}]:{DEFAULT_PORT}"),
            Some((_, port)) if !port.ends_with(']') => {
                port.parse::<u16>().map_err(|_| format!("`{port}` is not a port"))?;
                text.into()
            }
            _ => format!("{text}:{DEFAULT_PORT}"),
        }))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(text) => f.write_str(text),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A server to measure: its address, its name, and the process whose CPU time is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name in tables and JSON; the address if no name was given.
    pub name: String,
    /// The address at which it listens.
    pub address: ServerAddress,
    /// Its process, if that is on this machine.
    pub pid: Option<u32>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(['/', ':']) => (Some(name), rest),
            _ => (None, text),
        };
        let (address, pid) = match rest.rsplit_once('@') {
            Some((address, pid)) => {
                (address, Some(pid.parse().map_err(|_| format!("`{pid}` is not a process id"))?))
            }
            None => (rest, None),
        };
        let address: ServerAddress = address.parse()?;
        Ok(Self { name: name.map_or_else(|| address.to_string(), str::to_owned), address, pid })
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_PORT: u16 = 11211;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, means) in [
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("localhost", "localhost:11211"),
            ("[::1]:7", "[::1]:7"),
            ("[::1]", "[::1]:11211"),
            ("::1", "[::1]:11211"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), means);
        }
        for text in ["", "unix:", "host:99999", "host:x"] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_has_a_name_and_a_process() {
        let target: Target = "memcached=127.0.0.1:11212@1234".parse().unwrap();
        assert_eq!(target.name, "memcached");
        assert_eq!(target.address.to_string(), "127.0.0.1:11212");
        assert_eq!(target.pid, Some(1234));
        let target: Target = "unix:/tmp/a=b".parse().unwrap();
        assert_eq!((target.name.as_str(), target.pid), ("unix:/tmp/a=b", None));
        assert!("a=b:1@x".parse::<Target>().is_err());
    }
}
