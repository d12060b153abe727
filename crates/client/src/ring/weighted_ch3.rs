//! mcrouter's `WeightedCh3`: [`ch3`] chooses a server, and a pseudo-random draw decides whether it takes the key. If
//! not, the key with a number appended is tried.
//!
//! Lowering a server's weight only moves keys away from it. Raising it again brings the same keys back.
//!
//! # Costs
//! One [`ch3`] and one [`spooky32`] per try; on average 1 / (mean weight) tries.

use super::{ch3, spooky32};

/// Returns the server of `key` among servers with these `weights`, each from 0 to 1. mcrouter's default for `tries` is
/// 32.
///
/// After so many refusals, the last choice stands. Without weights the result is 0.
#[must_use]
pub fn weighted_ch3(key: &[u8], weights: &[f64], tries: usize) -> usize {
    let takes = |key: &[u8], server: usize| {
        let lot = f64::from(spooky32(key, SEED));
        weights.get(server).is_some_and(|weight| lot < (weight * f64::from(u32::MAX)).trunc())
    };
    let mut server = ch3(key, weights.len());
    if tries == 0 || takes(key, server) {
        return if tries == 0 { 0 } else { server };
    }
    let mut salted = key.to_vec();
    for salt in 0..tries - 1 {
        salted.truncate(key.len());
        // mcrouter appends the digits of the number in reverse.
        salted.extend(salt.to_string().bytes().rev());
        server = ch3(&salted, weights.len());
        if takes(&salted, server) {
            break;
        }
    }
    server
}

/// mcrouter's default for the number of tries.
pub const TRIES: usize = 32;

const SEED: u32 = 0xface_2014;
