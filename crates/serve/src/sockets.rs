//! Opens the sockets that `Settings` name.
//!
//! UDP has one socket per worker at each address; they share the port by `SO_REUSEPORT`. The first one is
//! bound before it shares, so that a port that another program uses is refused.
//!
//! `TCP_NODELAY` and `SO_KEEPALIVE` are set once on the listening socket. Linux lets each accepted
//! connection inherit them, which saves two system calls per connection.

use crate::process::roster::name_of;
use crate::settings::{
    ClientCerts, EXIT_SYSTEM, EXIT_VALUE, Host, Listen, ListenAddress, Refusal, ServerSettings,
};
use rustix::fs::Mode;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A socket that accepts connections.
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    /// The name that `stats conns` shows: `tcp:127.0.0.1:11211`, `unix:/path`.
    pub(crate) name: String,
    /// The TCP address, for the port file.
    pub(crate) address: Option<SocketAddr>,
    /// What TLS demands of clients; `None`: no TLS.
    pub(crate) tls: Option<ClientCerts>,
}

/// The UDP sockets at one address, one per worker.
pub(crate) struct Datagram {
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

/// All sockets of a server.
pub(crate) struct Sockets {
    pub(crate) listening: Vec<Listening>,
    pub(crate) datagram: Vec<Datagram>,
    /// The sockets for HTTP.
    pub(crate) http: Vec<Listening>,
}

/// Sockets that the former server has handed over.
#[derive(Default)]
pub(crate) struct Inherited(Vec<Socket>);

impl Inherited {
    pub(crate) fn new(sockets: Vec<OwnedFd>) -> Self {
        Self(sockets.into_iter().map(Socket::from).collect())
    }

    /// Takes the socket that listens at `place`.
    pub(crate) fn tcp(&mut self, place: SocketAddr) -> Option<Socket> {
        self.take(|socket| is_at(socket, Type::STREAM, place))
    }

    /// Takes a datagram socket at `place`.
    pub(crate) fn udp(&mut self, place: SocketAddr) -> Option<Socket> {
        self.take(|socket| is_at(socket, Type::DGRAM, place))
    }

    /// Takes the socket that listens at `path`.
    pub(crate) fn unix(&mut self, path: &Path) -> Option<Socket> {
        self.take(|socket| socket.local_addr().is_ok_and(|a| a.as_pathname() == Some(path)))
    }

    fn take(&mut self, is_it: impl Fn(&Socket) -> bool) -> Option<Socket> {
        let at = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(at))
    }

    /// The addresses of the listening sockets that weren't taken.
    pub(crate) fn left(&self) -> Vec<String> {
        let listening = self.0.iter().filter(|socket| socket.is_listener().unwrap_or(false));
        listening.filter_map(|socket| Some(shown(&socket.local_addr().ok()?))).collect()
    }
}

fn shown(address: &socket2::SockAddr) -> String {
    let path = address.as_pathname().map(|path| path.display().to_string());
    let socket = address.as_socket().map(|socket| socket.to_string());
    path.or(socket).unwrap_or_default()
}

/// Whether a socket of this kind is bound to `place`, where port 0 stands for any port.
fn is_at(socket: &Socket, kind: Type, place: SocketAddr) -> bool {
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    let is_there = |a: SocketAddr| a == place || place.port() == 0 && a.ip() == place.ip();
    address.is_some_and(is_there) && socket.r#type().is_ok_and(|k| k == kind)
}

/// Opens the sockets that `settings` ask for, except those that are `inherited`.
///
/// # Errors
/// A name doesn't resolve, or an entry of the list has no address that can be bound.
pub(crate) fn open(
    settings: &ServerSettings,
    inherited: &mut Inherited,
) -> Result<Sockets, Refusal> {
    let mut sockets = Sockets { listening: Vec::new(), datagram: Vec::new(), http: Vec::new() };
    if let Some(address) = &settings.http {
        sockets.http = open_tcp("--http", address, settings, inherited, &sockets)?;
    }
    match &settings.listen {
        Listen::Unix { path, mode } => {
            let socket = match inherited.unix(path) {
                Some(socket) => socket.into(),
                None => listen_unix(path, *mode, settings.backlog)
                    .map_err(|error| refusal_unix(path, &error))?,
            };
            let name = format!("unix:{}", path.display());
            sockets.listening.push(Listening { socket, name, address: None, tls: None });
        }
        Listen::Tcp(addresses) => {
            let flag = if settings.inter.is_some() { "-l or -p" } else { "-p" };
            for address in addresses {
                let opened = open_tcp(flag, address, settings, inherited, &sockets)?;
                sockets.listening.extend(opened);
                open_udp(address, settings, inherited, &mut sockets)?;
            }
        }
        Listen::Udp(addresses) => {
            for address in addresses {
                open_udp(address, settings, inherited, &mut sockets)?;
            }
        }
    }
    Ok(sockets)
}

/// Opens the sockets for `address`, which `flag` gave. `there` are the sockets opened before, for the error message.
fn open_tcp(
    flag: &str,
    address: &ListenAddress,
    settings: &ServerSettings,
    inherited: &mut Inherited,
    there: &Sockets,
) -> Result<Vec<Listening>, Refusal> {
    let mut last = None;
    let mut opened = Vec::new();
    let mut port = address.port;
    for mut place in resolve(flag, &address.host, address.port)? {
        // For "any free port", v4 and v6 use the same port if possible.
        place.set_port(port);
        match inherited.tcp(place).map_or_else(|| listen_tcp(place, settings.backlog), Ok) {
            Ok(socket) => {
                keep_little_unsent(&socket);
                let bound = bound_address(&socket).unwrap_or(place);
                port = bound.port();
                opened.push(Listening {
                    socket: socket.into(),
                    name: name_of("tcp", bound),
                    address: Some(bound),
                    tls: address.tls,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if let Some(refusal) = refusal_of_own(flag, place, there) {
                    return Err(refusal);
                }
                last = Some((place, error));
            }
            // A machine without IPv6 (or IPv4) still serves the other.
            Err(error) => last = last.or(Some((place, error))),
        }
    }
    match last {
        Some((place, error)) if opened.is_empty() || error.kind() == io::ErrorKind::AddrInUse => {
            Err(refusal(flag, &format!("failed to listen on TCP port {place}"), &error))
        }
        _ => Ok(opened),
    }
}

fn open_udp(
    address: &ListenAddress,
    settings: &ServerSettings,
    inherited: &mut Inherited,
    sockets: &mut Sockets,
) -> Result<(), Refusal> {
    if settings.udp_port == 0 {
        return Ok(());
    }
    // -1 stands for any free port.
    let mut port = u16::try_from(settings.udp_port).unwrap_or(0);
    let mut last = None;
    let before = sockets.datagram.len();
    for mut place in resolve("-l", &address.host, port)? {
        place.set_port(port);
        // Addresses that differ only in their TCP ports share the one UDP port.
        if sockets.datagram.iter().any(|datagram| datagram.address == place) {
            continue;
        }
        match bind_udp(place, settings.threads, inherited) {
            Ok(datagram) => {
                port = datagram.address.port();
                sockets.datagram.push(datagram);
            }
            Err(error) => last = Some((place, error)),
        }
    }
    match last {
        Some((place, error)) if sockets.datagram.len() == before => {
            Err(refusal("-U", &format!("failed to bind UDP port {place}"), &error))
        }
        _ => Ok(()),
    }
}

fn resolve(flag: &str, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Refusal> {
    let both = |v4: Ipv4Addr, v6: Ipv6Addr| {
        vec![SocketAddr::new(IpAddr::V4(v4), port), SocketAddr::new(IpAddr::V6(v6), port)]
    };
    match host {
        Host::Loopback => Ok(both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)),
        Host::All => Ok(both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)),
        Host::Named(name) => {
            let found = (name.as_str(), port).to_socket_addrs().map_err(|error| {
                refusal(flag, &format!("{name}: the name does not resolve to an address"), &error)
            })?;
            let mut places: Vec<SocketAddr> = found.collect();
            places.dedup();
            Ok(places)
        }
    }
}

fn listen_tcp(place: SocketAddr, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(place), Type::STREAM, Some(Protocol::TCP))?;
    if place.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_keepalive(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&place.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Limits the unsent bytes that the system takes for a client, as for the router's sockets: up to 4 MB
/// per client would be on no budget. Accepted sockets inherit the limit.
fn keep_little_unsent(socket: &Socket) {
    // A system that doesn't know the option can serve clients all the same.
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// Returns `count` sockets at `place`: those that are `inherited`, then new ones.
fn bind_udp(place: SocketAddr, count: usize, inherited: &mut Inherited) -> io::Result<Datagram> {
    let mut address = place;
    let mut sockets: Vec<OwnedFd> = Vec::with_capacity(count);
    while sockets.len() < count
        && let Some(socket) = inherited.udp(address)
    {
        address = bound_address(&socket).unwrap_or(place);
        sockets.push(socket.into());
    }
    while sockets.len() < count {
        let socket = Socket::new(Domain::for_address(place), Type::DGRAM, Some(Protocol::UDP))?;
        if place.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if sockets.is_empty() {
            socket.bind(&place.into())?;
            address = bound_address(&socket).unwrap_or(place);
            socket.set_reuse_port(true)?;
        } else {
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
        }
        socket.set_nonblocking(true)?;
        sockets.push(socket.into());
    }
    Ok(Datagram { sockets, name: name_of("udp", address), address })
}

fn bound_address(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

pub(crate) fn listen_unix(path: &Path, mode: u32, backlog: i32) -> io::Result<OwnedFd> {
    // Removes the socket file of a server that has ended; any other file is left alone.
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = socket.bind(&socket2::SockAddr::unix(path)?);
    rustix::process::umask(before);
    bound?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Writes the ports to the file that `MEMCACHED_PORT_FILENAME` names, atomically.
pub(crate) fn write_port_file(sockets: &Sockets) -> io::Result<()> {
    let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME") else { return Ok(()) };
    let tcp = sockets.listening.iter().filter_map(|l| Some(("TCP", l.address?)));
    let udp = sockets.datagram.iter().map(|s| ("UDP", s.address));
    let lines: String = tcp
        .chain(udp)
        .map(|(transport, a)| {
            let family = if a.is_ipv6() { "INET6" } else { "INET" };
            format!("{transport} {family}: {}\n", a.port())
        })
        .collect();
    let mut draft = path.clone();
    draft.push(".lck");
    std::fs::write(&draft, lines)?;
    std::fs::rename(draft, path)
}

/// Explains why `place` is in use, if this server uses it itself.
fn refusal_of_own(flag: &str, place: SocketAddr, there: &Sockets) -> Option<Refusal> {
    let is_taken = |own: SocketAddr| {
        let is_all = own.ip().is_unspecified() || place.ip().is_unspecified();
        own.port() == place.port()
            && (own.ip() == place.ip() || is_all && own.is_ipv4() == place.is_ipv4())
    };
    let took = |own: &[Listening]| own.iter().filter_map(|own| own.address).any(is_taken);
    let why = if took(&there.http) {
        "it is that of --http as well: choose another port for one of them"
    } else if took(&there.listening) {
        "it is named twice: leave one out"
    } else {
        return None;
    };
    let message = format!("failed to listen on TCP port {place}: {why} ({flag})");
    Some(Refusal::new(EXIT_SYSTEM, message))
}

fn refusal_unix(path: &Path, error: &io::Error) -> Refusal {
    let what = format!("failed to listen on UNIX socket: {}", path.display());
    let is_other = std::fs::symlink_metadata(path).is_ok_and(|m| !m.file_type().is_socket());
    if is_other && error.kind() == io::ErrorKind::AddrInUse {
        let why = "a file is there that is no socket: remove it, or choose another path (-s)";
        return Refusal::new(EXIT_SYSTEM, format!("{what}: {why}"));
    }
    refusal("-s", &what, error)
}

fn refusal(flag: &str, what: &str, error: &io::Error) -> Refusal {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "; another server has it: stop that one, take its place (-e, --take-over), or choose another ({flag})"
            )
        }
        io::ErrorKind::PermissionDenied if flag == "-s" => {
            "; let the server's user write there, or choose another path (-s)".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("; choose a port from 1024 on ({flag})"),
        io::ErrorKind::AddrNotAvailable => {
            format!("; this machine has no such address: choose one that it has ({flag})")
        }
        _ => format!(" ({flag})"),
    };
    let code = if error.kind() == io::ErrorKind::InvalidInput { EXIT_VALUE } else { EXIT_SYSTEM };
    Refusal::new(code, format!("{what}: {error}{hint}"))
}

/// The bytes written for a client and not yet sent at which its socket counts as full.
const UNSENT_BYTES_MAX: u32 = 128 << 10;
