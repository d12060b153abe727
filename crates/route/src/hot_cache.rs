//! A small cache of whole replies in front of servers: requests for the few most popular keys never reach them.
//!
//! ```text
//! get ─▶ detector: is the key chosen? ─▶ a fresh entry, its key not written since ─▶ reply
//!                                     └▶ servers ─▶ reply, kept if no write came in between
//! write ─▶ stripe: begun ─▶ servers ─▶ stripe: ended
//! ```
//! Fan's thesis (CMU 2013), chapter 2: this cache should hold the k·n·ln n + 1 most popular keys. Then no choice of keys
//! loads one of n servers much more than the others ([`crate::plan`] has the figures).
//!
//! # Invariants
//! 1. An entry is used only if its stripe's word is unchanged since its get was sent, and no write was under way then.
//!    So a get that begins after a write through this process was answered never sees an older value.
//! 2. At most `entries` keys are held, none for longer than `fresh`, none with a value above `value_bytes_max`.
//!
//! [`HeldCache`] is for a cluster of replicated stores, whose nodes say what was written.
//!
//! # Bad at
//! Writes that bypass this process, such as another router's, and items that expire. They are noticed when the entry is
//! no longer fresh, after a second by default.

mod held;
mod chosen;
mod detector;
mod sketch;
mod stripes;

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use guira_client::Reply;
use tokio::time::Instant;

use chosen::Chosen;
pub(crate) use held::{HeldCache, HeldFound, HeldLimits, clock};
pub(crate) use stripes::{Stamp, Stripes, Write};

/// The cache of a proxy thread.
pub(crate) struct HotCache {
    chosen: Chosen,
    entries: HashMap<u64, Entry>,
    limits: Limits,
}

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The number of keys held.
    pub(crate) entries: usize,
    /// How long a reply may be used.
    pub(crate) fresh: Duration,
    /// Values with more bytes are not held.
    pub(crate) value_bytes_max: usize,
}

struct Entry {
    key: Bytes,
    reply: Reply,
    stamp: Stamp,
    ends: Instant,
}

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum Found {
    /// The reply that is held.
    Reply(Reply),
    /// The servers must be asked. If there is a token, the key is worth keeping, and the reply must be offered with it.
    Ask(Option<Asked>),
}

/// The token of a get under way to the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    hash: u64,
    stamp: Stamp,
}

impl HotCache {
    pub(crate) fn new(limits: Limits) -> HotCache {
        HotCache { chosen: Chosen::new(limits.entries), entries: HashMap::new(), limits }
    }

    /// Counts a get, and looks up its reply.
    pub(crate) fn get(&mut self, key: &[u8], stripes: &Stripes, now: Instant) -> Found {
        self.turn_window(now);
        let hash = self.chosen.hash(key);
        if !self.chosen.count(hash) {
            return Found::Ask(None);
        }
        let stamp = stripes.stamp(key);
        match self.entries.get(&hash) {
            Some(entry) if entry.key == key && now < entry.ends && stamp == Some(entry.stamp) => {
                Found::Reply(entry.reply.clone())
            }
            _ => Found::Ask(stamp.map(|stamp| Asked { hash, stamp })),
        }
    }

    /// Keeps a reply, unless its key was written since the get was sent.
    pub(crate) fn offer(
        &mut self,
        (key, asked): (&Bytes, Asked),
        reply: &Reply,
        stripes: &Stripes,
        now: Instant,
    ) {
        let Asked { hash, stamp } = asked;
        let is_kept = reply.value.len() <= self.limits.value_bytes_max
            && stripes.stamp(key) == Some(stamp)
            && (self.entries.len() < self.limits.entries || self.entries.contains_key(&hash));
        if is_kept {
            // Copy: shared slices would keep read buffers alive.
            let value = Bytes::copy_from_slice(&reply.value);
            let (key, ends) = (Bytes::copy_from_slice(key), now + self.limits.fresh);
            let reply = Reply { value, ..reply.clone() };
            self.entries.insert(hash, Entry { key, reply, stamp, ends });
        }
    }

    fn turn_window(&mut self, now: Instant) {
        let Self { chosen, entries, .. } = self;
        if chosen.turn_window(now, |hash| drop(entries.remove(&hash))) {
            entries.retain(|_, entry| now < entry.ends);
        }
    }
}

impl std::fmt::Debug for HotCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HotCache").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_client::Outcome;

    fn cache(entries: usize) -> HotCache {
        let fresh = Duration::from_secs(1);
        HotCache::new(Limits { entries, fresh, value_bytes_max: 100 })
    }

    fn found(value: &'static str) -> Reply {
        Reply { value: value.into(), ..Reply::new(Outcome::Found) }
    }

    fn asked(found: Found) -> Option<Asked> {
        match found {
            Found::Ask(asked) => asked,
            Found::Reply(reply) => panic!("{reply:?} was kept"),
        }
    }

    fn kept(cache: &mut HotCache, stripes: &Stripes, key: &str, now: Instant) -> Option<Bytes> {
        match cache.get(key.as_bytes(), stripes, now) {
            Found::Reply(reply) => Some(reply.value),
            Found::Ask(_) => None,
        }
    }

    #[test]
    fn a_reply_is_kept_until_it_is_no_longer_fresh() {
        let (mut cache, stripes, now) = (cache(2), Stripes::new(), Instant::now());
        let key = Bytes::from("k");
        let first = asked(cache.get(&key, &stripes, now)).unwrap();
        cache.offer((&key, first), &found("v"), &stripes, now);
        assert_eq!(kept(&mut cache, &stripes, "k", now), Some("v".into()));
        assert_eq!(kept(&mut cache, &stripes, "other", now), None);
        assert_eq!(kept(&mut cache, &stripes, "k", now + Duration::from_secs(1)), None);
    }

    #[test]
    fn no_get_after_a_write_sees_what_was_there_before() {
        let (mut cache, stripes, now) = (cache(2), Stripes::new(), Instant::now());
        let key = Bytes::from("k");
        let first = asked(cache.get(&key, &stripes, now)).unwrap();
        cache.offer((&key, first), &found("old"), &stripes, now);
        let write = stripes.write(&key);
        assert!(asked(cache.get(&key, &stripes, now)).is_none(), "a write is under way");
        drop(write);
        let second = asked(cache.get(&key, &stripes, now)).unwrap();
        // A get under way during a write may see either value.
        drop(stripes.write(&key));
        cache.offer((&key, second), &found("old"), &stripes, now);
        assert_eq!(kept(&mut cache, &stripes, "k", now), None);
        let third = asked(cache.get(&key, &stripes, now)).unwrap();
        cache.offer((&key, third), &found("new"), &stripes, now);
        assert_eq!(kept(&mut cache, &stripes, "k", now), Some("new".into()));
        stripes.write_all();
        assert_eq!(kept(&mut cache, &stripes, "k", now), None);
    }

    #[test]
    fn what_is_held_is_bounded_in_number_and_size() {
        let (mut cache, stripes, now) = (cache(8), Stripes::new(), Instant::now());
        for n in 0..1000 {
            let key = Bytes::from(format!("k{n}"));
            if let Some(asked) = asked(cache.get(&key, &stripes, now)) {
                cache.offer((&key, asked), &found("v"), &stripes, now);
            }
        }
        assert_eq!(cache.entries.len(), 8);
        let long = Reply { value: vec![0; 101].into(), ..Reply::new(Outcome::Found) };
        let key = Bytes::from("k1");
        let again = now + Duration::from_secs(2);
        let asked = asked(cache.get(&key, &stripes, again)).unwrap();
        cache.offer((&key, asked), &long, &stripes, again);
        assert_eq!(kept(&mut cache, &stripes, "k1", again), None);
    }
}
