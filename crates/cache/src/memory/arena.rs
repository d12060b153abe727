//! The memory that items live in: one reserved, zeroed mapping, with huge pages where the kernel grants them; or a
//! mapped file, which outlives the process (persist.rs).
//!
//! All unsafe code of the crate is here. Other modules see words (atomics, for what may change after publication) and
//! bytes (plain, for what never does). That is why [`release_code`] is here too, which releases memory outside the
//! arena.
//!
//! # Invariants
//! 1. `base` points to `words` words, aligned to 4 bytes, that stay mapped while the arena lives. If there is a file,
//!    `head_words` more lie before it. The words start as zeroes, or as what a former process left: any bits are
//!    valid words and bytes.
//! 2. A range returned by [`Arena::bytes`] is not written until its reader has ended its turn: keys and values are
//!    immutable from publication to reclamation (memory/epochs.rs).
//! 3. A range returned by [`Arena::bytes_mut`] belongs to an unpublished chunk, which has one owner and is in no
//!    index (`slab::Owned` represents that ownership).
//! 4. From publication to reclamation, a word is accessed either only by [`Arena::word`] or only as bytes. The layout
//!    in items/item.rs decides which.
//!
//! 5. A file's pages are backed before they are touched ([`Arena::back`]), so a full file system causes an error, not
//!    a signal. Only one process at a time uses the file (persist/file.rs), so invariants 2 to 4 hold for it as well.
//!
//! # Costs
//! No page is resident before it is touched. An access costs one addition and one comparison.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

pub(crate) use mapping::back;

/// Bytes of a huge page. The mapping is aligned to this.
const HUGE: usize = 2 << 20;
/// Bytes of a file before its items.
pub(crate) const HEAD_BYTES: usize = HUGE;

pub(crate) struct Arena {
    base: NonNull<AtomicU32>,
    words: usize,
    head_words: usize,
    mapping: mapping::Mapping,
    file: Option<File>,
}

// SAFETY: the arena owns its mapping (invariant 1); which thread drops it does not matter.
unsafe impl Send for Arena {}
// SAFETY: shared access is through atomics, or through bytes that invariants 2 and 3 keep from
// being written while anyone else may read them.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves `bytes`, rounded up to a huge page.
    pub(crate) fn new(bytes: usize, lock: bool, preallocate: bool) -> io::Result<Arena> {
        let bytes = bytes.next_multiple_of(HUGE);
        let (base, mapping) = mapping::map(bytes, HUGE)?;
        if lock || preallocate {
            mapping::populate(base, bytes, lock)?;
        }
        Ok(Arena { base: base.cast(), words: bytes / 4, head_words: 0, mapping, file: None })
    }

    /// Maps `file`, which no other process may use. The file is extended to a head and `bytes`, rounded up to a huge
    /// page.
    pub(crate) fn over(file: File, bytes: usize, lock: bool, full: bool) -> io::Result<Arena> {
        let bytes = bytes.next_multiple_of(HUGE);
        let whole = bytes.checked_add(HEAD_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        if file.metadata()?.len() < whole as u64 {
            file.set_len(whole as u64)?;
        }
        back(&file, 0, if lock || full { whole } else { HEAD_BYTES })?;
        let (start, mapping) = mapping::map_file(&file, whole, HUGE)?;
        if lock || full {
            mapping::populate(start, whole, lock)?;
        }
        // SAFETY: the mapping is `bytes` longer than the head.
        let base = unsafe { start.add(HEAD_BYTES) };
        let (words, head_words) = (bytes / 4, HEAD_BYTES / 4);
        Ok(Arena { base: base.cast(), words, head_words, mapping, file: Some(file) })
    }

    /// The file behind the arena, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The word at index `at` of the file's head.
    #[inline]
    pub(crate) fn head(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.head_words, "word {at} is outside the head");
        // SAFETY: `head_words` words lie before the base (invariant 1), and `at` is less.
        let word = unsafe { self.base.sub(self.head_words - at) };
        // SAFETY: mapped, aligned and initialised (invariant 1); the head is only reached as atomics.
        unsafe { word.as_ref() }
    }

    /// Makes the file system provide memory for `len` bytes from `at` on. Their content stays.
    ///
    /// # Errors
    /// The file system has no more memory. Without a file, this never fails.
    pub(crate) fn back(&self, at: usize, len: usize) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        back(file, HEAD_BYTES + at, len)
    }

    /// Clears the file to zeroes; no chunk in it may be in use. `begin` writes what identifies the file before the
    /// file grows again, so that no crash leaves a file that can't be recognized as ours.
    ///
    /// # Errors
    /// The file system refuses, or has no memory for the head.
    pub(crate) fn clear(&self, begin: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(0)?;
        begin(file)?;
        file.set_len(((self.head_words + self.words) * 4) as u64)?;
        back(file, 0, HEAD_BYTES)
    }

    /// Reads `len` bytes from `at` on, which a former process left, into memory all at once. A hint only.
    pub(crate) fn fetch(&self, at: usize, len: usize) {
        mapping::fetch(self.byte(at, len), len);
    }

    /// The word at index `at`, counted in words from the start of the arena.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.words, "word {at} is outside the arena");
        // SAFETY: `at` is inside the mapping (checked above, invariant 1).
        let word = unsafe { self.base.add(at) };
        // SAFETY: mapped, aligned and initialised (invariant 1); only reached as an atomic (invariant 4).
        unsafe { word.as_ref() }
    }

    /// The `len` bytes from byte offset `at` on, of a chunk that is published or owned by the caller.
    #[inline]
    pub(crate) fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let start = self.byte(at, len);
        // SAFETY: inside the mapping; not written while the slice lives (invariant 2).
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The `len` bytes from byte offset `at` on, of an unpublished chunk that `_owner` owns.
    #[inline]
    pub(crate) fn bytes_mut<'o, T>(
        &self,
        _owner: &'o mut T,
        at: usize,
        len: usize,
    ) -> &'o mut [u8] {
        let start = self.byte(at, len);
        // SAFETY: inside the mapping, and nobody else reaches an unpublished chunk's bytes
        // (invariant 3); the borrow of its owner keeps a second slice from being made.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Prefetches the cache line of word `at`. Never faults, changes nothing.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = self.base.as_ptr().wrapping_add(at.min(self.words - 1));
            // SAFETY: a prefetch reads nothing that the program can see; the address is mapped anyway.
            unsafe { _mm_prefetch(line.cast::<i8>(), _MM_HINT_T0) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }

    /// Gives the memory of `len` bytes from `at` on back to the system; no chunk in it may be in use. It reads as
    /// zeroes afterwards.
    pub(crate) fn release(&self, at: usize, len: usize) {
        match &self.file {
            Some(file) => mapping::punch(file, HEAD_BYTES + at, len),
            None => mapping::release(self.byte(at, len), len),
        }
    }

    /// The address of byte `at`, of which `len` bytes lie inside the mapping.
    #[inline]
    fn byte(&self, at: usize, len: usize) -> NonNull<u8> {
        let end = at.checked_add(len).expect("a chunk's end fits an address");
        assert!(end <= self.words * 4, "bytes {at}..{end} are outside the arena");
        // SAFETY: `at..end` is inside the mapping (checked above, invariant 1).
        unsafe { self.base.cast::<u8>().add(at) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        mapping::unmap(&self.mapping);
    }
}

/// Releases the resident pages of the program's code and constants: only the start needed most of them. A page that
/// is needed again is read from the file, usually from the system's page cache. Call it when the server has started:
/// no library is loaded later.
///
/// # Errors
/// The list of mappings can't be read.
pub fn release_code() -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    // A process that has dropped root privileges may be unable to read it.
    let pages = File::open("/proc/self/pagemap").ok();
    let is_unwritten = |it: &Mapped<'_>| match &pages {
        Some(pages) => it.is_as_in_the_file(pages).unwrap_or(false),
        None => it.is_code() || it.is_first(),
    };
    let may_go = |it: &Mapped<'_>| it.is_of_a_file() && is_unwritten(it);
    // All releases come last, since the code that selects the mappings is itself among them.
    let go: Vec<_> = maps.lines().filter_map(Mapped::read).filter(may_go).collect();
    for mapped in go {
        mapping::release_file(mapped.start, mapped.bytes);
    }
    Ok(())
}

/// A line of the system's list of mappings, `/proc/self/maps`.
struct Mapped<'l> {
    start: usize,
    bytes: usize,
    rights: &'l str,
    offset: &'l str,
    path: &'l str,
}

impl Mapped<'_> {
    fn read(line: &str) -> Option<Mapped<'_>> {
        // Fields: start-end, rights, offset, device, inode and path. The path is padded with spaces on the left.
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16));
        let (start, end) = (start.ok()?, end.ok()?);
        let (rights, offset) = (fields.next()?, fields.next()?);
        let path = fields.nth(2)?.trim_start();
        Some(Mapped { start, bytes: end.checked_sub(start)?, rights, offset, path })
    }

    /// Whether the mapping is code or constants of the program or of a library: mapped from a file, and not writable
    /// now.
    fn is_of_a_file(&self) -> bool {
        ["r-xp", "r--p"].contains(&self.rights) && self.path.starts_with('/')
    }

    /// Whether the mapping is code. Code is position independent: the loader writes nothing there.
    fn is_code(&self) -> bool {
        self.rights == "r-xp"
    }

    /// Whether the mapping precedes the code in its file: constants, and what the loader reads. The tables that the
    /// loader writes come after the code.
    fn is_first(&self) -> bool {
        self.rights == "r--p" && self.offset == "00000000"
    }

    /// Whether no page differs from the file's. The loader writes tables and then protects them: such pages are
    /// private to the process, and their content would be lost.
    #[expect(clippy::host_endian_bytes, reason = "the system's words are the host's")]
    fn is_as_in_the_file(&self, pages: &File) -> io::Result<bool> {
        let page = rustix::param::page_size();
        let mut entries = vec![0; self.bytes / page * size_of::<u64>()];
        let at = self.start / page * size_of::<u64>();
        pages.read_exact_at(&mut entries, at as u64)?;
        let (entries, _) = entries.as_chunks();
        Ok(entries.iter().all(|&entry| {
            let entry = u64::from_ne_bytes(entry);
            let [is_present, is_swapped, is_of_file] =
                [63, 62, 61].map(|bit| entry >> bit & 1 == 1);
            !is_swapped && (is_of_file || !is_present)
        }))
    }
}

/// The system's mapping: reserved but not committed, so that a large limit costs nothing until it is used.
#[cfg(not(miri))]
mod mapping {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::retry_on_intr;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
    use std::fs::File;
    use std::io;
    use std::ptr::NonNull;

    /// The whole mapping. It is a little larger than the part in use, whose start is aligned within it.
    pub(super) struct Mapping {
        start: NonNull<u8>,
        bytes: usize,
    }

    /// Maps zeroes at an address that is a multiple of `align`.
    pub(super) fn map(bytes: usize, align: usize) -> io::Result<(NonNull<u8>, Mapping)> {
        let whole = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, prot, flags) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let shift = start.as_ptr().align_offset(align);
        // SAFETY: `shift` < `align` and the mapping is `bytes` + `align` long.
        let base = unsafe { start.add(shift) };
        // SAFETY: the range was just mapped. Refusal only costs speed, so it is not an error.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok((base, Mapping { start, bytes: whole }))
    }

    pub(super) fn map_file(
        file: &File,
        bytes: usize,
        align: usize,
    ) -> io::Result<(NonNull<u8>, Mapping)> {
        let (base, mapping) = map(bytes, align)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range was just mapped for us and nothing refers into it: the file takes its place.
        let mapped = unsafe { mmap(base.as_ptr().cast(), bytes, prot, flags, file, 0) };
        if let Err(error) = mapped {
            unmap(&mapping);
            return Err(error.into());
        }
        // SAFETY: the range was just mapped. Refusal only costs speed, so it is not an error.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok((base, mapping))
    }

    /// Makes the file system reserve room for this part of a file.
    pub(crate) fn back(file: &File, at: usize, len: usize) -> io::Result<()> {
        // Retried on EINTR: any thread may receive a signal for the process.
        Ok(retry_on_intr(|| fallocate(file, FallocateFlags::empty(), at as u64, len as u64))?)
    }

    pub(super) fn punch(file: &File, at: usize, len: usize) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If the system refuses, the memory stays taken, which is no error.
        let _ = fallocate(file, hole, at as u64, len as u64);
    }

    pub(super) fn fetch(start: NonNull<u8>, len: usize) {
        // SAFETY: mapped (the caller checked); only page tables change.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateRead) };
    }

    pub(super) fn populate(base: NonNull<u8>, bytes: usize, lock: bool) -> io::Result<()> {
        if lock {
            // SAFETY: the range is mapped; locking changes no content.
            unsafe { mlock(base.as_ptr().cast(), bytes) }?;
        } else {
            // SAFETY: the range is mapped and unused; populating leaves zeroes.
            unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) }?;
        }
        Ok(())
    }

    pub(super) fn release(start: NonNull<u8>, len: usize) {
        // SAFETY: mapped (the caller checked), and nothing refers to bytes in it: no chunk of the range is in use.
        // Refusal leaves the memory resident, which is no error.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
    }

    /// Releases the pages of a mapping of code, or of the program's constants.
    pub(super) fn release_file(start: usize, bytes: usize) {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the mapping is not writable, and each page reads the same from the file, because none is private to
        // the process. The caller asked the system for that; or the mapping is code, which is position independent,
        // or precedes the code, and the loader writes nothing in either. Refusal leaves the pages resident, which is
        // no error.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
    }

    pub(super) fn unmap(mapping: &Mapping) {
        // SAFETY: the arena is being dropped, so no reference into its mapping is left.
        let _ = unsafe { munmap(mapping.start.as_ptr().cast(), mapping.bytes) };
    }
}

/// Miri supports no huge mappings: the allocator's zeroed memory is used instead.
#[cfg(miri)]
mod mapping {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::fs::File;
    use std::io;
    use std::ptr::NonNull;

    pub(super) struct Mapping {
        start: NonNull<u8>,
        layout: Layout,
    }

    pub(super) fn map(bytes: usize, _align: usize) -> io::Result<(NonNull<u8>, Mapping)> {
        let layout = Layout::from_size_align(bytes, 64).map_err(io::Error::other)?;
        // SAFETY: the layout is not empty: a cache has at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((start, Mapping { start, layout }))
    }

    pub(super) fn populate(_base: NonNull<u8>, _bytes: usize, _lock: bool) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn release(_start: NonNull<u8>, _len: usize) {}

    pub(super) fn map_file(
        _file: &File,
        _bytes: usize,
        _align: usize,
    ) -> io::Result<(NonNull<u8>, Mapping)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn back(_file: &File, _at: usize, _len: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn punch(_file: &File, _at: usize, _len: usize) {}

    pub(super) fn fetch(_start: NonNull<u8>, _len: usize) {}

    pub(super) fn release_file(_start: usize, _bytes: usize) {}

    pub(super) fn unmap(mapping: &Mapping) {
        // SAFETY: allocated above with this layout, and no reference into it is left.
        unsafe { dealloc(mapping.start.as_ptr(), mapping.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_new_arena_is_zero_and_keeps_what_is_written() {
        let arena = Arena::new(HUGE, false, false).unwrap();
        assert_eq!(arena.word(7).load(Relaxed), 0);
        let mut owner = ();
        arena.bytes_mut(&mut owner, 64, 5).copy_from_slice(b"guira");
        assert_eq!(arena.bytes(64, 5), b"guira");
    }

    #[test]
    #[should_panic(expected = "outside the arena")]
    fn a_range_past_the_end_is_refused() {
        let arena = Arena::new(HUGE, false, false).unwrap();
        let _ = arena.bytes(HUGE - 2, 3);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings to read")]
    fn what_the_loader_wrote_is_told_from_code_and_constants() {
        let program = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let pages = File::open("/proc/self/pagemap").unwrap();
        let of_program = |it: &Mapped<'_>| it.is_of_a_file() && program.to_str() == Some(it.path);
        let mapped: Vec<_> = maps.lines().filter_map(Mapped::read).filter(of_program).collect();
        let may_go = |it: &&Mapped<'_>| it.is_as_in_the_file(&pages).unwrap();
        assert!(mapped.iter().filter(may_go).any(|it| it.rights == "r-xp"), "its code");
        assert!(!mapped.iter().all(|it| may_go(&it)), "tables of addresses, relocated");
        release_code().unwrap();
        let words: Vec<Box<dyn std::fmt::Display>> = vec![Box::new(7), Box::new("as before")];
        let said: Vec<_> = words.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["7", "as before"], "tables of methods are still there");
    }
}
