//! The identity of a replicated store, which says whose it is: a record under a key that no client can send.
//!
//! The record also says up to which number effects may have been given. A process that starts goes on from there. So no
//! cas unique is given twice, whatever the last effects were and whatever merges dropped. Numbers are reserved many at a
//! time. A change that is on disk has its reservation on disk, because that was written before.
//!
//! ```text
//! mark u8 │ reserved u64 │ node u32 │ bytes of the seed u16 │ seed │ cluster
//! ```

use bytes::Bytes;
use guira_chain::NodeId;
use guira_proto::KEY_BYTES_MAX;

use crate::engine::{Begun, Engine};
use crate::item::CONTROL;

const MARK: u8 = CONTROL | 2;
/// How many numbers are reserved at once.
const RESERVED_AT_ONCE: u64 = 1 << 20;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) cluster: String,
    pub(super) seed: String,
    pub(super) node: NodeId,
    /// No effect has a greater number.
    pub(super) reserved: u64,
}

impl Identity {
    /// The record's value.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![MARK];
        out.extend_from_slice(&self.reserved.to_le_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        let seed = u16::try_from(self.seed.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&seed.to_le_bytes());
        out.extend_from_slice(&self.seed.as_bytes()[..usize::from(seed)]);
        out.extend_from_slice(self.cluster.as_bytes());
        out.into()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (mark, rest) = value.split_first()?;
        let (reserved, rest) = rest.split_first_chunk()?;
        let (node, rest) = rest.split_first_chunk()?;
        let (seed, rest) = rest.split_first_chunk()?;
        let (seed, cluster) = rest.split_at_checked(usize::from(u16::from_le_bytes(*seed)))?;
        let text = |bytes: &[u8]| str::from_utf8(bytes).ok().map(str::to_owned);
        Some(Self {
            cluster: text(cluster)?,
            seed: text(seed)?,
            node: u32::from_le_bytes(*node),
            reserved: u64::from_le_bytes(*reserved),
        })
        .filter(|_| *mark == MARK)
    }

    /// Reserves numbers up to `seq`, and some more. Returns whether the record has to be written before an effect with that
    /// number.
    pub(super) fn reserve(&mut self, seq: u64) -> bool {
        let is_new = seq > self.reserved;
        if is_new {
            self.reserved = seq.saturating_add(RESERVED_AT_ONCE);
        }
        is_new
    }

    /// Whether it is the same node of the same cluster.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.cluster, &self.seed, self.node) == (&other.cluster, &other.seed, other.node)
    }
}

/// The record's key.
pub(super) fn key() -> Bytes {
    let mut key = b"guira: cluster".to_vec();
    key.resize(KEY_BYTES_MAX + 1, b'.');
    key.into()
}

/// Reads a store's identity. It may wait for the device.
///
/// # Errors
/// A sentence: it can't be read.
pub(super) fn read(engine: &impl Engine) -> Result<Option<Identity>, String> {
    let found = match engine.begin(&key()) {
        Begun::Known(found) => found,
        Begun::Unknown(lookup) => engine.finish(lookup, &|_| true),
    };
    let found = found.map_err(|failure| {
        format!("{failure}. It would say which cluster the store is of: restore a copy")
    })?;
    let Some(record) = found else { return Ok(None) };
    let identity = Identity::decode(&record.value);
    identity.map(Some).ok_or_else(|| "it is of a cluster of a newer version: update".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { cluster: "birds".to_owned(), seed: "c2VlZA==".to_owned(), node: 7, reserved: 0 }
    }

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let identity = Identity { reserved: 99, ..identity() };
        let value = identity.encode();
        assert_eq!(Identity::decode(&value), Some(identity));
        for cut in 0..15 + 8 {
            assert_eq!(Identity::decode(&value[..cut]), None, "{cut}");
        }
        assert!(key().len() > KEY_BYTES_MAX && key() != crate::horizon::key());
    }

    #[test]
    fn numbers_are_reserved_many_at_a_time() {
        let mut identity = identity();
        assert!(identity.reserve(1) && !identity.reserve(2) && !identity.reserve(1 << 20));
        assert!(identity.reserve((1 << 20) + 2) && identity.reserved > 1 << 21);
    }
}
