//! A zipf workload over more keys than a simulation can hold: popular keys are counted, the others sampled.
//!
//! The [`HEAD`] most popular ranks are never evicted from a cache that is worth simulating. So they are counted as
//! hits, and take as many places of the cache. Of the others one of `every` is simulated, in a cache with one of
//! `every` places: spatial sampling (Waldspurger et al., ATC 2017). The sampling is stratified: keys of similar
//! popularity represent each other, so no popular key is in the sample, or missing from it, by luck.
//!
//! # Costs
//! 4 bytes per simulated request, of which there is one for `every` requests of the workload.

use guira_bench::Rng;
use guira_policy::Access;

use super::gray::GrayZipf;
use crate::policies::Policy;

/// The sampled requests of a workload, and the order in which its keys were loaded.
pub(crate) struct Sampled {
    every: u64,
    /// Objects, with [`IS_SET`], or [`POPULAR`].
    requests: Vec<u32>,
    /// Every object once.
    load: Vec<u32>,
}

/// What the workload is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Keys, all of which are loaded first.
    pub(crate) keys: u64,
    /// Exponent of the popularity, drawn as YCSB does.
    pub(crate) theta: f64,
    /// Requests after the load.
    pub(crate) requests: u64,
    /// Share of them that write.
    pub(crate) sets: f64,
    /// One key of so many is simulated.
    pub(crate) every: u64,
}

impl Sampled {
    /// Draws the requests.
    pub(crate) fn new(workload: Workload, seed: u64) -> Self {
        let Workload { keys, theta, requests, sets, every } = workload;
        let zipf = GrayZipf::new(keys, theta);
        let mut rng = Rng::new(seed);
        let mut draw = |_| {
            let rank = zipf.rank(&mut rng);
            let object = rank.checked_sub(HEAD).map_or(POPULAR, |rank| object(rank / every));
            object | if rng.unit() < sets { IS_SET } else { 0 }
        };
        let requests = (0..requests / every).map(&mut draw).collect();
        let mut load: Vec<u32> = (0..object((keys - HEAD).div_ceil(every))).collect();
        shuffle(&mut load, &mut rng);
        Self { every, requests, load }
    }

    /// The miss ratio of gets in a cache of `items` under a policy, over the second half of the requests.
    pub(crate) fn miss_ratio(
        &self,
        items: u64,
        policy: impl FnOnce(u64) -> Box<dyn Policy>,
    ) -> f64 {
        let capacity = items.saturating_sub(HEAD) / self.every;
        let mut policy = policy(capacity.max(1));
        // Objects that are loaded long before the end are evicted again by the later ones.
        let kept = usize::try_from(capacity.saturating_mul(4)).unwrap_or(usize::MAX);
        for &object in &self.load[self.load.len().saturating_sub(kept)..] {
            policy.insert(&Access::of(u64::from(object)));
        }
        let (mut gets, mut misses) = (0u64, 0u64);
        for (place, &request) in self.requests.iter().enumerate() {
            let object = request & !IS_SET;
            let is_hit = object == POPULAR || policy.access(&Access::of(u64::from(object)));
            if request & IS_SET == 0 && place >= self.requests.len() / 2 {
                gets += 1;
                misses += u64::from(!is_hit);
            }
        }
        misses as f64 / gets.max(1) as f64
    }
}

/// Puts them into random order (Fisher and Yates).
pub(crate) fn shuffle(objects: &mut [u32], rng: &mut Rng) {
    for last in (1..objects.len()).rev() {
        let other = rng.below(last as u64 + 1);
        objects.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

fn object(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(POPULAR).min(POPULAR)
}

/// Ranks that are always held: each is asked for dozens of times while a cache of half a million items turns over.
pub(crate) const HEAD: u64 = 1000;

const IS_SET: u32 = 1 << 31;

/// Stands for every rank below [`HEAD`].
const POPULAR: u32 = IS_SET - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::PolicyKind;

    #[test]
    fn a_sample_has_the_miss_ratio_of_the_whole() {
        let ratio = |every| {
            let workload =
                Workload { keys: 200_000, theta: 0.99, requests: 600_000, sets: 0.05, every };
            Sampled::new(workload, 3).miss_ratio(20_000, |items| PolicyKind::Lru.cache(items))
        };
        let (whole, sample) = (ratio(1), ratio(4));
        assert!((whole - sample).abs() < 0.008, "{whole} {sample}");
    }
}
