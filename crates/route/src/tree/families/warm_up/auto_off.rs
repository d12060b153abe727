//! Decides when a cold cluster is warm: it has nearly all keys that either cluster has, for several minutes in a row.
//!
//! The warm cluster is asked only after a miss in the cold one. So the measure is the cold cluster's share of all hits.
//! When it is reached, the warm cluster isn't asked any more, until the configuration is read again. Each proxy thread
//! judges by its own requests.

use std::cell::Cell;

use crate::settings::{Clock, LogSink};
use crate::tree::families::{Fields, Json, Result, SHARE, Shape, Takes, field};

/// Measures the share of hits per minute.
#[derive(Debug)]
pub(super) struct AutoOff {
    /// The minimum share of hits in the cold cluster.
    share: f64,
    /// The number of consecutive minutes for which the share must be reached.
    minutes: u32,
    clock: Clock,
    log: LogSink,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The current minute, counted since 1970.
    minute: i64,
    /// Hits in this minute.
    in_cold: u32,
    in_warm: u32,
    good_minutes: u32,
    is_off: bool,
}

/// `auto_off`
pub(super) static SHAPE: Shape = Shape {
    name: "auto_off",
    fields: &[&[
        field("share", SHARE, "of what is found, found in the cold one (0.95)"),
        field("minutes", Takes::Whole(1, 100_000), "so many in a row (5)"),
    ]],
};

impl AutoOff {
    pub(super) fn read(json: &Json, clock: Clock, log: LogSink) -> Result<Self> {
        let fields = Fields::new(json, &SHAPE);
        let share = fields.number("share")?.unwrap_or(0.95);
        if !(0.0..=1.0).contains(&share) {
            return Err(fields.error(format!("share is {share}, expected 0 to 1")));
        }
        let minutes = fields.integer("minutes")?.unwrap_or(5);
        let state = State { minute: clock.unix_s() / 60, ..State::default() };
        Ok(Self { share, minutes, clock, log, state: Cell::new(state) })
    }

    pub(super) fn is_off(&self) -> bool {
        self.state.get().is_off
    }

    /// Records a hit, and the cluster that gave it.
    pub(super) fn found(&self, is_in_cold: bool) {
        let minute = self.clock.unix_s() / 60;
        let mut state = self.state.get();
        if minute != state.minute {
            state = self.after(state, minute);
        }
        let count = if is_in_cold { &mut state.in_cold } else { &mut state.in_warm };
        *count = count.saturating_add(1);
        self.state.set(state);
    }

    /// The state at the beginning of a minute. A past minute with few hits changes nothing.
    fn after(&self, past: State, minute: i64) -> State {
        let (in_cold, all) =
            (f64::from(past.in_cold), f64::from(past.in_cold) + f64::from(past.in_warm));
        let good_minutes = match all {
            few if few < FOUND_MIN => past.good_minutes,
            _ if in_cold >= self.share * all => past.good_minutes + 1,
            _ => 0,
        };
        let is_off = past.is_off || good_minutes >= self.minutes;
        if is_off && !past.is_off {
            self.log.write(&format!(
                "WarmUpRoute: the cold cluster found {:.1} % in the last minute; the warm one isn't asked any more",
                100.0 * in_cold / all.max(1.0)
            ));
        }
        State { minute, good_minutes, is_off, ..State::default() }
    }
}

/// With fewer hits per minute, the share is mostly chance.
const FOUND_MIN: f64 = 100.0;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_warm_cluster_is_left_alone_after_good_minutes_in_a_row() {
        static MINUTE: AtomicU64 = AtomicU64::new(0);
        let clock =
            Clock::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(60 * MINUTE.load(Relaxed)));
        let json = guira_config::parse(r#"{"share": 0.9, "minutes": 2}"#).unwrap();
        let auto_off = AutoOff::read(&json, clock, LogSink::default()).unwrap();
        // Hits in the cold and the warm cluster; then whether it is off a minute later.
        for (in_cold, in_warm, is_off) in [
            (95, 5, false),
            (80, 20, false),
            (95, 5, false),
            (1, 10, false),
            (100, 0, true),
            (0, 100, true),
        ] {
            (0..in_cold).for_each(|_| auto_off.found(true));
            (0..in_warm).for_each(|_| auto_off.found(false));
            MINUTE.fetch_add(1, Relaxed);
            auto_off.found(true);
            assert_eq!(auto_off.is_off(), is_off, "{in_cold} {in_warm}");
        }
    }
}
