//! Shares of a byte budget, by clients' addresses: a connection that holds half of its fair share or more may have to give
//! way.
//!
//! ```text
//! share of an address      bytes of all addresses / addresses that hold some
//! share of a connection    bytes of its address / connections of that address that hold some
//! ```
//! # Invariants
//! 1. While any bytes are held, some connection holds at least its share, and its address at least the address's share.
//!
//! # Costs
//! One map access each time the bytes of a connection change.

use std::collections::HashMap;
use std::net::IpAddr;

/// Clients of unix sockets count as one address.
pub type ClientAddress = Option<IpAddr>;

/// The bytes that each address holds.
#[derive(Debug, Default)]
pub struct Shares {
    addresses: HashMap<ClientAddress, Holding>,
    /// The sum over all addresses.
    bytes: usize,
}

/// Whether a request has made progress, and so moves behind those that made progress earlier.
///
/// `now` bytes of the request are held, `before` at the last check, and `marked` when the request took its place. At least
/// [`STEP_BYTES`] since then are progress. If `now` is below `before`, this is another request.
pub fn comes_on(now: usize, before: usize, marked: usize) -> bool {
    now < before || now >= marked + STEP_BYTES
}

/// A client that has sent this many more bytes moves behind those that haven't.
pub const STEP_BYTES: usize = 4 << 10;

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    bytes: usize,
    connections: usize,
}

impl Shares {
    /// Records that a connection from this address holds `now` bytes instead of `before`.
    pub fn recount(&mut self, address: ClientAddress, before: usize, now: usize) {
        self.bytes = self.bytes + now - before;
        let holding = self.addresses.entry(address).or_default();
        holding.bytes = holding.bytes + now - before;
        holding.connections = holding.connections + usize::from(now > 0) - usize::from(before > 0);
        if holding.connections == 0 {
            self.addresses.remove(&address);
        }
    }

    /// Finds the first of these connections that holds half of its share or more, and whose address holds its own share or
    /// more.
    ///
    /// Each connection is given with its address and the bytes that it holds. Because half a share is enough, many
    /// connections that hold equal amounts give way to a larger one. A connection that holds little gives way to none.
    pub fn first_above<P>(
        &self,
        mut connections: impl Iterator<Item = (P, ClientAddress, usize)>,
    ) -> Option<P> {
        let found = connections.find(|(_, address, bytes)| {
            self.addresses.get(address).is_some_and(|holding| {
                holding.bytes.saturating_mul(self.addresses.len()) >= self.bytes
                    && bytes.saturating_mul(holding.connections * 2) >= holding.bytes
            })
        });
        found.map(|(place, ..)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(n: u8) -> ClientAddress {
        Some(IpAddr::from([192, 0, 2, n]))
    }

    #[test]
    fn many_small_ones_of_an_address_hold_more_than_a_large_one_of_another() {
        let mut shares = Shares::default();
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
        assert!(shares.addresses.is_empty());
        assert_eq!(shares.bytes, 0);
    }

    #[test]
    fn of_an_address_the_first_that_holds_half_of_its_share_is_found() {
        let mut shares = Shares::default();
        for bytes in [1000, 1000, 300] {
            shares.recount(from(1), 0, bytes);
        }
        let in_order = [(2, from(1), 300), (1, from(1), 1000), (0, from(1), 1000)];
        assert_eq!(shares.first_above(in_order.into_iter()), Some(1));
        shares.recount(from(1), 300, 400);
        let in_order = in_order.map(|(n, address, bytes)| (n, address, bytes.max(400)));
        assert_eq!(shares.first_above(in_order.into_iter()), Some(2));
    }
}
