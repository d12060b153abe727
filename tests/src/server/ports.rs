//! Ports for tests that must name one before anybody listens there.
//!
//! A port that the system chose and that is free again may be anybody's a moment later: another test's, or that of a
//! connection. These come from below the numbers that Linux gives to connections, and each is given once.

use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// A port of 127.0.0.1 on which nobody listens, and which no other test is given: not in this process, and not in one that
/// runs beside it.
///
/// # Panics
/// If the machine has none.
#[must_use]
pub fn free_port() -> u16 {
    let mut own = OWN.lock().expect("nobody panics here");
    loop {
        let port = own.next();
        // Somebody else's program may have it, at whatever address.
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// The first of so many ports in a row, all of which are like [`free_port`]'s: for a program that is given one, and takes
/// others above it.
///
/// # Panics
/// If the machine has none, or a block has fewer ports.
#[must_use]
pub fn free_ports(count: u16) -> u16 {
    assert!(count <= BLOCK_PORTS, "a block has {BLOCK_PORTS} ports");
    let mut own = OWN.lock().expect("nobody panics here");
    loop {
        own.left = 0..0;
        let first = own.next();
        // Nobody else is given the rest of the block.
        own.left = 0..0;
        if (first..first + count).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok()) {
            return first;
        }
    }
}

static OWN: Mutex<Ports> = Mutex::new(Ports { blocks: Vec::new(), left: 0..0 });

/// Ports that this process gives to its tests, each once, from below those that the system gives to connections. Processes
/// have blocks of their own: a block is whoever's holds the abstract socket of its name, until the process ends.
struct Ports {
    blocks: Vec<UnixListener>,
    left: Range<u16>,
}

impl Ports {
    fn next(&mut self) -> u16 {
        if self.left.is_empty() {
            let claim = |block: &u16| {
                let name = SocketAddr::from_abstract_name(format!("guira-tests-ports-{block}"));
                UnixListener::bind_addr(&name.expect("a short name")).ok()
            };
            let claimed = (0..BLOCKS).find_map(|block| Some((block, claim(&block)?)));
            let (block, held) = claimed.expect("fewer processes than blocks run");
            self.blocks.push(held);
            let first = FIRST_PORT + block * BLOCK_PORTS;
            self.left = first..first + BLOCK_PORTS;
        }
        self.left.next().expect("a block has ports")
    }
}

const FIRST_PORT: u16 = 20_000;
/// The ports of a block.
const BLOCK_PORTS: u16 = 50;
/// The last one ends below 32,768, where Linux begins to number connections.
const BLOCKS: u16 = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::thread;

    #[test]
    fn each_port_is_given_once_and_to_no_connection() {
        let ask = || thread::spawn(|| (0..40).map(|_| free_port()).collect::<Vec<_>>());
        let asking: Vec<_> = (0..4).map(|_| ask()).collect();
        let given = asking.into_iter().flat_map(|thread| thread.join().expect("it has ports"));
        let given: Vec<u16> = given.collect();
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 160);
        let system = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let first = system.expect("Linux").split_whitespace().next().and_then(|n| n.parse().ok());
        let first: u16 = first.expect("a number");
        assert!(given.iter().all(|port| *port < first), "the system may give them to connections");
    }
}
