//! What a client can ask, as borrowed data.
//!
//! A [`Command`] is `Copy`, borrows every byte string from the buffer that was parsed and owns nothing. The
//! hot ones come first. `quiet` is the text protocol's `noreply`; the meta commands carry theirs as flag `q`.
//!
//! Relative and absolute times stay as they were sent (`exptime`: 0 = never, 1 … 2,592,000 = seconds from
//! now, larger = Unix time, negative = already past): what they mean needs a clock, which is the caller's.

mod encode;

use crate::line::Verb;
use crate::{Admin, Meta, Words};

/// One request line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command<'b> {
    /// `get`, `gets`, `gat`, `gats`, `lease-get`.
    Get(Get<'b>),
    /// `mg`.
    MetaGet(Meta<'b>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`, `lease-set`: the body follows the line.
    Store(StoreCommand<'b>),
    /// `ms`: the body of [`Meta::value_bytes`] follows the line.
    MetaSet(Meta<'b>),
    /// `delete`.
    Delete {
        /// The item to remove.
        key: &'b [u8],
        /// Seconds for which adds are to be refused: 0 to [`HOLD_OFF_MAX_S`](crate::HOLD_OFF_MAX_S).
        hold_off_s: u32,
        /// No reply wanted.
        quiet: bool,
    },
    /// `md`.
    MetaDelete(Meta<'b>),
    /// `incr`, `decr`.
    Arithmetic(ArithmeticCommand<'b>),
    /// `ma`.
    MetaArithmetic(Meta<'b>),
    /// `touch`.
    Touch {
        /// The item whose time is set.
        key: &'b [u8],
        /// As sent.
        exptime: i32,
        /// No reply wanted.
        quiet: bool,
    },
    /// `mn`: answers `MN` and flushes what is queued.
    MetaNoop,
    /// `me`: what the server knows about an item.
    MetaDebug {
        /// As sent.
        key: &'b [u8],
        /// The key is base64 (checked): see [`decode_base64`](crate::decode_base64).
        base64: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// As sent; 0 when left out. At or below 0 means now.
        exptime: i32,
        /// No reply wanted.
        quiet: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// As sent; memcached clamps it to 2.
        level: u32,
        /// No reply wanted.
        quiet: bool,
    },
    /// `quit`: close without a word.
    Quit,
    /// `stats` and the words after it.
    Stats(Words<'b>),
    /// A command for whoever runs the server.
    Admin {
        /// Which.
        command: Admin,
        /// No reply wanted.
        quiet: bool,
    },
}

/// `get`, `gets`, `gat`, `gats`, `lease-get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'b> {
    /// At least one key, none over [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    pub keys: Words<'b>,
    /// Return the cas of each item (`gets`, `gats`).
    pub cas: bool,
    /// New exptime of each item found, as sent (`gat`, `gats`).
    pub touch: Option<i32>,
    /// Return a lease token for each key without an item (`lease-get`).
    pub lease: bool,
}

/// A text storage command. `value_bytes` + 2 bytes follow its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCommand<'b> {
    /// 1 to 250 bytes.
    pub key: &'b [u8],
    /// Compared with the item's for [`Verb::Cas`]; the token of [`Verb::Lease`]; else 0.
    pub cas: u64,
    /// The client's own 32 bits.
    pub flags: u32,
    /// As sent; values beyond 32 bits are saturated.
    pub exptime: i32,
    /// Length of the value, without the `\r\n` after it. At most 2,147,483,645.
    pub value_bytes: u32,
    /// Which command.
    pub verb: Verb,
    /// No reply wanted.
    pub quiet: bool,
}

/// `incr`, `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArithmeticCommand<'b> {
    /// The item that holds the number.
    pub key: &'b [u8],
    /// By how much.
    pub delta: u64,
    /// `decr`: stops at 0. Else `incr`: wraps at 2^64.
    pub decrement: bool,
    /// No reply wanted.
    pub quiet: bool,
}

const _: () = assert!(size_of::<Command<'static>>() <= 96, "a request is passed by value");
