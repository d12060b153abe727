//! Hints to the processor and the kernel, and one processor instruction: the only unsafe code here. None of them
//! changes the content of memory.
//!
//! A lookup in a table beyond the processor's caches costs two cache lines from memory. [`prefetch`] lets a batch
//! wait for many lines at once. [`advise_huge`] asks for 2 MiB pages, without which each line also costs a walk of
//! the page table.
//!
//! # Invariants
//! 1. No hint reads, writes, or unmaps memory: a wrong hint is slow, never incorrect.
//! 2. [`deposit`] works only on registers, and is compiled in only if every target processor of the program supports
//!    it.

/// Prefetches the cache line at `at`, which may be any address: nothing is read from it.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: invariant 1; prefetch neither faults nor reads, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: invariant 1; prefetch neither faults nor reads, whatever the address.
        unsafe {
            core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Deposits the low bits of `bits` at the positions that are set in `places`. `None` if the program is built for
/// processors without this instruction.
#[inline(always)]
pub(crate) fn deposit(bits: u64, places: u64) -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", target_feature = "bmi2", not(miri)))]
    {
        // SAFETY: invariant 2.
        Some(unsafe { core::arch::x86_64::_pdep_u64(bits, places) })
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "bmi2", not(miri))))]
    {
        let _ = (bits, places);
        None
    }
}

/// Asks the kernel to back a large table by huge pages. Call it before the table is first written.
pub(crate) fn advise_huge<T>(table: &mut [T]) {
    #[cfg(all(target_os = "linux", feature = "std", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let range = table.as_mut_ptr_range();
        let skipped = range.start.addr().wrapping_neg() % PAGE;
        let bytes = size_of_val(table).saturating_sub(skipped) / PAGE * PAGE;
        if bytes >= HUGE_PAGE {
            let first = range.start.wrapping_byte_add(skipped).cast();
            // SAFETY: invariant 1: this advice only chooses the page size, for pages that lie wholly in `table`. A
            // kernel that refuses leaves small pages.
            let _ = unsafe { madvise(first, bytes, Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
    let _ = table;
}

#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
const PAGE: usize = 4096;
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
const HUGE_PAGE: usize = 2 << 20;
