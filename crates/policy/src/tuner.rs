//! The tuner: miniature caches that determine which [`Tuning`] has the fewest misses, while the cache runs.
//!
//! The method is that of Waldspurger et al., "Cache modeling and optimization using miniature simulations", ATC 2017.
//! A cache of `R` times the capacity that sees the requests for a share `R` of the keys, always the same keys, has
//! the miss ratio of the whole cache. One such miniature runs for each candidate. When enough requests were seen, the
//! candidate with the fewest misses is chosen, if it is clearly better than the current one. Older counts fade.
//!
//! # Costs
//! Nine miniatures of up to 300 objects, at some 50 bytes per object: 140 KB. A sampled request makes nine accesses
//! in processor caches, about 150 ns. In a cache of a million objects, three requests in ten thousand are sampled.
//! Bad at: reacting within fewer than three thousand sampled requests, except at the start.

use crate::miniature::Miniature;
use crate::s3clock::Tuning;
use crate::{Access, mix};

/// Chooses the parameters of one cache. The caller feeds it the requests whose keys [`Tuner::samples`] selects. A key
/// is represented by its hash or id: any number that identifies it.
pub struct Tuner {
    candidates: Vec<Candidate>,
    chosen: usize,
    /// Keys whose mixed bits are below this are sampled.
    threshold: u32,
    /// Maximum number of objects in a miniature.
    objects: usize,
    gets: usize,
    /// Gets between one choice and the next.
    window: usize,
    switches: u64,
}

/// Parameters that may be chosen, and the results of a cache with them.
struct Candidate {
    cache: Miniature,
    misses: f64,
}

impl Tuner {
    /// Makes a tuner for a cache that holds about `objects` objects with a total weight of `capacity`.
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

    /// Whether requests for the key are sampled.
    #[must_use]
    pub fn samples(&self, key: u64) -> bool {
        Self::is_sampled(mix(key), self.threshold)
    }

    /// Like [`Tuner::samples`], for a well-mixed hash, in threads that know only the tuner's [`Tuner::threshold`].
    /// All of them must use the same hash of a key.
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

    /// Adapts the sampled share to a cache that now holds about this many objects.
    pub fn resize(&mut self, objects: usize) {
        self.threshold = threshold(objects);
    }

    /// Replays a get, and whether it hit. After a miss in the cache, the client stores the object or has a reason not
    /// to. After a hit in the cache no store follows, so the miniatures that missed store the object now.
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

    /// Replays a store.
    pub fn set(&mut self, request: &Access) {
        for candidate in &mut self.candidates {
            candidate.cache.insert(request);
        }
    }

    /// Replays a delete.
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

/// The threshold with which a miniature holds at most [`OBJECTS_MAX`] objects.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most SCALE")]
fn threshold(objects: usize) -> u32 {
    let share = OBJECTS_MAX as f64 / objects.max(1) as f64;
    (share.min(1.0) * f64::from(SCALE)).ceil() as u32
}

/// The first is [`Tuning::START`]. Short probations suit loops and skewed popularity. Long ones suit objects that are
/// requested a few times within a while. Those with 0 hits suit whatever LRU suits.
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
/// Maximum number of objects in a miniature.
const OBJECTS_MAX: usize = 300;
/// Gets between two choices, per object of a miniature, once the tuner is under way. The first choice comes seven
/// times as early, since the start is the worst time for a wrong choice.
const GETS_AN_OBJECT: usize = 7;
/// A candidate replaces the chosen one if its misses are below this share of the chosen one's.
const CLEARLY: f64 = 0.99;
/// The share of the counts that remains after a choice.
const FADING: f64 = 0.5;
/// The unit of the sampled share: parts of this.
const SCALE: u32 = 1 << 24;
/// Low bits that sampling ignores: they are used for the miniatures' fingerprints, and must differ among the sampled
/// keys.
const UNUSED_BITS: u32 = 8;
