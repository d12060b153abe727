//! The requests of the binary protocol as borrowed data, and the lengths that each opcode takes.
//!
//! Times stay as they were sent, unsigned: 0 = never, 1 … 2,592,000 = seconds from now, larger = Unix
//! time. Converting them needs a clock, which the caller has.

use super::{Echo, HEADER_BYTES, Header, REQUEST_MAGIC, Status, opcode};
use crate::Verb;

/// One request, without the value that follows a [`PacketBody::Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'b> {
    /// The fields that the reply repeats.
    pub echo: Echo,
    /// The unique to compare with; 0: none.
    pub cas: u64,
    /// Whether to reply only in the exceptional case.
    pub quiet: bool,
    /// The command.
    pub command: PacketBody<'b>,
}

/// The command of an opcode, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketBody<'b> {
    /// `get`, `getk`, `gat`, `gatk`.
    Get {
        /// 1 to 250 bytes.
        key: &'b [u8],
        /// Whether the reply contains the key, also on a miss.
        with_key: bool,
        /// The item's new exptime, if it gets one.
        touch: Option<u32>,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`: the value follows.
    Store(PacketStore<'b>),
    /// `delete`.
    Delete {
        /// 1 to 250 bytes.
        key: &'b [u8],
    },
    /// `increment`, `decrement`.
    Arithmetic(PacketArithmetic<'b>),
    /// `touch`.
    Touch {
        /// 1 to 250 bytes.
        key: &'b [u8],
        /// The item's new exptime.
        exptime: u32,
    },
    /// `flush`.
    Flush {
        /// When to flush; 0 or `None`: now.
        exptime: Option<u32>,
    },
    /// `noop`.
    Noop,
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `stat`.
    Stat {
        /// The kind of statistics; empty: the general ones.
        name: &'b [u8],
    },
}

/// A storage request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStore<'b> {
    /// 1 to 250 bytes.
    pub key: &'b [u8],
    /// The client's own 32 bits; 0 for append and prepend, which keep the item's.
    pub flags: u32,
    /// As sent; 0 for append and prepend.
    pub exptime: u32,
    /// Bytes of the value that follows.
    pub value_bytes: u32,
    /// The command. Never [`Verb::Cas`]: a cas is a request whose `cas` isn't 0.
    pub verb: Verb,
}

/// `increment`, `decrement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArithmetic<'b> {
    /// The item that holds the number.
    pub key: &'b [u8],
    /// The amount.
    pub delta: u64,
    /// The initial value, if the item is created.
    pub initial: u64,
    /// The exptime, if the item is created; `None`: it isn't created.
    pub exptime: Option<u32>,
    /// Whether this is a decrement, which stops at 0. An increment wraps at 2^64.
    pub decrement: bool,
}

/// Returns the command of `code`, if the lengths match it.
#[inline]
pub(super) fn command<'b>(
    code: u8,
    key: &'b [u8],
    extras: &[u8],
    value_bytes: u32,
) -> Result<PacketBody<'b>, Status> {
    let has_key = !key.is_empty();
    let has_value = value_bytes > 0;
    let is_bare = !has_key && extras.is_empty() && !has_value;
    let takes_key_only = has_key && extras.is_empty() && !has_value;
    let command = match code {
        opcode::GET | opcode::GET_Q | opcode::GET_K | opcode::GET_K_Q => {
            let with_key = matches!(code, opcode::GET_K | opcode::GET_K_Q);
            takes_key_only.then_some(PacketBody::Get { key, with_key, touch: None })
        }
        opcode::SET
        | opcode::SET_Q
        | opcode::ADD
        | opcode::ADD_Q
        | opcode::REPLACE
        | opcode::REPLACE_Q => words(extras).filter(|_| has_key).map(|[flags, exptime]| {
            PacketBody::Store(PacketStore { key, flags, exptime, value_bytes, verb: verb(code) })
        }),
        opcode::APPEND | opcode::APPEND_Q | opcode::PREPEND | opcode::PREPEND_Q => {
            let store = PacketStore { key, flags: 0, exptime: 0, value_bytes, verb: verb(code) };
            (has_key && extras.is_empty()).then_some(PacketBody::Store(store))
        }
        opcode::DELETE | opcode::DELETE_Q => takes_key_only.then_some(PacketBody::Delete { key }),
        opcode::INCREMENT | opcode::INCREMENT_Q | opcode::DECREMENT | opcode::DECREMENT_Q => {
            let decrement = matches!(code, opcode::DECREMENT | opcode::DECREMENT_Q);
            arithmetic(key, extras, decrement).filter(|_| has_key && !has_value)
        }
        opcode::TOUCH => words(extras)
            .filter(|_| has_key && !has_value)
            .map(|[exptime]| PacketBody::Touch { key, exptime }),
        opcode::GAT | opcode::GAT_Q | opcode::GAT_K | opcode::GAT_K_Q => {
            let with_key = matches!(code, opcode::GAT_K | opcode::GAT_K_Q);
            words(extras).filter(|_| has_key && !has_value).map(|[exptime]| PacketBody::Get {
                key,
                with_key,
                touch: Some(exptime),
            })
        }
        opcode::FLUSH | opcode::FLUSH_Q if extras.is_empty() => {
            is_bare.then_some(PacketBody::Flush { exptime: None })
        }
        opcode::FLUSH | opcode::FLUSH_Q => words(extras)
            .filter(|_| !has_key && !has_value)
            .map(|[exptime]| PacketBody::Flush { exptime: Some(exptime) }),
        opcode::NOOP => is_bare.then_some(PacketBody::Noop),
        opcode::VERSION => is_bare.then_some(PacketBody::Version),
        opcode::QUIT | opcode::QUIT_Q => is_bare.then_some(PacketBody::Quit),
        opcode::STAT => (extras.is_empty() && !has_value).then_some(PacketBody::Stat { name: key }),
        opcode::SASL_MECHANISMS if !is_bare => None,
        opcode::SASL_AUTH | opcode::SASL_STEP if !has_key || !extras.is_empty() => None,
        _ => return Err(Status::UnknownCommand),
    };
    command.ok_or(Status::InvalidArguments)
}

fn verb(code: u8) -> Verb {
    match code {
        opcode::ADD | opcode::ADD_Q => Verb::Add,
        opcode::REPLACE | opcode::REPLACE_Q => Verb::Replace,
        opcode::APPEND | opcode::APPEND_Q => Verb::Append,
        opcode::PREPEND | opcode::PREPEND_Q => Verb::Prepend,
        _ => Verb::Set,
    }
}

fn arithmetic<'b>(key: &'b [u8], extras: &[u8], decrement: bool) -> Option<PacketBody<'b>> {
    let [delta_high, delta_low, initial_high, initial_low, exptime] = words(extras)?;
    let join = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    Some(PacketBody::Arithmetic(PacketArithmetic {
        key,
        delta: join(delta_high, delta_low),
        initial: join(initial_high, initial_low),
        exptime: (exptime != CREATE_NONE).then_some(exptime),
        decrement,
    }))
}

/// Returns the extras as `N` numbers, if they have that length.
fn words<const N: usize>(extras: &[u8]) -> Option<[u32; N]> {
    let (words, []) = extras.as_chunks() else { return None };
    let words: &[[u8; 4]; N] = words.try_into().ok()?;
    Some(words.map(u32::from_be_bytes))
}

impl<'b> Packet<'b> {
    /// The key, if the request has one.
    #[inline]
    pub fn key(&self) -> Option<&'b [u8]> {
        match self.command {
            PacketBody::Get { key, .. }
            | PacketBody::Delete { key }
            | PacketBody::Touch { key, .. } => Some(key),
            PacketBody::Store(store) => Some(store.key),
            PacketBody::Arithmetic(arithmetic) => Some(arithmetic.key),
            PacketBody::Flush { .. }
            | PacketBody::Noop
            | PacketBody::Version
            | PacketBody::Quit
            | PacketBody::Stat { .. } => None,
        }
    }

    /// Bytes of the value that follows header, extras and key.
    #[inline]
    pub fn value_bytes(&self) -> u32 {
        match self.command {
            PacketBody::Store(store) => store.value_bytes,
            _ => 0,
        }
    }

    /// Appends header, extras and key, without the value of a storage request.
    ///
    /// [`parse`](super::parse) of the appended bytes returns an equal request, if its opcode is the command's.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        match self.command {
            PacketBody::Get { touch: Some(exptime), .. }
            | PacketBody::Touch { exptime, .. }
            | PacketBody::Flush { exptime: Some(exptime) } => append(out, [exptime]),
            PacketBody::Store(PacketStore { verb: Verb::Append | Verb::Prepend, .. }) => {}
            PacketBody::Store(store) => append(out, [store.flags, store.exptime]),
            PacketBody::Arithmetic(what) => {
                out.extend_from_slice(&what.delta.to_be_bytes());
                out.extend_from_slice(&what.initial.to_be_bytes());
                append(out, [what.exptime.unwrap_or(CREATE_NONE)]);
            }
            _ => {}
        }
        let extras_bytes = out.len() - start - HEADER_BYTES;
        let key = match self.command {
            PacketBody::Stat { name } => name,
            _ => self.key().unwrap_or_default(),
        };
        out.extend_from_slice(key);
        let length = |n: usize| u32::try_from(n).expect("a key has at most 250 bytes");
        let header = Header {
            magic: REQUEST_MAGIC,
            opcode: self.echo.opcode,
            key_bytes: u16::try_from(key.len()).expect("a key has at most 250 bytes"),
            extras_bytes: u8::try_from(extras_bytes).expect("at most 20 bytes"),
            body_bytes: length(extras_bytes + key.len()) + self.value_bytes(),
            opaque: self.echo.opaque,
            cas: self.cas,
            ..Header::default()
        };
        out[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}

fn append<const N: usize>(out: &mut Vec<u8>, numbers: [u32; N]) {
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// The exptime of an increment that doesn't create an item.
const CREATE_NONE: u32 = u32::MAX;

const _: () = assert!(size_of::<Packet<'static>>() <= 72, "a request is passed by value");
