//! The bodies of the manifest's records, and the set of files that they add up to.
//!
//! # Layout
//! ```text
//! body    | next file id 8 | last seq 8 | edit | edit | …
//! edit    | kind 1 | its fields, little endian |
//!   1 identity    uuid 16, seed 16, hash bits 1
//!   2 young       run id 8, low-water mark of logs 8
//!   3 partitions  from 16, to 16 (the last hash), merged to 16, count 8, run id 8 …, count 8, { from 16, run id 8 or 0 } …
//!   4 dropped     count 8, run id 8 …
//!   5 horizon     seq 8
//! ```
//! A snapshot is a record of an identity and of the edits that make the rest.
//!
//! # Invariants
//! 1. `decode` accepts whole edits only, each with a known kind and possible counts. It never allocates more than the
//!    body's size.
//! 2. Partitions cover all hashes: the first begins at 0, and each ends where the next one begins.

use crate::hash::KeyHash;

/// The identity of a store, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// A number that no other store has.
    pub(crate) uuid: [u8; 16],
    /// The seed of its hash.
    pub(crate) seed: [u8; 16],
    /// How many bits of the hash it keeps: 128, except in tests.
    pub(crate) hash_bits: u8,
}

/// A young run in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct YoungEntry {
    /// The number of its file.
    pub(crate) id: u64,
    /// Entries with a hash below this one are in the last level already.
    pub(crate) merged_to: KeyHash,
}

/// The set of live files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSet {
    /// The identity of the store.
    pub(crate) identity: Identity,
    /// Logs with a lower id are converted.
    pub(crate) logs_from: u64,
    /// Entries up to this sequence number are dead.
    pub(crate) horizon: u64,
    /// Newest first.
    pub(crate) young: Vec<YoungEntry>,
    /// First hash and file number of each partition; number 0: no file.
    pub(crate) last: Vec<(KeyHash, u64)>,
    /// No file has had this number or a higher one.
    pub(crate) next_id: u64,
    /// The highest sequence number given so far, or a lower one.
    pub(crate) last_seq: u64,
}

/// One change of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// The first edit of a manifest.
    Identity(Identity),
    /// Logs below `logs_from` were converted into this run.
    Young {
        /// The number of the run's file. 0: there is no run.
        id: u64,
        /// The new low-water mark.
        logs_from: u64,
    },
    /// The partitions within `from..=to` are replaced, and the young runs in `merged` are merged below `merged_to`.
    Partitions {
        /// First hash.
        from: KeyHash,
        /// Last hash.
        to: KeyHash,
        /// The young runs that took part.
        merged: Vec<u64>,
        /// The new `merged_to` mark of these runs.
        merged_to: KeyHash,
        /// First hash and file number of each new partition.
        pieces: Vec<(KeyHash, u64)>,
    },
    /// These young runs are dropped: they are fully merged, or empty.
    Dropped(Vec<u64>),
    /// Entries up to this sequence number are dead.
    Horizon(u64),
}

impl FileSet {
    /// Creates the set of an empty store.
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            identity,
            logs_from: 1,
            horizon: 0,
            young: Vec::new(),
            last: vec![(KeyHash(0), 0)],
            next_id: 1,
            last_seq: 0,
        }
    }

    /// Applies an edit. None if it doesn't fit the set: then the manifest is corrupt.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Option<()> {
        match edit {
            Edit::Identity(identity) => (*identity == self.identity).then_some(())?,
            Edit::Young { id, logs_from } => {
                if *id != 0 {
                    self.young.insert(0, YoungEntry { id: *id, merged_to: KeyHash(0) });
                }
                self.logs_from = self.logs_from.max(*logs_from);
            }
            Edit::Partitions { from, to, merged, merged_to, pieces } => {
                self.replace(*from, *to, pieces)?;
                for young in self.young.iter_mut().filter(|it| merged.contains(&it.id)) {
                    young.merged_to = young.merged_to.max(*merged_to);
                }
            }
            Edit::Dropped(ids) => self.young.retain(|it| !ids.contains(&it.id)),
            Edit::Horizon(seq) => self.horizon = self.horizon.max(*seq),
        }
        Some(())
    }

    fn replace(&mut self, from: KeyHash, to: KeyHash, pieces: &[(KeyHash, u64)]) -> Option<()> {
        let begin = self.last.binary_search_by_key(&from, |it| it.0).ok()?;
        let end = match to.0.checked_add(1) {
            None => self.last.len(),
            Some(next) => self.last.binary_search_by_key(&KeyHash(next), |it| it.0).ok()?,
        };
        let is_sorted = pieces.windows(2).all(|two| two[0].0 < two[1].0);
        let fits = pieces.first()?.0 == from && pieces.last()?.0 <= to && begin < end;
        (is_sorted && fits).then(|| drop(self.last.splice(begin..end, pieces.iter().copied())))
    }

    /// The edits that create this set from nothing.
    pub(crate) fn as_edits(&self) -> Vec<Edit> {
        let mut edits = vec![Edit::Identity(self.identity), Edit::Horizon(self.horizon)];
        let whole = |merged, merged_to, pieces| Edit::Partitions {
            from: KeyHash(0),
            to: KeyHash::MAX,
            merged,
            merged_to,
            pieces,
        };
        for young in self.young.iter().rev() {
            edits.push(Edit::Young { id: young.id, logs_from: self.logs_from });
            if young.merged_to != KeyHash(0) {
                edits.push(whole(vec![young.id], young.merged_to, vec![(KeyHash(0), 0)]));
            }
        }
        edits.push(Edit::Young { id: 0, logs_from: self.logs_from });
        edits.push(whole(Vec::new(), KeyHash(0), self.last.clone()));
        edits
    }

    /// The numbers of the runs in the set.
    pub(crate) fn runs(&self) -> impl Iterator<Item = u64> {
        let last = self.last.iter().map(|it| it.1).filter(|id| *id != 0);
        self.young.iter().map(|it| it.id).chain(last)
    }
}

/// Encodes the body of a record and appends it to `out`.
pub(crate) fn encode(edits: &[Edit], next_id: u64, last_seq: u64, out: &mut Vec<u8>) {
    put(out, &[next_id, last_seq]);
    for edit in edits {
        match edit {
            Edit::Identity(identity) => {
                out.push(1);
                out.extend_from_slice(&identity.uuid);
                out.extend_from_slice(&identity.seed);
                out.push(identity.hash_bits);
            }
            Edit::Young { id, logs_from } => {
                out.push(2);
                put(out, &[*id, *logs_from]);
            }
            Edit::Partitions { from, to, merged, merged_to, pieces } => {
                out.push(3);
                for hash in [from, to, merged_to] {
                    out.extend_from_slice(&hash.0.to_le_bytes());
                }
                put(out, &[merged.len() as u64]);
                put(out, merged);
                put(out, &[pieces.len() as u64]);
                for (first, id) in pieces {
                    out.extend_from_slice(&first.0.to_le_bytes());
                    put(out, &[*id]);
                }
            }
            Edit::Dropped(ids) => {
                out.push(4);
                put(out, &[ids.len() as u64]);
                put(out, ids);
            }
            Edit::Horizon(seq) => {
                out.push(5);
                put(out, &[*seq]);
            }
        }
    }
}

fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|it| out.extend_from_slice(&it.to_le_bytes()));
}

/// The decoded body of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// No file had had this number or a higher one.
    pub(crate) next_id: u64,
    /// The highest sequence number at that time.
    pub(crate) last_seq: u64,
    /// The edits, in order.
    pub(crate) edits: Vec<Edit>,
}

/// Decodes the body of a record. None for bytes that `encode` doesn't write.
pub(crate) fn decode(body: &[u8]) -> Option<Body> {
    let mut rest = body;
    let (next_id, last_seq) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
    let mut edits = Vec::new();
    while !rest.is_empty() {
        edits.push(take_edit(&mut rest)?);
    }
    Some(Body { next_id, last_seq, edits })
}

fn take_edit(rest: &mut &[u8]) -> Option<Edit> {
    let [kind] = take(rest)?;
    Some(match kind {
        1 => {
            let (uuid, seed, [hash_bits]) = (take(rest)?, take(rest)?, take(rest)?);
            Edit::Identity(Identity { uuid, seed, hash_bits })
        }
        2 => Edit::Young { id: take_u64(rest)?, logs_from: take_u64(rest)? },
        3 => {
            let (from, to, merged_to) = (take_hash(rest)?, take_hash(rest)?, take_hash(rest)?);
            let merged = take_ids(rest)?;
            let count = take_count(rest, 24)?;
            let piece = |_| Some((take_hash(rest)?, take_u64(rest)?));
            let pieces = (0..count).map(piece).collect::<Option<Vec<_>>>()?;
            Edit::Partitions { from, to, merged, merged_to, pieces }
        }
        4 => Edit::Dropped(take_ids(rest)?),
        5 => Edit::Horizon(take_u64(rest)?),
        _ => return None,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn take_hash(rest: &mut &[u8]) -> Option<KeyHash> {
    take(rest).map(|bytes| KeyHash(u128::from_le_bytes(bytes)))
}

/// Decodes a count of parts, and checks that so many parts can follow (invariant 1).
fn take_count(rest: &mut &[u8], bytes_each: usize) -> Option<usize> {
    let count = usize::try_from(take_u64(rest)?).ok()?;
    (count <= rest.len() / bytes_each).then_some(count)
}

fn take_ids(rest: &mut &[u8]) -> Option<Vec<u64>> {
    let count = take_count(rest, 8)?;
    (0..count).map(|_| take_u64(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { uuid: [1; 16], seed: [2; 16], hash_bits: 128 }
    }

    fn some_set() -> FileSet {
        let mut set = FileSet::new(identity());
        let (middle, later) = (KeyHash(1 << 100), KeyHash(1 << 120));
        let edits = [
            Edit::Young { id: 3, logs_from: 2 },
            Edit::Young { id: 7, logs_from: 6 },
            Edit::Partitions {
                from: KeyHash(0),
                to: KeyHash::MAX,
                merged: vec![3],
                merged_to: middle,
                pieces: vec![(KeyHash(0), 9), (middle, 10), (later, 0)],
            },
            Edit::Horizon(44),
        ];
        edits.iter().for_each(|edit| set.apply(edit).unwrap());
        set.next_id = 11;
        set.last_seq = 99;
        set
    }

    #[test]
    fn edits_come_back_and_every_cut_is_refused() {
        let edits = some_set().as_edits();
        let mut bytes = Vec::new();
        encode(&edits, 11, 99, &mut bytes);
        let body = decode(&bytes).unwrap();
        assert_eq!((body.next_id, body.last_seq, &body.edits), (11, 99, &edits));
        for cut in 0..bytes.len() {
            // A cut between two edits leaves a valid shorter body: the record's length and checksum refuse it.
            assert!(decode(&bytes[..cut]).is_none_or(|it| it.edits.len() < edits.len()));
        }
        for kind in [0, 6, 255] {
            bytes.truncate(16);
            bytes.push(kind);
            assert_eq!(decode(&bytes), None);
        }
    }

    #[test]
    fn a_count_beyond_the_body_allocates_nothing() {
        let mut bytes = vec![0; 16];
        bytes.push(4);
        put(&mut bytes, &[u64::MAX / 2]);
        assert_eq!(decode(&bytes), None);
    }

    #[test]
    fn a_snapshot_makes_the_same_set() {
        let set = some_set();
        let mut again = FileSet::new(identity());
        set.as_edits().iter().for_each(|edit| again.apply(edit).unwrap());
        (again.next_id, again.last_seq) = (set.next_id, set.last_seq);
        assert_eq!(again, set);
        assert_eq!(set.young[0].id, 7);
        assert_eq!(set.runs().collect::<Vec<_>>(), [7, 3, 9, 10]);
    }

    #[test]
    fn a_piece_in_the_middle_is_replaced_and_misfits_are_refused() {
        let mut set = some_set();
        let (middle, later) = (KeyHash(1 << 100), KeyHash(1 << 120));
        let edit = |from, to, pieces| Edit::Partitions {
            from,
            to,
            merged: Vec::new(),
            merged_to: KeyHash(0),
            pieces,
        };
        let end = KeyHash(later.0 - 1);
        let good = edit(middle, end, vec![(middle, 20), (KeyHash(1 << 110), 21)]);
        set.apply(&good).unwrap();
        assert_eq!(set.last.iter().map(|it| it.1).collect::<Vec<_>>(), [9, 20, 21, 0]);
        for wrong in [
            edit(KeyHash(5), end, vec![(KeyHash(5), 1)]),
            edit(middle, KeyHash(7), vec![(middle, 1)]),
            edit(middle, end, vec![]),
            edit(middle, end, vec![(KeyHash(1 << 101), 1)]),
            edit(middle, end, vec![(middle, 1), (later, 2)]),
            edit(middle, end, vec![(middle, 1), (middle, 2)]),
            edit(middle, KeyHash(middle.0 - 1), vec![(middle, 1)]),
        ] {
            let before = set.clone();
            assert_eq!(set.apply(&wrong), None, "{wrong:?}");
            assert_eq!(set, before);
        }
    }
}
