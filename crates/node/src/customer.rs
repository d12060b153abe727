//! What one client's requests have in common: who pays, who counts, and what it may do at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use guira_client::Purse;
use tokio::sync::Semaphore;

use crate::counts::Counts;
use crate::readers::Share;
use crate::rewrites;

/// See the module's head.
pub(crate) struct Customer {
    pub(crate) purse: Arc<dyn Purse>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reads: Arc<Share>,
    /// For its changes that read.
    pub(crate) looks: Semaphore,
    pub(crate) rewrites: rewrites::Own,
    /// Bytes that its changes moved since somebody asked.
    spent: AtomicUsize,
}

impl Customer {
    pub(crate) fn new(purse: Arc<dyn Purse>, counts: Arc<Counts>) -> Self {
        Self {
            purse,
            counts,
            reads: Arc::default(),
            looks: Semaphore::new(LOOKS_MAX),
            rewrites: rewrites::Own::default(),
            spent: AtomicUsize::new(0),
        }
    }

    /// Bytes of a value were read in order to be changed.
    pub(crate) fn spend(&self, bytes: usize) {
        self.spent.fetch_add(bytes, Relaxed);
    }

    /// Bytes of values that its changes read and wrote again since this was asked last.
    pub(crate) fn take_spent(&self) -> usize {
        if self.spent.load(Relaxed) == 0 { 0 } else { self.spent.swap(0, Relaxed) }
    }
}

/// Reads of one client's changes under way at once.
pub(crate) const LOOKS_MAX: usize = 8;
