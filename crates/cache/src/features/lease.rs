//! The records of leases: which keys have a client that is to fetch their value, and stale values that are still of
//! use.
//!
//! # Layout
//! Sets of eight records, each set with its lock. A key's hash selects its set. The sets are allocated when the first
//! lease is asked for.
//! ```text
//! record 32 B | key hash 64 | token 64, 0 none | issued 32, 0 never | stale value → heap |
//! ```
//! # Invariants
//! 1. A key has at most one record, and a record at most one token: the youngest.
//! 2. Between two tokens of a record at least the interval passes. Voiding a token doesn't end the interval.
//! 3. The bytes of all stale values, including their keys, are at most [`LeaseTerms::stale_bytes_max`].
//!
//! # Costs
//! A lock and one or two cache lines; one load if no lease was ever asked for. A full set evicts a record: the
//! oldest, if possible one without a valid token. An evicted token stores nothing any more, and its key may get
//! another token at once.

use crate::locks::{Guard, LEASE, Lock};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// How leases are given and stale values kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Seconds between two tokens of one key.
    pub interval_s: u32,
    /// How long a deleted value may be read as stale, in seconds; 0 keeps no stale values.
    pub stale_s: u32,
    /// Memory for stale values, in bytes, in addition to the memory for items.
    pub stale_bytes_max: usize,
    /// Keys whose leases are remembered: 32 bytes each, rounded up to sets of eight.
    pub keys_max: usize,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        LeaseTerms { interval_s: 10, stale_s: 20, stale_bytes_max: 1 << 20, keys_max: 1 << 14 }
    }
}

/// A value that was deleted, or was stored too late, and may be read as stale for a while.
#[derive(Debug, PartialEq, Eq)]
pub struct StaleValue {
    key: Box<[u8]>,
    value: Box<[u8]>,
    client_flags: u32,
    until_s: u32,
}

impl StaleValue {
    /// The value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The client's flags.
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// The second from which on the value may not be read.
    pub(crate) fn until_s(&self) -> u32 {
        self.until_s
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// A value to be kept as stale.
pub(crate) struct Value<'p, P: Iterator<Item = &'p [u8]>> {
    pub(crate) client_flags: u32,
    pub(crate) bytes: usize,
    pub(crate) parts: P,
}

/// One key's lease. An all-zero record is empty.
#[derive(Default)]
pub(crate) struct Record {
    hash: u64,
    token: u64,
    issued_s: u32,
    stale: Option<Arc<StaleValue>>,
}

impl Record {
    fn is_used(&self) -> bool {
        self.issued_s != 0 || self.stale.is_some()
    }

    /// Whether a new token may be given: none was given yet, or the last one at least an interval ago.
    fn is_due(&self, terms: &LeaseTerms, now: u32) -> bool {
        self.issued_s == 0 || now >= self.issued_s.saturating_add(terms.interval_s)
    }

    /// Whether `token` is the key's token.
    pub(crate) fn has(&self, token: u64) -> bool {
        token != 0 && self.token == token
    }

    /// Voids the token: it was used, or the key changed.
    pub(crate) fn spend(&mut self) {
        self.token = 0;
    }

    /// Corrupts the record, for tests.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, token: Option<u64>, issued_s: Option<u32>) {
        self.token = token.unwrap_or(self.token);
        self.issued_s = issued_s.unwrap_or(self.issued_s);
    }

    /// The key's stale value. A value of another key with the same hash is ignored.
    fn stale(&self, key: &[u8], now: u32) -> Option<Arc<StaleValue>> {
        let is_it = |stale: &&Arc<StaleValue>| *stale.key == *key && stale.until_s > now;
        self.stale.as_ref().filter(is_it).map(Arc::clone)
    }
}

/// The reply to a client that found no value.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The token, if this client is to fetch the value.
    pub(crate) token: Option<u64>,
    pub(crate) stale: Option<Arc<StaleValue>>,
}

/// The records of all keys.
pub(crate) struct Leases {
    sets: OnceLock<Box<[Lock<Set, LEASE>]>>,
    pub(crate) terms: LeaseTerms,
    stale_bytes: AtomicUsize,
    swept_s: AtomicU32,
    evicted: AtomicU64,
    /// Tokens are a keyed hash of a count, so that they can't be guessed. Each run of the server has another key.
    secret: RandomState,
    issued: AtomicU64,
}

/// The records of one set of keys.
#[derive(Default)]
pub(crate) struct Set([Record; WAYS]);

impl Leases {
    pub(crate) fn new(terms: LeaseTerms) -> Leases {
        Leases {
            sets: OnceLock::new(),
            terms,
            stale_bytes: AtomicUsize::new(0),
            swept_s: AtomicU32::new(0),
            evicted: AtomicU64::new(0),
            secret: RandomState::new(),
            issued: AtomicU64::new(0),
        }
    }

    /// Bytes of the stale values kept now, including their keys.
    pub(crate) fn stale_bytes(&self) -> usize {
        self.stale_bytes.load(Relaxed)
    }

    /// Tokens that were lost before their time because records ran out.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Whether a lease was ever asked for.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.sets.get().is_some()
    }

    /// Locks the set of a key, if a lease was ever asked for. A change of the key may be made under this lock: it
    /// comes before classes and buckets in the lock order.
    pub(crate) fn lock(&self, hash: u64) -> Option<Guard<'_, Set, LEASE>> {
        let sets = self.sets.get()?;
        Some(sets[set_of(hash, sets.len())].lock())
    }

    /// Gives a token for a key whose value is missing, if none was given within the interval. `is_fetching` means
    /// that another client is fetching the value under a promise kept elsewhere. If nothing is known of such a key,
    /// it counts as having been given a token now.
    pub(crate) fn ask(&self, hash: u64, key: &[u8], is_fetching: bool, now: u32) -> Answer {
        let sets = self.sets.get_or_init(|| {
            let count = self.terms.keys_max.div_ceil(WAYS).next_power_of_two();
            (0..count).map(|_| Lock::default()).collect()
        });
        let mut set = sets[set_of(hash, sets.len())].lock();
        let record = self.place(&mut set, hash, now);
        let stale = record.stale(key, now);
        if !record.is_due(&self.terms, now) {
            return Answer { token: None, stale };
        }
        let is_first = record.issued_s == 0;
        record.issued_s = now;
        if is_fetching && is_first {
            return Answer { token: None, stale };
        }
        record.token = self.next_token();
        Answer { token: Some(record.token), stale }
    }

    /// Like [`Leases::ask`], for a client whose promise is kept elsewhere: it gets no token. Returns whether it may
    /// fetch the value.
    pub(crate) fn begin_elsewhere(&self, hash: u64, now: u32) -> bool {
        let Some(mut set) = self.lock(hash) else { return true };
        let Some(record) = set.find(hash) else { return true };
        let is_due = record.is_due(&self.terms, now);
        if is_due {
            record.token = 0;
            record.issued_s = now;
        }
        is_due
    }

    /// The key's stale value.
    pub(crate) fn stale(&self, hash: u64, key: &[u8], now: u32) -> Option<Arc<StaleValue>> {
        self.lock(hash)?.find(hash)?.stale(key, now)
    }

    /// Voids the key's token.
    #[inline]
    pub(crate) fn void(&self, hash: u64) {
        if let Some(mut set) = self.lock(hash)
            && let Some(record) = set.find(hash)
        {
            record.token = 0;
        }
    }

    /// Forgets the key's stale value.
    #[inline]
    pub(crate) fn forget_key(&self, hash: u64) {
        if let Some(mut set) = self.lock(hash)
            && let Some(record) = set.find(hash)
        {
            self.forget(record);
        }
    }

    /// Voids every token and forgets every stale value.
    pub(crate) fn void_all(&self) {
        for set in self.sets.get().into_iter().flatten() {
            for record in &mut set.lock().0 {
                record.token = 0;
                self.forget(record);
            }
        }
    }

    /// Keeps a value as stale, replacing any other. Returns `false` if there is no memory for it.
    pub(crate) fn keep<'p>(
        &self,
        set: &mut Set,
        (hash, key): (u64, &[u8]),
        value: Value<'p, impl Iterator<Item = &'p [u8]>>,
        now: u32,
    ) -> bool {
        let record = self.place(set, hash, now);
        self.forget(record);
        let bytes = key.len() + value.bytes;
        let take = |used: usize| Some(used + bytes).filter(|&n| n <= self.terms.stale_bytes_max);
        let until_s = now.saturating_add(self.terms.stale_s);
        if until_s <= now || self.stale_bytes.fetch_update(Relaxed, Relaxed, take).is_err() {
            return false;
        }
        let mut whole = Vec::with_capacity(value.bytes);
        value.parts.for_each(|part| whole.extend_from_slice(part));
        let Value { client_flags, .. } = value;
        let (key, value) = (key.into(), whole.into());
        record.stale = Some(Arc::new(StaleValue { key, value, client_flags, until_s }));
        true
    }

    /// Frees expired stale values, at most once per second.
    pub(crate) fn sweep(&self, now: u32) {
        let Some(sets) = self.sets.get() else { return };
        if self.swept_s.swap(now, Relaxed) == now || self.stale_bytes() == 0 {
            return;
        }
        for set in sets {
            for record in &mut set.lock().0 {
                if record.stale.as_ref().is_some_and(|stale| stale.until_s <= now) {
                    self.forget(record);
                }
            }
        }
    }

    pub(crate) fn forget(&self, record: &mut Record) {
        if let Some(stale) = record.stale.take() {
            self.stale_bytes.fetch_sub(stale.bytes(), Relaxed);
        }
    }

    /// The key's record; a new one if the key has none.
    fn place<'s>(&self, set: &'s mut Set, hash: u64, now: u32) -> &'s mut Record {
        let is_its = |record: &Record| record.is_used() && record.hash == hash;
        if let Some(at) = set.0.iter().position(is_its) {
            return &mut set.0[at];
        }
        let holds = |record: &Record| record.token != 0 && !record.is_due(&self.terms, now);
        let rank = |record: &Record| (record.is_used(), holds(record), record.issued_s);
        let oldest = (0..WAYS).min_by_key(|&at| rank(&set.0[at])).expect("a set has records");
        let record = &mut set.0[oldest];
        self.forget(record);
        self.evicted.fetch_add(holds(record).into(), Relaxed);
        *record = Record { hash, ..Record::default() };
        record
    }

    /// The next token: never 0 (none), 1 (wait), or a value that looks like mcrouter's own tokens.
    fn next_token(&self) -> u64 {
        loop {
            let token = self.secret.hash_one(self.issued.fetch_add(1, Relaxed));
            if token > 1 && token >> 32 != MCROUTER_MAGIC {
                return token;
            }
        }
    }
}

impl Set {
    pub(crate) fn find(&mut self, hash: u64) -> Option<&mut Record> {
        self.0.iter_mut().find(|record| record.is_used() && record.hash == hash)
    }
}

/// The set of a hash, by bits on which neither the index nor the stripes of uniques rely alone.
fn set_of(hash: u64, sets: usize) -> usize {
    (hash >> 20) as usize & (sets - 1)
}

const WAYS: usize = 8;
/// The upper half of the tokens that mcrouter makes up for its failover routes.
const MCROUTER_MAGIC: u64 = 0x7ace_b00c;

const _: () = assert!(size_of::<Record>() == 32, "what the option's documentation says");
