//! Who holds how much of a budget, by clients' addresses: whoever holds more than a fair share gives way to others.
//!
//! ```text
//! share of an address      what all hold / addresses that hold some
//! share of a connection    what its address holds / connections of it that hold some
//! ```
//! # Invariants
//! 1. While anybody holds something, some connection holds at least its share of an address that holds at least its own.
//!
//! # Costs
//! A lock and a look into a map, for each receive that leaves a request unfinished and larger than what is free.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;

/// Clients of unix sockets count as one address.
type Address = Option<IpAddr>;

/// What each address holds.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    addresses: Mutex<HashMap<Address, Holding>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    bytes: usize,
    connections: usize,
}

impl Shares {
    /// A connection from this address holds `now` bytes instead of `before`.
    pub(crate) fn recount(&self, address: Address, before: usize, now: usize) {
        let mut addresses = self.addresses.lock();
        let holding = addresses.entry(address).or_default();
        holding.bytes = holding.bytes + now - before;
        holding.connections = holding.connections + usize::from(now > 0) - usize::from(before > 0);
        if holding.connections == 0 {
            addresses.remove(&address);
        }
    }

    /// The first of these connections that holds its share or more: by its address, and what it holds.
    pub(crate) fn first_above(
        &self,
        mut connections: impl Iterator<Item = (usize, Address, usize)>,
    ) -> Option<usize> {
        let addresses = self.addresses.lock();
        let all: usize = addresses.values().map(|holding| holding.bytes).sum();
        let found = connections.find(|(_, address, bytes)| {
            addresses.get(address).is_some_and(|holding| {
                holding.bytes.saturating_mul(addresses.len()) >= all
                    && bytes.saturating_mul(holding.connections) >= holding.bytes
            })
        });
        found.map(|(place, ..)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(n: u8) -> Address {
        Some(IpAddr::from([192, 0, 2, n]))
    }

    #[test]
    fn many_small_ones_of_an_address_hold_more_than_a_large_one_of_another() {
        let shares = Shares::default();
        (0..50).for_each(|_| shares.recount(from(1), 0, 100));
        shares.recount(from(2), 0, 2000);
        shares.recount(None, 0, 10);
        let held = [(0, from(2), 2000), (1, None, 10), (2, from(1), 100)];
        assert_eq!(shares.first_above(held.into_iter()), Some(2));
        assert_eq!(shares.first_above(held[..2].iter().copied()), None);
        (0..50).for_each(|_| shares.recount(from(1), 100, 0));
        assert_eq!(shares.first_above(held.into_iter()), Some(0));
        shares.recount(from(2), 2000, 0);
        shares.recount(None, 10, 0);
        assert!(shares.addresses.lock().is_empty());
    }

    #[test]
    fn of_an_address_the_newest_that_holds_its_share_is_found() {
        let shares = Shares::default();
        for bytes in [1000, 1000, 300] {
            shares.recount(from(1), 0, bytes);
        }
        let newest_first = [(2, from(1), 300), (1, from(1), 1000), (0, from(1), 1000)];
        assert_eq!(shares.first_above(newest_first.into_iter()), Some(1));
    }
}
