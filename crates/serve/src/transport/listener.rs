//! The thread that accepts connections and distributes them to the workers in turn.
//!
//! One accepting thread and a round robin distribute connections exactly evenly. `EPOLLEXCLUSIVE` on
//! shared sockets doesn't: there the worker that wakes first takes them all.
//!
//! # Out of descriptors
//! With `maxconns_fast` (the default), a connection whose descriptor reaches the limit gets an error line
//! and is closed. When the system itself has no descriptor left, accepting pauses for [`PAUSE`] at a
//! time, and the connections wait in the backlog. A level-triggered epoll would otherwise spin.

use crate::process::Process;
use crate::process::gauges::Gauge;
use crate::process::mailbox::Arrival;
use crate::process::roster::{Doing, Peer};
use crate::process::watch::Event;
use crate::settings::{ClientCerts, DESCRIPTORS_RESERVED};
use crate::sockets::Listening;
use guira_log::Seldom;
use guira_proto::WatchKinds;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{SendFlags, SocketAddrAny, SocketFlags};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Accepts connections until the server stops. The main function of the thread.
///
/// # Errors
/// The event queue can't be created or read.
pub(crate) fn listen(sockets: &[Listening], process: &Process) -> io::Result<()> {
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let stop = epoll::EventData::new_u64(u64::MAX);
    epoll::add(&queue, process.stop.as_fd(), stop, epoll::EventFlags::IN)?;
    for (at, listening) in sockets.iter().enumerate() {
        epoll::add(&queue, &listening.socket, data_of(at), epoll::EventFlags::IN)?;
    }
    let names: Vec<Arc<str>> = sockets.iter().map(|l| Arc::from(l.name.as_str())).collect();
    let mut next_worker = 0;
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(&queue, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let data = event.data;
            let Some(at) = usize::try_from(data.u64()).ok().filter(|&at| at < sockets.len()) else {
                accept_last(sockets, &names, &mut next_worker, process);
                return Ok(());
            };
            let most = ACCEPTS_PER_EVENT;
            if !accept_some((&sockets[at], &names[at]), most, &mut next_worker, process) {
                pause(&queue, sockets, process)?;
            }
        }
    }
}

/// Accepts the clients that wait when the server stops, and that would otherwise be reset, so that their
/// first requests are answered. A successor accepts them itself. The limit ends this even if others go on
/// connecting.
fn accept_last(
    sockets: &[Listening],
    names: &[Arc<str>],
    next_worker: &mut usize,
    process: &Process,
) {
    if process.heir.lock().is_some() {
        return;
    }
    for socket in sockets.iter().zip(names) {
        accept_some(socket, ACCEPTS_LAST, next_worker, process);
    }
}

/// Accepts what waits at one socket, at most `most` so that the others get their turn too. Returns
/// `false` if the system is out of descriptors or memory, or fails in another way.
fn accept_some(
    (listening, name): (&Listening, &Arc<str>),
    most: usize,
    next_worker: &mut usize,
    process: &Process,
) -> bool {
    for _ in 0..most {
        if !process.settings.extended.maxconns_fast && !has_room(listening, process) {
            return tell_of_pause(process);
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::acceptfrom_with(&listening.socket, flags) {
            Ok((socket, from)) => {
                admit(
                    Newcomer { socket, from, to: name, tls: listening.tls },
                    next_worker,
                    process,
                );
            }
            Err(Errno::AGAIN) => return true,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                return tell_of_pause(process);
            }
            Err(Errno::INTR) => {}
            // The client or the network is gone; neither concerns the next client.
            Err(
                Errno::CONNABORTED
                | Errno::PROTO
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH,
            ) => process.gauges.count(Gauge::ConnectionsLost),
            // An unknown error. Since the system may return it again at once, accepting pauses.
            Err(error) => {
                process.gauges.count(Gauge::ConnectionsLost);
                tracing::warn!("accepting at {name}: {error}");
                return false;
            }
        }
    }
    true
}

/// Whether a client may have another descriptor. The system assigns the lowest free one, so the number of
/// a copy shows that.
fn has_room(listening: &Listening, process: &Process) -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let reserve = (limit / 8).clamp(RESERVE_MIN, DESCRIPTORS_RESERVED);
    let for_clients = (limit.saturating_sub(reserve)).min(process.settings.connections_max.into());
    fcntl_dupfd_cloexec(&listening.socket, 0)
        .is_ok_and(|copy| u64::try_from(copy.as_raw_fd()).is_ok_and(|fd| fd < for_clients))
}

/// Logs now and then that accepting pauses. Always returns `false`, the result of a pause.
fn tell_of_pause(process: &Process) -> bool {
    static TOLD: Seldom = Seldom::new();
    if TOLD.admits() {
        let most = process.settings.connections_max;
        tracing::warn!(
            "Too many open connections: accepting pauses. Raise -c, which is {most}, and the limit of open files \
             (ulimit -n, LimitNOFILE=)."
        );
    }
    false
}

/// A connection that was just accepted.
struct Newcomer<'l> {
    socket: OwnedFd,
    from: Option<SocketAddrAny>,
    to: &'l Arc<str>,
    tls: Option<ClientCerts>,
}

fn admit(newcomer: Newcomer<'_>, next_worker: &mut usize, process: &Process) {
    let Newcomer { socket, from, to, tls } = newcomer;
    let to = Arc::clone(to);
    let peer = match from.and_then(|a| SocketAddr::try_from(a).ok()) {
        Some(from) => Peer::Tcp { from, to },
        None => Peer::Unix { to },
    };
    let fd = socket.as_raw_fd();
    let limit = process.settings.connections_max.saturating_sub(1);
    if process.settings.extended.maxconns_fast && u32::try_from(fd).is_ok_and(|fd| fd >= limit) {
        process.gauges.count(Gauge::Rejected);
        // If the socket doesn't take the error line, the client is closed without it.
        let _ = rustix::net::send(&socket, TOO_MANY, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        tell_of_refusal(&peer, limit + 1);
        return;
    }
    process.gauges.opened();
    tracing::trace!("<{fd} new auto-negotiating client connection");
    let seat = process.roster.enter(fd, peer, Doing::Reading, process.time.now());
    if process.watch.kinds().meets(WatchKinds::CONNEVENTS) {
        process.watch.tell(&Event::Open { seat: &seat, fd }, &process.mailboxes);
    }
    process.mailboxes[*next_worker].put(Arrival { socket, seat, tls });
    *next_worker = (*next_worker + 1) % process.mailboxes.len();
}

/// Logs a refused client: each one with `-v`, otherwise one now and then.
fn tell_of_refusal(peer: &Peer, most: u32) {
    static TOLD: Seldom = Seldom::new();
    if TOLD.admits() {
        tracing::warn!(
            "Too many open connections (-c {most}): {peer} is refused, and others may be. Raise -c, or close idle ones \
             (-o idle_timeout=SECONDS)."
        );
    } else {
        tracing::debug!("Too many open connections (-c {most}): {peer} is refused");
    }
}

/// Stops watching the sockets for a moment; the connections wait in their backlogs.
fn pause(queue: &OwnedFd, sockets: &[Listening], process: &Process) -> io::Result<()> {
    process.gauges.listening_paused();
    watch(queue, sockets, false)?;
    let mut events = Vec::with_capacity(1);
    // Only the stop event can wake it early, and the caller's loop sees that event again.
    match epoll::wait(queue, rustix::buffer::spare_capacity(&mut events), Some(&PAUSE)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    process.gauges.listening_resumed(PAUSE.tv_nsec.unsigned_abs() / 1000);
    watch(queue, sockets, true)
}

fn watch(queue: &OwnedFd, sockets: &[Listening], on: bool) -> io::Result<()> {
    for (at, listening) in sockets.iter().enumerate() {
        // The sockets stay registered: registering them again needs memory, which may be what is missing.
        let flags = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        epoll::modify(queue, &listening.socket, data_of(at), flags)?;
    }
    Ok(())
}

fn data_of(at: usize) -> epoll::EventData {
    epoll::EventData::new_u64(at as u64)
}

const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";
const ACCEPTS_PER_EVENT: usize = 64;
/// As many as the largest backlog that Linux allows by default.
const ACCEPTS_LAST: usize = 4096;
/// The least number of descriptors that clients don't get, if the limit of open files is low.
const RESERVE_MIN: u64 = 4;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::connection::tests::process;
    use socket2::{Domain, Socket, Type};

    #[test]
    fn an_error_of_accept_that_nobody_has_heard_of_is_counted_and_accepting_rests() {
        let process = process("-m 8");
        // Neither socket listens: the system reports EINVAL for one and ENOTSOCK for the other.
        let deaf = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for socket in [OwnedFd::from(deaf), file.into()] {
            let (name, address, tls) = ("test".to_owned(), None, None);
            let listening = Listening { socket, name, address, tls };
            assert!(!accept_some((&listening, &"test".into()), 1, &mut 0, &process));
        }
        assert_eq!(process.gauges.get(Gauge::ConnectionsLost), 2);
    }

    #[test]
    fn clients_that_wait_when_the_server_stops_are_accepted_unless_a_successor_does() {
        for (has_heir, least) in [(false, 300), (true, 0)] {
            // Other tests of this process have descriptors too, and a client with a number above -c is refused.
            let process = process("-m 8 -c 20000");
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            // The standard library has a shorter backlog; listening again raises it.
            rustix::net::listen(&socket, 1024).unwrap();
            let clients: Vec<_> =
                (0..300).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            if has_heir {
                let (heir, _) = std::os::unix::net::UnixStream::pair().unwrap();
                *process.heir.lock() = Some((heir, Vec::new()));
            }
            process.stop.ring();
            let (socket, name) = (socket.into(), "test".into());
            listen(&[Listening { socket, name, address: None, tls: None }], &process).unwrap();
            let dealt: usize = process.mailboxes.iter().map(|m| m.take().len()).sum();
            // The system may report clients before it reports the stop: then 64 more are accepted.
            assert!((least..=least.max(ACCEPTS_PER_EVENT)).contains(&dealt), "{dealt}");
            drop(clients);
        }
    }
}
