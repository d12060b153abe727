//! Memory for tables, and the processor's instructions that Rust has no safe name for: the only unsafe code here.
//!
//! [`Zeroed`] reserves address space for the largest table that may come to be. The kernel hands out zeroed pages
//! when they are first touched, so the table grows in place: nothing is copied, nothing is freed, readers need no
//! protection from growth. Huge pages are asked for: with 4 KiB pages each random look-up misses the TLB too. Not for
//! the first [`SMALL`] bytes, whose pages the TLB has room for: an index that has little to hold takes little. Nor, where
//! somebody calls [`Zeroed::prepare`], for the last ones: the table grows into small pages, of which a huge one is made
//! when they are full. So it takes no more than it uses.
//!
//! ```text
//! mapping   | never touched | SMALL, in small pages | huge page | huge page | small pages | never touched
//!                           ^ first element         ^ on a boundary of huge pages ^ next element
//! ```
//! # Invariants
//! 1. `first` points to `len` elements, zeroed when mapped, that live until drop and are reached only by shared
//!    references. Zeroes are a valid value of their type ([`Zeroable`], which each type derives where it is defined),
//!    threads may share it, and it has nothing to drop.
//! 2. `mapping` is all that was mapped for them, and nobody else's.

#[cfg(not(loom))]
pub(crate) use bytemuck::Zeroable;
#[cfg(loom)]
pub(crate) use modelled::Zeroed;
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

/// Asks the kernel for huge pages, or for none, under the room of a vector that holds nothing yet: tables of the caller's
/// own then lie in memory as these do, and can be compared with them.
///
/// Pages that lie wholly in the room are given back first, since the allocator may have used them before: what is touched
/// afterwards comes in pages of the size asked for, where the system has them. A refusal leaves what there was.
pub fn advise_pages<T>(room: &mut Vec<T>, huge: bool) {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    {
        use rustix::mm::{Advice, madvise};
        const PAGE: usize = 4096;
        let spare = room.spare_capacity_mut();
        let bytes = size_of_val(spare);
        let start = spare.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        let bytes = bytes.saturating_sub(skipped) / PAGE * PAGE;
        let first = start.wrapping_add(skipped).cast();
        let size = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        for advice in [Advice::LinuxDontNeed, size] {
            // SAFETY: these pages lie wholly in room that nothing was put into, so what they hold may change.
            let _ = unsafe { madvise(first, bytes, advice) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    let _ = (room, huge);
}

/// Has what was put into room for which [`advise_pages`] asked for huge pages lie in such: memory that the allocator had used
/// before comes in small ones at first. Costs a copy of what is in small pages. True if
/// all of it lies in huge pages now, but for the ends that fill none.
#[must_use]
pub fn collapse_pages<T>(filled: &[T]) -> bool {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    {
        const PAGE: usize = 4096;
        let start = filled.as_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        let bytes = size_of_val(filled).saturating_sub(skipped) / PAGE * PAGE;
        let first = start.wrapping_add(skipped).cast_mut().cast();
        // SAFETY: these pages lie wholly in the slice, and keep what they hold.
        unsafe { libc::madvise(first, bytes, libc::MADV_COLLAPSE) == 0 }
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    {
        let _ = filled;
        false
    }
}

/// Loom's atomics are not plain words: the models make each element by itself.
#[cfg(loom)]
pub trait Zeroable {}
#[cfg(loom)]
impl<T> Zeroable for T {}

#[cfg(loom)]
mod modelled {
    /// One box for each element.
    pub(crate) struct Zeroed<T>(Box<[T]>);

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

        pub(crate) fn prepare(&self, _next: usize, _ahead: usize) {}
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
    use super::{SMALL, Zeroable};
    use std::ptr::NonNull;
    use std::sync::Mutex;

    const HUGE_PAGE: usize = 2 << 20;
    /// The smallest page there may be.
    #[cfg(all(target_os = "linux", not(miri)))]
    const PAGE: usize = 4 << 10;

    /// See the module's head.
    pub(crate) struct Zeroed<T> {
        first: NonNull<T>,
        len: usize,
        mapping: Mapping,
        frontier: Mutex<Frontier>,
    }

    /// The huge pages, by number, that are small ones as yet.
    struct Frontier {
        begin: usize,
        end: usize,
        /// Whether small pages become huge ones when they are asked to.
        collapses: bool,
    }

    // SAFETY: invariant 1: it owns its elements and gives out shared references to them.
    unsafe impl<T: Send + Sync> Send for Zeroed<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send + Sync> Sync for Zeroed<T> {}

    impl<T: Zeroable + Send + Sync> Zeroed<T> {
        /// Reserves `len` elements of zeroes; memory is taken as they are touched.
        ///
        /// # Panics
        /// If the address space cannot be had.
        pub(crate) fn reserve(len: usize) -> Self {
            assert!(len > 0, "a table has elements");
            const { assert!(!std::mem::needs_drop::<T>(), "nothing drops the elements") };
            let bytes = len.checked_mul(size_of::<T>()).expect("fits the address space");
            let (first, mapping) = map(bytes);
            let frontier = Frontier { begin: 0, end: 0, collapses: may_collapse() };
            Self { first: first.cast(), len, mapping, frontier: Mutex::new(frontier) }
        }

        pub(crate) fn len(&self) -> usize {
            self.len
        }

        /// Has the memory provided for the elements from `next` on, which are `ahead`; those before are in use. The small
        /// pages among the latter become huge ones, the former small ones. For a thread that may wait.
        pub(crate) fn prepare(&self, next: usize, ahead: usize) {
            let Ok(mut frontier) = self.frontier.try_lock() else { return };
            let bytes = |elements: usize| (elements * size_of::<T>()).saturating_sub(SMALL);
            let used = bytes(next);
            let needed = bytes(next.saturating_add(ahead).min(self.len));
            let (full, end) = (used / HUGE_PAGE, bytes(self.len).div_ceil(HUGE_PAGE));
            for number in frontier.begin..full.min(frontier.end) {
                if frontier.collapses && !collapse(self.huge(number)) {
                    frontier.collapses = false;
                    make_huge(self.huge(number), frontier.end - number);
                }
            }
            frontier.begin = frontier.begin.max(full);
            let unmarked = frontier.end.max(full)..end;
            if !unmarked.is_empty() && frontier.collapses {
                // All of them, since writers may be faster than whoever prepares. Pages that somebody touched before the
                // first call are huge already, and stay so.
                make_small(self.huge(unmarked.start), unmarked.len());
                frontier.end = end;
            }
            if needed > used {
                provide(self.huge(0).wrapping_byte_add(used), needed - used);
            }
        }

        /// Where a huge page is, of those behind [`SMALL`].
        fn huge(&self, number: usize) -> *mut u8 {
            self.first.as_ptr().cast::<u8>().wrapping_add(SMALL + number * HUGE_PAGE)
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

    /// Whether small pages may be made huge ones: an administrator's "never" is heeded, which the call itself ignores.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn may_collapse() -> bool {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        setting.is_ok_and(|setting| !setting.contains("[never]"))
    }

    /// Makes one huge page of small ones, while everybody goes on; `false` if the system can't, before Linux 6.1. Where it
    /// has no memory for it now, they stay small until it finds some.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn collapse(page: *mut u8) -> bool {
        make_huge(page, 1);
        // SAFETY: a page of our own mapping, in which nothing changes. Whoever reads or writes there waits for the copy.
        let done = unsafe { libc::madvise(page.cast(), HUGE_PAGE, libc::MADV_COLLAPSE) };
        done == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    }

    /// Has pages be huge ones when they are touched; those that were become huge in the system's own time.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn make_huge(page: *mut u8, count: usize) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(page.cast(), count * HUGE_PAGE, Advice::LinuxHugepage) };
    }

    /// Has these huge pages be small ones, as far as nobody has touched them.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn make_small(page: *mut u8, count: usize) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(page.cast(), count * HUGE_PAGE, Advice::LinuxNoHugepage) };
    }

    /// Provides the pages of so many bytes, which keep what they hold. Refusal only costs time later.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn provide(start: *mut u8, bytes: usize) {
        use rustix::mm::{Advice, madvise};
        let before = start.addr() % PAGE;
        let start = start.wrapping_sub(before);
        // SAFETY: pages of our own mapping, which are provided as a write that changes nothing would do it.
        let _ = unsafe { madvise(start.cast(), bytes + before, Advice::LinuxPopulateWrite) };
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn unmap(mapping: &Mapping) {
        // SAFETY: invariant 2, and the owner is being dropped.
        let unmapped = unsafe { rustix::mm::munmap(mapping.start.as_ptr().cast(), mapping.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping: {unmapped:?}");
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn may_collapse() -> bool {
        false
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn collapse(_: *mut u8) -> bool {
        false
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn make_huge(_: *mut u8, _: usize) {}

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn make_small(_: *mut u8, _: usize) {}

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn provide(_: *mut u8, _: usize) {}

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

#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
mod tests {
    use super::*;
    use crate::bucket::Bucket;

    /// Bytes of `table` that are in memory, as the system counts them by pages.
    fn resident_bytes(table: &Zeroed<Bucket>) -> usize {
        let start = std::ptr::from_ref(table.get(0)).addr();
        let end = start + table.len() * size_of::<Bucket>();
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let (mut is_ours, mut kilobytes) = (false, 0);
        for line in smaps.lines() {
            if let Some((first, rest)) = line.split_once('-')
                && let Ok(first) = usize::from_str_radix(first, 16)
            {
                let last = rest.split(' ').next().unwrap_or_default();
                let last = usize::from_str_radix(last, 16).expect("an address");
                is_ours = first < end && last > start;
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_ours) {
                kilobytes += size.trim().trim_end_matches(" kB").parse::<usize>().expect("a size");
            }
        }
        kilobytes << 10
    }

    /// Touches elements, and calls `prepare` before each that `is_prepared` says.
    fn grow(is_prepared: impl Fn(usize) -> bool) {
        let table = Zeroed::<Bucket>::reserve(1 << 18);
        for number in 0..150_000 {
            if is_prepared(number) {
                table.prepare(number, AHEAD);
            }
            drop(table.get(number).lock());
            let used = (number + 1) * size_of::<Bucket>();
            if number % 10_000 == 9_999 {
                let resident = resident_bytes(&table);
                assert!((used..used + (64 << 10)).contains(&resident), "{resident} for {used}");
            }
        }
    }

    #[test]
    fn a_table_that_is_prepared_takes_what_it_uses_however_far_it_has_grown() {
        grow(|number| number % AHEAD == 0);
    }

    #[test]
    fn a_table_that_grows_faster_than_it_is_prepared_takes_what_it_uses() {
        grow(|number| number % 60_000 == 0);
    }

    const AHEAD: usize = 512;
}
