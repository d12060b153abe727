//! A socket to a database, and the password.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guira_client::Address;

use crate::config::SourceConfig;

/// Either kind of socket.
pub(super) trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

/// How long the socket waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) read: Duration,
    pub(super) write: Duration,
}

/// Connects. A read or write that moves nothing for so long fails.
pub(super) fn connect(address: &Address, waits: Waits) -> io::Result<Box<dyn Socket>> {
    match address {
        Address::Tcp { host, port } => {
            let mut places = (&**host, *port).to_socket_addrs()?;
            let place = places.next().ok_or(io::ErrorKind::NotFound)?;
            let socket = TcpStream::connect_timeout(&place, CONNECT)?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(waits.read))?;
            socket.set_write_timeout(Some(waits.write))?;
            Ok(Box::new(socket))
        }
        Address::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(waits.read))?;
            socket.set_write_timeout(Some(waits.write))?;
            Ok(Box::new(socket))
        }
    }
}

/// The user's password, empty if there is no file.
///
/// # Errors
/// If the file can't be read: in a sentence.
pub(super) fn password(source: &SourceConfig) -> Result<String, String> {
    let Some(path) = &source.password_file else { return Ok(String::new()) };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

const CONNECT: Duration = Duration::from_secs(5);
