//! A view, prepared for finding the nodes of a key.

use guira_chain::{Group, SlotHash, View};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) view: View,
    table: Vec<u32>,
    hash: SlotHash,
}

impl Chart {
    pub(super) fn of(view: View) -> Self {
        let (table, hash) = (view.table(), SlotHash::of(&view));
        Self { view, table, hash }
    }

    /// The key's slot and its group.
    pub(super) fn place(&self, key: &[u8]) -> Option<(u16, &Group)> {
        let slot = self.hash.slot(key);
        Some((slot, self.group(slot)?))
    }

    /// The slot's group.
    pub(super) fn group(&self, slot: u16) -> Option<&Group> {
        let at = usize::try_from(*self.table.get(usize::from(slot))?).ok()?;
        self.view.groups.get(at)
    }
}
