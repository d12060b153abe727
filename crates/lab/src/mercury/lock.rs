//! A mutex per bucket, which Mercury's test-and-set lock is compared with.

use crate::baseline::pages::Pages;
use guira_index::BucketLock;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One mutex for each bucket, next to the table: a line more per operation.
pub(super) struct Mutexes(Box<[Mutex<()>]>);

impl BucketLock for Mutexes {
    type Held<'a> = MutexGuard<'a, ()>;
    const TEST_AND_SET: bool = false;

    fn for_buckets(buckets_max: usize) -> Self {
        Self(Pages::Huge.collect((0..buckets_max).map(|_| Mutex::default())))
    }

    #[inline]
    fn hold(&self, bucket: u32) -> MutexGuard<'_, ()> {
        self.0[bucket as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
