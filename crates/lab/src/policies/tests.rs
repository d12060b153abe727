//! The properties of all policies, and the definition of each policy as a model of a few lines.

use super::queue::{Queue, Rule};
use super::s3clock::S3Clock;
use super::{Opt, Policy, PolicyKind};
use guira_policy::{Access, Ghost, Tuning, mix};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// One step of a history: access, get, insert or remove, at a time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access(Access),
    Get(Access),
    Insert(Access),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = (0..60u64, 1..5u32, 0..4u32).prop_map(|(key, weight, lives)| {
        let expires = if lives == 0 { 1 } else { 0 };
        Access { key, weight, now: 0, expires }
    });
    let step = prop_oneof![
        6 => request.clone().prop_map(Step::Access),
        1 => request.clone().prop_map(Step::Get),
        1 => request.prop_map(Step::Insert),
        1 => (0..60u64).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..400)
}

/// Runs a history against the one model that fits every policy: a set of keys that only the policy
/// makes smaller, and a capacity.
fn obeys(mut cache: Box<dyn Policy>, capacity: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut stored: HashMap<u64, Access> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        let now = u32::try_from(at).unwrap();
        let timed = |request: Access| Access {
            now,
            expires: if request.expires == 0 { 0 } else { now + 20 },
            ..request
        };
        let lives = |stored: &HashMap<u64, Access>, key| {
            stored.get(&key).is_some_and(|r: &Access| r.expires == 0 || r.expires > now)
        };
        match *step {
            Step::Access(request) | Step::Get(request) => {
                let request = timed(request);
                let was_there = cache.contains(request.key) && lives(&stored, request.key);
                let hit = if let Step::Get(_) = step {
                    cache.get(&request)
                } else {
                    cache.access(&request)
                };
                prop_assert_eq!(hit, was_there, "a hit says that a live object is there");
                if !hit && matches!(step, Step::Access(_)) {
                    stored.insert(request.key, request);
                }
            }
            Step::Insert(request) => {
                cache.insert(&timed(request));
                stored.insert(request.key, timed(request));
            }
            Step::Remove(key) => {
                prop_assert_eq!(cache.contains(key), cache.remove(key));
                prop_assert!(!cache.contains(key));
            }
        }
        let held: Vec<_> = (0..60).filter(|&key| cache.contains(key)).collect();
        prop_assert_eq!(held.len(), cache.len());
        let weight: u64 = held.iter().map(|key| u64::from(stored[key].weight)).sum();
        prop_assert_eq!(weight, cache.weight(), "what is held is what was stored last");
        prop_assert!(cache.weight() <= capacity, "{} in {capacity}", cache.weight());
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_policy_holds_more_than_its_capacity_or_lies_about_a_hit(
        steps in steps(), capacity in 1..80u64
    ) {
        for kind in PolicyKind::ALL {
            obeys(kind.cache(capacity), capacity, &steps)?;
        }
    }

    #[test]
    fn belady_has_the_fewest_misses(keys in proptest::collection::vec(0..40u64, 1..600), capacity in 1..40u64) {
        let mut opt = Opt::new(capacity, keys.iter().copied());
        let best = misses(&mut opt, &keys);
        for kind in PolicyKind::ALL {
            prop_assert!(best <= misses(&mut *kind.cache(capacity), &keys), "{}", kind);
        }
    }

    #[test]
    fn lru_fifo_clock_and_sieve_evict_whom_their_definitions_say(
        keys in proptest::collection::vec(0..30u64, 1..400), capacity in 1..25usize,
    ) {
        let clock = Rule::Clock { most: 1, born: 0 };
        for rule in [Rule::Lru, Rule::Fifo, clock, Rule::Clock { most: 3, born: 1 }, Rule::Sieve] {
            let mut cache = Queue::new(rule, capacity as u64);
            let mut model = Model { rule, capacity, queue: VecDeque::new(), hand: 0 };
            for &key in &keys {
                prop_assert_eq!(cache.access(&Access::of(key)), model.access(key), "{:?}", rule);
            }
        }
    }

    #[test]
    fn s3_clock_evicts_whom_its_definition_says(
        keys in proptest::collection::vec(0..40u64, 1..500), capacity in 1..30usize, promote in 0..3u8,
    ) {
        let tuning = Tuning { small: 0.25, promote };
        let mut cache = S3Clock::fixed(tuning, capacity as u64);
        let mut model = SlotModel::new(tuning, capacity);
        for (at, &key) in keys.iter().enumerate() {
            prop_assert_eq!(cache.access(&Access::of(key)), model.access(key), "request {}", at);
        }
    }
}

fn misses(cache: &mut dyn Policy, keys: &[u64]) -> usize {
    keys.iter().filter(|&&key| !cache.access(&Access::of(key))).count()
}

/// Lists searched from end to end: slow, and plainly right.
struct Model {
    rule: Rule,
    capacity: usize,
    /// (key, count), oldest first.
    queue: VecDeque<(u64, u8)>,
    hand: usize,
}

impl Model {
    fn access(&mut self, key: u64) -> bool {
        if let Some(at) = self.queue.iter().position(|(held, _)| *held == key) {
            match self.rule {
                Rule::Fifo => {}
                Rule::Lru => {
                    let entry = self.queue.remove(at).unwrap();
                    self.queue.push_back(entry);
                }
                Rule::Clock { most, .. } => self.queue[at].1 = most.min(self.queue[at].1 + 1),
                Rule::Sieve => self.queue[at].1 = 1,
            }
            return true;
        }
        if self.queue.len() == self.capacity {
            self.evict();
        }
        let born = if let Rule::Clock { born, .. } = self.rule { born } else { 0 };
        self.queue.push_back((key, born));
        false
    }

    fn evict(&mut self) {
        if self.rule == Rule::Sieve {
            self.hand %= self.queue.len();
            while self.queue[self.hand].1 > 0 {
                self.queue[self.hand].1 = 0;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            self.queue.remove(self.hand);
            // After the newest comes the oldest, not the next stored object.
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
            return;
        }
        while let Some((key, count)) = self.queue.pop_front() {
            if count == 0 {
                return;
            }
            self.queue.push_back((key, count - 1));
        }
    }
}

/// S3-CLOCK over an array of slots, with a quarter on probation. The ghost is the cache's own.
struct SlotModel {
    tuning: Tuning,
    slots: Vec<Option<Held>>,
    probation: VecDeque<usize>,
    hand: usize,
    ghost: Ghost,
}

#[derive(Clone, Copy)]
struct Held {
    key: u64,
    count: u8,
    on_probation: bool,
}

impl SlotModel {
    fn new(tuning: Tuning, capacity: usize) -> SlotModel {
        let ghost = Ghost::default();
        SlotModel {
            tuning,
            slots: vec![None; capacity],
            probation: VecDeque::new(),
            hand: 0,
            ghost,
        }
    }

    fn access(&mut self, key: u64) -> bool {
        if let Some(held) = self.slots.iter_mut().flatten().find(|held| held.key == key) {
            held.count = 3.min(held.count + 1);
            return true;
        }
        let target = self.slots.len().div_ceil(4);
        let known = self.ghost.take(mix(key));
        let free = self.slots.iter().position(Option::is_none);
        let is_full = free.is_none();
        let slot = free.unwrap_or_else(|| self.evict(target));
        let on_probation = !known && (is_full || self.probation.len() < target);
        self.slots[slot] = Some(Held { key, count: 0, on_probation });
        if on_probation {
            self.probation.push_back(slot);
        }
        false
    }

    fn evict(&mut self, target: usize) -> usize {
        if self.ghost.room() == 0 {
            self.ghost = Ghost::new((self.slots.len() * 4).div_ceil(5));
        }
        loop {
            if self.probation.len() >= target.max(1) {
                let slot = self.probation.pop_front().unwrap();
                let held = self.slots[slot].as_mut().unwrap();
                if held.count < self.tuning.promote {
                    self.ghost.remember(mix(held.key));
                    return slot;
                }
                held.on_probation = false;
                held.count = 0;
            } else {
                let slot = self.hand % self.slots.len();
                self.hand = slot + 1;
                match self.slots[slot].as_mut().unwrap() {
                    held if held.on_probation => {}
                    held if held.count == 0 => return slot,
                    held => held.count -= 1,
                }
            }
        }
    }
}

#[test]
fn a_recent_past_beyond_the_first_probation_teaches_the_tuner_a_longer_one() {
    // Each key twice, 60 requests apart, then never again: the first parameters see 25 of them.
    let mut recent = S3Clock::tuned(100);
    let mut old = Vec::new();
    for n in 0..40_000u64 {
        recent.access(&Access::of(n));
        recent.access(&Access::of(n.saturating_sub(30)));
        old.push(recent.tuning());
    }
    assert_ne!(old.first(), old.last(), "the first parameters lose to others");
    let hits = (40_000..42_000u64)
        .filter(|&n| {
            recent.access(&Access::of(n));
            recent.access(&Access::of(n - 30))
        })
        .count();
    assert!(hits > 1_900, "{hits} of 2000");
}

#[test]
fn names_are_read_back() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let complaint = "mru".parse::<PolicyKind>().unwrap_err().to_string();
    assert!(complaint.contains("\"mru\"") && complaint.contains("s3-clock"));
}

/// S3-CLOCK's rule is one: the same requests, the same hits, whatever holds the objects.
#[test]
fn s3_clock_hits_what_it_hit_when_this_was_recorded() {
    let recorded = [
        (
            PolicyKind::S3ClockFixed,
            [
                (107_069, 0x9d40_ceed_8b3f_bc29),
                (143_047, 0x9fcc_17e7_0562_96f7),
                (130_359, 0x59b5_5b80_4b0f_c47c),
            ],
        ),
        (
            PolicyKind::S3Clock,
            [
                (107_610, 0x8e5f_f2bb_765f_a27f),
                (143_299, 0x3008_6798_e139_42f2),
                (130_800, 0xe01b_6c2c_ecc2_e34c),
            ],
        ),
    ];
    for (kind, recorded) in recorded {
        let found = [(300, false), (2_000, false), (20_000, true)]
            .map(|(capacity, is_sized)| digest(&mut *kind.cache(capacity), is_sized));
        assert_eq!(found, recorded, "{kind}: hits, and a digest of which");
    }
}

/// How many of 300,000 requests hit, and a digest of which, and of what is held now and then. Popular keys, bursts of keys
/// asked for once, deletes, and objects that expire.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
fn digest(cache: &mut dyn Policy, is_sized: bool) -> (u64, u64) {
    let (mut hits, mut digest) = (0, 0);
    for n in 0..300_000u64 {
        let random = mix(n);
        let popular = 20_000_f64.powf((random >> 11) as f64 / (1u64 << 53) as f64) as u64;
        let key = if n / 5_000 % 3 == 2 { 1 << 40 | n } else { popular };
        let now = (n / 1_000) as u32;
        let expires = if random & 15 == 0 { now + (random >> 8) as u32 % 100 } else { 0 };
        let weight = if is_sized { 1 + (mix(key) % 30) as u32 } else { 1 };
        let hit = if random >> 4 & 63 == 0 {
            cache.remove(key)
        } else {
            cache.access(&Access { key, weight, now, expires })
        };
        hits += u64::from(hit);
        digest = mix(digest ^ u64::from(hit));
        if n % 10_000 == 0 {
            digest =
                (0..20_000).filter(|&key| cache.contains(key)).fold(digest, |d, key| mix(d ^ key));
        }
    }
    (hits, digest)
}
