//! A mutex a bucket, as Mercury compares its test-and-set lock with.

use guira_index::BucketLock;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One mutex for each bucket, beside the table: a line more an operation.
pub(super) struct Mutexes(Box<[Mutex<()>]>);

impl BucketLock for Mutexes {
    type Held<'a> = MutexGuard<'a, ()>;
    const TEST_AND_SET: bool = false;

    fn for_buckets(buckets_max: usize) -> Self {
        Self((0..buckets_max).map(|_| Mutex::default()).collect())
    }

    #[inline]
    fn hold(&self, bucket: u32) -> MutexGuard<'_, ()> {
        self.0[bucket as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
