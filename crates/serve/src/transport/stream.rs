//! A client's socket, plain or with TLS: one branch per receive and one per send.

mod channel;

use crate::output::{Output, Unsent};
use crate::settings::ClientCerts;
use crate::tls::Tls;
use crate::turn::Turn;
use channel::Channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;

/// The connection to a client.
pub(crate) enum Stream {
    Plain(OwnedFd),
    Tls(Box<Channel>),
}

impl AsFd for Stream {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(channel) => channel.as_fd(),
        }
    }
}

impl Stream {
    /// A connection that begins with a TLS handshake. `None`: rustls can't create a session.
    pub(crate) fn accept(
        tls: &Tls,
        socket: OwnedFd,
        asked: ClientCerts,
        now: u32,
    ) -> Option<Stream> {
        Some(Stream::Tls(Box::new(Channel::accept(tls, socket, asked, now)?)))
    }

    /// Sends what is queued, and empties `output`. What the socket doesn't take goes to `unsent`, which
    /// must be empty; `wire` is a buffer. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        output: &mut Output<'_>,
        wire: &mut Vec<u8>,
        unsent: &mut Unsent,
        turn: &Turn<'_>,
    ) -> io::Result<usize> {
        let sent = match self {
            Stream::Plain(socket) => {
                debug_assert!(unsent.is_empty(), "what waits goes first");
                let sent = output.send(socket.as_fd())?;
                if sent < output.len() {
                    output.keep_from(sent, unsent, turn);
                }
                sent
            }
            Stream::Tls(channel) => channel.send(output, wire, unsent, turn)?,
        };
        output.clear();
        Ok(sent)
    }

    /// Queues `bytes` in `unsent`, which must be empty, in the form in which they are sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn queue(
        &mut self,
        bytes: Vec<u8>,
        wire: &mut Vec<u8>,
        unsent: &mut Unsent,
    ) -> io::Result<()> {
        match self {
            Stream::Plain(_) => unsent.fill(bytes),
            Stream::Tls(channel) => channel.encrypt(&bytes, wire, unsent)?,
        }
        Ok(())
    }
}
