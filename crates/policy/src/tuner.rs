//! The tuner: miniature caches that find out which [`Tuning`] has the fewest misses, while it matters.
//!
//! Waldspurger et al., "Cache modeling and optimization using miniature simulations", ATC 2017: a
//! cache of `R` times the capacity that sees the requests for a share `R` of the keys, always the
//! same keys, has the miss ratio of the whole. One such miniature runs for each candidate. When enough
//! requests were seen, the candidate with the fewest misses is chosen, if it is clearly better than
//! the one in force; older counts fade.
//!
//! # Costs
//! Nine miniatures of up to 300 objects, some 50 bytes an object: 140 KB. A sampled request: nine
//! accesses in processor caches, about 150 ns; of a cache of a million objects three requests in ten
//! thousand are sampled. Bad at: reacting to less than three thousand sampled requests, except at the start.

use crate::miniature::Miniature;
use crate::s3clock::Tuning;
use crate::{Access, mix};

/// Chooses the parameters of one cache. The caller feeds it those requests whose keys
/// [`Tuner::samples`], by hash or id: any number that stands for the key.
pub struct Tuner {
    candidates: Vec<Candidate>,
    chosen: usize,
    /// Keys whose mixed bits are below this are sampled.
    threshold: u32,
    /// Objects of a miniature.
    objects: usize,
    gets: usize,
    /// Gets from one choice to the next.
    window: usize,
    switches: u64,
}

/// Parameters that may be chosen, and how a cache fares with them.
struct Candidate {
    cache: Miniature,
    misses: f64,
}

impl Tuner {
    /// A tuner for a cache that holds about `objects` objects of the capacity `capacity` together.
    #[must_use]
    pub fn new(objects: usize, capacity: u64) -> Tuner {
        let threshold = threshold(objects);
        let share = f64::from(threshold) / f64::from(SCALE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let share_of_it = ((capacity as f64 * share).round() as u64).max(1);
        let candidate =
            |&tuning| Candidate { cache: Miniature::new(tuning, share_of_it), misses: 0.0 };
        let objects = objects.clamp(1, OBJECTS_MAX);
        Tuner {
            candidates: CANDIDATES.iter().map(candidate).collect(),
            chosen: 0,
            threshold,
            objects,
            gets: 0,
            window: objects,
            switches: 0,
        }
    }

    /// The parameters to use now.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        CANDIDATES[self.chosen]
    }

    /// How often the choice changed.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Whether requests for the key are of interest.
    #[must_use]
    pub fn samples(&self, key: u64) -> bool {
        Self::is_sampled(mix(key), self.threshold)
    }

    /// As [`Tuner::samples`] for a well-mixed hash, by threads that know only the tuner's
    /// [`Tuner::threshold`]. They must all tell a key by the same hash.
    #[inline]
    #[must_use]
    pub fn is_sampled(hash: u64, threshold: u32) -> bool {
        hash >> UNUSED_BITS & u64::from(SCALE - 1) < u64::from(threshold)
    }

    /// The share of the keys that is sampled, in 2^24ths.
    #[must_use]
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The cache holds about so many objects now: samples accordingly.
    pub fn resize(&mut self, objects: usize) {
        self.threshold = threshold(objects);
    }

    /// A get, and whether it hit. Who misses in the cache will store the object, or knows why not;
    /// but after a hit there no store follows, so the miniatures that missed store it now.
    pub fn get(&mut self, request: &Access, hit: bool) {
        for candidate in &mut self.candidates {
            if !candidate.cache.get(request) {
                candidate.misses += 1.0;
                if hit {
                    candidate.cache.insert(request);
                }
            }
        }
        self.gets += 1;
        if self.gets >= self.window {
            self.gets = 0;
            self.window = (2 * self.window).min(GETS_AN_OBJECT * self.objects);
            self.choose();
        }
    }

    /// A store.
    pub fn set(&mut self, request: &Access) {
        for candidate in &mut self.candidates {
            candidate.cache.insert(request);
        }
    }

    /// A delete.
    pub fn delete(&mut self, key: u64) {
        for candidate in &mut self.candidates {
            candidate.cache.remove(key);
        }
    }

    fn choose(&mut self) {
        let misses = |at: &usize| self.candidates[*at].misses;
        let best = (0..CANDIDATES.len()).min_by(|a, b| misses(a).total_cmp(&misses(b)));
        let best = best.expect("there are candidates");
        if misses(&best) < CLEARLY * misses(&self.chosen) {
            self.chosen = best;
            self.switches += 1;
        }
        for candidate in &mut self.candidates {
            candidate.misses *= FADING;
        }
    }
}

/// Samples so many keys that a miniature holds at most [`OBJECTS_MAX`] objects.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most SCALE")]
fn threshold(objects: usize) -> u32 {
    let share = OBJECTS_MAX as f64 / objects.max(1) as f64;
    (share.min(1.0) * f64::from(SCALE)).ceil() as u32
}

/// The first is [`Tuning::START`]. Short probations suit loops and skewed popularity, long ones objects
/// that are asked for a few times within a while; those with 0 suit whatever LRU suits.
const CANDIDATES: [Tuning; 9] = [
    Tuning::START,
    Tuning::S3_FIFO,
    Tuning { small: 0.10, promote: 1 },
    Tuning { small: 0.01, promote: 2 },
    Tuning { small: 0.01, promote: 1 },
    Tuning { small: 0.03, promote: 1 },
    Tuning { small: 0.50, promote: 2 },
    Tuning { small: 0.10, promote: 0 },
    Tuning { small: 0.50, promote: 0 },
];
/// Objects of a miniature at most.
const OBJECTS_MAX: usize = 300;
/// Gets between two choices, for each object of a miniature, once the tuner is under way. The first
/// comes ten times as early, since the start is the worst time to be wrong.
const GETS_AN_OBJECT: usize = 7;
/// A candidate replaces the chosen one below this share of its misses.
const CLEARLY: f64 = 0.99;
/// What a choice leaves of the counts.
const FADING: f64 = 0.5;
/// The sampled share is counted in parts of this.
const SCALE: u32 = 1 << 24;
/// Below are the bits of the miniatures' fingerprints, which must differ among the sampled.
const UNUSED_BITS: u32 = 8;
