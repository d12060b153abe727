//! How a bucket is locked: a parameter of the table, so that the choice can be measured.
//!
//! The paper's figure 4 compares its test-and-set lock with a mutex and with none at all, and its readers lock too.
//! Ours don't, unless the table is a `Chained<LockedGets<_>>`.

/// What guards a bucket against other writers.
///
/// A lock of one's own, beside the bit that a bucket has, is a type that [`hold`](BucketLock::hold)s something.
pub trait BucketLock: Send + Sync + 'static {
    /// What is held while a bucket is locked, beside its bit.
    type Held<'a>;

    /// Whether the bucket's bit is the lock, so that setting it takes an atomic test-and-set. If not, it is set with a
    /// plain store, and is there for readers to see.
    const TEST_AND_SET: bool;

    /// Whether `get` takes the lock, as in the paper.
    const IS_FOR_GETS: bool = false;

    /// For a table that may come to have so many buckets.
    fn for_buckets(buckets_max: usize) -> Self;

    /// Waits until nobody else holds this bucket.
    fn hold(&self, bucket: u32) -> Self::Held<'_>;
}

/// Test-and-test-and-set with back-off on a bit of the bucket's word: the lock to use.
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

/// No lock, to measure what locks cost: right only if one thread alone writes and maintains. Others may read.
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

/// The lock `L`, taken by `get` too, as the paper has it.
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
