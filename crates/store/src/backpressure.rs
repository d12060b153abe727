//! Backpressure: how writers are slowed down when conversions and merges lag behind them.
//!
//! | young runs | a write |
//! |---|---|
//! | fewer than `runs_soft` | goes on |
//! | between | sleeps first: 0.1 ms at `runs_soft`, ten times as long each third of the way, 100 ms before `runs_hard` |
//! | `runs_hard`, or `logs_hard` frozen logs | waits until there are fewer, at most `stall_max`, then fails |
//!
//! Young runs that a merge waits for because the last level is large don't count. So a writer slows down before it
//! blocks, and no write waits without a bound. The waits are counted in `stalls`, `stall_us` and `stall_us_max`.

use crate::options::Options;
use crate::version::Version;
use std::time::Duration;

/// What a writer does before its next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Writes.
    Free,
    /// Sleeps for this long, then writes.
    Delay(Duration),
    /// Waits for a conversion or a merge.
    Wait,
}

impl Pressure {
    /// Computes the pressure from the numbers of young runs and frozen logs.
    pub(crate) fn of(version: &Version, options: &Options) -> Self {
        let frozen = version.logs.iter().filter(|it| it.log.is_sealed()).count();
        // A large last level makes a merge wait for more runs: those are no lag.
        let awaited = options.runs_due(version.last_bytes()) - options.runs_merge;
        Self::at(version.young.len().saturating_sub(awaited), frozen, options)
    }

    fn at(runs: usize, frozen: usize, options: &Options) -> Self {
        if runs >= options.runs_hard || frozen >= options.logs_hard {
            return Self::Wait;
        }
        let Some(over) = runs.checked_sub(options.runs_soft) else { return Self::Free };
        let way = over as f64 / (options.runs_hard - options.runs_soft) as f64;
        Self::Delay(Duration::from_micros(100).mul_f64(1000_f64.powf(way)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_to_a_wait() {
        let options = Options { runs_soft: 10, runs_hard: 13, logs_hard: 3, ..Options::default() };
        let ms = |n| Pressure::Delay(Duration::from_millis(n));
        let expected = [
            (9, 0, Pressure::Free),
            (9, 2, Pressure::Free),
            (10, 0, Pressure::Delay(Duration::from_micros(100))),
            (11, 0, ms(1)),
            (12, 2, ms(10)),
            (13, 0, Pressure::Wait),
            (99, 0, Pressure::Wait),
            (0, 3, Pressure::Wait),
        ];
        for (runs, frozen, pressure) in expected {
            let found = Pressure::at(runs, frozen, &options);
            if let (Pressure::Delay(a), Pressure::Delay(b)) = (found, pressure) {
                assert!(a.abs_diff(b) < Duration::from_micros(2), "{runs} runs: {a:?}");
            } else {
                assert_eq!(found, pressure, "{runs} runs, {frozen} logs");
            }
        }
    }
}
