//! Memory for tables, and the processor's instructions that Rust has no safe name for: the only unsafe code here.
//!
//! [`Zeroed`] reserves address space for the largest table that may come to be. The kernel hands out zeroed pages
//! when they are first touched, so the table grows in place: nothing is copied, nothing is freed, readers need no
//! protection from growth. Huge pages are asked for: with 4 KiB pages each random look-up misses the TLB too. Not for
//! the first [`SMALL`] bytes, whose pages the TLB has room for: an index that has little to hold takes little.
//!
//! ```text
//! mapping   | never touched | SMALL, in small pages | huge page | huge page | …
//!                           ^ first element         ^ on a boundary of huge pages
//! ```
//! # Invariants
//! 1. `first` points to `len` elements, zeroed when mapped, that live until drop and are reached only by shared
//!    references. Their type is [`Zeroable`].
//! 2. `mapping` is all that was mapped for them, and nobody else's.

use crate::bucket::Bucket;
use crate::chained::Link;

#[cfg(not(loom))]
pub(crate) use zeroed::Zeroed;

/// Starts to fetch the cache line at `at`, which may be any address: nothing is read from it.
#[inline(always)]
pub fn prefetch<T: ?Sized>(at: *const T) {
    let at = at.cast::<i8>();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it neither faults nor reads, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: a hint; it neither faults nor reads, whatever the address.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Sixteen bytes compared at once: bit i is set if byte i of `words` equals `byte`.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline(always)]
pub(crate) fn equal_bytes(words: [u32; 4], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi32, _mm_set1_epi8};

    #[target_feature(enable = "sse2")]
    fn compare(words: [i32; 4], byte: i8) -> i32 {
        let [a, b, c, d] = words;
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set_epi32(d, c, b, a), _mm_set1_epi8(byte)))
    }

    // SAFETY: every x86-64 processor has SSE2.
    unsafe { compare(words.map(u32::cast_signed), byte.cast_signed()) }.cast_unsigned()
}

/// Loom's atomics are not plain words: the models make each element by itself.
#[cfg(loom)]
pub(crate) struct Zeroed<T>(Box<[T]>);

#[cfg(loom)]
impl<T: Default> Zeroed<T> {
    pub(crate) fn reserve(len: usize) -> Self {
        Self((0..len).map(|_| T::default()).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: usize) -> &T {
        &self.0[index]
    }

    pub(crate) fn first_huge(&self) -> usize {
        0
    }
}

/// Bytes at the start of a table that are in small pages: 384, of a second-level TLB's 1,000 to 2,000.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
const SMALL: usize = 1536 << 10;
/// There are no pages to tell apart.
#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
const SMALL: usize = 0;

#[cfg(not(loom))]
mod zeroed {
    use super::{Bucket, Link, SMALL};
    use crate::hopscotch::{Hop, Line};
    use std::ptr::NonNull;

    /// What a table may consist of.
    ///
    /// # Safety
    /// All zeroes are a valid value, every word is an atomic (so it may be shared between threads and changed
    /// through shared references), and there is nothing to drop.
    pub(crate) unsafe trait Zeroable {}

    // SAFETY: tags, locations and version are atomics; zeroes are an empty bucket (`bucket.rs`, invariant 3).
    unsafe impl Zeroable for Bucket {}
    // SAFETY: words and tags are atomics, hop words too; zeroes are an empty line (`hopscotch/line.rs`, invariant 4).
    unsafe impl<W: Hop, const SLOTS: usize> Zeroable for Line<W, SLOTS> {}
    // SAFETY: word and locations are atomics; zeroes are an empty bucket (`chained/link.rs`, invariant 3).
    unsafe impl Zeroable for Link {}

    /// See the module's head.
    pub(crate) struct Zeroed<T> {
        first: NonNull<T>,
        len: usize,
        mapping: Mapping,
    }

    // SAFETY: invariant 1: what is `Zeroable` consists of atomics and may be used from any thread.
    unsafe impl<T: Zeroable> Send for Zeroed<T> {}
    // SAFETY: as above.
    unsafe impl<T: Zeroable> Sync for Zeroed<T> {}

    impl<T: Zeroable> Zeroed<T> {
        /// Reserves `len` elements of zeroes; memory is taken as they are touched.
        ///
        /// # Panics
        /// If the address space cannot be had.
        pub(crate) fn reserve(len: usize) -> Self {
            assert!(len > 0, "a table has elements");
            let bytes = len.checked_mul(size_of::<T>()).expect("fits the address space");
            let (first, mapping) = map(bytes);
            Self { first: first.cast(), len, mapping }
        }

        pub(crate) fn len(&self) -> usize {
            self.len
        }

        /// The first element in huge pages, which are worth being touched ahead of use.
        pub(crate) fn first_huge(&self) -> usize {
            SMALL / size_of::<T>()
        }

        /// One element. Not as part of a slice: Miri would look at all of that for each access.
        ///
        /// # Panics
        /// If there are not so many.
        #[inline]
        pub(crate) fn get(&self, index: usize) -> &T {
            assert!(index < self.len, "element {index} of {}", self.len);
            // SAFETY: invariant 1, and the index is inside.
            let element = unsafe { self.first.add(index) };
            // SAFETY: invariant 1.
            unsafe { element.as_ref() }
        }
    }

    impl<T> Drop for Zeroed<T> {
        fn drop(&mut self) {
            unmap(&self.mapping);
        }
    }

    /// The strictest alignment of what is put here: a cache line.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    const LINE: usize = 64;

    /// What was mapped, which is more than what is used: the first element is put where it should be within it.
    #[cfg(all(target_os = "linux", not(miri)))]
    struct Mapping {
        start: NonNull<u8>,
        bytes: usize,
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn map(bytes: usize) -> (NonNull<u8>, Mapping) {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        const HUGE_PAGE: usize = 2 << 20;
        let huge_bytes = bytes.saturating_sub(SMALL).next_multiple_of(HUGE_PAGE);
        let whole = huge_bytes.checked_add(SMALL + HUGE_PAGE).expect("fits the address space");
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nobody else's memory.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let start = mapped.expect("address space for the index");
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is not at address 0");
        let to_huge = SMALL + start.as_ptr().wrapping_add(SMALL).align_offset(HUGE_PAGE);
        // SAFETY: `to_huge` is less than SMALL and a huge page, and `huge_bytes` lie behind that in the mapping.
        let huge = unsafe { start.add(to_huge) };
        // SAFETY: `to_huge` is at least SMALL.
        let first = unsafe { huge.sub(SMALL) };
        // Without huge pages the index is slower, with more of them larger, and as right: a refusal is no error.
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(start.as_ptr().cast(), to_huge, Advice::LinuxNoHugepage) };
        if huge_bytes > 0 {
            // SAFETY: as above.
            let _ = unsafe { madvise(huge.as_ptr().cast(), huge_bytes, Advice::LinuxHugepage) };
        }
        (first, Mapping { start, bytes: whole })
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn unmap(mapping: &Mapping) {
        // SAFETY: invariant 2, and the owner is being dropped.
        let unmapped = unsafe { rustix::mm::munmap(mapping.start.as_ptr().cast(), mapping.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping: {unmapped:?}");
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    struct Mapping {
        start: NonNull<u8>,
        layout: std::alloc::Layout,
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn map(bytes: usize) -> (NonNull<u8>, Mapping) {
        let layout =
            std::alloc::Layout::from_size_align(bytes, LINE).expect("fits the address space");
        // SAFETY: the layout has bytes, since a table has elements.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        (start, Mapping { start, layout })
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn unmap(mapping: &Mapping) {
        // SAFETY: allocated by `map` with this layout; its owner is being dropped.
        unsafe { std::alloc::dealloc(mapping.start.as_ptr(), mapping.layout) };
    }
}
