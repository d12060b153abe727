//! Doubly linked lists through the entries of a [`Table`]: newest at the head, oldest at the tail.

use crate::Request;
use crate::table::{NONE, Table};

/// A list; its links stand in the entries' marks.
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: usize,
    /// Sum of the weights.
    pub(crate) weight: u64,
}

/// An entry's neighbours.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    newer: u32,
    older: u32,
}

/// A mark that has links.
pub(crate) trait Linked {
    fn links(&mut self) -> &mut Links;
}

impl List {
    pub(crate) fn new() -> List {
        List { head: NONE, tail: NONE, len: 0, weight: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The oldest entry.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The entry that came after `slot`.
    pub(crate) fn newer<M: Linked>(table: &mut Table<M>, slot: u32) -> Option<u32> {
        let newer = table[slot].mark.links().newer;
        (newer != NONE).then_some(newer)
    }

    pub(crate) fn push<M: Linked>(&mut self, table: &mut Table<M>, slot: u32) {
        *table[slot].mark.links() = Links { newer: NONE, older: self.head };
        match self.head {
            NONE => self.tail = slot,
            head => table[head].mark.links().newer = slot,
        }
        self.head = slot;
        self.len += 1;
        self.weight += u64::from(table[slot].weight);
    }

    /// Gives an entry of this list the weight and expiry of a request that stores it again.
    pub(crate) fn reweigh<M>(&mut self, table: &mut Table<M>, slot: u32, request: &Request) {
        self.weight -= u64::from(table[slot].weight);
        table.update(slot, request);
        self.weight += u64::from(table[slot].weight);
    }

    /// Takes an entry of this list out.
    pub(crate) fn unlink<M: Linked>(&mut self, table: &mut Table<M>, slot: u32) {
        let Links { newer, older } = *table[slot].mark.links();
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
