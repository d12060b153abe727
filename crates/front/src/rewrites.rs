//! Limits on changes that read a long value and write it again: `append`, `touch`, `incr`, `gat`, a conditional store.
//!
//! Such a request is short, so a client may send a thousand of them at once; each reads and writes a value of perhaps a
//! megabyte. Without the limits, 250 MB of them stood in the log's queue before another client's small change.
//!
//! # Invariants
//! 1. Values of [`LONG_BYTES`] and more that are being read, written and landed take [`REWRITTEN_BYTES_MAX`] at most, for
//!    all clients together. A value that is longer is alone.
//! 2. One change of each client stands in the line. So a client with one change waits for no more than one of each other
//!    client.
//! 3. A change that waits holds the turn of its key, and no value.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// See the module's head.
pub(crate) struct Rewrites(Arc<Semaphore>);

/// A permit to read and write a long value, until it is dropped.
pub(crate) type Rewrite = OwnedSemaphorePermit;

/// The lock at which a client's changes wait until one of them may stand in the line.
pub(crate) type Own = Mutex<()>;

impl Rewrites {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(REWRITTEN_BYTES_MAX)))
    }

    /// The permit for a value of this many bytes, if there is room for it now.
    pub(crate) fn try_begin(&self, bytes: usize) -> Option<Rewrite> {
        Arc::clone(&self.0).try_acquire_many_owned(share(bytes)).ok()
    }

    /// The permit for a value of this many bytes, once there is room for it.
    pub(crate) async fn begin(&self, bytes: usize, own: &Own) -> Option<Rewrite> {
        let _first = own.lock().await;
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(share(bytes)).await.ok()
    }
}

fn share(bytes: usize) -> u32 {
    u32::try_from(bytes.min(REWRITTEN_BYTES_MAX)).unwrap_or(u32::MAX)
}

/// A value of fewer bytes is written again without waiting.
pub(crate) const LONG_BYTES: usize = 32 << 10;
/// Most bytes of such values before another client's change in the log's queue: a few milliseconds of writing.
const REWRITTEN_BYTES_MAX: usize = 1 << 20;
