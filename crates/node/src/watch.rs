//! What the log says about the store while it is served. The store's state is checked each second.
//!
//! A state that lasts has a line at once, and then one each minute. The end of a full disk has a line, too.

use std::path::Path;

use guira_log::Seldom;

use crate::engine::{Engine, EngineError, Health};

/// Watches the state of a store.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    full: Seldom,
    failed: Seldom,
    trouble: Seldom,
    was: Option<Health>,
    /// Changes that had been refused for lack of room at the last check.
    refused: u64,
}

impl Watch {
    /// Checks the state now, and logs what is due. `refused` is the number of changes that were refused for lack of room
    /// since the start.
    pub(crate) fn look(&mut self, engine: &impl Engine, refused: u64) {
        let health = engine.health();
        // A merge may have made room since these refusals.
        let was_full = std::mem::replace(&mut self.refused, refused) < refused;
        match health {
            Health::OutOfDisk | Health::Good
                if (health == Health::OutOfDisk || was_full) && self.full.admits() =>
            {
                let figures = engine.figures();
                let (free, reserve) = (figures.disk_free_bytes, figures.disk_reserve_bytes);
                if engine.is_at_limit() {
                    tracing::warn!(
                        "out of disk: {free} bytes are left below --disk-max, and {reserve} stay free for merges. Values are \
                         refused; reads and deletes go on. Raise --disk-max, or delete keys"
                    );
                } else {
                    tracing::warn!(
                        "out of disk: {free} bytes are free, and {reserve} stay free for merges. Values are refused; reads and \
                         deletes go on. Free some room, or delete keys"
                    );
                }
            }
            Health::ReadOnly if self.failed.admits() => tracing::error!(
                "read-only: the device failed while it was written to. Changes are refused, reads go on. Look at dmesg, replace \
                 the device or make room, run guira store verify, and start again"
            ),
            Health::Good if self.was == Some(Health::OutOfDisk) => {
                tracing::info!("there is room on the disk again: values are taken");
            }
            _ => {}
        }
        self.was = Some(health);
        if let Some(trouble) = engine.trouble()
            && self.trouble.admits()
        {
            tracing::warn!("sorting or merging failed, and is tried again: {trouble}");
        }
    }
}

/// Logs why a node of a cluster leaves its chains, and its process ends.
pub(crate) fn tell_end(directory: &Path, failure: &EngineError) {
    let directory = directory.display();
    match failure {
        EngineError::OutOfDisk => tracing::error!(
            "{directory}: out of disk, so this node leaves its chains and ends. Make room there, or raise --disk-max, and start it \
             again: it is filled anew"
        ),
        EngineError::Corrupt(place) => tracing::error!(
            "damaged data: {place}. This node leaves its chains and ends. Look at the device (dmesg), run guira store verify, and \
             start it on another directory: it is filled anew"
        ),
        other => tracing::error!(
            "{directory}: the store fails, so this node leaves its chains and ends: {other}. Look at the device (dmesg), and start \
             it again: it is filled anew"
        ),
    }
}
