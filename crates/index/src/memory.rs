//! Memory for tables, and the processor's instructions that Rust has no safe name for: the only unsafe code here.
//!
//! [`Zeroed`] reserves address space for the largest table that may come to be. The kernel hands out zeroed pages
//! when they are first touched, so the table grows in place: nothing is copied, nothing is freed, readers need no
//! protection from growth. Huge pages are asked for: with 4 KiB pages each random look-up misses the TLB too.
//!
//! # Invariants
//! 1. `first` points to `len` elements, zeroed when mapped, that live until drop and are reached only by shared
//!    references. Their type is [`Zeroable`].

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
}

#[cfg(not(loom))]
mod zeroed {
    use super::{Bucket, Link};
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
            Self { first: map(bytes::<T>(len)).cast(), len }
        }

        pub(crate) fn len(&self) -> usize {
            self.len
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
            unmap(self.first.cast(), bytes::<T>(self.len));
        }
    }

    /// Bytes of so many elements; whole huge pages if it is one at least, since then the kernel aligns the mapping.
    fn bytes<T>(len: usize) -> usize {
        let bytes = len.checked_mul(size_of::<T>()).expect("fits the address space");
        if bytes < HUGE_PAGE { bytes } else { bytes.next_multiple_of(HUGE_PAGE) }
    }

    const HUGE_PAGE: usize = 2 << 20;
    /// The strictest alignment of what is put here: a cache line.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    const LINE: usize = 64;

    #[cfg(all(target_os = "linux", not(miri)))]
    fn map(bytes: usize) -> NonNull<u8> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nobody else's memory.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let start = mapped.expect("address space for the index");
        // Without huge pages the index is slower and as right, so a refusal is no error.
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        NonNull::new(start.cast()).expect("a mapping is not at address 0")
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the mapping that `map` made of as many bytes; its owner is being dropped.
        let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping: {unmapped:?}");
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn map(bytes: usize) -> NonNull<u8> {
        let layout = layout(bytes);
        // SAFETY: the layout has bytes, since a table has elements.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        NonNull::new(start).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: allocated by `map` with this layout; its owner is being dropped.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout(bytes)) };
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, LINE).expect("fits the address space")
    }
}
