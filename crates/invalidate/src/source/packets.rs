//! Packets of MySQL's protocol over a socket: a length of three bytes, a number, the payload.
//!
//! After a payload of 16 MiB - 1 the next packet continues it. A payload that exceeds the caller's limit is an error,
//! and isn't kept in memory.

use std::io::{self, BufReader, Read, Write};
use std::time::Duration;

use guira_client::Address;

use super::dial::{NoTls, Socket, Waits, connect, encrypt};
use crate::config::{SourceConfig, TlsConfig};

/// A connection that sends and receives packets.
pub(super) struct Packets {
    socket: BufReader<Box<dyn Socket>>,
    number: u8,
    /// Nobody on the network can read the connection.
    pub(super) is_private: bool,
}

impl Packets {
    /// Connects. A read fails if nothing comes for `silence`.
    pub(super) fn connect(source: &SourceConfig, silence: Duration) -> io::Result<Self> {
        let socket = connect(source, Waits { read: silence, write: silence })?;
        Ok(Self::over(socket, matches!(source.host, Address::Unix(_))))
    }

    /// Uses a socket that is connected.
    pub(super) fn over(socket: Box<dyn Socket>, is_private: bool) -> Self {
        Self { socket: BufReader::with_capacity(READ_BYTES, socket), number: 0, is_private }
    }

    /// Encrypts everything from now on.
    ///
    /// # Errors
    /// The connection fails, the certificates are wrong, or something arrived in clear already.
    pub(super) fn encrypt(&mut self, source: &SourceConfig, tls: &TlsConfig) -> Result<(), NoTls> {
        if !self.socket.buffer().is_empty() {
            let words = "TLS: the server goes on in clear, or somebody on the way does";
            return Err(NoTls::Refused(words.to_owned()));
        }
        let plain = std::mem::replace(self.socket.get_mut(), Box::new(io::empty()));
        *self.socket.get_mut() = encrypt(source, tls, plain)?;
        self.is_private = true;
        Ok(())
    }

    /// Clears `payload`, and reads a whole payload into it. More than `most` bytes are an error.
    pub(super) fn read(&mut self, payload: &mut Vec<u8>, most: usize) -> io::Result<()> {
        payload.clear();
        loop {
            let length = self.begin_packet()?;
            if payload.len() + length > most {
                let words = format!("a packet of more than {most} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
            let read = (&mut self.socket).take(length as u64).read_to_end(payload)?;
            if read < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if length < PAYLOAD_MAX {
                return Ok(());
            }
        }
    }

    /// Like [`Self::read`], but a payload longer than `most`, which must fit into a packet, is only begun and returned.
    pub(super) fn read_or_begin(
        &mut self,
        payload: &mut Vec<u8>,
        most: usize,
    ) -> io::Result<Option<Long<'_>>> {
        payload.clear();
        let left = self.begin_packet()?;
        if left > most {
            return Ok(Some(Long { packets: self, left, goes_on: left == PAYLOAD_MAX }));
        }
        match (&mut self.socket).take(left as u64).read_to_end(payload)? {
            read if read < left => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(None),
        }
    }

    /// Reads the head of a packet, and returns the length.
    fn begin_packet(&mut self) -> io::Result<usize> {
        let mut head = [0; 4];
        self.socket.read_exact(&mut head)?;
        let [a, b, c, number] = head;
        self.number = number.wrapping_add(1);
        Ok(usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16)
    }

    /// Sends a payload as the next packet of a dialogue.
    pub(super) fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).ok().filter(|it| (*it as usize) < PAYLOAD_MAX);
        let length = length.ok_or_else(|| io::Error::other("a packet too long to be sent"))?;
        let [a, b, c, _] = length.to_le_bytes();
        let mut packet = vec![a, b, c, self.number];
        self.number = self.number.wrapping_add(1);
        packet.extend_from_slice(payload);
        self.socket.get_mut().write_all(&packet)
    }

    /// Sends a payload as the first packet of a new dialogue.
    pub(super) fn begin(&mut self, payload: &[u8]) -> io::Result<()> {
        self.number = 0;
        self.write(payload)
    }
}

/// A long payload, which is read as it arrives. Read it to its end: the rest would be taken for packets.
pub(super) struct Long<'p> {
    packets: &'p mut Packets,
    /// The rest of this packet, in bytes.
    left: usize,
    goes_on: bool,
}

impl Read for Long<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            if !self.goes_on {
                return Ok(0);
            }
            self.left = self.packets.begin_packet().map_err(broken_off)?;
            self.goes_on = self.left == PAYLOAD_MAX;
        }
        let most = self.left.min(into.len());
        let read = self.packets.socket.read(&mut into[..most]).map_err(broken_off)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.left -= read;
        Ok(read)
    }
}

/// Distinguishes the end of the connection from the end of the payload.
fn broken_off(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::ErrorKind::ConnectionAborted.into(),
        _ => error,
    }
}

const PAYLOAD_MAX: usize = (1 << 24) - 1;
const READ_BYTES: usize = 64 << 10;
