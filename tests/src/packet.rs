//! The binary protocol as a client speaks it: packets to a server, its answers, packet by packet.
//!
//! Written from the protocol, apart from the server's own parser, so that one checks the other.
//!
//! # Invariants
//! 1. `ask` ends: by the answer to the no-op behind the packets, by a close, or by the client's panic.

pub mod stories;

use crate::client::Client;

/// What is sent.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// What to do.
    pub opcode: u8,
    /// As many bytes as the opcode wants.
    pub extras: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The unique to compare with.
    pub cas: Cas,
}

/// Where a packet's unique comes from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Cas {
    /// None.
    #[default]
    None,
    /// The one in the n-th answer so far.
    OfAnswer(usize),
    /// One that no item has.
    Wrong,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The request's.
    pub opcode: u8,
    /// 0: it was done.
    pub status: u16,
    /// The request's.
    pub opaque: u32,
    /// The item's unique, or 0.
    pub cas: u64,
    /// Flags, for a hit.
    pub extras: Vec<u8>,
    /// The key, where the request wants it.
    pub key: Vec<u8>,
    /// The value, a number, a text.
    pub value: Vec<u8>,
}

impl Packet {
    /// A packet of three parts.
    #[must_use]
    pub fn new(opcode: u8, extras: &[u8], key: &str, value: &[u8]) -> Self {
        let (extras, value) = (extras.to_vec(), value.to_vec());
        Self { opcode, extras, key: key.into(), value, cas: Cas::None }
    }

    /// A packet with nothing but a key.
    #[must_use]
    pub fn key(opcode: u8, key: &str) -> Self {
        Self::new(opcode, b"", key, b"")
    }

    /// A set, add or replace.
    #[must_use]
    pub fn store(opcode: u8, key: &str, flags: u32, exptime: u32, value: &[u8]) -> Self {
        Self::new(opcode, &[flags.to_be_bytes(), exptime.to_be_bytes()].concat(), key, value)
    }

    /// An increment or decrement.
    #[must_use]
    pub fn count(opcode: u8, key: &str, delta: u64, initial: u64, exptime: u32) -> Self {
        let mut extras = [delta.to_be_bytes(), initial.to_be_bytes()].concat();
        extras.extend(exptime.to_be_bytes());
        Self::new(opcode, &extras, key, b"")
    }

    /// The same with a unique.
    #[must_use]
    pub fn cas(self, cas: Cas) -> Self {
        Self { cas, ..self }
    }

    /// As it is sent.
    ///
    /// # Panics
    /// If a part is too long for its field.
    #[must_use]
    pub fn to_bytes(&self, opaque: u32, cas: u64) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend(u16::try_from(self.key.len()).expect("a short key").to_be_bytes());
        bytes.extend([u8::try_from(self.extras.len()).expect("short extras"), 0, 0, 0]);
        bytes.extend(u32::try_from(body).expect("a short value").to_be_bytes());
        bytes.extend(opaque.to_be_bytes());
        bytes.extend(cas.to_be_bytes());
        [&bytes[..], &self.extras, &self.key, &self.value].concat()
    }
}

/// A connection over which packets go.
#[derive(Debug)]
pub struct Packets {
    client: Client,
    /// All answers so far.
    pub answers: Vec<Answer>,
    sent: u32,
}

impl Packets {
    /// Takes a fresh connection.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, answers: Vec::new(), sent: 0 }
    }

    /// Sends a packet and a no-op behind; all answers before the no-op's, and whether the server closed.
    ///
    /// # Panics
    /// If something that is no answer comes back.
    pub fn ask(&mut self, packet: &Packet) -> (Vec<Answer>, bool) {
        self.ask_all(std::slice::from_ref(packet), usize::MAX)
    }

    /// As `ask`, for several packets at once, sent in pieces of at most `piece` bytes.
    ///
    /// # Panics
    /// If something that is no answer comes back.
    pub fn ask_all(&mut self, packets: &[Packet], piece: usize) -> (Vec<Answer>, bool) {
        let mut bytes = Vec::new();
        for packet in packets {
            let cas = match packet.cas {
                Cas::None => 0,
                Cas::OfAnswer(n) => self.answers[n].cas,
                Cas::Wrong => u64::MAX - 1,
            };
            self.sent += 1;
            bytes.extend(packet.to_bytes(self.sent, cas));
        }
        bytes.extend(Packet::key(0x0a, "").to_bytes(PROBE, 0));
        for piece in bytes.chunks(piece.min(bytes.len())) {
            self.client.send(piece);
        }
        let before = self.answers.len();
        let closed = loop {
            match self.read_answer() {
                None => break true,
                Some(answer) if answer.opaque == PROBE => break false,
                Some(answer) => self.answers.push(answer),
            }
        };
        (self.answers[before..].to_vec(), closed)
    }

    fn read_answer(&mut self) -> Option<Answer> {
        let header = self.client.try_read_exact(24)?;
        assert_eq!(header[0], 0x81, "{header:02x?}");
        let number = |range: std::ops::Range<usize>| {
            header[range].iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte))
        };
        let length = |n: u64| usize::try_from(n).expect("a length");
        let mut body = self.client.try_read_exact(length(number(8..12)))?;
        let mut extras = std::mem::take(&mut body);
        let mut key = extras.split_off(usize::from(header[4]));
        let value = key.split_off(length(number(2..4)));
        Some(Answer {
            opcode: header[1],
            status: u16::from_be_bytes([header[6], header[7]]),
            opaque: u32::try_from(number(12..16)).expect("four bytes"),
            cas: number(16..24),
            extras,
            key,
            value,
        })
    }
}

/// The opaque of the no-op that marks the end.
const PROBE: u32 = 0xfeed_f00d;

/// The opcodes.
pub mod opcode {
    /// A value.
    pub const GET: u8 = 0x00;
    /// Stores.
    pub const SET: u8 = 0x01;
    /// Stores if nothing is there.
    pub const ADD: u8 = 0x02;
    /// Stores if something is there.
    pub const REPLACE: u8 = 0x03;
    /// Removes.
    pub const DELETE: u8 = 0x04;
    /// Adds to a number.
    pub const INCREMENT: u8 = 0x05;
    /// Takes from a number.
    pub const DECREMENT: u8 = 0x06;
    /// Closes.
    pub const QUIT: u8 = 0x07;
    /// Empties the cache.
    pub const FLUSH: u8 = 0x08;
    /// Quiet get.
    pub const GET_Q: u8 = 0x09;
    /// Answers.
    pub const NOOP: u8 = 0x0a;
    /// The version.
    pub const VERSION: u8 = 0x0b;
    /// A value with its key.
    pub const GET_K: u8 = 0x0c;
    /// Quiet get with its key.
    pub const GET_K_Q: u8 = 0x0d;
    /// Stores behind.
    pub const APPEND: u8 = 0x0e;
    /// Stores before.
    pub const PREPEND: u8 = 0x0f;
    /// Statistics.
    pub const STAT: u8 = 0x10;
    /// Quiet set.
    pub const SET_Q: u8 = 0x11;
    /// A new time.
    pub const TOUCH: u8 = 0x1c;
    /// A value, and a new time for it.
    pub const GAT: u8 = 0x1d;
    /// Quiet gat.
    pub const GAT_Q: u8 = 0x1e;
    /// The same with its key.
    pub const GAT_K: u8 = 0x23;
    /// Quiet gat with its key.
    pub const GAT_K_Q: u8 = 0x24;

    /// A quiet twin, where the opcode has one.
    #[must_use]
    pub fn quiet(opcode: u8) -> u8 {
        match opcode {
            SET..=DECREMENT => opcode + 0x10,
            QUIT | FLUSH => opcode + 0x10,
            APPEND | PREPEND => opcode + 0x0b,
            GET => GET_Q,
            GET_K => GET_K_Q,
            GAT => GAT_Q,
            GAT_K => GAT_K_Q,
            _ => opcode,
        }
    }
}
