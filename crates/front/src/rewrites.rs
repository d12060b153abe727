//! Limits on changes that read a long value and write it again: `append`, `touch`, `incr`, `gat`, a conditional store.
//!
//! Such a request is short, so a client may send a thousand of them at once; each reads and writes a value of perhaps a
//! megabyte. Without the limits, 250 MB of them stood in the log's queue before another client's small change.
//!
//! A store sees the value before it writes it ([`Rewrites`]). A program that passes changes on doesn't. It remembers which
//! keys had long values ([`LongValues`]).
//!
//! # Invariants
//! 1. Values of [`LONG_BYTES`] and more that are being read, written and landed take a megabyte at most, for all
//!    clients together. A value that is longer is alone. [`LongValues`] lets a change through after half a second.
//! 2. One change of each client stands in the line. So a client with one change waits for no more than one of each other
//!    client.
//! 3. A change that waits holds the turn of its key, and no value.
//!
//! # Bad at
//! [`LongValues`] doesn't know the value of a key that it hasn't seen. Of two long values whose keys share a place it knows
//! the last.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use guira_client::Op;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Room for the long values that are written at once, where each value is seen before.
#[derive(Debug)]
pub struct Rewrites(Arc<Semaphore>);

/// A permit to read and write a long value, until it is dropped.
pub type Rewrite = OwnedSemaphorePermit;

/// The lock at which a client's changes wait until one of them may stand in the line.
pub type Own = Mutex<()>;

impl Default for Rewrites {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(REWRITTEN_BYTES_MAX)))
    }
}

impl Rewrites {
    /// The permit for a value of this many bytes, if there is room for it now.
    #[must_use]
    pub fn try_begin(&self, bytes: usize) -> Option<Rewrite> {
        Arc::clone(&self.0).try_acquire_many_owned(share(bytes)).ok()
    }

    /// The permit for a value of this many bytes, once there is room for it.
    pub async fn begin(&self, bytes: usize, own: &Own) -> Option<Rewrite> {
        let _first = own.lock().await;
        self.wait(bytes).await
    }

    async fn wait(&self, bytes: usize) -> Option<Rewrite> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(share(bytes)).await.ok()
    }
}

fn share(bytes: usize) -> u32 {
    u32::try_from(bytes.min(REWRITTEN_BYTES_MAX)).unwrap_or(u32::MAX)
}

/// Room for the long values that others are told to write at once, by what their keys had when they were seen last.
///
/// Takes 16 KiB, and one cache line for a key.
#[derive(Debug)]
pub struct LongValues {
    rewrites: Rewrites,
    /// In each place half a hash, and a length.
    places: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for LongValues {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { rewrites: Rewrites::default(), places, hasher: RandomState::new() }
    }
}

impl LongValues {
    /// Records the length of a key's value.
    pub fn note(&self, key: &[u8], bytes: usize) {
        let (place, hash) = self.place(key);
        if bytes >= LONG_BYTES {
            place.store(hash | u64::from(u32::try_from(bytes).unwrap_or(u32::MAX)), Relaxed);
        } else if place.load(Relaxed) & !LENGTH == hash {
            place.store(0, Relaxed);
        }
    }

    /// The permit for a change of a key whose value was long, once there is room for it, or after half a second without one:
    /// a part of the cluster that doesn't answer must not stop the rest. `None` at once: its value was short, or isn't known,
    /// or the change brings the whole value itself.
    pub async fn begin(&self, op: Op, key: &[u8], own: &Own) -> Option<Rewrite> {
        let is_part = matches!(op, Op::Append | Op::Prepend | Op::Touch);
        let bytes = if is_part { self.known(key) } else { 0 };
        if bytes < LONG_BYTES {
            return None;
        }
        if let Some(rewrite) = self.rewrites.try_begin(bytes) {
            return Some(rewrite);
        }
        let _first = own.lock().await;
        timeout(PATIENCE, self.rewrites.wait(bytes)).await.ok().flatten()
    }

    /// The length of a key's value when it was seen last; 0 if it was short, or wasn't seen.
    #[must_use]
    pub fn known(&self, key: &[u8]) -> usize {
        let (place, hash) = self.place(key);
        let found = place.load(Relaxed);
        if found & !LENGTH == hash { usize::try_from(found & LENGTH).unwrap_or(0) } else { 0 }
    }

    fn place(&self, key: &[u8]) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(key);
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits choose the place")]
        let place = hash as usize % PLACES;
        (&self.places[place], hash & !LENGTH)
    }
}

/// A value of fewer bytes is written again without waiting.
pub const LONG_BYTES: usize = 32 << 10;
/// Most bytes of such values before another client's change in the log's queue: a few milliseconds of writing.
const REWRITTEN_BYTES_MAX: usize = 1 << 20;
const PLACES: usize = 2048;
/// The part of a place that has the length.
const LENGTH: u64 = u32::MAX as u64;
/// About ten such writes on a slow device.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_of_keys_with_long_values_wait_for_each_other_and_others_for_none() {
        let values = LongValues::default();
        values.note(b"long", 700 << 10);
        values.note(b"other", 400 << 10);
        let [one, two] = [Own::default(), Own::default()];
        let first = values.begin(Op::Append, b"long", &one).await;
        assert!(first.is_some());
        assert!(values.begin(Op::Set, b"other", &two).await.is_none(), "it brings the value");
        assert!(values.begin(Op::Append, b"short", &two).await.is_none(), "nothing is known of it");
        let begun = tokio::time::Instant::now();
        assert!(values.begin(Op::Append, b"other", &two).await.is_none(), "there is no room");
        assert_eq!(begun.elapsed(), PATIENCE);
        // Of each client one change waits: the second of these begins to wait when the first one goes on.
        let (a, b) = tokio::join!(
            values.begin(Op::Append, b"other", &two),
            values.begin(Op::Append, b"other", &two)
        );
        assert!(a.is_none() && b.is_none());
        assert_eq!(begun.elapsed(), PATIENCE * 3);
        drop(first);
        assert!(values.begin(Op::Append, b"other", &two).await.is_some());
        values.note(b"long", 5);
        assert_eq!(values.known(b"long"), 0, "it is short now");
    }
}
