//! A cache in front of a cluster of replicated stores: a reply is held by a *hold* of its key's reader, which tells each
//! router before a change is seen anywhere.
//!
//! ```text
//! get ─▶ chosen? ─▶ kept, and its time isn't over ─▶ reply
//!                └▶ is there a hold? ─▶ yes: ask the cluster, keep the reply until the hold ends
//!                                    └▶ no: ask for one, and answer from the cluster meanwhile
//! reader: "drop it" ─▶ nothing is kept of the key, and its hold is over
//! ```
//! # Invariants
//! 1. A reply is kept only if it was asked for after a hold came, and came before that hold ended, or a later one of the
//!    same *series*: holds of which each came before the one before it ended, and of which none was dropped. During a
//!    series nobody changes the key. So the reply is what the key has until the last hold ends. Without series, a node
//!    that takes longer than a hold to answer would never be relieved of its hottest keys.
//! 2. A hold's time counts from before it was asked for, by a clock that also runs while the machine is suspended.
//! 3. At most `entries` keys are held, none with a value above `value_bytes_max`.
//!
//! # Bad at
//! Items that expire. They may be answered until the hold ends under which the reply came: for one second at most.

use std::collections::HashMap;

use bytes::Bytes;
use guira_chain::promises::kept_until;
use guira_client::{Outcome, Reply};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use super::chosen::Chosen;

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLimits {
    /// The number of keys held.
    pub(crate) entries: usize,
    /// Values with more bytes are not held.
    pub(crate) value_bytes_max: usize,
}

/// See the module's head.
pub(crate) struct HeldCache {
    chosen: Chosen,
    keys: HashMap<u64, Held>,
    /// Holds that were asked for: for each number the key's hash, and when.
    asked: HashMap<u64, (u64, u64)>,
    number: u64,
    limits: HeldLimits,
}

struct Held {
    key: Bytes,
    hold: Option<Hold>,
    /// The reply, and when the hold ends under which it came.
    kept: Option<(Reply, u64)>,
    /// Until when no hold is to be asked for, because one is on its way or was refused.
    rests_until: u64,
}

/// A hold that was granted.
#[derive(Clone, Copy)]
struct Hold {
    /// The number of the first hold of its series.
    series: u64,
    /// When it ends, and how long before that the next one is asked for while no reply is kept.
    until: u64,
    half: u64,
}

/// The result of a lookup.
#[derive(Debug)]
pub(crate) struct HeldFound {
    /// The reply that is held.
    pub(crate) reply: Option<Reply>,
    /// The number of the series of holds under which the cluster's reply can be kept. It must be offered with it.
    pub(crate) keep: Option<u64>,
    /// Whether a hold should be asked for.
    pub(crate) wants: bool,
}

impl HeldCache {
    pub(crate) fn new(limits: HeldLimits) -> HeldCache {
        let chosen = Chosen::new(limits.entries);
        HeldCache { chosen, keys: HashMap::new(), asked: HashMap::new(), number: 0, limits }
    }

    /// Begins anew with other limits. Numbers go on.
    pub(crate) fn resize(&mut self, limits: HeldLimits) {
        if self.limits != limits {
            *self = HeldCache { number: self.number, ..HeldCache::new(limits) };
        }
    }

    /// Counts a get, and looks up its reply. `clock` is that of [`clock`].
    pub(crate) fn get(&mut self, key: &[u8], now: Instant, clock: u64) -> HeldFound {
        let Self { chosen, keys, asked, limits, .. } = self;
        if chosen.turn_window(now, |hash| drop(keys.remove(&hash))) {
            asked.retain(|_, (hash, at)| keys.contains_key(hash) && clock < *at + ASKED_US);
        }
        let hash = chosen.hash(key);
        let mut found = HeldFound { reply: None, keep: None, wants: false };
        if !chosen.count(hash) {
            return found;
        }
        let Some(held) = keys.get(&hash) else {
            found.wants = keys.len() < limits.entries;
            return found;
        };
        if held.key != key {
            return found;
        }
        let hold = held.hold.filter(|hold| clock < hold.until);
        let kept = held.kept.as_ref().filter(|(_, until)| clock < *until);
        // A reply that takes long must find the series going on.
        let ahead = |hold: Hold| if kept.is_some() { AHEAD_US } else { hold.half.max(AHEAD_US) };
        let is_soon = hold.is_none_or(|hold| hold.until < clock + ahead(hold));
        found.wants = is_soon && clock >= held.rests_until;
        found.reply = kept.map(|(reply, _)| reply.clone());
        found.keep = hold.map(|hold| hold.series);
        found
    }

    /// Records that a hold of the key is asked for now. Returns its number.
    pub(crate) fn ask(&mut self, key: &[u8], clock: u64) -> u64 {
        self.number += 1;
        let hash = self.chosen.hash(key);
        let held = self.keys.entry(hash).or_insert_with(|| Held {
            key: Bytes::copy_from_slice(key),
            hold: None,
            kept: None,
            rests_until: 0,
        });
        held.rests_until = clock + ASKED_US;
        self.asked.insert(self.number, (hash, clock));
        self.number
    }

    /// Takes the answer to the request for a hold: its term, or 0.
    pub(crate) fn held(&mut self, number: u64, term: u64, clock: u64) {
        let Some((hash, at)) = self.asked.remove(&number) else { return };
        let Some(held) = self.keys.get_mut(&hash) else { return };
        if term == 0 {
            held.rests_until = clock + REFUSED_US;
            return;
        }
        held.rests_until = 0;
        let before = held.hold.filter(|before| clock < before.until);
        let until = kept_until(at, clock, term.min(TERM_MAX_US));
        let half = until.saturating_sub(clock) / 2;
        held.hold = Some(Hold { series: before.map_or(number, |it| it.series), until, half });
    }

    /// Keeps a reply that was asked for in the series of holds with this number, if a hold of it still runs.
    pub(crate) fn offer(&mut self, (key, number): (&[u8], u64), reply: &Reply, clock: u64) {
        let hash = self.chosen.hash(key);
        let Some(held) = self.keys.get_mut(&hash).filter(|held| held.key == key) else { return };
        let hold = held.hold.filter(|hold| hold.series == number && clock < hold.until);
        let is_fit = reply.outcome == Outcome::Found
            && reply.value.len() <= self.limits.value_bytes_max
            && reply.meta.is_none();
        if let Some(Hold { until, .. }) = hold.filter(|_| is_fit) {
            // Copy: shared slices would keep read buffers alive.
            let value = Bytes::copy_from_slice(&reply.value);
            held.kept = Some((Reply { value, ..reply.clone() }, until));
        }
    }

    /// The keys of which there may be holds, and the number of the last one that was asked for.
    pub(crate) fn held_keys(&self) -> (u64, Vec<Bytes>) {
        (self.number, self.keys.values().map(|held| held.key.clone()).collect())
    }

    /// Drops what is kept of a key, and ends its hold. A hold that is on its way stays asked for: its answer comes after a
    /// change that was told before.
    pub(crate) fn invalidate(&mut self, key: &[u8]) {
        let hash = self.chosen.hash(key);
        if let Some(held) = self.keys.get_mut(&hash).filter(|held| held.key == key) {
            (held.hold, held.kept) = (None, None);
        }
    }
}

impl std::fmt::Debug for HeldCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldCache").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Microseconds of a clock that nobody sets, and that goes on while the machine is suspended.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}

/// How long an answer is waited for before a hold is asked for again.
const ASKED_US: u64 = 1_000_000;
/// How long none is asked for after one was refused.
const REFUSED_US: u64 = 100_000;
/// How long before a hold's end the next one is asked for.
const AHEAD_US: u64 = 100_000;
/// The longest term, whatever a node says.
const TERM_MAX_US: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: u64 = 500_000;

    fn cache() -> (HeldCache, Instant) {
        (HeldCache::new(HeldLimits { entries: 4, value_bytes_max: 100 }), Instant::now())
    }

    fn of(value: &'static str) -> Reply {
        Reply { value: value.into(), ..Reply::new(Outcome::Found) }
    }

    /// Asks for a hold at `clock`, and gets one. Returns its number.
    fn hold(cache: &mut HeldCache, clock: u64) -> u64 {
        let number = cache.ask(b"k", clock);
        cache.held(number, TERM, clock + 1000);
        number
    }

    fn kept(cache: &mut HeldCache, now: Instant, clock: u64) -> Option<Bytes> {
        cache.get(b"k", now, clock).reply.map(|reply| reply.value)
    }

    #[test]
    fn a_reply_is_kept_under_a_hold_and_until_it_ends() {
        let (mut cache, now) = cache();
        let first = cache.get(b"k", now, 0);
        assert!(first.wants && first.keep.is_none() && first.reply.is_none(), "{first:?}");
        let number = cache.ask(b"k", 0);
        let second = cache.get(b"k", now, 10);
        assert!(!second.wants && second.keep.is_none(), "one hold is on its way: {second:?}");
        cache.held(number, TERM, 300_000);
        let third = cache.get(b"k", now, 300_000);
        assert_eq!(third.keep, Some(number));
        cache.offer((b"k", number), &of("v"), 300_000);
        // The time counts from the request, less the drift.
        let end = kept_until(0, 0, TERM);
        assert_eq!(kept(&mut cache, now, end - 1), Some("v".into()));
        assert_eq!(kept(&mut cache, now, end), None);
        assert_eq!(cache.get(b"k", now, end).keep, None);
    }

    #[test]
    fn what_was_asked_before_the_hold_came_or_after_it_ended_is_not_kept() {
        let (mut cache, now) = cache();
        let first = hold(&mut cache, 0);
        cache.invalidate(b"k");
        cache.offer((b"k", first), &of("old"), 2000);
        assert_eq!(kept(&mut cache, now, 2000), None, "it was dropped while the get was under way");
        let second = hold(&mut cache, 3000);
        cache.offer((b"k", first), &of("old"), 5000);
        assert_eq!(kept(&mut cache, now, 5000), None, "an earlier hold");
        cache.offer((b"k", second), &of("new"), 3000 + TERM);
        assert_eq!(kept(&mut cache, now, 6000), None, "it came too late");
        cache.offer((b"k", second), &of("new"), 6000);
        assert_eq!(kept(&mut cache, now, 6000), Some("new".into()));
        cache.invalidate(b"k");
        assert_eq!(kept(&mut cache, now, 6000), None);
    }

    #[test]
    fn a_reply_that_takes_longer_than_a_hold_is_kept_if_holds_followed_each_other() {
        let (mut cache, now) = cache();
        let series = hold(&mut cache, 0);
        let half = TERM / 2 + 10_000;
        assert!(!cache.get(b"k", now, TERM / 2 - 10_000).wants);
        assert!(cache.get(b"k", now, half).wants, "a reply is waited for");
        hold(&mut cache, half);
        hold(&mut cache, half * 2);
        let late = TERM + 100_000;
        cache.offer((b"k", series), &of("v"), late);
        let end = kept_until(half * 2, half * 2 + 1000, TERM);
        assert_eq!(kept(&mut cache, now, end - 1), Some("v".into()));
        assert_eq!(kept(&mut cache, now, end), None);
        // After a gap, in which the key may have changed, another series begins.
        let next = hold(&mut cache, end);
        assert_ne!(next, series);
        cache.offer((b"k", series), &of("old"), end + 2000);
        assert_eq!(kept(&mut cache, now, end + 2000), None);
        // And after a hold that was dropped.
        cache.invalidate(b"k");
        let last = hold(&mut cache, end + 3000);
        cache.offer((b"k", next), &of("old"), end + 5000);
        assert_eq!(kept(&mut cache, now, end + 5000), None);
        assert_eq!(cache.get(b"k", now, end + 5000).keep, Some(last));
    }

    #[test]
    fn a_hold_is_renewed_before_it_ends_and_a_refused_one_is_not_asked_for_at_once() {
        let (mut cache, now) = cache();
        let first = hold(&mut cache, 0);
        cache.offer((b"k", first), &of("v"), 2000);
        assert!(!cache.get(b"k", now, 100_000).wants);
        let late = kept_until(0, 0, TERM) - AHEAD_US + 1;
        assert!(cache.get(b"k", now, late).wants);
        hold(&mut cache, late);
        let found = cache.get(b"k", now, late + 2000);
        assert_eq!((found.reply.is_some(), found.keep, found.wants), (true, Some(first), false));
        assert_eq!(
            kept(&mut cache, now, kept_until(0, 0, TERM)),
            None,
            "the reply keeps its own end"
        );
        cache.invalidate(b"k");
        let refused = cache.ask(b"k", late + 2000);
        cache.held(refused, 0, late + 3000);
        assert!(!cache.get(b"k", now, late + 4000).wants);
        assert!(cache.get(b"k", now, late + 3000 + REFUSED_US).wants);
    }

    #[test]
    fn misses_long_values_and_keys_beyond_the_limit_are_not_held() {
        let (mut cache, now) = cache();
        let number = hold(&mut cache, 0);
        cache.offer((b"k", number), &Reply::new(Outcome::NotFound), 2000);
        let long = Reply { value: vec![0; 101].into(), ..Reply::new(Outcome::Found) };
        cache.offer((b"k", number), &long, 2000);
        assert_eq!(kept(&mut cache, now, 2000), None);
        for n in 0..100 {
            let key = format!("k{n}");
            if cache.get(key.as_bytes(), now, 2000).wants {
                cache.ask(key.as_bytes(), 2000);
            }
        }
        assert_eq!(cache.keys.len(), 4);
        cache.resize(HeldLimits { entries: 2, value_bytes_max: 100 });
        assert!(cache.keys.is_empty() && cache.ask(b"k", 0) > 4, "numbers rise");
    }
}
