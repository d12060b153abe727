//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.
//!
//! All of them share one table of flags: a letter, and the kind of its token. As in memcached, a known
//! letter is accepted on every command and ignored where it has no meaning, but its token must be valid
//! in any case. A letter may occur once, so a set of 58 bits records which are present.
//!
//! ```text
//! mg <key> <flag>*        ms <key> <bytes> <flag>*       flag = letter token?       T30  v  Oabc
//! ```
//! # Invariants
//! 1. Every flag of a [`Meta`] was checked: it is known and unique, its token is of the right kind, the
//!    opaque is short, and with `b` the key is base64. A reply can be built by walking [`Meta::flags`]
//!    without further checks.
//! 2. There are at most twenty words in total, so that walk is short.

mod flags;

pub(crate) use flags::is_flag_like;
pub use flags::{MetaFlag, MetaFlags};

use flags::{Kind, bit, kind};

use crate::line::Verb;
use crate::number::{parse_i32, parse_u32, parse_u64};
use crate::{KEY_BYTES_MAX, Words, decode_base64, fixed};

/// The longest opaque in bytes, including its letter `O`.
pub(crate) const OPAQUE_BYTES_MAX: usize = 32;

/// The key and the flags of a meta command. The [`Command`](crate::Command) tells which command it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta<'b> {
    key: &'b [u8],
    flags: Words<'b>,
    /// Bit n is set if the letter `A` + n is present.
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

/// The meta command.
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
    /// Creates a command to be sent. Checks `flags` (`"v t T30"`) as a server would.
    ///
    /// `key` and `flags` are sent unchanged: see [`is_key`](crate::is_key).
    ///
    /// # Errors
    /// The line with which the server would refuse the command.
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

    /// Flag `q`: the ordinary reply isn't wanted.
    #[inline]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// Flag `C`: the cas that the item must have.
    #[inline]
    pub fn compare_cas(&self) -> Option<u64> {
        self.has(b'C').then_some(self.compare_cas)
    }

    /// Flag `E`: the cas that the item gets.
    #[inline]
    pub fn new_cas(&self) -> Option<u64> {
        self.has(b'E').then_some(self.new_cas)
    }

    /// Flag `T`: the exptime that the item gets, as sent.
    #[inline]
    pub fn ttl(&self) -> Option<i32> {
        self.has(b'T').then_some(self.ttl)
    }

    /// Flag `N`: the item is created on a miss, with this exptime.
    #[inline]
    pub fn vivify(&self) -> Option<i32> {
        self.has(b'N').then_some(self.vivify)
    }

    /// Flag `R`: the client wins the right to recache if fewer seconds are left.
    #[inline]
    pub fn recache(&self) -> Option<i32> {
        self.has(b'R').then_some(self.recache)
    }

    /// Flag `F`: the client's 32 bits; 0 if absent.
    #[inline]
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// Flag `D`: the delta; 1 if absent.
    #[inline]
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// Flag `J`: the initial value of a created number; 0 if absent.
    pub fn initial(&self) -> u64 {
        self.number(b'J').unwrap_or(0)
    }

    /// Flag `M` of `ma`: whether to decrement.
    #[inline]
    pub fn is_decrement(&self) -> bool {
        matches!(self.mode, b'D' | b'-')
    }

    /// Flag `M` of `ms`: the verb; `Set` if absent. `C` turns a plain set or a replace into
    /// [`Verb::Cas`]. Add, append and prepend keep their verb and compare the cas in addition.
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

    /// The length of the body after an `ms` line, without its `\r\n`.
    #[inline]
    pub fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// Parses the number after a letter again. A rare flag thus needs no field, which every command would carry.
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
            // Like memcached, reads all flags and reports the last error.
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
            // An empty mode is invalid, but only for the commands that have modes.
            Kind::Mode => self.mode = token.first().copied().unwrap_or(b' '),
        }
        Ok(())
    }

    /// Makes the checks that memcached makes only when it executes the flags.
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

    /// The error line for a fault, in memcached's order of checks.
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

/// Not inlined, because its buffer would enlarge the stack frame of every meta command.
#[inline(never)]
pub(crate) fn is_base64(key: &[u8]) -> bool {
    decode_base64(key, &mut [0; KEY_BYTES_MAX]).is_some()
}

/// The error in a flag.
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

/// The limit of words, including the command, the key and the length.
const WORDS_MAX: usize = 20;

/// With memcached, a line of more than 2 KiB closes the connection, which other clients may share.
const FLAGS_BYTES_MAX: usize = 1024;

/// memcached examines no more than this many words.
const WORDS_KEPT: usize = 23;
