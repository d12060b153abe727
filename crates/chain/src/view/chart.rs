//! A view, prepared for finding the nodes of a key.
//!
//! # Costs
//! 64 KiB beyond the view itself. A key costs its hash and one access to a table.

use std::sync::Arc;

use super::{Group, SlotHash, View};

/// See the module's head.
#[derive(Debug)]
pub struct Chart {
    /// The view.
    pub view: Arc<View>,
    table: Vec<u32>,
    hash: SlotHash,
}

impl Chart {
    /// Of a valid view.
    #[must_use]
    pub fn of(view: Arc<View>) -> Self {
        let (table, hash) = (view.table(), SlotHash::of(&view));
        Self { view, table, hash }
    }

    /// The key's slot and its group.
    #[must_use]
    pub fn place(&self, key: &[u8]) -> Option<(u16, &Group)> {
        let slot = self.hash.slot(key);
        Some((slot, self.group(slot)?))
    }

    /// The slot's group.
    #[must_use]
    pub fn group(&self, slot: u16) -> Option<&Group> {
        let at = usize::try_from(*self.table.get(usize::from(slot))?).ok()?;
        self.view.groups.get(at)
    }
}
