//! Listening sockets, and the tasks that accept clients and deal them to threads in turn.
//!
//! One accepting task and a round robin spread connections exactly evenly; threads that each accept for themselves don't.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use guira_log::Seldom;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, getpid, getrlimit, pidfd_getfd, pidfd_open,
};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::sync::mpsc::UnboundedSender;

use crate::sessions::clients::Clients;
use crate::sessions::stream::Arrival;

/// Where to listen for clients.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// TCP ports.
    pub ports: Vec<u16>,
    /// The addresses to listen on; all addresses of this machine if there are none.
    pub addresses: Vec<String>,
    /// A listening descriptor that the process was started with.
    pub inherited: Option<i32>,
    /// The path of a unix socket.
    pub unix: Option<PathBuf>,
    /// Most connections that may wait to be accepted.
    pub backlog: i32,
    /// How the system probes silent clients; `None`: it doesn't.
    pub keepalive: Option<TcpKeepalive>,
}

/// A listening socket.
#[derive(Debug)]
pub enum Listening {
    /// Plain TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener),
    /// A unix socket at a path.
    Unix(UnixListener),
}

impl Listening {
    /// The address as clients write it, and whether only clients of this machine can reach it.
    pub fn place(&self) -> (String, bool) {
        let (socket, over) = match self {
            Self::Tcp(socket) => (socket, ""),
            Self::Tls(socket) => (socket, " (TLS)"),
            Self::Unix(socket) => {
                let address = socket.local_addr();
                let path = address.ok().and_then(|own| own.as_pathname().map(Path::to_owned));
                let path = path.map(|path| path.display().to_string());
                return (path.unwrap_or_else(|| "a unix socket".to_owned()), true);
            }
        };
        match socket.local_addr() {
            Ok(address) => (format!("{address}{over}"), address.ip().is_loopback()),
            Err(_) => ("an inherited socket".to_owned(), true),
        }
    }

    /// Whether this socket keeps others from binding `place`.
    pub(crate) fn is_at(&self, place: SocketAddr) -> bool {
        let (Self::Tcp(socket) | Self::Tls(socket)) = self else { return false };
        socket.local_addr().is_ok_and(|own| meet(own, place))
    }
}

/// Whether two sockets conflict: one keeps the other from being bound.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let is_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (is_all || one.ip() == other.ip())
}

/// Logs where clients are served, and warns of each place that strangers can reach, unless the program `is_guarded`.
pub fn tell(places: &[(String, bool)], is_guarded: bool) {
    let named: Vec<&str> = places.iter().map(|(place, _)| place.as_str()).collect();
    tracing::info!("listening on {}", named.join(", "));
    for (place, _) in places.iter().filter(|(_, is_local)| !is_local && !is_guarded) {
        tracing::warn!(
            "{place} is open to whoever reaches this machine: --listen-addresses 127.0.0.1 keeps strangers out, \
             --auth-file demands a login"
        );
    }
}

/// Logs that the program is ready, with a command that a user may try.
pub fn tell_ready(places: &[(String, bool)], threads: usize) {
    let near = |(place, _): &(String, bool)| match place.strip_prefix('/') {
        Some(_) => format!("unix:{place}"),
        None => place.replacen("[::]", "127.0.0.1", 1).replacen("0.0.0.0", "127.0.0.1", 1),
    };
    let try_it = places.iter().map(near).find(|place| !place.contains(' '));
    let try_it = try_it.map_or_else(String::new, |place| format!("; try: guira ping -s {place}"));
    let (version, s) = (env!("CARGO_PKG_VERSION"), if threads == 1 { "" } else { "s" });
    tracing::info!(
        "guira {version} ready with {threads} thread{s}{try_it}; Ctrl-C or SIGUSR1 stops it once requests are answered"
    );
}

/// Reserved places to listen: this process has bound the ports, but clients can't connect yet.
///
/// A port that another program has is thus reported before anything begins that takes long.
#[derive(Debug)]
pub struct Places {
    places: Vec<Place>,
    backlog: i32,
}

#[derive(Debug)]
enum Place {
    /// A socket that was already open when the process started.
    Open(Listening),
    Port {
        socket: Socket,
        address: SocketAddr,
        /// The flag that names the port.
        flag: String,
        kind: fn(TcpListener) -> Listening,
    },
    Path(PathBuf),
}

impl Places {
    /// Whether one of these places keeps another socket from binding `place`.
    pub(crate) fn are_at(&self, place: SocketAddr) -> bool {
        self.places.iter().any(|own| match own {
            Place::Open(socket) => socket.is_at(place),
            Place::Port { address, .. } => meet(*address, place),
            Place::Path(_) => false,
        })
    }

    /// Starts to listen at all places.
    ///
    /// # Errors
    /// A sentence: which place can't be opened, and what to do.
    pub fn listen(self) -> Result<Vec<Listening>, String> {
        let mut sockets = Vec::new();
        for place in self.places {
            let opened = match place {
                Place::Open(socket) => socket,
                Place::Path(path) => Listening::Unix(bind_unix(&path)?),
                Place::Port { socket, address, flag, kind } => {
                    let opened = socket.listen(self.backlog);
                    let opened = opened.and_then(|()| socket.set_nonblocking(true));
                    opened.map_err(|error| refusal(&flag, address, &error, &sockets))?;
                    kind(socket.into())
                }
            };
            sockets.push(opened);
        }
        Ok(sockets)
    }
}

/// Opens all sockets that the flags name.
///
/// # Errors
/// A sentence: which socket can't be opened, and what to do.
pub fn open(listen: &ListenOptions, tls_ports: &[u16]) -> Result<Vec<Listening>, String> {
    reserve(listen, tls_ports)?.listen()
}

/// Reserves the places of all sockets that the flags name, without listening on the ports yet.
///
/// # Errors
/// A sentence: which place can't be reserved, and what to do.
pub fn reserve(listen: &ListenOptions, tls_ports: &[u16]) -> Result<Places, String> {
    let mut places = Vec::new();
    if let Some(fd) = listen.inherited {
        let taken = take_over(fd, listen.keepalive.as_ref())
            .map_err(|e| format!("--listen-sock-fd {fd}: {e}"))?;
        places.push(Place::Open(Listening::Tcp(taken)));
    }
    let keepalive = listen.keepalive.as_ref();
    let plain = listen.ports.iter().map(|&port| ("-p", port, Listening::Tcp as fn(_) -> _));
    let tls = tls_ports.iter().map(|&port| ("--ssl-port", port, Listening::Tls as fn(_) -> _));
    for (flag, port, kind) in plain.chain(tls) {
        for address in addresses(listen, port)? {
            let flag = format!("{flag} {port}");
            let socket =
                bind(address, keepalive).map_err(|error| refused(&flag, address, &error))?;
            places.push(Place::Port { socket, address, flag, kind });
        }
    }
    if let Some(path) = &listen.unix {
        check_unix(path)?;
        places.push(Place::Path(path.clone()));
    }
    if places.is_empty() {
        return Err(
            "nothing to listen on: give -p PORT, --ssl-port PORT, --unix-domain-sock PATH or --listen-sock-fd FD"
                .to_owned(),
        );
    }
    Ok(Places { places, backlog: listen.backlog })
}

/// Explains why a flag's port can't be opened when the sockets `there` are open already, and what to do.
fn refusal(flag: &str, place: SocketAddr, error: &io::Error, there: &[Listening]) -> String {
    if error.kind() == io::ErrorKind::AddrInUse && there.iter().any(|own| own.is_at(place)) {
        return twice(flag, place);
    }
    refused(flag, place, error)
}

/// Explains that a flag's port can't be opened because another flag has it.
pub(crate) fn twice(flag: &str, place: SocketAddr) -> String {
    format!(
        "{flag}: can't listen on {place}: the flags name it twice; choose another for one of them"
    )
}

/// Explains why a flag's port can't be opened, and what to do.
pub(crate) fn refused(flag: &str, place: impl fmt::Display, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has it: stop that one, or choose another",
        io::ErrorKind::AddrNotAvailable if flag.starts_with("--http") => {
            "; this machine has no such address: choose one that it has"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: choose one that it has (--listen-addresses)"
        }
        _ => "",
    };
    format!("{flag}: can't listen on {place}: {error}{hint}")
}

/// Refuses a path, unless it is free or holds a socket on which nobody listens any more. Returns true if such a socket
/// exists.
fn check_unix(path: &Path) -> Result<bool, String> {
    let flag = "--unix-domain-sock";
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(false) };
    if !found.file_type().is_socket() {
        let path = path.display();
        return Err(format!(
            "{flag}: can't listen on {path}: a file is there that is no socket; remove it, or choose another path"
        ));
    }
    if UnixStream::connect(path).is_ok() {
        let error = io::Error::from_raw_os_error(rustix::io::Errno::ADDRINUSE.raw_os_error());
        return Err(refused(flag, path.display(), &error));
    }
    Ok(true)
}

/// Listens at a path, and replaces a socket on which nobody listens any more. Any other file stays where it is.
fn bind_unix(path: &Path) -> Result<UnixListener, String> {
    let flag = "--unix-domain-sock";
    if check_unix(path)? {
        // If the file can't be removed, binding fails and says so.
        let _ = fs::remove_file(path);
    }
    let opened = UnixListener::bind(path).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    opened.map_err(|error| refused(flag, path.display(), &error))
}

fn addresses(listen: &ListenOptions, port: u16) -> Result<Vec<SocketAddr>, String> {
    if listen.addresses.is_empty() {
        return Ok(vec![SocketAddr::new(all_addresses(), port)]);
    }
    let parsed = listen.addresses.iter().map(|text| {
        let ip = text.trim().trim_start_matches('[').trim_end_matches(']').parse();
        ip.map(|ip| SocketAddr::new(ip, port))
            .map_err(|_| format!("--listen-addresses {text}: write IP addresses"))
    });
    parsed.collect()
}

/// The address that stands for all addresses of this machine.
pub(crate) fn all_addresses() -> IpAddr {
    if has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

fn has_ipv6() -> bool {
    Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)).is_ok()
}

fn bind(address: SocketAddr, keepalive: Option<&TcpKeepalive>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
    }
    socket.set_reuse_address(true)?;
    bequeath(&socket, keepalive);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Copies a descriptor that the process was started with. The kernel makes the copy, so the number needn't be trusted.
fn take_over(fd: i32, keepalive: Option<&TcpKeepalive>) -> io::Result<TcpListener> {
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = Socket::from(pidfd_getfd(this, fd, PidfdGetfdFlags::empty())?);
    if !socket.is_listener()? {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the descriptor is no listening socket",
        ));
    }
    bequeath(&socket, keepalive);
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Sets options that accepted sockets inherit, which saves five system calls for each of them.
///
/// An option that can't be set is skipped: clients are served all the same.
fn bequeath(socket: &Socket, keepalive: Option<&TcpKeepalive>) {
    keep_little_unsent(socket);
    let _ = socket.set_tcp_nodelay(true);
    if let Some(keepalive) = keepalive {
        let _ = socket.set_tcp_keepalive(keepalive);
    }
}

/// Limits the unsent bytes that the system buffers for a client. Accepted sockets inherit the limit.
///
/// Without it, replies that a client leaves unread would fill 4 MB of the system's memory, which no account counts. A
/// thousand such clients used up all that TCP may have on a machine with 24 GB. The system then dropped what servers sent,
/// and each such packet came again after 0.2 s or a second: all clients waited, and servers looked dead.
fn keep_little_unsent(socket: &Socket) {
    // On a system that lacks this option, clients are served all the same.
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// Accepts until the task is dropped.
pub(crate) async fn accept<T: From<Arrival>>(
    socket: Listening,
    dealer: Arc<Dealer<T>>,
) -> io::Result<()> {
    match socket {
        Listening::Tcp(socket) => accept_tcp(socket, &dealer, Arrival::Tcp).await,
        Listening::Tls(socket) => accept_tcp(socket, &dealer, Arrival::Tls).await,
        Listening::Unix(socket) => {
            let socket = tokio::net::UnixListener::from_std(socket)?;
            let mut room = Room::default();
            loop {
                dealer.wait_for_room(&room, &socket).await;
                match socket.accept().await {
                    Ok((stream, _)) => {
                        room.note(&stream);
                        if let Ok(stream) = stream.into_std() {
                            dealer.deal(Arrival::Unix(stream));
                        }
                    }
                    Err(error) => dealer.pause(&error).await,
                }
            }
        }
    }
}

async fn accept_tcp<T: From<Arrival>>(
    socket: TcpListener,
    dealer: &Dealer<T>,
    kind: fn(std::net::TcpStream) -> Arrival,
) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let mut room = Room::default();
    loop {
        dealer.wait_for_room(&room, &socket).await;
        match socket.accept().await {
            Ok((stream, _)) => {
                room.note(&stream);
                // A client that connects and resets, perhaps in a storm, takes no place and no time of a serving thread.
                let is_there = stream.peer_addr().is_ok();
                if let (true, Ok(stream)) = (is_there, stream.into_std()) {
                    dealer.deal(kind(stream));
                }
            }
            Err(error) => dealer.pause(&error).await,
        }
    }
}

/// Deals clients to threads in turn.
#[derive(Debug)]
pub struct Dealer<T> {
    clients: Arc<Clients>,
    threads: Vec<UnboundedSender<T>>,
    next: AtomicUsize,
}

impl<T: From<Arrival>> Dealer<T> {
    /// Each of `threads` sends clients to one thread.
    pub fn new(clients: Arc<Clients>, threads: Vec<UnboundedSender<T>>) -> Self {
        Self { clients, threads, next: AtomicUsize::new(0) }
    }

    fn deal(&self, arrival: Arrival) {
        if !self.clients.admit() {
            let most = self.clients.limits.connections_max;
            let words = format!(
                "there are {most}, as many as --max-conns allows: raise it, or let clients use fewer connections"
            );
            let crowded = io::Error::new(io::ErrorKind::QuotaExceeded, words);
            self.clients.refusals.note(&arrival.to_string(), &crowded);
            return;
        }
        let next = self.next.fetch_add(1, Relaxed) % self.threads.len();
        if self.threads[next].send(arrival.into()).is_err() {
            self.clients.leave();
        }
    }

    /// Pauses after an error that isn't a client's: the process is out of descriptors or memory. Connections wait in the
    /// backlog meanwhile.
    async fn pause(&self, error: &io::Error) {
        let is_clients = matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::Interrupted
        );
        if !is_clients {
            self.rest(&error.to_string()).await;
        }
    }

    /// Waits until enough descriptors are left for servers, files and the HTTP port.
    async fn wait_for_room(&self, room: &Room, socket: &impl AsFd) {
        while !room.is_there(socket) {
            self.rest("too many open files").await;
        }
    }

    async fn rest(&self, why: &str) {
        static TOLD: Seldom = Seldom::new();
        if TOLD.admits() {
            tracing::warn!(
                "accepting pauses: {why}. Raise the limit of open files (ulimit -n, LimitNOFILE=), or set a lower --max-conns."
            );
        }
        self.clients.note_pause();
        tokio::time::sleep(PAUSE).await;
    }
}

/// The check that clients leave enough descriptors for servers, files and the HTTP port.
///
/// The system hands out the lowest free number, so the number of the last connection shows whether there is room for one
/// more. Only if it doesn't, the number of a copy decides, which costs three system calls. The process's limit is read for
/// each connection: it can be lowered while the program runs, and connections accepted under the old limit would leave
/// nothing.
#[derive(Debug, Default)]
struct Room {
    /// The descriptor number of the last connection.
    last: u64,
}

impl Room {
    fn is_there(&self, socket: &impl AsFd) -> bool {
        let Some(limit) = getrlimit(Resource::Nofile).current else { return true };
        let for_clients = limit.saturating_sub((limit / 8).clamp(RESERVE_MIN, RESERVE_MAX));
        self.last < for_clients
            || fcntl_dupfd_cloexec(socket, 0).is_ok_and(|copy| number(&copy) < for_clients)
    }

    fn note(&mut self, connection: &impl AsRawFd) {
        self.last = number(connection);
    }
}

fn number(descriptor: &impl AsRawFd) -> u64 {
    u64::try_from(descriptor.as_raw_fd()).unwrap_or(u64::MAX)
}

/// Descriptors that no client gets: an eighth of all, within these bounds.
const RESERVE_MIN: u64 = 16;
const RESERVE_MAX: u64 = 4096;

/// Most bytes that wait unsent in a client's socket before it counts as full.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// How long accepting pauses when the system is out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
