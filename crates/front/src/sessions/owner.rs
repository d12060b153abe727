//! Taking `shutdown` from clients that could end the process anyway, even if no flag allows it to everyone.
//!
//! A process of the same user, or of root, may send this process a signal; `shutdown` over a connection of this machine
//! gives it no new power. For a unix socket the kernel knows the peer's user. For loopback TCP the kernel lists each end
//! with its user, in `/proc/self/net/tcp` and `tcp6`.
//!
//! # Invariants
//! 1. A client whose user can't be found out is refused: a client of another machine, or a connection that isn't listed.
//! 2. A row without an inode belongs to nobody: the client closed its end, and the kernel then lists it as root's.
//!
//! # Costs
//! Nothing, except for `shutdown`. The list has a row for each connection of the machine, so it is read on a thread that
//! serves no client: one look at a time, at most [`LIST_BYTES`] of each file.
//!
//! # Weaknesses
//! A relay on this machine speaks for all its clients. Containers that share loopback and user ids, as those of a pod do,
//! pass for one another. `--disable-shutdown` is for both.

use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::process::geteuid;
use tokio::sync::Semaphore;

use crate::sessions::stream::Stream;

/// Which clients may send `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownFrom {
    /// No client.
    Nobody,
    /// Clients of this machine that belong to this process's own user or to root.
    Owner,
    /// Every client.
    Anybody,
}

/// Whether a client may end the process.
pub(crate) enum Verdict {
    Known(bool),
    /// Being found out.
    Sought(Pin<Box<dyn Future<Output = bool>>>),
}

impl ShutdownFrom {
    pub(crate) fn judge(self, client: &Stream) -> Verdict {
        match self {
            Self::Nobody => Verdict::Known(false),
            Self::Anybody => Verdict::Known(true),
            Self::Owner => judge(client),
        }
    }
}

fn judge(client: &Stream) -> Verdict {
    if let Stream::Unix(stream) = client {
        return Verdict::Known(stream.peer_cred().is_ok_and(|cred| is_trusted(cred.uid())));
    }
    match client.ends() {
        (Some(theirs), Some(ours)) if theirs.ip().to_canonical().is_loopback() => {
            Verdict::Sought(Box::pin(is_owner(theirs, ours)))
        }
        _ => Verdict::Known(false),
    }
}

impl Verdict {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Self::Sought(verdict) = self
            && let Poll::Ready(may) = verdict.as_mut().poll(cx)
        {
            *self = Self::Known(may);
        }
    }

    pub(crate) fn known(&self) -> Option<bool> {
        if let Self::Known(may) = self { Some(*may) } else { None }
    }
}

async fn is_owner(theirs: SocketAddr, ours: SocketAddr) -> bool {
    let Ok(turn) = LOOKS.acquire().await else { return false };
    let look = tokio::task::spawn_blocking(move || {
        // Held here, so that no other look begins while this one runs, even if its client goes.
        let _turn = turn;
        user_of(theirs, ours)
    });
    look.await.ok().flatten().is_some_and(is_trusted)
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// The user of the socket `theirs`, for a connection that ends at `ours`.
fn user_of(theirs: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let look = |list: &str, write: fn(SocketAddr) -> String| {
        let file = File::open(list).ok()?;
        user_in(BufReader::new(file.take(LIST_BYTES)), &write(theirs), &write(ours))
    };
    // A client of IPv4 may be in either list: the family of its own socket decides.
    let v4 = theirs.ip().to_canonical().is_ipv4();
    let user = v4.then(|| look("/proc/self/net/tcp", as_v4)).flatten();
    user.or_else(|| look("/proc/self/net/tcp6", as_v6))
}

/// The user in the row of the socket that is at `own` and connected to `other`.
fn user_in(list: impl BufRead, own: &str, other: &str) -> Option<u32> {
    list.lines().map_while(Result::ok).find_map(|row| {
        // Number, own and other address, state, queues, timer, retransmissions, user, probes, inode.
        let mut fields = row.split_ascii_whitespace();
        let is_it = fields.nth(1) == Some(own) && fields.next() == Some(other);
        let user = fields.nth(4).filter(|_| is_it)?.parse().ok()?;
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        (inode != 0).then_some(user)
    })
}

/// An address as the kernel writes it: words in the machine's own byte order, as hexadecimal digits.
fn as_v4(address: SocketAddr) -> String {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => written(&ip.octets(), address.port()),
        IpAddr::V6(_) => as_v6(address),
    }
}

fn as_v6(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    written(&ip.octets(), address.port())
}

#[expect(clippy::host_endian_bytes, reason = "the kernel writes the words as they lie in memory")]
fn written(octets: &[u8], port: u16) -> String {
    let (words, _) = octets.as_chunks();
    let words: String =
        words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{words}:{port:04X}")
}

/// Limits the looks under way at once.
static LOOKS: Semaphore = Semaphore::const_new(1);
/// Most bytes that are read of a list: some 100,000 connections.
const LIST_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    const OURS: &str = "   0: 0100007F:1388 0100007F:C350 01 00000000:00000000 00:00000000 00000000     7        0 41 1 ff 20 4 30 10 -1\n";
    const THEIRS: &str = "   1: 0100007F:C350 0100007F:1388 01 00000000:00000000 00:00000000 00000000  1000        0 42 1 ff 20 4 30 10 -1\n";

    fn found(list: &str) -> Option<u32> {
        let [theirs, ours] = ["127.0.0.1:50000", "127.0.0.1:5000"].map(|end| end.parse().unwrap());
        user_in(list.as_bytes(), &as_v4(theirs), &as_v4(ours))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_row_of_the_other_end_has_its_user_and_one_without_an_inode_has_none() {
        assert_eq!(found(&[HEAD, OURS, THEIRS].concat()), Some(1000));
        assert_eq!(found(&[HEAD, OURS].concat()), None, "our own end says nothing");
        let left = THEIRS.replace(" 1000 ", "    0 ");
        assert_eq!(found(&left), Some(0));
        assert_eq!(found(&left.replace(" 42 ", " 0 ")), None, "a closed end is listed as root's");
        for cut in 0..THEIRS.find(" 42 ").unwrap() {
            assert_eq!(found(&THEIRS[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn sockets_of_both_families_are_found_in_the_kernels_lists() {
        let own = Some(geteuid().as_raw());
        for (listens, connects) in [
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::]", "127.0.0.1"),
            ("[::]", "::ffff:127.0.0.1"),
        ] {
            let listener = TcpListener::bind(format!("{listens}:0")).expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let client = TcpStream::connect((connects, port)).expect("it listens");
            let (server, theirs) = listener.accept().expect("a client");
            let ours = server.local_addr().expect("an address");
            assert_eq!(user_of(theirs, ours), own, "{listens} {connects}");
            drop(client);
            assert_eq!(user_of(theirs, ours), None, "{listens} {connects}: closed");
        }
    }
}
