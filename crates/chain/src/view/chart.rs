//! A view, prepared for finding a key's nodes.
//!
//! # Costs
//! 64 KiB beyond the view itself. A key costs its hash and one table access.

use std::sync::Arc;

use super::{Group, SlotHash, View};

/// A view with its lookup table. A clone shares both.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The view.
    pub view: Arc<View>,
    table: Arc<[u32]>,
    hash: SlotHash,
}

impl Chart {
    /// Prepares a valid view.
    #[must_use]
    pub fn of(view: Arc<View>) -> Self {
        let (table, hash) = (view.table().into(), SlotHash::of(&view));
        Self { view, table, hash }
    }

    /// Returns the key's slot and its group.
    #[must_use]
    pub fn place(&self, key: &[u8]) -> Option<(u16, &Group)> {
        let slot = self.hash.slot(key);
        Some((slot, self.group(slot)?))
    }

    /// Returns the slot's group.
    #[must_use]
    pub fn group(&self, slot: u16) -> Option<&Group> {
        let at = usize::try_from(*self.table.get(usize::from(slot))?).ok()?;
        self.view.groups.get(at)
    }
}
