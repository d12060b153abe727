//! Watchers: connections that receive a line for each event of the server that they asked for.
//!
//! The thread that causes an event formats its line and leaves it in the watcher's [`Feed`], which has
//! room for `-o watcher_logbuf_size`. A watcher that doesn't read loses lines and is told how many; it
//! never slows a worker down.
//!
//! # Invariants
//! 1. `kinds` is the union of what the watchers ask for. While there are none it is 0, and a request only
//!    pays one load of it.
//! 2. The lines of one thread arrive in their order; those of several threads can be sorted by their
//!    `gid`.
//!
//! # Costs
//! A watched event costs the formatting of a line, a lock that all watchers share, and a copy for each watcher.

mod event;

pub(crate) use event::{CloseReason, Event, Look, Stored};

use crate::process::Mailbox;
use crate::process::feed::{Feed, Offered};
use guira_cache::Handle;
use guira_proto::WatchKinds;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// All watchers.
#[derive(Default)]
pub(crate) struct Watch {
    kinds: AtomicU16,
    watchers: Mutex<Vec<Watcher>>,
    /// The number of the last line.
    gid: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

struct Watcher {
    kinds: WatchKinds,
    feed: Arc<Feed>,
}

/// The error of [`Watch::add`]: there are [`WATCHERS_MAX`] watchers already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Watch {
    /// The kinds of events that are watched.
    #[inline]
    pub(crate) fn kinds(&self) -> WatchKinds {
        WatchKinds::from_bits(self.kinds.load(Relaxed))
    }

    /// Adds a watcher.
    ///
    /// # Errors
    /// There are [`WATCHERS_MAX`] watchers already.
    pub(crate) fn add(&self, kinds: WatchKinds, feed: Arc<Feed>) -> Result<(), TooMany> {
        let mut watchers = self.watchers.lock();
        if watchers.len() >= WATCHERS_MAX {
            return Err(TooMany);
        }
        watchers.push(Watcher { kinds, feed });
        self.tell_kinds(&watchers);
        Ok(())
    }

    /// Removes the watchers whose connections have ended.
    pub(crate) fn forget_gone(&self) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| !watcher.feed.is_gone());
        self.tell_kinds(&watchers);
    }

    fn tell_kinds(&self, watchers: &[Watcher]) {
        let all = watchers.iter().fold(0, |all, watcher| all | watcher.kinds.bits());
        self.kinds.store(all, Relaxed);
    }

    /// Sends an event to the watchers of its kind.
    #[cold]
    pub(crate) fn tell(&self, event: &Event<'_>, mailboxes: &[Mailbox]) {
        let now = clock_gettime(ClockId::Realtime);
        let gid = self.gid.fetch_add(1, Relaxed) + 1;
        let mut line = Vec::with_capacity(LINE_USUAL);
        // Writing to memory can't fail.
        let _ = write!(line, "ts={}.{:06} gid={gid} ", now.tv_sec, now.tv_nsec / 1000);
        event.append(&mut line);
        line.push(b'\n');
        let kind = event.kind();
        let watchers = self.watchers.lock();
        for watcher in watchers.iter().filter(|watcher| watcher.kinds.meets(kind)) {
            match watcher.feed.offer(&line, mailboxes) {
                Offered::Taken => self.sent.fetch_add(1, Relaxed),
                Offered::Skipped => self.skipped.fetch_add(1, Relaxed),
                Offered::Gone => 0,
            };
        }
    }

    /// Reports the evictions that a handle has recorded.
    #[cold]
    pub(crate) fn tell_evictions(&self, handle: &Handle<'_>, now: u32, mailboxes: &[Mailbox]) {
        for evicted in &handle.take_evictions() {
            self.tell(&Event::Eviction { evicted, now }, mailboxes);
        }
    }

    /// The current number of watchers.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.lock().len()
    }

    /// Lines written since the start.
    pub(crate) fn written(&self) -> u64 {
        self.gid.load(Relaxed)
    }

    /// Lines given to watchers since the start or the last reset.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Lines dropped because a watcher's feed had no room.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// Sets the counts to 0; the numbers of lines go on.
    pub(crate) fn reset(&self) {
        self.sent.store(0, Relaxed);
        self.skipped.store(0, Relaxed);
    }
}

/// The most watchers at a time, as in memcached.
const WATCHERS_MAX: usize = 20;
const LINE_USUAL: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn get(key: &[u8]) -> Event<'_> {
        Event::Get { key, look: Look::Absent, fd: 7 }
    }

    fn kinds(names: &str) -> WatchKinds {
        WatchKinds::NAMES
            .iter()
            .zip(0..)
            .filter(|(name, _)| names.split(' ').any(|word| word == **name))
            .fold(WatchKinds::NONE, |all, (_, bit)| WatchKinds::from_bits(all.bits() | 1 << bit))
    }

    fn taken(feed: &Feed) -> String {
        String::from_utf8(feed.take().0).unwrap()
    }

    #[test]
    fn a_watcher_sees_the_kinds_that_it_asked_for_and_each_line_has_a_higher_number() {
        let watch = Watch::default();
        assert_eq!(watch.kinds(), WatchKinds::NONE);
        let [gets, sets] = ["fetchers", "mutations evictions"].map(|names| {
            let feed = Arc::new(Feed::new(1000));
            watch.add(kinds(names), Arc::clone(&feed)).unwrap();
            feed
        });
        assert!(
            watch.kinds().meets(kinds("evictions")) && !watch.kinds().meets(kinds("deletions"))
        );
        watch.tell(&get(b"a"), &[]);
        watch.tell(&get(b"b"), &[]);
        let seen = taken(&gets);
        let lines: Vec<_> = seen.lines().collect();
        assert!(lines[0].starts_with("ts=") && lines[0].contains(" gid=1 type=item_get key=a "));
        assert!(lines[1].contains(" gid=2 type=item_get key=b ") && lines.len() == 2);
        assert_eq!(taken(&sets), "");
        assert_eq!((watch.sent(), watch.written()), (2, 2));
        gets.abandon();
        watch.forget_gone();
        assert!(watch.watchers() == 1 && !watch.kinds().meets(kinds("fetchers")));
    }

    #[test]
    fn a_watcher_that_does_not_read_loses_lines_and_there_are_twenty_at_most() {
        let watch = Watch::default();
        let feed = Arc::new(Feed::new(500));
        for _ in 0..WATCHERS_MAX {
            watch.add(kinds("fetchers"), Arc::clone(&feed)).unwrap();
        }
        assert_eq!(watch.add(kinds("fetchers"), Arc::clone(&feed)), Err(TooMany));
        watch.tell(&get(&[b'k'; 250]), &[]);
        assert_eq!((watch.sent(), watch.skipped()), (1, 19));
        feed.take();
        watch.tell(&get(b"k"), &[]);
        assert!(taken(&feed).starts_with("skipped=19\nts="));
        watch.reset();
        assert_eq!((watch.sent(), watch.skipped(), watch.written()), (0, 0, 2));
    }
}
