//! MemC3, figures 8a and 8b: a cache in process, {chaining, cuckoo} × {LRU, CLOCK}, against threads.
//!
//! Keys are drawn from zipf(0.99). In the big cache everything fits, and one operation in twenty is a set. In the small
//! one about 15 % of the gets miss, and each miss is followed by a set, as a client would that fills its cache.

use super::f5a::in_turns;
use super::figures::{axis, check, series};
use crate::baseline::engine::{Engine, Key, Kind};
use crate::measure::{Rounds, Spread, Work, threads_for};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_bench::{Rng, Zipf, mix};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Figure 8a.
pub(crate) const BIG: Experiment = Experiment {
    id: "memc3-f8a",
    paper: Paper::MemC3,
    title: "a cache that holds everything, against threads",
    claim: "cuckoo with CLOCK is fastest and scales; both variants with LRU do not scale, because every hit moves an item \
            in a list under one lock",
    shape: "on two threads cuckoo with CLOCK at least 1.5 times each variant with LRU, and not below chaining \
            with CLOCK; its gain from the second thread at least 1.2 times theirs",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: |run| Setting::BIG.run(run),
};

/// Figure 8b.
pub(crate) const SMALL: Experiment = Experiment {
    id: "memc3-f8b",
    paper: Paper::MemC3,
    title: "a cache with 15 % misses, each followed by a set, against threads",
    claim: "with a small cache, whose every miss is followed by a set, all are slower, the one writer bounds them, and \
            cuckoo with CLOCK is still first",
    shape: "10 to 20 % misses; on two threads cuckoo with CLOCK at least 1.15 times each variant with LRU, and at least 0.9 \
            of chaining with CLOCK",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: |run| Setting::SMALL.run(run),
};

/// One of the two caches.
struct Setting {
    title: &'static str,
    /// Items that the cache holds, of a hundred keys.
    percent: u64,
    /// Sets among the operations.
    sets: f64,
    checks: fn(&Measured) -> Vec<Check>,
}

/// Rates by number of threads, and the share of gets that missed.
struct Measured {
    by_threads: [Rounds; 3],
    misses: f64,
}

/// What gets came to, of all threads and rounds.
#[derive(Default)]
struct Gets {
    all: AtomicU64,
    missed: AtomicU64,
}

impl Setting {
    const BIG: Self = Self { title: "Everything fits", percent: 102, sets: 0.05, checks: big };
    const SMALL: Self =
        Self { title: "Misses are followed by sets", percent: 9, sets: 0.0, checks: small };

    fn run(&self, run: &Run<'_>) -> Result<Outcome> {
        let measured = self.measure(run.scale.pick(4_000_000, 50_000_000), run)?;
        let line = |place: usize| {
            let points = THREADS.iter().zip(&measured.by_threads);
            let points =
                points.map(|(&threads, rounds)| (threads as f64, rounds.median(place) / 1e6));
            series(Kind::ALL[place].name(), points)
        };
        Ok(Outcome {
            plots: vec![Plot {
                title: self.title.into(),
                x: axis("threads"),
                y: axis("million operations a second"),
                series: (0..Kind::ALL.len()).map(line).collect(),
            }],
            tables: Vec::new(),
            checks: (self.checks)(&measured),
            reading: reading(&measured),
        })
    }

    fn measure(&self, keys: u64, run: &Run<'_>) -> Result<Measured> {
        let items = u32::try_from(keys * self.percent / 100)?;
        let zipf = Zipf::new(keys, 0.99);
        let gets = Gets::default();
        let mut caches = Vec::new();
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            (run.progress)(0.1 * place as f64, &format!("filling: {}", kind.name()));
            let cache = Engine::new(kind, items);
            // The most popular come last, and stay.
            let filled = u64::from(items).min(keys);
            (0..filled).rev().for_each(|rank| store(&cache, rank));
            caches.push(cache);
        }
        let time = Duration::from_millis(run.scale.pick(120, 1000));
        let mut by_threads = Vec::new();
        for (place, threads) in THREADS.into_iter().enumerate() {
            (run.progress)(0.4 + 0.2 * place as f64, &format!("{threads} threads"));
            let one = |kind: usize, seed: u64| {
                self.drive(&caches[kind], &zipf, threads, (time, seed), &gets).rate()
            };
            by_threads.push(in_turns(Kind::ALL.len(), ROUNDS, run.seed, one)?);
        }
        let by_threads = by_threads.try_into().map_err(|_| anyhow::anyhow!("three of them"))?;
        let misses = gets.missed.load(Relaxed) as f64 / gets.all.load(Relaxed) as f64;
        Ok(Measured { by_threads, misses })
    }

    fn drive(
        &self,
        cache: &Engine,
        zipf: &Zipf,
        threads: usize,
        (time, seed): (Duration, u64),
        gets: &Gets,
    ) -> Work {
        // Drawing a rank takes as long as a get, so they are drawn before.
        let ranks = |thread: usize| {
            let mut rng = Rng::new(mix(seed << 8 | thread as u64));
            (0..DRAWN).map(|_| zipf.rank(&mut rng)).collect::<Vec<_>>()
        };
        let drawn: Vec<_> = (0..threads).map(ranks).collect();
        threads_for(threads, time, |thread, stop| self.one(cache, &drawn[thread], seed, stop, gets))
    }

    fn one(&self, cache: &Engine, ranks: &[u64], seed: u64, stop: &AtomicBool, gets: &Gets) -> u64 {
        let mut rng = Rng::new(mix(seed ^ ranks[0]));
        let (mut value, mut last) = ([0; 4], 0);
        let nothing = std::hint::black_box(0);
        let (mut ops, mut all, mut missed) = (0, 0, 0);
        for chunk in ranks.chunks(64).cycle() {
            if stop.load(Relaxed) {
                break;
            }
            for rank in chunk {
                if self.sets > 0.0 && rng.unit() < self.sets {
                    store(cache, *rank);
                    ops += 1;
                    continue;
                }
                all += 1;
                ops += 1;
                if cache.get(key(rank + (last & nothing)), &mut value) {
                    last = value[0];
                } else {
                    missed += 1;
                    ops += 1;
                    store(cache, *rank);
                }
            }
        }
        gets.all.fetch_add(all, Relaxed);
        gets.missed.fetch_add(missed, Relaxed);
        ops
    }
}

fn key(rank: u64) -> Key {
    [mix(rank), rank + 1]
}

fn store(cache: &Engine, rank: u64) {
    cache.set(key(rank), [rank; 4]);
}

/// A cache's rate with two threads, to its rate with one.
fn gain(measured: &Measured, kind: usize) -> f64 {
    let [two, one] = [1, 0].map(|place| &measured.by_threads[place].samples[kind]);
    Spread::of(&two.iter().zip(one).map(|(two, one)| two / one).collect::<Vec<_>>()).median
}

fn big(measured: &Measured) -> Vec<Check> {
    let mut all = versus_lru(measured, 1.5);
    for kind in [CUCKOO_LRU, CHAIN_LRU] {
        all.push(check(
            format!("what {} gains from a second thread, to {}", name(MEMC3), name(kind)),
            gain(measured, MEMC3) / gain(measured, kind),
            Bound::AtLeast(1.2),
            "2 at most; less where a neighbour has the second processor",
        ));
    }
    all.push(versus_chain(measured, 0.95));
    all
}

fn small(measured: &Measured) -> Vec<Check> {
    let mut all = versus_lru(measured, 1.15);
    all.push(versus_chain(measured, 0.9));
    all.push(check(
        "share of gets that miss",
        measured.misses,
        Bound::Between(0.1, 0.2),
        "the setting: about 15 %",
    ));
    all
}

fn versus_lru(measured: &Measured, least: f64) -> Vec<Check> {
    let one = |kind: usize| {
        check(
            format!("2 threads: {}, to {}", name(MEMC3), name(kind)),
            measured.by_threads[1].ratio(MEMC3, kind).median,
            Bound::AtLeast(least),
            "a hit under LRU takes a lock and writes four lines of other items",
        )
    };
    vec![one(CUCKOO_LRU), one(CHAIN_LRU)]
}

fn versus_chain(measured: &Measured, least: f64) -> Check {
    check(
        format!("2 threads: {}, to {}", name(MEMC3), name(CHAIN_CLOCK)),
        measured.by_threads[1].ratio(MEMC3, CHAIN_CLOCK).median,
        Bound::AtLeast(least),
        "with two threads bucket locks are hardly ever contended: what is left is the lock's line",
    )
}

fn name(kind: usize) -> &'static str {
    Kind::ALL[kind].name()
}

fn reading(measured: &Measured) -> String {
    let rate = |kind: usize| measured.by_threads[1].median(kind) / 1e6;
    format!(
        "On two threads: {} {:.1} million operations a second, {} {:.1}, {} {:.1}, {} {:.1}. The second thread makes \
         them {:.2}, {:.2}, {:.2} and {:.2} times as fast. {:.1} % of the gets missed.",
        name(MEMC3),
        rate(MEMC3),
        name(CUCKOO_LRU),
        rate(CUCKOO_LRU),
        name(CHAIN_CLOCK),
        rate(CHAIN_CLOCK),
        name(CHAIN_LRU),
        rate(CHAIN_LRU),
        gain(measured, MEMC3),
        gain(measured, CUCKOO_LRU),
        gain(measured, CHAIN_CLOCK),
        gain(measured, CHAIN_LRU),
        measured.misses * 100.0,
    )
}

/// Places in [`Kind::ALL`].
const MEMC3: usize = 0;
const CUCKOO_LRU: usize = 1;
const CHAIN_CLOCK: usize = 2;
const CHAIN_LRU: usize = 3;
const THREADS: [usize; 3] = [1, 2, 4];
const ROUNDS: usize = 5;
/// Ranks drawn beforehand, a thread; repeated when the run outlasts them.
const DRAWN: usize = 1 << 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_is_driven_in_both_settings() {
        for (setting, misses) in [(Setting::BIG, 0.0..0.001), (Setting::SMALL, 0.05..0.6)] {
            let zipf = Zipf::new(2000, 0.99);
            for kind in Kind::ALL {
                let gets = Gets::default();
                let cache = Engine::new(kind, u32::try_from(2000 * setting.percent / 100).unwrap());
                (0..2000).rev().for_each(|rank| store(&cache, rank));
                let work = setting.drive(&cache, &zipf, 2, (Duration::from_millis(5), 1), &gets);
                let [missed, all] = [&gets.missed, &gets.all].map(|n| n.load(Relaxed) as f64);
                assert!(work.ops > 0 && misses.contains(&(missed / all)), "{}", kind.name());
            }
        }
    }
}
