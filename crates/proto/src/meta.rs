//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.
//!
//! All share one table of flags: a letter and what its token must be. A known letter is accepted on every command,
//! as memcached accepts it, and ignored where it means nothing; its token must be good all the same. A letter
//! twice is an error, so a set of 58 bits says which are there.
//!
//! ```text
//! mg <key> <flag>*        ms <key> <bytes> <flag>*       flag = letter token?       T30  v  Oabc
//! ```
//! # Invariants
//! 1. Every flag of a [`Meta`] was checked: known, single, its token of its kind, the opaque short, the key
//!    base64 under `b`. A reply can be built by walking [`Meta::flags`] without a further check.
//! 2. At most twenty words in all, so that walk is short.

mod flags;

pub(crate) use flags::is_flag_like;
pub use flags::{MetaFlag, MetaFlags};

use flags::{Kind, bit, kind};

use crate::line::Verb;
use crate::number::{parse_i32, parse_u32, parse_u64};
use crate::{KEY_BYTES_MAX, Words, decode_base64, fixed};

/// The longest opaque, its letter `O` included. Bytes.
pub const OPAQUE_BYTES_MAX: usize = 32;

/// A meta command's key and flags. Which command it is, the [`Command`](crate::Command) says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta<'b> {
    key: &'b [u8],
    flags: Words<'b>,
    /// Bit n: letter `A` + n is there.
    present: u64,
    compare_cas: u64,
    new_cas: u64,
    delta: u64,
    ttl: i32,
    vivify: i32,
    recache: i32,
    client_flags: u32,
    value_bytes: u32,
    mode: u8,
}

/// Which meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVerb {
    /// `mg`.
    Get,
    /// `ms`.
    Set,
    /// `md`.
    Delete,
    /// `ma`.
    Arithmetic,
}

impl<'b> Meta<'b> {
    /// A command to be sent: checks `flags` (`"v t T30"`) as a server would.
    ///
    /// `key` and `flags` go on the wire as they are: see [`is_key`](crate::is_key).
    ///
    /// # Errors
    /// The line the server would answer with.
    #[inline]
    pub fn new(
        verb: MetaVerb,
        key: &'b [u8],
        flags: &'b [u8],
        value_bytes: u32,
    ) -> Result<Meta<'b>, &'static [u8]> {
        let mut meta = Meta {
            key,
            flags: Words::new(flags),
            present: 0,
            compare_cas: 0,
            new_cas: 0,
            delta: 1,
            ttl: 0,
            vivify: 0,
            recache: 0,
            client_flags: 0,
            value_bytes,
            mode: 0,
        };
        let words = if verb == MetaVerb::Set { 3 } else { 2 };
        match meta.read_flags(words) {
            Ok(()) => meta.check_tokens(verb).map(|()| meta),
            Err(fault) => Err(meta.explain(verb, words, fault)),
        }
    }

    /// The key as sent: base64 if [`is_base64`](Self::is_base64).
    #[inline]
    pub fn key(&self) -> &'b [u8] {
        self.key
    }

    /// Flag `b`: the key must be decoded with [`decode_base64`] before it is looked up.
    #[inline]
    pub fn is_base64(&self) -> bool {
        self.has(b'b')
    }

    /// The flags in order.
    #[inline]
    pub fn flags(&self) -> MetaFlags<'b> {
        MetaFlags::of(self.flags)
    }

    /// Whether a letter was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        bit(letter).is_some_and(|bit| self.present & bit != 0)
    }

    /// Flag `q`: the ordinary answer is not wanted.
    #[inline]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `C`: the cas that the item must have.
    #[inline]
    pub fn compare_cas(&self) -> Option<u64> {
        self.has(b'C').then_some(self.compare_cas)
    }

    /// `E`: the cas that the item gets.
    #[inline]
    pub fn new_cas(&self) -> Option<u64> {
        self.has(b'E').then_some(self.new_cas)
    }

    /// `T`: the exptime that the item gets, as sent.
    #[inline]
    pub fn ttl(&self) -> Option<i32> {
        self.has(b'T').then_some(self.ttl)
    }

    /// `N`: create the item on a miss, with this exptime.
    #[inline]
    pub fn vivify(&self) -> Option<i32> {
        self.has(b'N').then_some(self.vivify)
    }

    /// `R`: win the right to recache if fewer seconds are left.
    #[inline]
    pub fn recache(&self) -> Option<i32> {
        self.has(b'R').then_some(self.recache)
    }

    /// `F`: the client's 32 bits; 0 when left out.
    #[inline]
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// `D`: by how much; 1 when left out.
    #[inline]
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// `J`: what a created number starts at; 0 when left out.
    pub fn initial(&self) -> u64 {
        self.number(b'J').unwrap_or(0)
    }

    /// `M` of `ma`: count down.
    #[inline]
    pub fn is_decrement(&self) -> bool {
        matches!(self.mode, b'D' | b'-')
    }

    /// `M` of `ms`, `Set` when left out. [`Verb::Cas`] when `C` makes a plain set or a replace conditional;
    /// add, append and prepend stay what they are and compare beside it.
    pub fn verb(&self) -> Verb {
        match self.mode {
            b'E' => Verb::Add,
            b'A' => Verb::Append,
            b'P' => Verb::Prepend,
            _ if self.has(b'C') => Verb::Cas,
            b'R' => Verb::Replace,
            _ => Verb::Set,
        }
    }

    /// Length of the body after an `ms` line, without its `\r\n`.
    #[inline]
    pub fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// The number behind a letter, read anew: so a flag that few commands have needs no field, which all would carry.
    fn number(&self, letter: u8) -> Option<u64> {
        self.flags().find(|flag| flag.letter() == letter).and_then(|flag| parse_u64(flag.token()))
    }

    #[inline]
    fn read_flags(&mut self, words_before: usize) -> Result<(), Fault> {
        if self.key.len() > KEY_BYTES_MAX {
            return Err(Fault::Key);
        }
        if self.flags.rest().len() > FLAGS_BYTES_MAX {
            return Err(Fault::TooMany);
        }
        let mut words = words_before;
        let mut fault = None;
        for word in self.flags {
            let (letter, token) = (word[0], &word[1..]);
            let bit = bit(letter).ok_or(Fault::Letter)?;
            if self.present & bit != 0 {
                return Err(Fault::Duplicate);
            }
            self.present |= bit;
            words += 1;
            // memcached goes on to the end and reports the last fault.
            if let Err(found) = self.read_flag(letter, token) {
                if matches!(found, Fault::Letter) {
                    return Err(found);
                }
                fault = if matches!(found, Fault::ClientFlags) {
                    fault.or(Some(found))
                } else {
                    Some(found)
                };
            }
        }
        match fault {
            None if words <= WORDS_MAX => Ok(()),
            None => Err(Fault::TooMany),
            Some(fault) => Err(fault),
        }
    }

    #[inline]
    fn read_flag(&mut self, letter: u8, token: &'b [u8]) -> Result<(), Fault> {
        let narrow = |token| parse_i32(token).ok_or(Fault::Token);
        let wide = |token| parse_u64(token).ok_or(Fault::Token);
        match kind(letter) {
            Kind::Unknown => return Err(Fault::Letter),
            Kind::Plain => {}
            Kind::Key => {
                if !is_base64(self.key) {
                    return Err(Fault::Encoding);
                }
            }
            Kind::Ttl => self.ttl = narrow(token)?,
            Kind::Vivify => self.vivify = narrow(token)?,
            Kind::Recache => self.recache = narrow(token)?,
            Kind::CompareCas => self.compare_cas = wide(token)?,
            Kind::NewCas => self.new_cas = wide(token)?,
            Kind::Delta => self.delta = parse_u64(token).ok_or(Fault::Delta)?,
            Kind::Initial => parse_u64(token).map(drop).ok_or(Fault::Initial)?,
            Kind::ClientFlags => self.client_flags = parse_u32(token).ok_or(Fault::ClientFlags)?,
            // An empty mode is a wrong one, but only for the commands that have modes.
            Kind::Mode => self.mode = token.first().copied().unwrap_or(b' '),
        }
        Ok(())
    }

    /// What memcached finds out only when it acts on the flags.
    #[inline]
    fn check_tokens(&self, verb: MetaVerb) -> Result<(), &'static [u8]> {
        match (verb, self.mode) {
            (MetaVerb::Set, 0 | b'E' | b'A' | b'P' | b'R' | b'S') => {}
            (MetaVerb::Arithmetic, 0 | b'I' | b'+' | b'D' | b'-') => {}
            (MetaVerb::Get | MetaVerb::Delete, _) => {}
            (MetaVerb::Set, _) => return Err(fixed::INVALID_SET_MODE),
            (MetaVerb::Arithmetic, _) => return Err(fixed::INVALID_ARITHMETIC_MODE),
        }
        if self.has(b'O')
            && self.flags.into_iter().any(|flag| flag[0] == b'O' && flag.len() > OPAQUE_BYTES_MAX)
        {
            return Err(fixed::OPAQUE_TOO_LONG);
        }
        Ok(())
    }

    /// Which line a fault gets, in memcached's order of checks.
    #[cold]
    fn explain(&self, verb: MetaVerb, words_before: usize, fault: Fault) -> &'static [u8] {
        if self.flags.take(WORDS_KEPT - words_before).any(|flag| !is_flag_like(flag[0])) {
            return fixed::BAD_FORMAT;
        }
        if verb == MetaVerb::Arithmetic {
            return fixed::INVALID_OR_DUPLICATE_FLAG;
        }
        if matches!(fault, Fault::Key) {
            return fixed::BAD_FORMAT;
        }
        if words_before + self.flags.count() > WORDS_MAX {
            return fixed::TOO_MANY_FLAGS;
        }
        match fault {
            Fault::Key | Fault::ClientFlags => fixed::BAD_FORMAT,
            Fault::TooMany => fixed::TOO_MANY_FLAGS,
            Fault::Letter => fixed::INVALID_FLAG,
            Fault::Duplicate => fixed::DUPLICATE_FLAG,
            Fault::Token => fixed::BAD_TOKEN,
            Fault::Initial => fixed::INVALID_INITIAL,
            Fault::Delta => fixed::INVALID_META_DELTA,
            Fault::Encoding => fixed::BAD_KEY_ENCODING,
        }
    }
}

impl std::fmt::Debug for Meta<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meta")
            .field("key", &self.key.escape_ascii().to_string())
            .field("flags", &self.flags)
            .field("value_bytes", &self.value_bytes)
            .finish()
    }
}

/// Out of line: its buffer would burden the frame of every meta command.
#[inline(never)]
pub(crate) fn is_base64(key: &[u8]) -> bool {
    decode_base64(key, &mut [0; KEY_BYTES_MAX]).is_some()
}

/// What is wrong with a flag.
#[derive(Clone, Copy)]
enum Fault {
    Key,
    TooMany,
    Letter,
    Duplicate,
    Token,
    Initial,
    Delta,
    ClientFlags,
    Encoding,
}

/// Command, key and length included.
const WORDS_MAX: usize = 20;

/// A line that is longer than 2 KiB closes a connection with memcached, which others may share.
const FLAGS_BYTES_MAX: usize = 1024;

/// memcached looks no further than this many words.
const WORDS_KEPT: usize = 23;
