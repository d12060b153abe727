//! An entry of a run: a key, and its value or delete.
//!
//! # Layout
//! ```text
//! varint key_len | varint value_len | varint (base - seq) | kind 1 B | key | value        base: the run's highest seq
//! ```
//! The hash isn't stored: it is computed from the key. A varint has 7 bits per byte, the lowest first, and is written
//! in its shortest form; any other form is refused.
//!
//! # Invariants
//! 1. [`Head::decode`] accepts only what [`Head::encode`] writes, so bytes have one meaning.

use crate::error::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::hash::KeyHash;

/// Whether the key has a value or was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// The value follows.
    Put,
    /// A tombstone: older values of the key don't count. It has no value.
    Delete,
}

impl EntryKind {
    /// The byte of the kind in files.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::Delete => 2,
        }
    }

    /// The kind with this byte.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// An entry, as it passes between log, run and merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The hash of the key.
    pub(crate) hash: KeyHash,
    /// The sequence number of the write; a later write has a higher number.
    pub(crate) seq: u64,
    /// Put or delete.
    pub(crate) kind: EntryKind,
    /// The whole key.
    pub(crate) key: &'a [u8],
    /// The whole value; empty for a delete.
    pub(crate) value: &'a [u8],
}

/// The bytes of an entry before its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// 1 to 65 535.
    pub(crate) key_bytes: usize,
    /// At most 1 GiB; 0 for a delete.
    pub(crate) value_bytes: usize,
    /// The difference between the run's highest sequence number and the entry's.
    pub(crate) age: u64,
    /// Put or delete.
    pub(crate) kind: EntryKind,
}

impl Head {
    /// Creates the head of an entry in a run whose highest sequence number is `base`. None if the entry can't be stored.
    pub(crate) fn of(entry: &Entry<'_>, base: u64) -> Option<Self> {
        let (key_bytes, value_bytes) = (entry.key.len(), entry.value.len());
        let head =
            Self { key_bytes, value_bytes, age: base.checked_sub(entry.seq)?, kind: entry.kind };
        head.is_valid().then_some(head)
    }

    fn is_valid(&self) -> bool {
        (1..=KEY_BYTES_MAX).contains(&self.key_bytes)
            && self.value_bytes <= VALUE_BYTES_MAX
            && (self.kind == EntryKind::Put || self.value_bytes == 0)
    }

    /// Appends the head to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.key_bytes as u64);
        put_varint(out, self.value_bytes as u64);
        put_varint(out, self.age);
        out.push(self.kind.code());
    }

    /// Decodes the head at the front of `bytes`. Returns it and its length; None for bytes that `encode` doesn't write.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut rest = bytes;
        let key_bytes = usize::try_from(take_varint(&mut rest)?).ok()?;
        let value_bytes = usize::try_from(take_varint(&mut rest)?).ok()?;
        let age = take_varint(&mut rest)?;
        let kind = EntryKind::from_code(*rest.first()?)?;
        let head = Self { key_bytes, value_bytes, age, kind };
        head.is_valid().then_some((head, bytes.len() - rest.len() + 1))
    }

    /// Bytes of key and value.
    pub(crate) const fn body_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }
}

/// The longest head: lengths of 3 and 5 bytes, an age of 10, the kind.
#[cfg(test)]
const HEAD_BYTES_MAX: usize = 19;

fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7f) as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(at).ok()?;
        if shift == 63 && bits > 1 {
            return None;
        }
        n |= bits << shift;
        if byte < 0x80 {
            let is_shortest = byte != 0 || at == 0;
            *bytes = &bytes[at + 1..];
            return is_shortest.then_some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_every_cut_is_refused() {
        let ages = [0, 1, 127, 128, 1 << 35, u64::MAX >> 1, u64::MAX];
        let lengths = [(1, 0), (127, 128), (128, 127), (KEY_BYTES_MAX, VALUE_BYTES_MAX)];
        for (age, (key_bytes, value_bytes)) in
            ages.into_iter().flat_map(|a| lengths.map(|l| (a, l)))
        {
            let head = Head { key_bytes, value_bytes, age, kind: EntryKind::Put };
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            assert!(bytes.len() <= HEAD_BYTES_MAX);
            assert_eq!(Head::decode(&bytes), Some((head, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(Head::decode(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn what_encode_never_writes_is_refused() {
        let refused: [&[u8]; 8] = [
            &[0, 0, 0, 1],
            &[1, 0, 0, 0],
            &[1, 0, 0, 3],
            &[1, 1, 0, 2],
            &[0x81, 0, 0, 0, 1],
            &[0xff, 0xff, 0x04, 0, 0, 1],
            &[1, 0x81, 0x80, 0x80, 0x80, 0x04, 0, 1],
            &[1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 1],
        ];
        for bytes in refused {
            assert_eq!(Head::decode(bytes), None, "{bytes:02x?}");
        }
    }

    #[test]
    fn whatever_decodes_is_what_encode_writes() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200_000 {
            let bytes: Vec<u8> = (0..20).map(|_| random.u8(..) >> random.u32(0..8)).collect();
            if let Some((head, used)) = Head::decode(&bytes) {
                let mut again = Vec::new();
                head.encode(&mut again);
                assert_eq!(again, bytes[..used]);
            }
        }
    }
}
