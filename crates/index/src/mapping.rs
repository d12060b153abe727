//! Memory for tables, and processor instructions that have no safe name in Rust: the only unsafe code here.
//!
//! [`Zeroed`] reserves address space for the largest table that there may be. The kernel provides zeroed pages when
//! they are first touched. So the table grows in place: nothing is copied, nothing is freed, and readers need no
//! protection from growth.
//!
//! The kernel is asked for huge pages, because with 4 KiB pages each random lookup also misses the TLB. There are two
//! exceptions. The first [`SMALL`] bytes have small pages, for which the TLB has room, so that an index with few keys
//! takes little memory. If a thread calls [`Zeroed::prepare`], the last pages are small as well: the table grows into
//! small pages, which become a huge page once they are full. So the table takes no more memory than it uses.
//!
//! ```text
//! mapping   | never touched | SMALL, in small pages | huge page | huge page | small pages | never touched
//!                           ^ first element         ^ on a boundary of huge pages ^ next element
//! ```
//! # Invariants
//! 1. `first` points to `len` elements, zeroed when mapped, which live until drop and are reached only by shared
//!    references. Zeroes are a valid value of their type ([`Zeroable`], which each type derives where it is defined).
//!    Threads may share the type, and it has nothing to drop.
//! 2. `mapping` is exactly what was mapped for these elements, and has no other owner.

#[cfg(not(loom))]
pub(crate) use bytemuck::Zeroable;
#[cfg(loom)]
pub(crate) use modelled::Zeroed;
#[cfg(not(loom))]
pub(crate) use zeroed::Zeroed;

/// Prefetches the cache line at `at`, which may be any address: nothing is read from it.
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

/// Compares sixteen bytes at once: bit i is set if byte i of `words` equals `byte`.
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

/// Asks the kernel for huge pages, or for small ones, under the spare capacity of a vector. Tables of other crates
/// then lie in memory as these do, and can be compared with them.
///
/// Pages that lie wholly in the spare capacity are released first, since the allocator may have used them before.
/// Memory touched afterwards comes in pages of the requested size, if the system has them. A refusal changes nothing.
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

/// Moves what was stored after [`advise_pages`] asked for huge pages into such pages: memory that the allocator had
/// used before comes in small pages at first. Costs a copy of what is in small pages. Returns true if all of it is in
/// huge pages now, except for ends that don't fill one.
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

/// Loom's atomics are not plain words, so the models construct each element.
#[cfg(loom)]
pub trait Zeroable {}
#[cfg(loom)]
impl<T> Zeroable for T {}

#[cfg(loom)]
mod modelled {
    /// One allocation of default elements.
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

/// Bytes at the start of a table that have small pages: 384 of them, while a second-level TLB has 1,000 to 2,000
/// entries.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
const SMALL: usize = 1536 << 10;
/// There is only one kind of page.
#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
const SMALL: usize = 0;

#[cfg(not(loom))]
mod zeroed {
    use super::{SMALL, Zeroable};
    use std::ptr::NonNull;
    use std::sync::Mutex;

    const HUGE_PAGE: usize = 2 << 20;
    /// The smallest page size.
    #[cfg(all(target_os = "linux", not(miri)))]
    const PAGE: usize = 4 << 10;

    /// See the module's head.
    pub(crate) struct Zeroed<T> {
        first: NonNull<T>,
        len: usize,
        mapping: Mapping,
        frontier: Mutex<Frontier>,
    }

    /// The range of huge pages, by number, that are still small pages.
    struct Frontier {
        begin: usize,
        end: usize,
        /// Whether small pages can be collapsed into huge ones.
        collapses: bool,
    }

    // SAFETY: invariant 1: `Zeroed` owns its elements and gives out only shared references to them.
    unsafe impl<T: Send + Sync> Send for Zeroed<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send + Sync> Sync for Zeroed<T> {}

    impl<T: Zeroable + Send + Sync> Zeroed<T> {
        /// Reserves `len` zeroed elements. Memory is taken when they are touched.
        ///
        /// # Panics
        /// If the address space can't be reserved.
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

        /// Provides memory for the `ahead` elements from `next` on, in small pages. The elements before `next` are in
        /// use; their small pages become huge ones. For a thread that may wait.
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
                // All of them are marked, since writers may be faster than the preparing thread. Pages touched before
                // the first call are huge already, and stay so.
                make_small(self.huge(unmarked.start), unmarked.len());
                frontier.end = end;
            }
            if needed > used {
                provide(self.huge(0).wrapping_byte_add(used), needed - used);
            }
        }

        /// The address of a huge page, counted from the end of [`SMALL`].
        fn huge(&self, number: usize) -> *mut u8 {
            self.first.as_ptr().cast::<u8>().wrapping_add(SMALL + number * HUGE_PAGE)
        }

        /// Returns one element. It is not reached through a slice, because Miri would check the whole slice at each
        /// access.
        ///
        /// # Panics
        /// If `index` is out of range.
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

    /// The strictest alignment of the elements: a cache line.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    const LINE: usize = 64;

    /// The whole mapping. It is larger than the part in use: the first element is placed within it so that pages are
    /// aligned.
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
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let start = mapped.expect("address space for the index");
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is not at address 0");
        let to_huge = SMALL + start.as_ptr().wrapping_add(SMALL).align_offset(HUGE_PAGE);
        // SAFETY: `to_huge` is less than SMALL and a huge page, and `huge_bytes` follow it in the mapping.
        let huge = unsafe { start.add(to_huge) };
        // SAFETY: `to_huge` is at least SMALL.
        let first = unsafe { huge.sub(SMALL) };
        // A refusal is no error: without huge pages the index is slower, and with more of them larger, but still
        // correct.
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(start.as_ptr().cast(), to_huge, Advice::LinuxNoHugepage) };
        if huge_bytes > 0 {
            // SAFETY: as above.
            let _ = unsafe { madvise(huge.as_ptr().cast(), huge_bytes, Advice::LinuxHugepage) };
        }
        (first, Mapping { start, bytes: whole })
    }

    /// Whether small pages may be collapsed into huge ones. This heeds an administrator's "never", which the system
    /// call itself ignores.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn may_collapse() -> bool {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        setting.is_ok_and(|setting| !setting.contains("[never]"))
    }

    /// Makes one huge page of small ones, while other threads continue. Returns `false` if the system can't, before
    /// Linux 6.1. If the system has no memory for it now, the pages stay small until it finds some.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn collapse(page: *mut u8) -> bool {
        make_huge(page, 1);
        // SAFETY: a page of our own mapping, whose content doesn't change. Threads that access it wait for the copy.
        let done = unsafe { libc::madvise(page.cast(), HUGE_PAGE, libc::MADV_COLLAPSE) };
        done == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    }

    /// Makes pages huge when they are touched. Pages touched before become huge whenever the system collapses them.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn make_huge(page: *mut u8, count: usize) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(page.cast(), count * HUGE_PAGE, Advice::LinuxHugepage) };
    }

    /// Makes these huge pages small ones, as far as they are untouched.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn make_small(page: *mut u8, count: usize) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice on pages of our own mapping, which changes nothing that can be read there.
        let _ = unsafe { madvise(page.cast(), count * HUGE_PAGE, Advice::LinuxNoHugepage) };
    }

    /// Provides the pages of this many bytes. Their content stays. Refusal only costs time later.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn provide(start: *mut u8, bytes: usize) {
        use rustix::mm::{Advice, madvise};
        let before = start.addr() % PAGE;
        let start = start.wrapping_sub(before);
        // SAFETY: pages of our own mapping. They are provided as by a write that changes nothing.
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

    /// Bytes of `table` that are resident, as the system counts them by pages.
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

    /// Touches elements, and calls `prepare` before each one for which `is_prepared` returns true.
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
