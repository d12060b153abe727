//! How much of a lane may be under way, judged by how long it takes.
//!
//! A request of a calm client waits behind what others have under way at the same server. How much a server answers in a
//! millisecond isn't known: it depends on the machine and on what else runs there. So the time is measured, and a lane that
//! takes longer than it has to becomes narrower.
//!
//! # Invariants
//! 1. The measured time is the mean of all bytes that came back: what was under way, summed over time, divided by them
//!    (Little's law). No share of the lane needs a time of its own.
//! 2. The least time of the last seconds is what servers and network take. It is measured again with the narrowest lane, so
//!    that a time which is long because of the lane's own width never counts as the least one.
//!
//! # Costs
//! Two readings of the clock for a share of the lane.

use std::time::Duration;

use tokio::time::Instant;

/// The width of a lane.
#[derive(Debug)]
pub(crate) struct Tempo {
    /// Bytes that may be under way.
    width: usize,
    narrowest: usize,
    widest: usize,
    /// The last reading of the clock.
    at: Instant,
    /// When the measurement under way began.
    since: Instant,
    /// Bytes under way, times nanoseconds, since then.
    area: u128,
    /// Bytes that came back since then.
    given: usize,
    least: Duration,
    /// When the least time was forgotten.
    forgotten: Instant,
}

impl Tempo {
    /// A lane that is between `narrowest` and `widest` bytes wide, and narrow at first.
    pub(crate) fn new(narrowest: usize, widest: usize, now: Instant) -> Self {
        Self {
            width: narrowest,
            narrowest,
            widest,
            at: now,
            since: now,
            area: 0,
            given: 0,
            least: Duration::MAX,
            forgotten: now,
        }
    }

    /// Bytes that may be under way.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Records that this many bytes were under way until now.
    pub(crate) fn passed(&mut self, under_way: usize, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.area += under_way as u128 * passed.as_nanos();
        self.at = now;
    }

    /// Records that bytes came back now; `is_short`: clients wait for more.
    pub(crate) fn given(&mut self, bytes: usize, is_short: bool) {
        self.given += bytes;
        if self.at.saturating_duration_since(self.since) >= INTERVAL && self.given > 0 {
            self.judge(is_short);
        }
    }

    #[cold]
    fn judge(&mut self, is_short: bool) {
        let took = self.area / self.given as u128;
        let took = Duration::from_nanos(u64::try_from(took).unwrap_or(u64::MAX));
        (self.since, self.area, self.given) = (self.at, 0, 0);
        if self.at.saturating_duration_since(self.forgotten) >= LEAST_FOR {
            (self.width, self.least, self.forgotten) = (self.narrowest, Duration::MAX, self.at);
            return;
        }
        self.least = self.least.min(took);
        let may_take = self.least.saturating_add(SLACK).saturating_add(self.least / 8);
        if took > may_take {
            self.width = (self.width / 4 * 3).max(self.narrowest);
        } else if is_short {
            self.width = (self.width + self.width / 8).min(self.widest);
        }
    }
}

/// The length of a measurement.
const INTERVAL: Duration = Duration::from_millis(4);
/// What is under way may take this much longer than it has to.
const SLACK: Duration = Duration::from_millis(2);
/// How long the least time counts.
const LEAST_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: usize = 1 << 10;

    /// Has a full lane for `time`, of a server that takes `least` and answers so many bytes in a millisecond.
    fn play(
        tempo: &mut Tempo,
        now: &mut Instant,
        time: Duration,
        (least, bytes_ms): (usize, usize),
    ) {
        let end = *now + time;
        while *now < end {
            let queued = tempo.width() / bytes_ms;
            *now += Duration::from_millis(1);
            tempo.passed(tempo.width(), *now);
            // By Little's law.
            let took = queued.max(least).max(1);
            tempo.given(tempo.width() / took, true);
        }
    }

    #[test]
    fn a_lane_is_as_wide_as_its_servers_answer_in_few_milliseconds() {
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        // A fast server, a slow one, and one that is far away.
        for (server, widths) in [
            ((1, 100 * NARROW), 64 * NARROW..=64 * NARROW),
            ((1, NARROW), NARROW..=5 * NARROW),
            ((40, 100 * NARROW), 64 * NARROW..=64 * NARROW),
        ] {
            let mut tempo = Tempo::new(NARROW, 64 * NARROW, now);
            play(&mut tempo, &mut now, second, server);
            assert!(widths.contains(&tempo.width()), "{server:?}: {}", tempo.width());
        }
    }

    #[test]
    fn a_lane_becomes_narrow_when_its_server_gets_slow_and_the_least_time_is_measured_anew() {
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        let mut tempo = Tempo::new(NARROW, 64 * NARROW, now);
        play(&mut tempo, &mut now, second, (1, 100 * NARROW));
        play(&mut tempo, &mut now, second, (1, 2 * NARROW));
        assert!(tempo.width() <= 10 * NARROW, "{}", tempo.width());
        // From now on it is far away.
        play(&mut tempo, &mut now, second, (40, 100 * NARROW));
        assert!(tempo.width() < 64 * NARROW);
        play(&mut tempo, &mut now, 12 * second, (40, 100 * NARROW));
        assert_eq!(tempo.width(), 64 * NARROW);
    }

    #[test]
    fn a_lane_for_which_nobody_waits_stays_as_it_is() {
        let mut now = Instant::now();
        let mut tempo = Tempo::new(NARROW, 64 * NARROW, now);
        for _ in 0..100 {
            now += Duration::from_millis(5);
            tempo.passed(100, now);
            tempo.given(100, false);
        }
        assert_eq!(tempo.width(), NARROW);
    }
}
