//! A record on flash: an item's key, value and metadata in one piece, which can be verified by itself.
//!
//! # Layout
//! ```text
//! 0   crc32 of everything behind it         4
//! 4   generation of its page                4     if it differs, the page was reused
//! 8   value bytes                           4
//! 12  life: expiry second and marks         4     as the cache has it
//! 16  last access                           4
//! 20  client flags                          4
//! 24  the key's hash                        8     so that compaction finds the entry
//! 32  cas unique, if BITS has CAS           8
//! 40  key bytes 1, bits 1, unused 2         4
//! 44  key, value, and zeroes up to a multiple of the unit
//! ```
//! # Invariants
//! 1. [`FlashRecord::read`] returns only records that [`FlashRecord::write_head`] and [`seal`] wrote in the requested
//!    generation, as far as a 32-bit CRC can tell.

/// Bytes before the key.
pub(crate) const HEAD_BYTES: usize = 44;

const HAS_CAS: u8 = 1;
const KEY_BINARY: u8 = 2;
const FETCHED: u8 = 4;
const KNOWN: u8 = HAS_CAS | KEY_BINARY | FETCHED;

/// An item in its form on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashRecord<'r> {
    /// The keyed hash of the key.
    pub hash: u64,
    /// The key, 1 to 250 bytes.
    pub key: &'r [u8],
    /// The value.
    pub value: &'r [u8],
    /// Expiry second and marks, in one word as the cache has them.
    pub life: u32,
    /// The second of its last access.
    pub accessed_s: u32,
    /// The client's flags.
    pub client_flags: u32,
    /// The CAS unique, if the item stores its own.
    pub explicit_cas: Option<u64>,
    /// Whether the key was given in base64.
    pub key_binary: bool,
    /// Whether a get found the item while it was in memory.
    pub fetched: bool,
}

/// Why bytes are refused as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// The page was reused, or nothing was written here.
    OtherGeneration,
    /// The bytes end before the record does.
    Short,
    /// The bytes aren't what was written.
    Corrupt,
}

impl<'r> FlashRecord<'r> {
    /// Returns the length of a record with these lengths of key and value, without padding.
    #[must_use]
    pub fn bytes(key_bytes: usize, value_bytes: usize) -> usize {
        HEAD_BYTES + key_bytes + value_bytes
    }

    /// Writes the head and the key to the front of `to`. The caller then writes the value after them, and calls [`seal`].
    ///
    /// # Panics
    /// If the key is longer than 255 bytes, or `to` is shorter than head and key.
    pub(crate) fn write_head(&self, generation: u32, value_bytes: u32, to: &mut [u8]) {
        let on = |is: bool, bit: u8| if is { bit } else { 0 };
        to[4..8].copy_from_slice(&generation.to_le_bytes());
        to[8..12].copy_from_slice(&value_bytes.to_le_bytes());
        to[12..16].copy_from_slice(&self.life.to_le_bytes());
        to[16..20].copy_from_slice(&self.accessed_s.to_le_bytes());
        to[20..24].copy_from_slice(&self.client_flags.to_le_bytes());
        to[24..32].copy_from_slice(&self.hash.to_le_bytes());
        to[32..40].copy_from_slice(&self.explicit_cas.unwrap_or(0).to_le_bytes());
        to[40] = u8::try_from(self.key.len()).expect("a key has at most 250 bytes");
        to[41] = on(self.explicit_cas.is_some(), HAS_CAS)
            | on(self.key_binary, KEY_BINARY)
            | on(self.fetched, FETCHED);
        to[42..HEAD_BYTES].fill(0);
        to[HEAD_BYTES..HEAD_BYTES + self.key.len()].copy_from_slice(self.key);
    }

    /// Reads the record at the front of `from`.
    ///
    /// # Errors
    /// [`NoRecord`] says why the bytes are refused.
    pub fn read(from: &'r [u8], generation: u32) -> Result<FlashRecord<'r>, NoRecord> {
        let head = from.get(..HEAD_BYTES).ok_or(NoRecord::Short)?;
        if word(head, 4) != generation {
            return Err(NoRecord::OtherGeneration);
        }
        let (key_bytes, bits) = (usize::from(head[40]), head[41]);
        let value_bytes = word(head, 8) as usize;
        let end = HEAD_BYTES + key_bytes + value_bytes;
        let all = from.get(..end).ok_or(NoRecord::Short)?;
        if crc32fast::hash(&all[4..]) != word(head, 0) || key_bytes == 0 || bits & !KNOWN != 0 {
            return Err(NoRecord::Corrupt);
        }
        Ok(FlashRecord {
            hash: long(head, 24),
            key: &all[HEAD_BYTES..HEAD_BYTES + key_bytes],
            value: &all[HEAD_BYTES + key_bytes..],
            life: word(head, 12),
            accessed_s: word(head, 16),
            client_flags: word(head, 20),
            explicit_cas: (bits & HAS_CAS != 0).then(|| long(head, 32)),
            key_binary: bits & KEY_BINARY != 0,
            fetched: bits & FETCHED != 0,
        })
    }

    /// Returns the length of this record, without padding.
    #[must_use]
    pub fn len(&self) -> usize {
        Self::bytes(self.key.len(), self.value.len())
    }

    /// Returns false: a record always has a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Writes the CRC of `record`, whose head, key and value are complete.
pub(crate) fn seal(record: &mut [u8]) {
    let crc = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(record: &FlashRecord<'_>, generation: u32) -> Vec<u8> {
        let mut bytes = vec![0xa5; record.len()];
        let value_at = HEAD_BYTES + record.key.len();
        record.write_head(generation, u32::try_from(record.value.len()).unwrap(), &mut bytes);
        bytes[value_at..].copy_from_slice(record.value);
        seal(&mut bytes);
        bytes
    }

    fn record<'r>(key: &'r [u8], value: &'r [u8]) -> FlashRecord<'r> {
        FlashRecord {
            hash: 0x1234_5678_9abc_def0,
            key,
            value,
            life: 77,
            accessed_s: 5,
            client_flags: 9,
            explicit_cas: Some(u64::MAX - 1),
            key_binary: true,
            fetched: true,
        }
    }

    #[test]
    fn what_was_written_is_read_and_a_flipped_bit_is_told() {
        let value = vec![7; 700];
        for record in
            [record(b"k", &value), FlashRecord { explicit_cas: None, ..record(b"key", b"") }]
        {
            let bytes = written(&record, 3);
            assert_eq!(FlashRecord::read(&bytes, 3), Ok(record));
            assert_eq!(FlashRecord::read(&bytes, 4), Err(NoRecord::OtherGeneration));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(FlashRecord::read(&flipped, 3).is_err(), "bit {bit}");
            }
            for short in 0..bytes.len() {
                assert!(FlashRecord::read(&bytes[..short], 3).is_err(), "{short} bytes");
            }
        }
    }
}
