//! The requests of clients as borrowed data.
//!
//! A [`Command`] is `Copy`: it borrows every byte string from the parsed buffer and owns nothing. The
//! most frequent ones come first. `quiet` is the text protocol's `noreply`; the meta commands have the
//! flag `q` instead.
//!
//! Times stay as they were sent (`exptime`: 0 = never, 1 … 2,592,000 = seconds from now, larger = Unix
//! time, negative = already past). Converting them needs a clock, which the caller has.

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
        /// Seconds for which adds are refused: 0 to [`HOLD_OFF_MAX_S`](crate::HOLD_OFF_MAX_S).
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
    /// `mn`: replies `MN` and flushes what is queued.
    MetaNoop,
    /// `me`: returns what the server knows about an item.
    MetaDebug {
        /// As sent.
        key: &'b [u8],
        /// Whether the key is base64 (checked): see [`decode_base64`](crate::decode_base64).
        base64: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// As sent; 0 if absent. 0 and negative values mean now.
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
    /// `quit`: closes the connection without a reply.
    Quit,
    /// `stats` and the words after it.
    Stats(Words<'b>),
    /// A command for operators.
    Admin {
        /// The command.
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
    /// Whether to return the cas of each item (`gets`, `gats`).
    pub cas: bool,
    /// The new exptime of each item found, as sent (`gat`, `gats`).
    pub touch: Option<i32>,
    /// Whether to return a lease token for each key without an item (`lease-get`).
    pub lease: bool,
}

/// A text storage command. `value_bytes` + 2 bytes follow its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCommand<'b> {
    /// 1 to 250 bytes.
    pub key: &'b [u8],
    /// The cas to compare with for [`Verb::Cas`], or the token of [`Verb::Lease`]; otherwise 0.
    pub cas: u64,
    /// The client's own 32 bits.
    pub flags: u32,
    /// As sent; values beyond 32 bits are saturated.
    pub exptime: i32,
    /// Length of the value, without the `\r\n` after it. At most 2,147,483,645.
    pub value_bytes: u32,
    /// The command.
    pub verb: Verb,
    /// No reply wanted.
    pub quiet: bool,
}

/// `incr`, `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArithmeticCommand<'b> {
    /// The item that holds the number.
    pub key: &'b [u8],
    /// The amount.
    pub delta: u64,
    /// Whether this is `decr`, which stops at 0. `incr` wraps at 2^64.
    pub decrement: bool,
    /// No reply wanted.
    pub quiet: bool,
}

const _: () = assert!(size_of::<Command<'static>>() <= 96, "a request is passed by value");
