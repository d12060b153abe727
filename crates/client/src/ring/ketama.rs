//! Ketama as libmemcached has it (`KETAMA_WEIGHTED` with MD5): servers at many points of a circle, a key belongs to the
//! next point.
//!
//! A server added or taken out moves only its share of the keys. twemproxy, pylibmc, php-memcached and spymemcached put
//! keys on the same servers, if they are told to be compatible with it.
//!
//! # Layout
//! ```text
//! points, sorted   (hash 32, server 32) …      160 a server, more for a heavier one
//! ```
//! # Costs
//! A choice is one MD5 and a binary search. 8 bytes a point.
//! Bad at: an even load; with 160 points a server's share is off by 1/sqrt(160), or 8 %, in one standard deviation.

use md5::{Digest, Md5};

use crate::Address;

/// The circle.
#[derive(Clone, Debug)]
pub struct Ketama {
    points: Vec<(u32, u32)>,
}

impl Ketama {
    /// The circle of servers with their names on it and their weights; [`server_name`] makes a name that others agree
    /// on. A server without weight gets no key, unless none has any: then there are no points.
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

    /// The server of `key`; 0 if there is none.
    #[must_use]
    pub fn choose(&self, key: &[u8]) -> usize {
        let digest = Md5::digest(key);
        self.next_to(u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]))
    }

    /// The server of the point at or behind `hash`, for keys that are hashed otherwise; 0 if there is none.
    #[must_use]
    pub fn next_to(&self, hash: u32) -> usize {
        let at = self.points.partition_point(|&(point, _)| point < hash);
        let next = self.points.get(at).or(self.points.first());
        next.map_or(0, |&(_, server)| server as usize)
    }
}

/// What libmemcached calls a server on its circle: `host:port`, or the host alone on memcached's own port.
#[must_use]
pub fn server_name(address: &Address) -> String {
    match address {
        Address::Tcp { host, port: 11211 } => host.clone(),
        Address::Tcp { host, port } => format!("{host}:{port}"),
        Address::Unix(path) => format!("{}:0", path.display()),
    }
}

/// Points of a server of mean weight.
const POINTS: usize = 160;
