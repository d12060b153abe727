//! The policies by name, for whoever lets a user choose.

use super::Policy;
use super::arc::Arc;
use super::queue::{Queue, Rule};
use super::s3clock::S3Clock;
use guira_policy::Tuning;
use std::fmt;
use std::str::FromStr;

/// An on-line policy. ([`Opt`](super::Opt) is none: it must be given the trace.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
    /// All of them, in the order of a table.
    pub const ALL: [Kind; 9] = [
        Kind::Fifo,
        Kind::Lru,
        Kind::Clock,
        Kind::ClockSet,
        Kind::Clock2,
        Kind::Sieve,
        Kind::Arc,
        Kind::S3ClockFixed,
        Kind::S3Clock,
    ];

    /// The name, by which [`FromStr`] knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fifo => "fifo",
            Kind::Lru => "lru",
            Kind::Clock => "clock",
            Kind::ClockSet => "clock-set",
            Kind::Clock2 => "clock2",
            Kind::Sieve => "sieve",
            Kind::Arc => "arc",
            Kind::S3ClockFixed => "s3-clock-fixed",
            Kind::S3Clock => "s3-clock",
        }
    }

    /// An empty cache under this policy.
    #[must_use]
    pub fn cache(self, capacity: u64) -> Box<dyn Policy> {
        let queue = |rule| Box::new(Queue::new(rule, capacity));
        match self {
            Kind::Fifo => queue(Rule::Fifo),
            Kind::Lru => queue(Rule::Lru),
            Kind::Clock => queue(Rule::Clock { most: 1, born: 0 }),
            Kind::ClockSet => queue(Rule::Clock { most: 1, born: 1 }),
            Kind::Clock2 => queue(Rule::Clock { most: 3, born: 0 }),
            Kind::Sieve => queue(Rule::Sieve),
            Kind::Arc => Box::new(Arc::new(capacity)),
            Kind::S3ClockFixed => Box::new(S3Clock::fixed(Tuning::S3_FIFO, capacity)),
            Kind::S3Clock => Box::new(S3Clock::tuned(capacity)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "no eviction policy is called {:?}; give one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Kind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Kind, UnknownPolicy> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
