//! Handing the listening sockets over to the next server, so that no client is refused in between.
//!
//! ```text
//! old: listens at FILE.handover        new (--take-over): connects there
//!      sends its listening sockets ──▶      has them: who connects from here on waits in their backlogs
//!      stops gracefully, exits     ──▶      sees the connection close; maps FILE, serves
//! ```
//! The socket FILE.handover can be connected to by the server's user only. UDP and HTTP sockets are bound anew.

use crate::settings::{EXIT_SYSTEM, Refusal, Settings};
use crate::shared::Shared;
use crate::sockets::{Listening, listen_unix};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, getpid, kill_process};
use socket2::Socket;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Listening sockets of the server before.
#[derive(Default)]
pub(crate) struct Inherited(Vec<Socket>);

impl Inherited {
    /// The one that listens at `place`.
    pub(crate) fn tcp(&mut self, place: SocketAddr) -> Option<Socket> {
        self.take(|socket| socket.local_addr().is_ok_and(|a| a.as_socket() == Some(place)))
    }

    /// The one that listens at `path`.
    pub(crate) fn unix(&mut self, path: &Path) -> Option<Socket> {
        self.take(|socket| socket.local_addr().is_ok_and(|a| a.as_pathname() == Some(path)))
    }

    fn take(&mut self, is_it: impl Fn(&Socket) -> bool) -> Option<Socket> {
        let at = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(at))
    }
}

/// Asks the server that has the memory file for its sockets, and waits until it has ended. Without `--take-over`, or
/// where no server is, there are none.
///
/// # Errors
/// The other server doesn't end in time, or the two can't talk.
pub(crate) fn take_over(settings: &Settings) -> Result<Inherited, Refusal> {
    let (true, Some(path)) = (settings.take_over, place(settings)) else {
        return Ok(Inherited::default());
    };
    let Ok(mut from) = UnixStream::connect(&path) else { return Ok(Inherited::default()) };
    let refuse = |error: io::Error| {
        Refusal::new(EXIT_SYSTEM, format!("failed to take over by {}: {error}", path.display()))
    };
    from.set_read_timeout(Some(PATIENCE)).map_err(refuse)?;
    let sockets = receive(&from).map_err(refuse)?;
    eprintln!("guira: took {} listening sockets over", sockets.len());
    // The other end is closed when the process has ended, and its memory is at rest.
    from.read_to_end(&mut Vec::new()).map_err(refuse)?;
    Ok(Inherited(sockets.into_iter().map(Socket::from).collect()))
}

/// Where a server with a memory file waits for its successor.
pub(crate) struct Successor {
    door: UnixListener,
    sockets: Vec<OwnedFd>,
}

impl Successor {
    /// Opens the door, with `listening` to give; `None` without a memory file, or where the door can't be made: then
    /// the server serves, and can't hand over.
    pub(crate) fn expect(settings: &Settings, listening: &[Listening]) -> Option<Successor> {
        let path = place(settings)?;
        let open = || {
            let door = UnixListener::from(listen_unix(&path, 0o600, 1)?);
            door.set_nonblocking(false)?;
            let sockets = listening.iter().map(|l| l.socket.as_fd().try_clone_to_owned());
            Ok((door, sockets.collect::<io::Result<_>>()?))
        };
        let opened = open().inspect_err(|error: &io::Error| {
            eprintln!("guira: this server can't hand over by {}: {error}", path.display());
        });
        let (door, sockets) = opened.ok()?;
        Some(Successor { door, sockets })
    }

    /// Waits for a successor, gives it the sockets, and has this server stop. The thread's whole life.
    ///
    /// # Errors
    /// The door fails.
    pub(crate) fn serve(self, shared: &Shared) -> io::Result<()> {
        loop {
            let (to, _) = self.door.accept()?;
            let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
            if let Err(error) = send(&to, &sockets) {
                shared.log.say(1, format_args!("handing over: {error}"));
                continue;
            }
            kill_process(getpid(), Signal::USR1)?;
            // Closed by the end of the process.
            std::mem::forget(to);
            return Ok(());
        }
    }
}

/// Removes the door, before the process ends.
pub(crate) fn close_door(settings: &Settings) {
    if let Some(path) = place(settings) {
        // Where it can't be, the next server replaces it.
        let _ = std::fs::remove_file(path);
    }
}

fn place(settings: &Settings) -> Option<PathBuf> {
    let mut path = std::path::absolute(settings.memory_file.as_ref()?).ok()?.into_os_string();
    path.push(".handover");
    Some(path.into())
}

fn send(to: &UnixStream, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let sockets = &sockets[..sockets.len().min(SOCKETS_MAX)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(sockets));
    sendmsg(to, &[IoSlice::new(WORD)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: &UnixStream) -> io::Result<Vec<OwnedFd>> {
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

/// What goes along with the sockets, since some byte must.
const WORD: &[u8] = b"sockets";
/// Sockets that one message carries.
const SOCKETS_MAX: usize = 64;
/// How long the other server may take to end.
const PATIENCE: Duration = Duration::from_secs(60);
