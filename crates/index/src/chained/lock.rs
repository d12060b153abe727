//! How a bucket is locked: a parameter of the table, so that the choice can be measured.
//!
//! The paper's figure 4 compares its test-and-set lock with a mutex and with no lock at all, and its readers lock
//! too. Our readers don't, unless the table is a `Chained<LockedGets<_>>`.

/// The lock that guards a bucket against other writers.
///
/// A lock other than the bucket's own bit is a type whose [`hold`](BucketLock::hold) returns a guard.
pub trait BucketLock: Send + Sync + 'static {
    /// What is held while a bucket is locked, in addition to the bucket's bit.
    type Held<'a>;

    /// Whether the bucket's bit is the lock, so that it must be set by an atomic test-and-set. If not, it is set with
    /// a plain store, and only tells readers that the bucket is locked.
    const TEST_AND_SET: bool;

    /// Whether `get` takes the lock, as in the paper.
    const IS_FOR_GETS: bool = false;

    /// Makes the lock of a table that may grow to this many buckets.
    fn for_buckets(buckets_max: usize) -> Self;

    /// Waits until no other thread holds this bucket.
    fn hold(&self, bucket: u32) -> Self::Held<'_>;
}

/// Test-and-test-and-set with back-off, on a bit of the bucket's word. The lock to use.
#[derive(Debug)]
pub struct Tas;

impl BucketLock for Tas {
    type Held<'a> = ();
    const TEST_AND_SET: bool = true;

    fn for_buckets(_: usize) -> Self {
        Self
    }

    #[inline]
    fn hold(&self, _: u32) {}
}

/// No lock, to measure what locks cost. Correct only if a single thread writes and maintains; others may read.
#[derive(Debug)]
pub struct NoLock;

impl BucketLock for NoLock {
    type Held<'a> = ();
    const TEST_AND_SET: bool = false;

    fn for_buckets(_: usize) -> Self {
        Self
    }

    #[inline]
    fn hold(&self, _: u32) {}
}

/// The lock `L`, which `get` also takes, as in the paper.
#[derive(Debug)]
pub struct LockedGets<L>(L);

impl<L: BucketLock> BucketLock for LockedGets<L> {
    type Held<'a> = L::Held<'a>;
    const TEST_AND_SET: bool = L::TEST_AND_SET;
    const IS_FOR_GETS: bool = true;

    fn for_buckets(buckets_max: usize) -> Self {
        Self(L::for_buckets(buckets_max))
    }

    #[inline]
    fn hold(&self, bucket: u32) -> L::Held<'_> {
        self.0.hold(bucket)
    }
}
