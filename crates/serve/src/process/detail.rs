//! `stats detail`: gets, hits, sets and deletes by key prefix, while it is switched on.
//!
//! A prefix is the part of a key before the first delimiter (`-D`, a colon by default); keys without a
//! delimiter are not counted. At most [`PREFIXES_MAX`] prefixes are kept, so hostile keys can't fill the
//! memory.
//!
//! # Invariants
//! 1. An event of a known prefix takes the lock for reading, so threads count concurrently. Only a new
//!    prefix takes it for writing, at most [`PREFIXES_MAX`] times until the counts are cleared.
//!
//! # Costs
//! One relaxed load per key while it is off. While it is on, a search in a tree and a counter that
//! threads share. A dump takes the lock for [`ROWS`] prefixes at a time, so it shows each prefix as it
//! was when its rows were copied.

use crate::process::dump::fits_a_line;
use guira_proto::append_uri;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Prefixes = BTreeMap<Arc<[u8]>, Tally>;

/// Counts by prefix.
pub(crate) struct Detail {
    is_on: AtomicBool,
    delimiter: u8,
    /// The standard library's lock sleeps at once. A lock that yields first would delay the thread that holds it.
    prefixes: RwLock<Prefixes>,
}

/// A prefix's counts, which threads increment concurrently. An event increments only one of them, so no
/// dump shows half an event.
#[derive(Default)]
struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    sets: AtomicU64,
    deletes: AtomicU64,
}

#[derive(Clone, Copy)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// A prefix as a dump shows it.
type Row = (Arc<[u8]>, Counts);

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Hit,
    Miss,
    Set,
    Delete,
}

impl Tally {
    fn count(&self, event: Event) {
        let raise = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match event {
            Event::Hit => raise(&self.hits),
            Event::Miss => raise(&self.misses),
            Event::Set => raise(&self.sets),
            Event::Delete => raise(&self.deletes),
        }
    }

    fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let hits = read(&self.hits);
        Counts {
            gets: hits + read(&self.misses),
            hits,
            sets: read(&self.sets),
            deletes: read(&self.deletes),
        }
    }
}

impl Detail {
    pub(crate) fn new(delimiter: u8, is_on: bool) -> Detail {
        Detail { is_on: AtomicBool::new(is_on), delimiter, prefixes: RwLock::default() }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Counts `event` for the prefix of `key`, if counting is on.
    #[inline]
    pub(crate) fn count(&self, key: &[u8], event: Event) {
        if self.is_on() {
            self.count_prefix(key, event);
        }
    }

    #[cold]
    fn count_prefix(&self, key: &[u8], event: Event) {
        let Some(end) = key.iter().position(|&b| b == self.delimiter) else { return };
        if let Some(tally) = self.read().get(&key[..end]) {
            return tally.count(event);
        }
        let mut prefixes = self.write();
        if prefixes.len() < PREFIXES_MAX || prefixes.contains_key(&key[..end]) {
            prefixes.entry(key[..end].into()).or_default().count(event);
        }
    }

    // A thread that panicked with the lock held left the counts intact.
    fn read(&self) -> RwLockReadGuard<'_, Prefixes> {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Prefixes> {
        self.prefixes.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    pub(crate) fn clear(&self) {
        // The old counts are freed after the lock is released.
        let old = std::mem::take(&mut *self.write());
        drop(old);
    }

    /// Appends a line for each prefix after `after` (`None`: for all prefixes), in their order, until
    /// `out` has `bytes_max`. Returns the last prefix appended if there are more.
    pub(crate) fn dump(
        &self,
        after: Option<&[u8]>,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Arc<[u8]>> {
        let mut last: Option<Arc<[u8]>> = None;
        loop {
            let (rows, has_more) = self.rows(last.as_deref().or(after));
            for (prefix, counts) in rows {
                if out.len() >= bytes_max && last.is_some() {
                    return last;
                }
                append_line(out, &prefix, counts);
                last = Some(prefix);
            }
            if !has_more {
                return None;
            }
        }
    }

    /// Copies up to [`ROWS`] prefixes after `after`, and returns whether there are more. Only the copy
    /// happens under the lock, for which a new prefix waits: no line is formatted and no memory
    /// allocated.
    fn rows(&self, after: Option<&[u8]>) -> (Vec<Row>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = Vec::with_capacity(ROWS);
        let prefixes = self.read();
        let mut rest = prefixes.range::<[u8], _>((from, Bound::Unbounded));
        rows.extend(
            rest.by_ref().take(ROWS).map(|(prefix, counts)| (Arc::clone(prefix), counts.read())),
        );
        (rows, rest.next().is_some())
    }
}

fn append_line(out: &mut Vec<u8>, prefix: &[u8], counts: Counts) {
    out.extend_from_slice(b"PREFIX ");
    // Over the binary protocol keys can hold any bytes: line ends could imitate lines of other prefixes.
    if fits_a_line(prefix) {
        out.extend_from_slice(prefix);
    } else {
        append_uri(out, prefix);
    }
    let Counts { gets, hits, sets, deletes } = counts;
    // Writing to a Vec can't fail.
    let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
}

/// memcached's limit.
const PREFIXES_MAX: usize = 65_536;
/// Prefixes that a dump copies under one lock, in about two microseconds.
const ROWS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all pieces of a dump, each of which ends at `bytes_max` bytes.
    fn pieces(detail: &Detail, bytes_max: usize) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut after: Option<Arc<[u8]>> = None;
        loop {
            let mut piece = Vec::new();
            after = detail.dump(after.as_deref(), bytes_max, &mut piece);
            pieces.push(String::from_utf8(piece).unwrap());
            if after.is_none() {
                return pieces;
            }
        }
    }

    fn dump(detail: &Detail) -> String {
        let all = pieces(detail, usize::MAX).concat();
        assert_eq!(pieces(detail, 1).concat(), all, "line by line it is the same");
        all
    }

    #[test]
    fn events_are_counted_by_prefix_while_switched_on() {
        let detail = Detail::new(b':', false);
        detail.count(b"a:1", Event::Set);
        assert_eq!(dump(&detail), "");
        detail.switch(true);
        for (key, event) in [
            ("b:1", Event::Set),
            ("a:1", Event::Hit),
            ("a:2:3", Event::Miss),
            ("a:", Event::Delete),
            ("no prefix", Event::Hit),
        ] {
            detail.count(key.as_bytes(), event);
        }
        assert_eq!(
            dump(&detail),
            "PREFIX a get 2 hit 1 set 0 del 1\r\nPREFIX b get 0 hit 0 set 1 del 0\r\n"
        );
        detail.clear();
        assert_eq!(dump(&detail), "");
    }

    #[test]
    fn the_number_of_prefixes_is_bounded_and_known_ones_go_on_counting() {
        let detail = Detail::new(b'/', true);
        for n in 0..PREFIXES_MAX + 10 {
            detail.count(format!("{n}/x").as_bytes(), Event::Set);
        }
        detail.count(b"0/y", Event::Set);
        assert_eq!(detail.len(), PREFIXES_MAX);
        assert!(dump(&detail).contains("PREFIX 0 get 0 hit 0 set 2 del 0\r\n"));
    }

    #[test]
    fn known_prefixes_are_counted_side_by_side() {
        let detail = Detail::new(b':', true);
        detail.count(b"a:1", Event::Set);
        let held = detail.read();
        std::thread::scope(|threads| {
            let counted = threads.spawn(|| detail.count(b"a:2", Event::Hit));
            let (done, waits) = std::sync::mpsc::channel();
            threads.spawn(move || done.send(counted.join()));
            // With an exclusive lock this would wait for `held`; the timeout makes the test fail instead of hang.
            let is_done = waits.recv_timeout(std::time::Duration::from_secs(10));
            drop(held);
            assert!(is_done.is_ok(), "a known prefix waited for another thread that counts");
        });
        assert_eq!(dump(&detail), "PREFIX a get 1 hit 1 set 1 del 0\r\n");
    }

    #[test]
    fn a_bounded_number_of_prefixes_is_copied_under_one_lock() {
        let detail = Detail::new(b':', true);
        for n in 0..2 * ROWS {
            detail.count(format!("p{n:05}:x").as_bytes(), Event::Miss);
        }
        let (first, has_more) = detail.rows(None);
        assert_eq!((first.len(), has_more), (ROWS, true));
        let (second, has_more) = detail.rows(first.last().map(|(prefix, _)| &**prefix));
        assert_eq!((second.len(), has_more), (ROWS, false));
        assert_eq!(*second[0].0, *format!("p{ROWS:05}").as_bytes());
    }

    #[test]
    fn a_piece_ends_at_its_bytes_and_none_is_empty() {
        let detail = Detail::new(b':', true);
        let all = 2 * ROWS;
        for n in 0..all {
            detail.count(format!("p{n:05}:x").as_bytes(), Event::Miss);
        }
        let line = "PREFIX p00000 get 1 hit 0 set 0 del 0\r\n".len();
        for (bytes_max, lines) in [
            (usize::MAX, all),
            (0, 1),
            (1, 1),
            (10 * line, 10),
            (9 * line + 1, 10),
            (ROWS * line, ROWS),
        ] {
            let pieces = pieces(&detail, bytes_max);
            let counts: Vec<_> = pieces.iter().map(|piece| piece.lines().count()).collect();
            assert!(counts.iter().all(|&count| (1..=lines).contains(&count)), "{counts:?}");
            assert_eq!(counts[0], lines, "{bytes_max}");
            assert_eq!(counts.iter().sum::<usize>(), all, "{bytes_max}");
        }
    }

    #[test]
    fn a_dump_goes_on_behind_a_prefix_that_is_gone() {
        let detail = Detail::new(b':', true);
        for n in 0..2 * ROWS {
            detail.count(format!("p{n:05}:x").as_bytes(), Event::Set);
        }
        let mut out = Vec::new();
        let last = detail.dump(None, 1, &mut out).unwrap();
        detail.clear();
        detail.count(b"p00000:x", Event::Set);
        detail.count(b"q:x", Event::Set);
        out.clear();
        assert!(detail.dump(Some(&last), usize::MAX, &mut out).is_none());
        assert_eq!(out, b"PREFIX q get 0 hit 0 set 1 del 0\r\n");
    }
}
