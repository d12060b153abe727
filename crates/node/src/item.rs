//! The encoding of an item as a record's value: memcached's own fields in front of the item's value.
//!
//! ```text
//! marks u8 │ client flags varint, with FLAGS │ expiry u32, with EXPIRY │ unique u64, with UNIQUE │ the value
//! ```
//! Numbers are little-endian. An item without flags and expiry costs a byte.
//!
//! # Invariants
//! 1. An item's cas unique is its own `unique`, or else the number of the change that wrote it. So it grows with each
//!    store, and a restart doesn't change it. A touch keeps the unique by storing it in the item.
//! 2. An expiry of 0 is never; any other is the Unix second at which the item ends.
//! 3. Bytes that aren't an item are read as `None`, and never cause a panic.

use bytes::Bytes;

use crate::engine::Record;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) marks: Marks,
    pub(crate) flags: u32,
    pub(crate) expiry: u32,
    /// The unique, unless it is the change's number.
    pub(crate) unique: Option<u64>,
    pub(crate) value: Bytes,
}

/// The marks of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The value is out of date.
    pub(crate) is_stale: bool,
    /// A client has won the right to fetch a new value.
    pub(crate) is_won: bool,
    /// The item was made for a miss, and has no value yet.
    pub(crate) is_unfilled: bool,
    /// The key came in base64.
    pub(crate) has_binary_key: bool,
}

const STALE: u8 = 1;
const WON: u8 = 1 << 1;
const UNFILLED: u8 = 1 << 2;
const BINARY_KEY: u8 = 1 << 3;
const FLAGS: u8 = 1 << 4;
const EXPIRY: u8 = 1 << 5;
const UNIQUE: u8 = 1 << 6;
/// Marks a record of the server's own, which is no item.
pub(crate) const CONTROL: u8 = 1 << 7;

impl Marks {
    fn bits(self) -> u8 {
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        bit(self.is_stale, STALE)
            | bit(self.is_won, WON)
            | bit(self.is_unfilled, UNFILLED)
            | bit(self.has_binary_key, BINARY_KEY)
    }

    fn of(bits: u8) -> Self {
        Self {
            is_stale: bits & STALE != 0,
            is_won: bits & WON != 0,
            is_unfilled: bits & UNFILLED != 0,
            has_binary_key: bits & BINARY_KEY != 0,
        }
    }
}

impl Item {
    /// The item in a record's value; `None`: there is none.
    pub(crate) fn parse(record: &Record) -> Option<Self> {
        let (head, at) = Head::parse(&record.value)?;
        let Head { marks, flags, expiry, unique } = head;
        Some(Self { marks, flags, expiry, unique, value: record.value.slice(at..) })
    }

    /// The record's value.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(HEAD_BYTES_MAX + self.value.len());
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        out.push(
            self.marks.bits()
                | bit(self.flags != 0, FLAGS)
                | bit(self.expiry != 0, EXPIRY)
                | bit(self.unique.is_some(), UNIQUE),
        );
        if self.flags != 0 {
            append_varint(&mut out, self.flags);
        }
        if self.expiry != 0 {
            out.extend_from_slice(&self.expiry.to_le_bytes());
        }
        if let Some(unique) = self.unique {
            out.extend_from_slice(&unique.to_le_bytes());
        }
        out.extend_from_slice(&self.value);
        out.into()
    }

    pub(crate) fn is_expired(&self, now: u32) -> bool {
        self.expiry != 0 && self.expiry <= now
    }
}

/// The second at which a record's item ends, 0 for never; `None`: there is no item.
pub(crate) fn expiry_of(value: &[u8]) -> Option<u32> {
    Head::parse(value).map(|(head, _)| head.expiry)
}

/// The fields in front of a value.
struct Head {
    marks: Marks,
    flags: u32,
    expiry: u32,
    unique: Option<u64>,
}

impl Head {
    /// Parses the fields. Returns them with the offset of the value.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&bits, mut rest) = bytes.split_first()?;
        if bits & CONTROL != 0 {
            return None;
        }
        let mut head = Self { marks: Marks::of(bits), flags: 0, expiry: 0, unique: None };
        if bits & FLAGS != 0 {
            (head.flags, rest) = take_varint(rest)?;
        }
        if bits & EXPIRY != 0 {
            let (expiry, behind) = rest.split_first_chunk()?;
            (head.expiry, rest) = (u32::from_le_bytes(*expiry), behind);
        }
        if bits & UNIQUE != 0 {
            let (unique, behind) = rest.split_first_chunk()?;
            (head.unique, rest) = (Some(u64::from_le_bytes(*unique)), behind);
        }
        Some((head, bytes.len() - rest.len()))
    }
}

/// Appends a varint: seven bits per byte, the lowest first. The eighth bit shows that more bytes follow.
fn append_varint(out: &mut Vec<u8>, mut n: u32) {
    while let Some(low) = u8::try_from(n & 0x7f).ok().filter(|_| n > 0x7f) {
        out.push(low | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap_or_default());
}

fn take_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut n = 0u32;
    for (at, &byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        n |= u32::from(byte & 0x7f).checked_shl(7 * u32::try_from(at).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((n, &bytes[at + 1..]));
        }
    }
    None
}

/// Converts an exptime that was sent at `now` into an expiry. 0 is never, and a negative one is over already. Up to 30 days
/// count from now; a larger one is a Unix second.
pub(crate) fn expiry(exptime: i64, now: u32) -> u32 {
    match exptime {
        0 => 0,
        ..0 => PAST,
        1..=RELATIVE_MAX_S => u32::try_from(i64::from(now) + exptime).unwrap_or(u32::MAX),
        _ => u32::try_from(exptime).unwrap_or(u32::MAX),
    }
}

/// A second in the past.
const PAST: u32 = 1;
/// Thirty days.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;
const VARINT_BYTES_MAX: usize = 5;
/// Most bytes that an item takes in addition to its value.
pub(crate) const HEAD_BYTES_MAX: usize = 1 + VARINT_BYTES_MAX + 4 + 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(value: Bytes) -> Record {
        Record { seq: 1, value }
    }

    proptest! {
        #[test]
        fn an_item_is_read_as_it_was_written(
            bits in 0u8..16, flags: u32, expiry: u32, unique: Option<u64>, value: Vec<u8>,
        ) {
            let item =
                Item { marks: Marks::of(bits), flags, expiry, unique, value: value.into() };
            let encoded = item.encode();
            prop_assert!(encoded.len() <= HEAD_BYTES_MAX + item.value.len());
            prop_assert_eq!(expiry_of(&encoded), Some(expiry));
            prop_assert_eq!(Item::parse(&record(encoded)), Some(item));
        }

        #[test]
        fn bytes_that_are_no_item_are_none(bytes: Vec<u8>) {
            let _ = Item::parse(&record(bytes.into()));
        }
    }

    #[test]
    fn what_is_cut_short_or_the_servers_own_is_no_item() {
        for bytes in
            [&b""[..], &[FLAGS], &[FLAGS, 0x80], &[EXPIRY, 1, 2, 3], &[UNIQUE; 8], &[CONTROL, 0]]
        {
            assert_eq!(Item::parse(&record(Bytes::copy_from_slice(bytes))), None, "{bytes:?}");
        }
        let plain = Item { value: "abc".into(), ..Item::default() };
        assert_eq!(plain.encode(), &b"\0abc"[..]);
    }

    #[test]
    fn times_are_memcacheds() {
        let now = 1_800_000_000;
        for (exptime, at) in [
            (0, 0),
            (-1, PAST),
            (1, now + 1),
            (RELATIVE_MAX_S, now + 2_592_000),
            (RELATIVE_MAX_S + 1, 2_592_001),
            (i64::MAX, u32::MAX),
        ] {
            assert_eq!(expiry(exptime, now), at, "{exptime}");
        }
    }
}
