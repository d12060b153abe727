//! Balls into bins: how full the fullest bin is.

use super::cluster::RATE;
use guira_bench::{Rng, mix};

/// Returns the bins of one trial: the number of balls in each.
pub(crate) fn thrown(servers: usize, keys: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(mix(seed));
    let mut bins = vec![0; servers];
    for _ in 0..keys {
        let bin = usize::try_from(rng.below(servers as u64)).expect("below a usize");
        bins[bin] += 1;
    }
    bins
}

/// The fullest bins of several trials, in ascending order.
pub(crate) struct Fullest(Vec<f64>);

impl Fullest {
    /// Runs `trials` trials with `keys` balls.
    pub(crate) fn of(servers: usize, keys: usize, trials: u64, seed: u64) -> Fullest {
        let trial = |n| thrown(servers, keys, seed ^ mix(n + 1)).into_iter().max().unwrap_or(0);
        let mut fullest: Vec<f64> = (0..trials).map(|n| f64::from(trial(n))).collect();
        fullest.sort_unstable_by(f64::total_cmp);
        Fullest(fullest)
    }

    /// The mean over the trials.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the mean of a function of the fullest bin.
    pub(crate) fn mean_of(&self, f: impl Fn(f64) -> f64) -> f64 {
        self.0.iter().copied().map(f).sum::<f64>() / self.0.len() as f64
    }

    /// Returns the value that 99 of 100 trials don't exceed.
    pub(crate) fn p99(&self) -> f64 {
        self.0[(self.0.len() * 99).div_ceil(100) - 1]
    }

    /// Returns the maximum of all trials.
    pub(crate) fn most(&self) -> f64 {
        *self.0.last().expect("there were trials")
    }
}

/// Returns the queries per second that the servers and the cache take together, in thousands, as the mean of the
/// trials. Each of `keys` keys is asked equally often, until the fullest server is at its limit.
pub(crate) fn throughput(fullest: &Fullest, keys: usize) -> f64 {
    fullest.mean_of(|balls| RATE * keys as f64 / balls)
}
