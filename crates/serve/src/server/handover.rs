//! Handover of the listening sockets to the next server, so that no client is refused in between.
//!
//! ```text
//! old: listens at FILE.handover              new (--take-over): connects there
//!      "sockets", its sockets          ──▶   opens further sockets that its flags name; checks all that it can
//!                                      ◀──   "ready"; otherwise it closes, and the old one has not even paused
//!      stops gracefully, becomes a standby:
//!      "at rest": FILE is not in use   ──▶   maps FILE, starts its threads
//!      ends                            ◀──   "serving"; otherwise it closes, and the standby starts again
//! ```
//! The standby (standby.rs) is the old process after `exec`: the same program and command line. It has
//! the sockets and the connection to the successor, but not the mapping, its lock or the threads. Clients
//! that connect meanwhile wait in the backlogs of the sockets, which are never closed.
//!
//! # Invariants
//! 1. At each moment a process holds the listening sockets and will serve them, even if either of the two
//!    dies.
//! 2. The old server stops only for a successor that says "ready": connecting to FILE.handover changes
//!    nothing.
//! 3. A successor whose flags name other addresses, or would empty FILE, is refused: no address and no
//!    item is dropped unasked.
//!
//! Only the server's user can connect to FILE.handover.

use crate::process::gauges::Gauge;
use crate::process::{self, Process};
use crate::settings::{EXIT_SYSTEM, Refusal, ServerSettings};
use crate::sockets::{Inherited, Sockets, listen_unix};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The server that this one takes over from. It serves until [`wait`](Self::wait) is called.
pub(crate) struct Predecessor {
    at: PathBuf,
    connection: UnixStream,
    /// The number of sockets it has sent.
    sockets: usize,
}

/// Asks the server that uses the memory file for its sockets. There are none without `--take-over`, or if no server runs.
///
/// # Errors
/// The two servers can't communicate.
pub(crate) fn take_over(
    settings: &ServerSettings,
) -> Result<(Inherited, Option<Predecessor>), Refusal> {
    let (true, Some(at)) = (settings.take_over, place(settings)) else {
        return Ok((Inherited::default(), None));
    };
    let connection = match UnixStream::connect(&at) {
        Ok(connection) => connection,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let message = format!(
                "failed to take over by {}: {error}. The other server runs as another user and goes on. Start this one as \
                 the same (-u).",
                at.display()
            );
            return Err(Refusal::new(EXIT_SYSTEM, message));
        }
        // No server is running.
        Err(_) => return Ok((Inherited::default(), None)),
    };
    let mut predecessor = Predecessor { at, connection, sockets: 0 };
    let refuse = |error: io::Error| predecessor.refusal(&error);
    predecessor.connection.set_read_timeout(Some(PATIENCE)).map_err(refuse)?;
    let sockets = receive(predecessor.connection.as_fd()).map_err(refuse)?;
    predecessor.sockets = sockets.len();
    Ok((Inherited::new(sockets), Some(predecessor)))
}

impl Predecessor {
    /// Makes the other server stop, and waits until its memory is at rest. `left` are its sockets that weren't taken.
    ///
    /// # Errors
    /// The other server listens at an address that this one wouldn't, has items that this one couldn't
    /// keep, or doesn't stop in time.
    pub(crate) fn wait(
        &mut self,
        left: &Inherited,
        settings: &ServerSettings,
    ) -> Result<(), Refusal> {
        let left = left.left();
        if !left.is_empty() {
            return Err(Refusal::new(
                EXIT_SYSTEM,
                format!(
                    "failed to take over: the other server listens at {} too, which these flags do not name. It goes on. Start this one with the other's -p, -l, -s and --http.",
                    left.join(", ")
                ),
            ));
        }
        if let Some(why) = process::would_empty(settings)? {
            return Err(Refusal::new(
                EXIT_SYSTEM,
                format!(
                    "failed to take over: this server would start empty: {why}. The other server goes on. Start this one with the other's -m, -f, -n and --eviction, or stop the other first: its items are lost then."
                ),
            ));
        }
        let mut told = Vec::new();
        let connection = &mut self.connection;
        let said = connection.write_all(READY);
        // A server that ends instead of becoming a standby leaves its memory at rest as well.
        let heard = said.and_then(|()| connection.take(REST.len() as u64).read_to_end(&mut told));
        heard.map(drop).map_err(|error| self.refusal(&error))
    }

    /// Lets the other server end, because this one serves.
    pub(crate) fn release(mut self) {
        // If the other server has ended already, the message isn't needed.
        let _ = self.connection.write_all(SERVING);
        tracing::info!("took {} sockets over", self.sockets);
    }

    fn refusal(&self, error: &io::Error) -> Refusal {
        let at = self.at.display();
        Refusal::new(EXIT_SYSTEM, format!("failed to take over by {at}: {error}"))
    }
}

/// The socket at which a server with a memory file waits for its successor.
pub(crate) struct Successor {
    door: UnixListener,
    sockets: Vec<OwnedFd>,
}

impl Successor {
    /// Opens that socket, with `sockets` to hand over. Returns `None` without a memory file, or if the
    /// socket can't be created: the server then serves, but can't hand over.
    pub(crate) fn expect(settings: &ServerSettings, sockets: &Sockets) -> Option<Successor> {
        let path = place(settings)?;
        let open = || {
            let door = UnixListener::from(listen_unix(&path, 0o600, 1)?);
            door.set_nonblocking(false)?;
            let listening = sockets.listening.iter().chain(&sockets.http).map(|l| &l.socket);
            let datagram = sockets.datagram.iter().flat_map(|d| &d.sockets);
            let all = listening.chain(datagram).map(|socket| socket.as_fd().try_clone_to_owned());
            Ok((door, all.collect::<io::Result<_>>()?))
        };
        let opened = open().inspect_err(|error: &io::Error| {
            tracing::warn!("this server can't hand over by {}: {error}", path.display());
        });
        let (door, sockets) = opened.ok()?;
        Some(Successor { door, sockets })
    }

    /// Waits for a successor that is ready, and makes this server stop. The main function of the thread.
    ///
    /// # Errors
    /// The signal can't be sent.
    pub(crate) fn serve(self, process: &Process) -> io::Result<()> {
        loop {
            let to = match self.door.accept() {
                Ok((to, _)) => to,
                Err(error) => {
                    // Most likely no descriptor is free: the successor tries again, and clients are served meanwhile.
                    process.gauges.count(Gauge::HandoversFailed);
                    tracing::warn!("handing over: {error}");
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            match prepare(&to, &self.sockets) {
                Ok(()) => {
                    tracing::info!("a successor is ready: this server stops for it");
                    let _ = process.stopped_by.set("a successor");
                    *process.heir.lock() = Some((to, self.sockets));
                    kill_process(getpid(), Signal::USR1)?;
                    return Ok(());
                }
                Err(error) => {
                    process.gauges.count(Gauge::HandoversFailed);
                    let why = match error.kind() {
                        io::ErrorKind::UnexpectedEof => "its last line says why".to_owned(),
                        _ => error.to_string(),
                    };
                    tracing::warn!("a successor came and went ({why}): this server goes on");
                }
            }
        }
    }
}

/// Sends the sockets to a successor and waits until it is ready to use them.
fn prepare(to: &UnixStream, sockets: &[OwnedFd]) -> io::Result<()> {
    send(to.as_fd(), sockets)?;
    to.set_read_timeout(Some(PREPARATION))?;
    let mut word = [0; READY.len()];
    let mut from = to;
    from.read_exact(&mut word)?;
    if word == READY { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Removes the socket's file before the process ends.
pub(crate) fn close_door(settings: &ServerSettings) {
    if let Some(path) = place(settings) {
        // If that fails, the next server replaces the file.
        let _ = std::fs::remove_file(path);
    }
}

fn place(settings: &ServerSettings) -> Option<PathBuf> {
    let mut path = std::path::absolute(settings.memory_file.as_ref()?).ok()?.into_os_string();
    path.push(".handover");
    Some(path.into())
}

/// Sends the sockets in one message.
pub(crate) fn send(to: BorrowedFd<'_>, sockets: &[OwnedFd]) -> io::Result<()> {
    if sockets.len() > SOCKETS_MAX {
        let words = format!("{} sockets are more than fit a message", sockets.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(to, &[IoSlice::new(WORD)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the sockets that [`send`] sent.
pub(crate) fn receive(from: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; WORD.len()];
    let read = &mut [IoSliceMut::new(&mut word)];
    recvmsg(from, read, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    Ok(messages.flatten().collect())
}

/// The data that carries the sockets, since a message needs at least one byte.
const WORD: &[u8] = b"sockets";
const READY: &[u8] = b"ready";
pub(crate) const REST: &[u8] = b"at rest";
pub(crate) const SERVING: &[u8] = b"serving";
/// The most sockets in one message, a limit of the kernel.
const SOCKETS_MAX: usize = 253;
/// The pause after a connection couldn't be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the other server may take to stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a successor may take to get ready.
const PREPARATION: Duration = Duration::from_secs(30);
