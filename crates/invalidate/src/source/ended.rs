//! What the last XA transactions called for whose second part was in the log.
//!
//! MariaDB logs `XA COMMIT` and `XA ROLLBACK` before its engine does them. If it crashes in between, the transaction is
//! prepared again after the start, and its second part comes a second time: by then, the keys may be cached anew.
//!
//! # Invariants
//! 1. Memory is bounded by [`COUNT_MAX`] and [`KEYS_MAX`]. The oldest are forgotten first, and long ones aren't kept.

use std::collections::VecDeque;

use crate::entry::Errand;

/// See the module's head. It outlives the connection to the database.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Names and what they called for, the oldest first.
    last: VecDeque<(Vec<u8>, Vec<Errand>)>,
    keys: usize,
}

impl Ended {
    /// Adds a transaction whose second part was read.
    pub(super) fn add(&mut self, name: &[u8], errands: Vec<Errand>) {
        let _ = self.take(name);
        let keys = keys(&errands);
        if keys > KEYS_MAX {
            return;
        }
        self.keys += keys;
        self.last.push_back((name.to_vec(), errands));
        while self.last.len() > COUNT_MAX || self.keys > KEYS_MAX {
            let Some((_, oldest)) = self.last.pop_front() else { return };
            self.keys -= self::keys(&oldest);
        }
    }

    /// Removes a transaction, and returns what it called for; `None` if it isn't known any more.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Vec<Errand>> {
        let at = self.last.iter().position(|(other, _)| other == name)?;
        let (_, errands) = self.last.remove(at)?;
        self.keys -= keys(&errands);
        Some(errands)
    }
}

/// How many keys there are; an errand without keys counts as one.
fn keys(errands: &[Errand]) -> usize {
    errands.iter().map(Errand::keys).sum()
}

const COUNT_MAX: usize = 256;
/// About 3 MB, if all keys are long.
pub(super) const KEYS_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::rule::Delete;

    fn deletes(count: usize) -> Vec<Errand> {
        let delete = Delete { key: Key::new(b"k").unwrap(), how: None, to: None };
        vec![Errand::Deletes(vec![delete; count])]
    }

    #[test]
    fn the_last_ones_are_known_once_each_and_memory_is_bounded() {
        let mut ended = Ended::default();
        ended.add(b"a", deletes(1));
        ended.add(b"b", vec![Errand::Flush(None)]);
        ended.add(b"a", deletes(2));
        assert_eq!((ended.take(b"a"), ended.take(b"a")), (Some(deletes(2)), None));
        assert_eq!(ended.take(b"b"), Some(vec![Errand::Flush(None)]));
        ended.add(b"long", deletes(KEYS_MAX + 1));
        assert_eq!((ended.take(b"long"), ended.keys), (None, 0));
        for number in 0..1000_u32 {
            ended.add(&number.to_le_bytes(), vec![]);
        }
        assert_eq!(ended.last.len(), COUNT_MAX);
        assert_eq!(ended.take(&743_u32.to_le_bytes()), None);
        assert_eq!(ended.take(&744_u32.to_le_bytes()), Some(vec![]));
        for number in 0..100_u32 {
            ended.add(&number.to_le_bytes(), deletes(1000));
            assert!(ended.keys <= KEYS_MAX, "{}", ended.keys);
        }
        assert_eq!(ended.last.len(), 8);
    }
}
