//! The limit of lines per event: a client that causes one with each request must not drown out the other events.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The most lines that one event gets per second.
pub(crate) const LINES_A_SECOND: u64 = 100;

/// The lines of each event in its current second, by event. There are as many entries as events in the source.
pub(crate) struct Rates<K>(HashMap<K, Rate>);

struct Rate {
    since: Instant,
    lines: u64,
    suppressed: u64,
}

impl<K> Default for Rates<K> {
    fn default() -> Rates<K> {
        Rates(HashMap::new())
    }
}

impl<K: Hash + Eq> Rates<K> {
    /// Whether an event may have a line now. Returns how many of its lines were suppressed before.
    pub(crate) fn pass(&mut self, event: K, now: Instant) -> Option<u64> {
        let rate = self.0.entry(event).or_insert(Rate { since: now, lines: 0, suppressed: 0 });
        if now.duration_since(rate.since) >= Duration::from_secs(1) {
            rate.since = now;
            rate.lines = 0;
        }
        if rate.lines == LINES_A_SECOND {
            rate.suppressed += 1;
            return None;
        }
        rate.lines += 1;
        Some(std::mem::take(&mut rate.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_lines_each_second_and_the_next_one_tells_what_was_not_said() {
        let mut rates = Rates::default();
        let start = Instant::now();
        let passed = (0..150).filter(|_| rates.pass("first", start).is_some()).count();
        assert_eq!(passed as u64, LINES_A_SECOND);
        assert_eq!(rates.pass("second", start), Some(0), "others have their own");
        let later = start + Duration::from_secs(1);
        assert_eq!(rates.pass("first", later), Some(50));
        assert_eq!(rates.pass("first", later), Some(0));
    }
}
