//! Ketama as in libmemcached (`KETAMA_WEIGHTED` with MD5): each server has many points on a circle, and a key belongs
//! to the next point.
//!
//! Adding or removing a server moves only its share of the keys. twemproxy, pylibmc, php-memcached and spymemcached
//! choose the same servers if they are configured to be compatible with libmemcached.
//!
//! # Layout
//! ```text
//! points, sorted   (hash 32, server 32) …      160 per server, more for a heavier one
//! ```
//! # Costs
//! A choice takes one MD5 and a binary search. A point takes 8 bytes.
//!
//! # Bad at
//! An even load: with 160 points, the standard deviation of a server's share is 1/sqrt(160), or 8 %.

use md5::{Digest, Md5};

use crate::Address;

/// The circle of points.
#[derive(Clone, Debug)]
pub struct Ketama {
    points: Vec<(u32, u32)>,
}

impl Ketama {
    /// Creates the circle of servers with these names and weights. The names that other clients use are `host:port`, or `host`
    /// at port 11211. A server with weight 0 gets no keys. If all weights are 0, the circle has no points.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "libmemcached's arithmetic, single precision included"
    )]
    pub fn new<N: AsRef<str>>(servers: &[(N, u32)]) -> Self {
        let total: u64 = servers.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let live = servers.len() as f32;
        let mut points = Vec::with_capacity(servers.len() * POINTS);
        for (server, (name, weight)) in (0..).zip(servers) {
            let share = *weight as f32 / total as f32;
            let digests = share * POINTS as f32 / 4.0 * live;
            let digests = (f64::from(digests) + 0.000_000_000_1).floor() as u32;
            for index in 0..digests {
                let digest = Md5::digest(format!("{}-{index}", name.as_ref()));
                for word in digest.as_chunks::<4>().0 {
                    points.push((u32::from_le_bytes(*word), server));
                }
            }
        }
        points.sort_unstable();
        Self { points }
    }

    /// Returns the server of `key`, or 0 if there is none.
    #[must_use]
    pub fn choose(&self, key: &[u8]) -> usize {
        let digest = Md5::digest(key);
        self.next_to(u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]))
    }

    /// Returns the server of the first point at or after `hash`, for keys with another hash. 0 if there is none.
    #[must_use]
    pub fn next_to(&self, hash: u32) -> usize {
        let at = self.points.partition_point(|&(point, _)| point < hash);
        let next = self.points.get(at).or(self.points.first());
        next.map_or(0, |&(_, server)| server as usize)
    }
}

/// Returns libmemcached's name of a server on the circle: `host:port`, or the host alone on memcached's own port.
#[must_use]
pub(crate) fn server_name(address: &Address) -> String {
    match address {
        Address::Tcp { host, port: 11211 } => host.clone(),
        Address::Tcp { host, port } => format!("{host}:{port}"),
        Address::Unix(path) => format!("{}:0", path.display()),
    }
}

/// The number of points of a server with mean weight.
const POINTS: usize = 160;
