//! State that the requests of one client share: its purse, its counters, and what it may do at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use guira_client::Purse;
use guira_front::rewrites;
use tokio::sync::Semaphore;

use crate::counts::Counts;
use crate::readers::Share;

/// See the module's head.
pub(crate) struct Customer {
    pub(crate) purse: Arc<dyn Purse>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reads: Arc<Share>,
    /// Limits how many of the client's changes read at once.
    pub(crate) looks: Semaphore,
    pub(crate) rewrites: rewrites::Own,
    /// Bytes that the client's changes moved since [`take_spent`](Self::take_spent) was called last.
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

    /// Records the bytes that a change moves when it reads a value in order to change it.
    pub(crate) fn spend(&self, bytes: usize) {
        self.spent.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes of values that the client's changes have read and written again since the last call.
    pub(crate) fn take_spent(&self) -> usize {
        if self.spent.load(Relaxed) == 0 { 0 } else { self.spent.swap(0, Relaxed) }
    }
}

/// Most reads of one client's changes under way at once.
pub(crate) const LOOKS_MAX: usize = 8;
