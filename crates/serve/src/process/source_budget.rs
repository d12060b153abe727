//! The budget of reply bytes for a source whose address is unproven.
//!
//! Anyone can forge a datagram's sender. With a few bytes of request that ask for a megabyte in a
//! victim's name, this server would become an amplifier, as memcached did in 2018. So each source has a
//! budget of reply bytes per second (`-o udp_budget`). Replies beyond it are dropped, and the client,
//! which must expect losses anyway, takes them for misses.
//!
//! A source that also has a TCP connection has proved that it can receive
//! ([`crate::process::roster::Roster::is_connected`]), but not that a datagram in its name is its own. It
//! has a larger budget (`-o udp_known_budget`), which still limits how far an attacker can use this
//! server against its own clients.
//!
//! # Layout
//! A table of fixed size, indexed by a keyed hash of the source. A slot is one word: the second, and the
//! bytes spent in it. Sources that share a slot share a budget, which can only reduce what is sent.
//!
//! # Costs
//! One atomic exchange per reply; 32 KiB.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reply bytes that each source may be sent.
pub(crate) struct Budget {
    /// Bytes per second; 0: no limit.
    bytes_max: u64,
    /// Bytes per second for a source that has a TCP connection; 0: no limit.
    known_bytes_max: u64,
    /// By slot: the second in the upper half, the bytes spent in it in the lower half.
    spent: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Budget {
    /// Creates a budget of `bytes_max` bytes per second for each source, and of `known_bytes_max` for
    /// each that has a TCP connection; 0: no limit.
    pub(crate) fn new(bytes_max: u32, known_bytes_max: u32) -> Budget {
        let places = if bytes_max == 0 { 1 } else { PLACES };
        Budget {
            bytes_max: bytes_max.into(),
            known_bytes_max: known_bytes_max.into(),
            // Zeroed memory that isn't touched while there are no datagrams.
            spent: bytemuck::zeroed_slice_box(places),
            hasher: RandomState::new(),
        }
    }

    /// Takes `bytes` from what `source` may be sent in second `now`. Returns `false` if not as many are left.
    pub(crate) fn spend(&self, source: IpAddr, bytes: usize, now: u32) -> bool {
        self.spend_of(self.bytes_max, source, bytes, now)
    }

    /// Like [`Budget::spend`], for a source that has a TCP connection.
    pub(crate) fn spend_as_known(&self, source: IpAddr, bytes: usize, now: u32) -> bool {
        self.spend_of(self.known_bytes_max, source, bytes, now)
    }

    fn spend_of(&self, bytes_max: u64, source: IpAddr, bytes: usize, now: u32) -> bool {
        if bytes_max == 0 {
            return true;
        }
        let bytes = bytes as u64;
        let place = &self.spent[self.place(source)];
        let spend = |word: u64| {
            let (second, spent) = (word >> 32, word & u64::from(u32::MAX));
            let spent = if second == u64::from(now) { spent } else { 0 };
            let total = spent.saturating_add(bytes);
            (total <= bytes_max).then_some(u64::from(now) << 32 | total)
        };
        place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }

    fn place(&self, source: IpAddr) -> usize {
        let hash = match source {
            IpAddr::V4(address) => self.hasher.hash_one(address.octets()),
            // A client that has one address of a 64-bit network has all of them.
            IpAddr::V6(address) => self.hasher.hash_one(&address.octets()[..8]),
        };
        let place = hash % self.spent.len() as u64;
        usize::try_from(place).expect("below the table's length")
    }
}

const PLACES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_has_its_budget_each_second() {
        let budget = Budget::new(1000, 0);
        for second in [7, 8, 20] {
            assert!(budget.spend(ip("192.0.2.1"), 400, second));
            assert!(budget.spend(ip("192.0.2.1"), 600, second));
            assert!(!budget.spend(ip("192.0.2.1"), 1, second));
        }
    }

    #[test]
    fn what_is_too_much_costs_nothing() {
        let budget = Budget::new(1000, 0);
        assert!(!budget.spend(ip("192.0.2.1"), 1001, 5));
        assert!(!budget.spend(ip("192.0.2.1"), usize::MAX, 5));
        assert!(budget.spend(ip("192.0.2.1"), 1000, 5));
    }

    #[test]
    fn one_source_does_not_spend_what_others_have() {
        let budget = Budget::new(1000, 0);
        assert!(budget.spend(ip("192.0.2.1"), 1000, 5));
        let others = (0..=255).filter(|n| budget.spend(IpAddr::from([198, 51, 100, *n]), 1000, 5));
        // A few of the sources share a slot.
        assert!(others.count() > 200);
    }

    #[test]
    fn addresses_of_one_network_share() {
        let budget = Budget::new(1000, 0);
        assert!(budget.spend(ip("2001:db8::1"), 1000, 5));
        assert!(!budget.spend(ip("2001:db8::2"), 1000, 5));
    }

    #[test]
    fn a_known_source_has_more_and_not_without_end() {
        let budget = Budget::new(1000, 3000);
        assert!(budget.spend(ip("192.0.2.1"), 1000, 5));
        assert!(!budget.spend(ip("192.0.2.1"), 1, 5));
        assert!(budget.spend_as_known(ip("192.0.2.1"), 2000, 5));
        assert!(!budget.spend_as_known(ip("192.0.2.1"), 1, 5));
        assert!(budget.spend_as_known(ip("192.0.2.1"), 3000, 6));
    }

    #[test]
    fn no_budget_is_no_limit() {
        let budget = Budget::new(0, 0);
        assert!((0..10).all(|_| budget.spend(ip("192.0.2.1"), usize::MAX, 5)));
    }
}
