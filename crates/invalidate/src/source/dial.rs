//! The socket to a database, its encryption, and the password.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guira_client::{Address, Tls};

use crate::config::{SourceConfig, TlsConfig};

/// A TCP or Unix socket, encrypted or not.
pub(super) trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

/// The timeouts of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) read: Duration,
    pub(super) write: Duration,
}

/// Describes an error of a connection for the log. The library's own text for a closed connection is about buffers.
pub(super) fn said_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it is silent".to_owned(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

/// Connects to a source's host. A read or write fails if it moves no byte within its timeout.
pub(super) fn connect(source: &SourceConfig, waits: Waits) -> io::Result<Box<dyn Socket>> {
    match &source.host {
        Address::Tcp { host, port } => Ok(Box::new(connect_port(source, (host, *port), waits)?)),
        Address::Unix(path) => {
            let socket = UnixStream::connect(path).map_err(|error| away(source, &error))?;
            socket.set_read_timeout(Some(waits.read))?;
            socket.set_write_timeout(Some(waits.write))?;
            Ok(Box::new(socket))
        }
    }
}

/// Connects to a TCP port. Without TLS it connects only to this machine, whatever address the name stands for.
pub(super) fn connect_port(
    source: &SourceConfig,
    (host, port): (&str, u16),
    waits: Waits,
) -> io::Result<TcpStream> {
    let places = (host, port).to_socket_addrs().map_err(|error| away(source, &error))?;
    let places: Vec<SocketAddr> = places.collect();
    let mut tried = Err(io::ErrorKind::NotFound.into());
    for place in reachable(host, &places, source.tls.is_some())? {
        tried = TcpStream::connect_timeout(&place, CONNECT);
        if tried.is_ok() {
            break;
        }
    }
    let socket = tried.map_err(|error| away(source, &error))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(waits.read))?;
    socket.set_write_timeout(Some(waits.write))?;
    Ok(socket)
}

/// Adds the address to the error of a connection that can't be made.
fn away(source: &SourceConfig, error: &io::Error) -> io::Error {
    io::Error::other(format!("{} can't be reached: {}", source.host, said_of(error)))
}

/// Returns the addresses of a host that may be asked.
///
/// # Errors
/// There are some, and all are other machines, to which password and rows would go in clear.
fn reachable(host: &str, places: &[SocketAddr], is_encrypted: bool) -> io::Result<Vec<SocketAddr>> {
    let is_here = |place: &&SocketAddr| is_encrypted || place.ip().to_canonical().is_loopback();
    let here: Vec<SocketAddr> = places.iter().filter(is_here).copied().collect();
    match places {
        [away, ..] if here.is_empty() => Err(io::Error::other(format!(
            "{host} is {}, another machine, where password and rows would go in clear: mend the name, or set tls",
            away.ip()
        ))),
        _ => Ok(here),
    }
}

/// Encrypts a connection whose server has agreed to it.
///
/// # Errors
/// The connection fails, or the certificates are wrong.
pub(super) fn encrypt(
    source: &SourceConfig,
    tls: &TlsConfig,
    socket: Box<dyn Socket>,
) -> Result<Box<dyn Socket>, NoTls> {
    let refused = |words: String| NoTls::Refused(format!("TLS: {words}"));
    let of_file = |why: &dyn Display| refused(format!("{}: {why}", tls.ca.display()));
    let authorities = std::fs::read(&tls.ca).map_err(|error| of_file(&error))?;
    let mut way = Tls::trusting(&authorities).map_err(|error| of_file(&error))?;
    if let Some(name) = &tls.name {
        way = way.named(name).map_err(|error| refused(error.to_string()))?;
    }
    let host = match &source.host {
        Address::Tcp { host, .. } => &**host,
        Address::Unix(_) => "",
    };
    match way.encrypt(host, socket) {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let expected = tls.name.as_deref().unwrap_or(host);
            Err(refused(format!(
                "the server isn't shown to be '{expected}' by whom {} has: {error}",
                tls.ca.display()
            )))
        }
        Err(error) => Err(NoTls::Io(error)),
    }
}

/// Why a connection isn't encrypted.
#[derive(Debug)]
pub(super) enum NoTls {
    /// Another try may succeed.
    Io(io::Error),
    /// An administrator must solve the problem.
    Refused(String),
}

/// Reads the user's password; it is empty if no file is configured.
///
/// # Errors
/// A sentence: the file can't be read.
pub(super) fn password(source: &SourceConfig) -> Result<String, String> {
    let Some(path) = &source.password_file else { return Ok(String::new()) };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

const CONNECT: Duration = Duration::from_secs(5);

/// The database of a test: it sends its script, whatever it receives.
#[cfg(any(test, fuzzing))]
pub(super) struct Script<R>(pub(super) R);

#[cfg(any(test, fuzzing))]
impl<R: Read> Read for Script<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

#[cfg(any(test, fuzzing))]
impl<R> Write for Script<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_another_machine_is_asked_over_tls_only() {
        let places = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mixed = places(&["10.0.0.1:3306", "[::1]:3306", "[::ffff:127.0.0.1]:3306"]);
        assert_eq!(reachable("localhost", &mixed, true).unwrap(), mixed);
        assert_eq!(reachable("localhost", &mixed, false).unwrap(), mixed[1..]);
        for away in ["10.0.0.1:3306", "[::ffff:10.0.0.1]:3306", "[fe80::1]:3306", "0.0.0.0:3306"] {
            let told = reachable("localhost", &places(&[away]), false).unwrap_err().to_string();
            assert!(told.contains("another machine"), "{told}");
        }
        assert!(reachable("nowhere", &[], false).unwrap().is_empty());
    }
}
