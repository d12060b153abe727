//! The tail of a log: its last groups, in memory, so that recent writes are read without I/O.

use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::VecDeque;

/// The most bytes of one log that are kept in memory.
pub(crate) const TAIL_BYTES_MAX: usize = 1 << 20;

/// Groups up to the end of the log, oldest first.
#[derive(Default)]
pub(crate) struct Tail(RwLock<Groups>);

#[derive(Default)]
struct Groups {
    groups: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Tail {
    /// Adds the group that was appended at `at`, and discards the oldest groups beyond [`TAIL_BYTES_MAX`].
    pub(crate) fn push(&self, at: u64, group: Bytes) {
        let mut tail = self.0.write();
        tail.bytes += group.len();
        tail.groups.push_back((at, group));
        while tail.bytes > TAIL_BYTES_MAX {
            let Some((_, oldest)) = tail.groups.pop_front() else { break };
            tail.bytes -= oldest.len();
        }
    }

    /// Returns the bytes from `at` to the end of their group, if they are here.
    pub(crate) fn get(&self, at: u64) -> Option<Bytes> {
        let tail = self.0.read();
        let next = tail.groups.partition_point(|(start, _)| *start <= at);
        let (start, group) = tail.groups.get(next.checked_sub(1)?)?;
        let within = usize::try_from(at - start).ok()?;
        (within < group.len()).then(|| group.slice(within..))
    }

    /// Frees all groups of a log that is frozen.
    pub(crate) fn clear(&self) {
        *self.0.write() = Groups::default();
    }

    /// The bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.0.read().bytes
    }
}

#[test]
fn the_last_groups_are_here_and_older_ones_are_not() {
    let tail = Tail::default();
    let group = |byte| Bytes::from(vec![byte; TAIL_BYTES_MAX / 4]);
    let size = TAIL_BYTES_MAX as u64 / 4;
    for n in 0..6_u8 {
        tail.push(4096 + u64::from(n) * size, group(n));
    }
    assert!(tail.get(4096).is_none() && tail.get(4096 + size).is_none());
    for n in 2..6_u8 {
        let got = tail.get(4096 + u64::from(n) * size + 10).expect("a late group");
        assert_eq!((got.len(), got[0]), (TAIL_BYTES_MAX / 4 - 10, n));
    }
    assert!(tail.get(4096 + 6 * size).is_none(), "past the end");
    tail.push(1 << 40, Bytes::from(vec![0; TAIL_BYTES_MAX + 1]));
    assert_eq!((tail.bytes(), tail.get(1 << 40)), (0, None), "a huge group is not kept");
}
