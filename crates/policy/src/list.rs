//! Doubly linked lists through the objects of [`Objects`]: newest at the head, oldest at the tail.

use crate::Access;
use crate::objects::{NONE, Objects};

/// A list. Its links are in the marks of the entries.
pub struct ObjectList {
    head: u32,
    tail: u32,
    len: usize,
    /// Sum of the weights.
    pub weight: u64,
}

/// An entry's neighbours.
#[derive(Clone, Copy, Default)]
pub struct ObjectLinks {
    newer: u32,
    older: u32,
}

/// A mark that has links.
pub trait Linked {
    /// The entry's neighbours.
    fn links(&mut self) -> &mut ObjectLinks;
}

impl Default for ObjectList {
    /// An empty list.
    fn default() -> ObjectList {
        ObjectList { head: NONE, tail: NONE, len: 0, weight: 0 }
    }
}

impl ObjectList {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest entry.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The entry that is next newer than `slot`.
    pub fn newer<M: Linked>(table: &mut Objects<M>, slot: u32) -> Option<u32> {
        let newer = table[slot].mark.links().newer;
        (newer != NONE).then_some(newer)
    }

    /// Adds an entry that is in no list as the newest.
    pub fn push<M: Linked>(&mut self, table: &mut Objects<M>, slot: u32) {
        *table[slot].mark.links() = ObjectLinks { newer: NONE, older: self.head };
        match self.head {
            NONE => self.tail = slot,
            head => table[head].mark.links().newer = slot,
        }
        self.head = slot;
        self.len += 1;
        self.weight += u64::from(table[slot].weight);
    }

    /// Gives an entry of this list the weight and expiry of a request that stores it again.
    pub fn reweigh<M>(&mut self, table: &mut Objects<M>, slot: u32, request: &Access) {
        self.weight -= u64::from(table[slot].weight);
        table.update(slot, request);
        self.weight += u64::from(table[slot].weight);
    }

    /// Takes an entry of this list out.
    pub fn unlink<M: Linked>(&mut self, table: &mut Objects<M>, slot: u32) {
        let ObjectLinks { newer, older } = *table[slot].mark.links();
        match newer {
            NONE => self.head = older,
            newer => table[newer].mark.links().older = older,
        }
        match older {
            NONE => self.tail = newer,
            older => table[older].mark.links().newer = newer,
        }
        self.len -= 1;
        self.weight -= u64::from(table[slot].weight);
    }
}
