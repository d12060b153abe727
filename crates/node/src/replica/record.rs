//! A replicated record's value: the version of the change that wrote it, then the item.
//!
//! ```text
//! mark u8 │ epoch u64 │ number u64 │ item
//! ```
//! Numbers are little-endian. No item has this mark, so a server outside the cluster doesn't take such a record for an
//! item.

use bytes::Bytes;
use guira_chain::slot::Version;

use crate::item::CONTROL;

const MARK: u8 = CONTROL | 1;
/// Bytes before the item.
pub(super) const HEAD_BYTES: usize = 17;

/// The value of the record that a change writes.
pub(super) fn encode(version: Version, item: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEAD_BYTES + item.len());
    out.push(MARK);
    out.extend_from_slice(&version.epoch.to_le_bytes());
    out.extend_from_slice(&version.seq.to_le_bytes());
    out.extend_from_slice(item);
    out.into()
}

/// The version and the item in a value; `None`: it is no replicated record.
pub(super) fn decode(value: &[u8]) -> Option<(Version, &[u8])> {
    let (mark, rest) = value.split_first()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let (seq, item) = rest.split_first_chunk()?;
    let version = Version { epoch: u64::from_le_bytes(*epoch), seq: u64::from_le_bytes(*seq) };
    (*mark == MARK).then_some((version, item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::expiry_of;

    #[test]
    fn a_record_is_read_as_it_was_written_and_is_no_item() {
        let version = Version { epoch: 3, seq: u64::MAX };
        let value = encode(version, b"item");
        assert_eq!(value.len(), HEAD_BYTES + 4);
        assert_eq!(decode(&value), Some((version, &b"item"[..])));
        assert_eq!(expiry_of(&value), None);
        for bad in [&b""[..], &value[..HEAD_BYTES - 1], &[0; 30]] {
            assert_eq!(decode(bad), None);
        }
    }
}
