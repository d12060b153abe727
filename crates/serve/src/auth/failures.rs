//! Sources of failed logins: for a second after a failure, each login attempt from the same source waits a second.
//!
//! A client that guesses passwords can try one per second and connection, even if it reconnects for each
//! try. `-c` limits the number of connections. A client with the right password also waits, at most a
//! second, if its network failed a login within the last second.
//!
//! # Layout
//! A table of fixed size, indexed by a keyed hash of the source address (for IPv6, of its network). Each
//! slot is one word: the time of the last failure in milliseconds. Sources that share a slot wait for
//! each other's failures.
//!
//! Bad at: an attacker with many addresses. Restrict who can connect at all.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The time of each source's last failed login.
pub(crate) struct Failures {
    /// Milliseconds of the system's clock, by slot; 0: no failure.
    last_ms: [AtomicU64; PLACES],
    hasher: RandomState,
}

impl Default for Failures {
    fn default() -> Self {
        Failures { last_ms: [const { AtomicU64::new(0) }; PLACES], hasher: RandomState::new() }
    }
}

impl Failures {
    /// Records a failed login from `source`; `None` is the unix socket.
    pub(crate) fn note(&self, source: Option<IpAddr>, now_ms: u64) {
        self.place(source).store(now_ms, Relaxed);
    }

    /// Whether a login from `source` failed within the last second.
    pub(crate) fn is_recent(&self, source: Option<IpAddr>, now_ms: u64) -> bool {
        let last_ms = self.place(source).load(Relaxed);
        last_ms != 0 && now_ms < last_ms + WAIT_MS
    }

    fn place(&self, source: Option<IpAddr>) -> &AtomicU64 {
        let network = source.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                [a, b, c, d].iter().fold(0, |bits, &part| bits << 16 | u64::from(part))
            }
        });
        let hash = self.hasher.hash_one(network);
        &self.last_ms[usize::try_from(hash % PLACES as u64).expect("a place's number")]
    }
}

/// How long a login attempt waits after a failure, in milliseconds.
pub(crate) const WAIT_MS: u64 = 1000;
const PLACES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_waits_for_a_second_after_its_failure_and_so_does_its_network() {
        let failures = Failures::default();
        let from = |address: &str| Some(address.parse().unwrap());
        assert!(!failures.is_recent(from("192.0.2.1"), 5000));
        failures.note(from("192.0.2.1"), 5000);
        failures.note(from("2001:db8::1"), 5000);
        failures.note(None, 5000);
        for source in [from("192.0.2.1"), from("::ffff:192.0.2.1"), from("2001:db8::2"), None] {
            assert!(failures.is_recent(source, 5999), "{source:?}");
            assert!(!failures.is_recent(source, 6000), "{source:?}");
        }
        let others = (1..=200u8).filter(|&n| {
            let other = format!("198.51.100.{n}");
            failures.is_recent(from(&other), 5500)
        });
        assert!(others.count() < 20, "sources are told apart");
    }
}
