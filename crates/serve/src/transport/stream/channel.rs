//! A TLS connection: decrypts records from the socket into requests, and encrypts replies into records.
//!
//! ```text
//! recv ─▶ wire (the worker's) ─▶ session ─▶ input             output ─▶ session ─▶ wire ─▶ send
//!                                   └ part of a record, alerts, handshake ┘       └ the rest: unsent
//! ```
//! # Invariants
//! 1. Everything received is decrypted at once: between turns the session holds at most part of a record.
//! 2. What the socket doesn't take is in `unsent` as records, in order. So back-pressure works as without
//!    TLS, and nothing can be encrypted twice. Held values (`output/held.rs`) are encrypted when they are
//!    sent.
//! 3. A handshake has a time limit ([`HANDSHAKE_S`]); rustls refuses to renegotiate.
//!
//! # Costs
//! One `recv` and one `send` per batch, as without TLS, and a copy in each direction. An idle connection
//! holds about 10 KiB. A large value is received through the input, which copies it once more.

use crate::output::{Output, Unsent, send_once};
use crate::process::Process;
use crate::process::budget::SPARING_BYTES;
use crate::process::roster::name_of;
use crate::settings::ClientCerts;
use crate::tls::Tls;
use crate::turn::Turn;
use guira_log::Seldom;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, getpeername, recv};
use rustls::ServerConnection;
use std::io::{self, BufRead, IoSlice, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// A client's socket with its TLS session.
pub(crate) struct Channel {
    socket: OwnedFd,
    session: ServerConnection,
    handshake_ends_s: u32,
    /// Bytes that are encrypted before they are sent.
    wbuf_bytes: usize,
    /// Whether the client has ended the stream. The socket may stay open, so only this flag shows it.
    has_ended: bool,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Channel {
    /// Begins the handshake, in which the client sends first. `None`: rustls can't create a session.
    pub(crate) fn accept(
        tls: &Tls,
        socket: OwnedFd,
        asked: ClientCerts,
        now: u32,
    ) -> Option<Channel> {
        let mut session = ServerConnection::new(tls.config(asked)).ok()?;
        // Without a limit, records leave the session as soon as they are made.
        session.set_buffer_limit(None);
        let wbuf_bytes = tls.wbuf_bytes();
        let handshake_ends_s = now + HANDSHAKE_S;
        Some(Channel { socket, session, handshake_ends_s, wbuf_bytes, has_ended: false })
    }

    /// The second by which the handshake must be complete, while one is under way.
    pub(crate) fn handshake_ends_s(&self) -> Option<u32> {
        self.session.is_handshaking().then_some(self.handshake_ends_s)
    }

    /// Receives once and appends the decrypted bytes to `input`. Returns their number; 0 at the end of the connection.
    ///
    /// # Errors
    /// [`Errno::AGAIN`]: no decrypted bytes yet. Records to be sent may have been added to `unsent`.
    pub(crate) fn receive(
        &mut self,
        process: &Process,
        input: &mut Vec<u8>,
        wire: &mut Vec<u8>,
        unsent: &mut Unsent,
    ) -> Result<usize, Errno> {
        let mut little = Vec::new();
        let wire = if process.backlog.is_used_up() {
            little.reserve_exact(SPARING_BYTES);
            &mut little
        } else {
            wire.clear();
            wire.reserve(RECEIVE_BYTES);
            wire
        };
        let (_, received) = recv(&self.socket, spare_capacity(wire), RecvFlags::DONTWAIT)?;
        if received == 0 {
            return Ok(0);
        }
        let was_handshaking = self.session.is_handshaking();
        let taken = self.take_in(wire, input);
        wire.clear();
        self.flush(wire, unsent).map_err(|_| Errno::CONNRESET)?;
        match taken {
            Err(error) => {
                self.count(process, was_handshaking, &error);
                Ok(0)
            }
            Ok(0) if !self.has_ended => Err(Errno::AGAIN),
            Ok(said) => Ok(said),
        }
    }

    /// Decrypts `wire` and appends the result to `input`.
    fn take_in(&mut self, wire: &[u8], input: &mut Vec<u8>) -> Result<usize, rustls::Error> {
        let before = input.len();
        let mut rest = wire;
        while !rest.is_empty() {
            let full = |error: io::Error| rustls::Error::General(error.to_string());
            if self.session.read_tls(&mut rest).map_err(full)? == 0 {
                break;
            }
            let state = self.session.process_new_packets()?;
            self.has_ended |= state.peer_has_closed();
            let mut plain = state.plaintext_bytes_to_read();
            let mut reader = self.session.reader();
            while plain > 0 {
                let chunk = reader.fill_buf().map_err(full)?;
                let bytes = chunk.len();
                input.extend_from_slice(chunk);
                reader.consume(bytes);
                plain = plain.saturating_sub(bytes.max(1));
            }
        }
        Ok(input.len() - before)
    }

    /// Whether the client has ended the stream.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn count(&self, process: &Process, in_handshake: bool, error: &rustls::Error) {
        let Some(tls) = &process.tls else { return };
        let counts = &tls.counts;
        let count = if in_handshake { &counts.handshake_errors } else { &counts.proto_errors };
        count.fetch_add(1, Ordering::Relaxed);
        let peer = getpeername(&self.socket).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let address = peer.map_or_else(|| "a client".to_owned(), |peer| name_of("tcp", peer));
        tell_of_failure(&address, in_handshake, error);
    }

    /// Encrypts what is queued and sends it. What the socket doesn't take goes to `unsent`: records,
    /// followed by what is held in the cache and isn't encrypted yet. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(
        &mut self,
        output: &Output<'_>,
        wire: &mut Vec<u8>,
        unsent: &mut Unsent,
        turn: &Turn<'_>,
    ) -> io::Result<usize> {
        wire.clear();
        let (mut sent, mut encrypted) = (0, 0);
        let mut together = Vec::new();
        let (mut bytes, most) = (0, self.wbuf_bytes);
        for piece in output.slices().flat_map(|slice| slice.chunks(most)) {
            if bytes + piece.len() > most {
                write(&mut self.session, &mut together)?;
                sent += self.flush(wire, unsent)?;
                encrypted += bytes;
                bytes = 0;
                if !unsent.is_empty() && output.hold_from(encrypted, unsent, turn) {
                    break;
                }
            }
            together.push(IoSlice::new(piece));
            bytes += piece.len();
        }
        if bytes > 0 {
            write(&mut self.session, &mut together)?;
            sent += self.flush(wire, unsent)?;
        }
        Ok(sent)
    }

    /// Encrypts `bytes` and appends the records to `unsent`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn encrypt(
        &mut self,
        bytes: &[u8],
        wire: &mut Vec<u8>,
        unsent: &mut Unsent,
    ) -> io::Result<()> {
        for piece in bytes.chunks(self.wbuf_bytes) {
            write(&mut self.session, &mut vec![IoSlice::new(piece)])?;
            wire.clear();
            self.drain(wire)?;
            unsent.keep(wire);
        }
        wire.clear();
        Ok(())
    }

    /// Sends the session's records; what the socket doesn't take is appended to `unsent`.
    fn flush(&mut self, wire: &mut Vec<u8>, unsent: &mut Unsent) -> io::Result<usize> {
        self.drain(wire)?;
        let mut sent = 0;
        if unsent.is_empty() && !wire.is_empty() {
            sent = send_once(self.socket.as_fd(), &[IoSlice::new(wire)])?;
        }
        unsent.keep(&wire[sent..]);
        wire.clear();
        Ok(sent)
    }

    /// Moves all records from the session to `wire`.
    fn drain(&mut self, wire: &mut Vec<u8>) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(wire)?;
        }
        Ok(())
    }

    /// Tells the client that nothing more will come, if nothing is unsent and the socket takes the message.
    pub(crate) fn say_goodbye(&mut self, unsent: &mut Unsent) {
        if unsent.is_empty() {
            self.session.send_close_notify();
            // If the client has gone, the message is lost.
            let _ = self.flush(&mut Vec::new(), unsent);
        }
    }
}

/// Encrypts `together` into records, and empties it.
fn write(session: &mut ServerConnection, together: &mut Vec<IoSlice<'_>>) -> io::Result<()> {
    let bytes: usize = together.iter().map(|slice| slice.len()).sum();
    let taken = session.writer().write_vectored(together)?;
    together.clear();
    if taken == bytes { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The most bytes received at a time.
const RECEIVE_BYTES: usize = 64 << 10;
/// Logs a TLS failure with its client and cause: each one with `-v`, otherwise one failed handshake now and then.
fn tell_of_failure(address: &str, in_handshake: bool, error: &rustls::Error) {
    static TOLD: Seldom = Seldom::new();
    if in_handshake && TOLD.admits() {
        tracing::warn!(
            "TLS with {address} fails: {error}. Others may fail too; -v names each. Compare versions, names and roots of \
             client and server."
        );
    } else {
        tracing::debug!("TLS with {address} fails: {error}");
    }
}

/// How long a handshake may take, in seconds.
const HANDSHAKE_S: u32 = 10;
