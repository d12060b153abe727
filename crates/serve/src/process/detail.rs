//! `stats detail`: gets, hits, sets and deletes by key prefix, while it is switched on.
//!
//! A prefix is what stands before the first delimiter (`-D`, a colon by default); keys without one
//! are not counted. At most [`PREFIXES_MAX`] prefixes are kept, so hostile keys can't fill memory.
//!
//! Bad at: speed. All threads share one lock while it is on; off, it costs one relaxed load a key.

use crate::process::dump::fits_a_line;
use guira_proto::append_uri;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts by prefix.
pub(crate) struct Detail {
    is_on: AtomicBool,
    delimiter: u8,
    prefixes: Mutex<BTreeMap<Box<[u8]>, Counts>>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Hit,
    Miss,
    Set,
    Delete,
}

impl Detail {
    pub(crate) fn new(delimiter: u8, is_on: bool) -> Detail {
        Detail { is_on: AtomicBool::new(is_on), delimiter, prefixes: Mutex::default() }
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
        let mut prefixes = self.prefixes.lock();
        let is_full = prefixes.len() >= PREFIXES_MAX;
        let counts = match prefixes.get_mut(&key[..end]) {
            Some(counts) => counts,
            None if is_full => return,
            None => prefixes.entry(key[..end].into()).or_default(),
        };
        match event {
            Event::Hit => {
                counts.gets += 1;
                counts.hits += 1;
            }
            Event::Miss => counts.gets += 1,
            Event::Set => counts.sets += 1,
            Event::Delete => counts.deletes += 1,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.prefixes.lock().len()
    }

    pub(crate) fn clear(&self) {
        self.prefixes.lock().clear();
    }

    /// Appends a line for each prefix behind `after` (`None`: for all), in their order, until there are `bytes_max`. The
    /// last one then, if there are more.
    pub(crate) fn dump(
        &self,
        after: Option<&[u8]>,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Box<[u8]>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let prefixes = self.prefixes.lock();
        let mut rest = prefixes.range::<[u8], _>((from, Bound::Unbounded)).peekable();
        while let Some((prefix, c)) = rest.next() {
            out.extend_from_slice(b"PREFIX ");
            // Over the binary protocol keys are any bytes: line ends could pass for other prefixes.
            if fits_a_line(prefix) {
                out.extend_from_slice(prefix);
            } else {
                append_uri(out, prefix);
            }
            let Counts { gets, hits, sets, deletes } = c;
            // A Vec takes all that is written.
            let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
            if out.len() >= bytes_max && rest.peek().is_some() {
                return Some(prefix.clone());
            }
        }
        None
    }
}

/// memcached's bound.
const PREFIXES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(detail: &Detail) -> String {
        let mut out = Vec::new();
        assert!(detail.dump(None, usize::MAX, &mut out).is_none());
        let mut pieces = Vec::new();
        let mut after: Option<Box<[u8]>> = None;
        loop {
            after = detail.dump(after.as_deref(), pieces.len() + 1, &mut pieces);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pieces, out, "line by line it is the same");
        String::from_utf8(out).unwrap()
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
        assert_eq!(detail.prefixes.lock().len(), PREFIXES_MAX);
        assert!(dump(&detail).contains("PREFIX 0 get 0 hit 0 set 2 del 0\r\n"));
    }
}
