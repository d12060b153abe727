//! The policies by name, for callers that let a user choose.

use super::Policy;
use super::arc::Arc;
use super::queue::{Queue, Rule};
use super::s3clock::S3Clock;
use guira_policy::Tuning;
use std::fmt;
use std::str::FromStr;

/// An on-line policy. ([`Opt`](super::Opt) isn't one: it needs the trace.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// CLOCK with one bit, clear on insertion (MemC3, section 3.3).
    Clock,
    /// CLOCK with one bit, set on insertion (MemC3 as built).
    ClockSet,
    /// CLOCK that counts to three.
    Clock2,
    /// SIEVE.
    Sieve,
    /// ARC.
    Arc,
    /// S3-CLOCK with S3-FIFO's parameters.
    S3ClockFixed,
    /// S3-CLOCK, tuned on line.
    S3Clock,
}

impl PolicyKind {
    /// All of them, in the order of a table.
    pub const ALL: [PolicyKind; 9] = [
        PolicyKind::Fifo,
        PolicyKind::Lru,
        PolicyKind::Clock,
        PolicyKind::ClockSet,
        PolicyKind::Clock2,
        PolicyKind::Sieve,
        PolicyKind::Arc,
        PolicyKind::S3ClockFixed,
        PolicyKind::S3Clock,
    ];

    /// The name, by which [`FromStr`] knows it.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            PolicyKind::Fifo => "fifo",
            PolicyKind::Lru => "lru",
            PolicyKind::Clock => "clock",
            PolicyKind::ClockSet => "clock-set",
            PolicyKind::Clock2 => "clock2",
            PolicyKind::Sieve => "sieve",
            PolicyKind::Arc => "arc",
            PolicyKind::S3ClockFixed => "s3-clock-fixed",
            PolicyKind::S3Clock => "s3-clock",
        }
    }

    /// Creates an empty cache with this policy.
    #[must_use]
    pub fn cache(self, capacity: u64) -> Box<dyn Policy> {
        let queue = |rule| Box::new(Queue::new(rule, capacity));
        match self {
            PolicyKind::Fifo => queue(Rule::Fifo),
            PolicyKind::Lru => queue(Rule::Lru),
            PolicyKind::Clock => queue(Rule::Clock { most: 1, born: 0 }),
            PolicyKind::ClockSet => queue(Rule::Clock { most: 1, born: 1 }),
            PolicyKind::Clock2 => queue(Rule::Clock { most: 3, born: 0 }),
            PolicyKind::Sieve => queue(Rule::Sieve),
            PolicyKind::Arc => Box::new(Arc::new(capacity)),
            PolicyKind::S3ClockFixed => Box::new(S3Clock::fixed(Tuning::S3_FIFO, capacity)),
            PolicyKind::S3Clock => Box::new(S3Clock::tuned(capacity)),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error that no policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "no eviction policy is called {:?}; give one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        let found = PolicyKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
