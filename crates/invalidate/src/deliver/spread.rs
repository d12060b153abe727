//! A flush that goes to one server after the other, over some time (`flush_over`): so that no two begin to fill at once.
//!
//! # Invariants
//! 1. Each server that the router had when it began is flushed after that, or the router has it no more.
//! 2. One that fails holds up no other.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use super::flush::pause;
use super::link::RouterLink;

/// Servers that are still to be flushed.
#[derive(Debug)]
pub(super) struct Spread {
    /// With when each is due, the last one first.
    left: Vec<(Instant, String)>,
    /// How often servers failed since one was flushed.
    failures: u32,
    /// Those of `left` that failed.
    failing: BTreeSet<String>,
}

impl Spread {
    pub(super) fn new(servers: Vec<String>, now: Instant, over: Duration) -> Self {
        let step = over / u32::try_from(servers.len()).unwrap_or(u32::MAX).max(1);
        let mut due = now;
        let mut left: Vec<(Instant, String)> = Vec::with_capacity(servers.len());
        for server in servers {
            left.push((due, server));
            due += step;
        }
        left.reverse();
        Self { left, failures: 0, failing: BTreeSet::new() }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.left.last().is_some_and(|(due, _)| *due <= now)
    }

    /// The server whose turn it is; `None`: all are flushed.
    pub(super) fn next(&self) -> Option<&str> {
        self.left.last().map(|(_, server)| &**server)
    }

    /// Flushes the server whose turn it is. `None`: it was flushed, or is no more; else what the router answers.
    pub(super) fn flush(&self, link: &mut RouterLink) -> io::Result<Option<String>> {
        let Some(server) = self.next() else { return Ok(None) };
        let Some(words) = link.flush_one(server)? else { return Ok(None) };
        let is_there = link.servers()?.is_none_or(|servers| servers.iter().any(|it| it == server));
        Ok(is_there.then_some(words))
    }

    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// How many servers failed, and are tried again.
    pub(super) fn failing(&self) -> usize {
        self.failing.len()
    }

    /// How long it is until the next turn.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.left.last().map_or(Duration::ZERO, |(due, _)| due.saturating_duration_since(now))
    }

    /// It was flushed, or is no more.
    pub(super) fn note_done(&mut self) {
        if let Some((_, server)) = self.left.pop() {
            self.failing.remove(&server);
        }
        self.failures = 0;
    }

    /// It wasn't flushed: it is tried again later. True: it is the first that failed.
    pub(super) fn note_failed(&mut self, now: Instant) -> bool {
        if let Some((_, server)) = self.left.pop() {
            let due = now + pause(self.failures);
            let at = self.left.partition_point(|(other, _)| *other > due);
            self.failing.insert(server.clone());
            self.left.insert(at, (due, server));
        }
        self.failures += 1;
        self.failures == 1
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a time to begin with")]
mod tests {
    use super::*;

    #[test]
    fn servers_have_their_turns_over_the_time_and_one_that_fails_holds_up_none() {
        let begin = Instant::now();
        let servers = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let mut spread = Spread::new(servers, begin, Duration::from_secs(40));
        let (mut flushed, mut failed) = (Vec::new(), 0);
        for second in 0..200 {
            let now = begin + Duration::from_secs(second);
            while spread.is_due(now) {
                let server = spread.next().unwrap().to_owned();
                // It is away from its turn on, for half a minute.
                if server == "b" && second < 40 {
                    let is_first = spread.note_failed(now);
                    assert!(is_first || failed > 0, "the first failure is told");
                    failed += 1;
                    assert_eq!(spread.failing(), 1);
                    continue;
                }
                spread.note_done();
                flushed.push((server, second));
            }
        }
        let turns: Vec<(&str, u64)> = flushed.iter().map(|(it, at)| (&**it, *at)).collect();
        assert_eq!(turns[..3], [("a", 0), ("c", 20), ("d", 30)]);
        assert!(turns[3].0 == "b" && turns[3].1 >= 40, "{turns:?}");
        assert!((5..20).contains(&failed), "{failed}");
        assert_eq!((spread.next(), spread.left(), spread.failing()), (None, 0, 0));
    }
}
