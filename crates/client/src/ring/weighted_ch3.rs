//! mcrouter's `WeightedCh3`: [`ch3`], and a lot drawn whether the server takes the key; else the key with a number
//! behind it is tried.
//!
//! Lowering a server's weight moves only keys away from it, and raising it again brings the same ones back.
//!
//! # Costs
//! [`ch3`] and one [`spooky32`] a try; 1 / (mean weight) tries.

use super::{ch3, spooky32};

/// The server of `key` among those with `weights`, each from 0 to 1; `tries` is mcrouter's 32 by default.
///
/// After so many refusals the last choice stands. Without weights it is 0.
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
        // mcrouter writes the number's digits from the last to the first.
        salted.extend(salt.to_string().bytes().rev());
        server = ch3(&salted, weights.len());
        if takes(&salted, server) {
            break;
        }
    }
    server
}

/// mcrouter's number of tries where none is configured.
pub const TRIES: usize = 32;

const SEED: u32 = 0xface_2014;
