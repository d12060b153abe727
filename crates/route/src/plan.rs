//! The size of a small cache in front of n servers with which no choice of keys overloads one of them.
//!
//! The source is Fan's thesis (CMU 2013), chapter 2, and the paper of `SoCC` 2011. A hash that clients can't predict
//! assigns keys to servers. The best way to overload a server is then to request x keys equally often. The cache
//! answers c of them. The rest falls on the servers like x − c balls into n bins. With c = k·n·ln n + 1, the load of
//! the fullest bin is bounded by a constant that depends only on k.
//!
//! Loads are *normalised*: 1 is a server's share if all servers got the same share of all queries. All logarithms are
//! natural unless a base is given.
//!
//! | function | equation |
//! |---|---|
//! | [`bound`] | 2.9 |
//! | [`worst_keys`] | 2.10 |
//! | [`worst_bound`] | 2.12 |
//! | [`bound_of_k`] | 2.13 |
//! | [`entries`] | c = k·n·ln n + 1 |
//! | [`unequal_factor`] | 2.15 to 2.18 |
//!
//! [`entries_by_chance`] isn't from the thesis: it is an exact Chernoff bound on the fullest bin, for a given
//! probability of failure. The thesis approximates, and says "with high probability". The exact bound needs fewer
//! entries if there are many servers.
//!
//! # Bad at
//! Rings with unequal shares: the bound then holds for the share times the imbalance. A consistent hash with few points
//! per server is off by half and more.

pub mod regional;
pub mod command;

/// The α of the thesis' figures: at 2, the bound is an envelope of the extremes.
pub const ALPHA: f64 = 2.0;

/// The highest expected load of a server, if `keys` keys are requested equally often and the cache holds `entries` of
/// them. Eq. 2.9.
#[must_use]
pub fn bound(servers: f64, entries: f64, keys: f64, alpha: f64) -> f64 {
    let beyond = keys - entries;
    (beyond + alpha * (2.0 * beyond * servers * servers.ln()).sqrt()) / (keys - 1.0)
}

/// The number of keys that maximises [`bound`]. Eq. 2.10.
#[must_use]
pub fn worst_keys(servers: f64, entries: f64, alpha: f64) -> f64 {
    let q = steepness(servers, entries, alpha);
    1.0 + 2.0 * (entries - 1.0) * (1.0 + 1.0 / (q - 1.0))
}

/// The largest [`bound`] over all numbers of keys. Eq. 2.12.
#[must_use]
pub fn worst_bound(servers: f64, entries: f64, alpha: f64) -> f64 {
    f64::midpoint(1.0, steepness(servers, entries, alpha))
}

/// [`worst_bound`] of k·n·ln n + 1 entries, for any n. Eq. 2.13.
#[must_use]
pub fn bound_of_k(k: f64, alpha: f64) -> f64 {
    f64::midpoint(1.0, (1.0 + 2.0 * alpha * alpha / k).sqrt())
}

/// The k for which [`bound_of_k`] is `target`, which must be above 1.
#[must_use]
pub(crate) fn k_of(target: f64, alpha: f64) -> f64 {
    let q = 2.0 * target - 1.0;
    2.0 * alpha * alpha / (q * q - 1.0)
}

/// The number of entries: c = k·n·ln n + 1.
#[must_use]
pub fn entries(servers: f64, k: f64) -> f64 {
    k * servers * servers.ln() + 1.0
}

/// The factor for the number of entries if servers have `each` shares on average, and the weakest has one. Eq. 2.15 to
/// 2.18: `v + v·log_n v`.
#[must_use]
pub fn unequal_factor(servers: f64, each: f64) -> f64 {
    each + each * each.ln() / servers.ln()
}

fn steepness(servers: f64, entries: f64, alpha: f64) -> f64 {
    (1.0 + 2.0 * alpha * alpha * servers * servers.ln() / (entries - 1.0)).sqrt()
}

/// The smallest number of entries that keeps each server's load below `target`, except with a probability of at most
/// `failure`. It holds for any number of keys, over the random places of the keys. Also returns the number of keys that
/// comes closest. `target` must be above 1, and there must be at least two servers.
///
/// The probability that one of n bins gets more than its share times `target` is at most
/// n · exp(−(x − c) · KL(p ‖ 1/n)). Here p = target · x / (n · (x − c)) is the share of the balls that would be too
/// many.
#[must_use]
pub(crate) fn entries_by_chance(servers: f64, target: f64, failure: f64) -> (u64, u64) {
    let allowed = failure.ln();
    let (mut too_few, mut enough) = (1u64, 2u64);
    while most_likely(servers, enough as f64, target).0 > allowed {
        too_few = enough;
        enough *= 2;
    }
    while enough - too_few > 1 {
        let middle = u64::midpoint(too_few, enough);
        let is_enough = most_likely(servers, middle as f64, target).0 <= allowed;
        *(if is_enough { &mut enough } else { &mut too_few }) = middle;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "keys, above 0")]
    let keys = most_likely(servers, enough as f64, target).1.round() as u64;
    (enough, keys)
}

/// The logarithm of the largest probability of failure over all numbers of keys, and that number.
fn most_likely(servers: f64, entries: f64, target: f64) -> (f64, f64) {
    let chance = |beyond: f64| failure_ln(servers, entries, entries + beyond, target);
    // The curve has one maximum: search a coarse grid, and then between its neighbours.
    let steps = 400;
    let at = |step: f64| (entries.max(8.0) * 1e4).powf(step / f64::from(steps));
    let top = (0..=steps).map(f64::from).max_by(|a, b| chance(at(*a)).total_cmp(&chance(at(*b))));
    let top = top.expect("the grid has points");
    let (mut low, mut high) = (at(top - 1.0), at(top + 1.0));
    while high - low > 0.01 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if chance(left) < chance(right) { low = left } else { high = right }
    }
    let beyond = f64::midpoint(low, high);
    (chance(beyond), entries + beyond)
}

/// The logarithm of the Chernoff bound; minus infinity if there are too few balls to fill a bin.
fn failure_ln(servers: f64, entries: f64, keys: f64, target: f64) -> f64 {
    let beyond = keys - entries;
    let share = target * keys / (servers * beyond);
    if share > 1.0 {
        return f64::NEG_INFINITY;
    }
    let rest = 1.0 - share;
    let tail = if rest > 0.0 { rest * (rest / (1.0 - 1.0 / servers)).ln() } else { 0.0 };
    servers.ln() - beyond * (share * (share * servers).ln() + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn bounds_of_k_are_the_thesis() {
        for (k, expected) in [
            (1.0, 2.0),
            (2.0, 1.618_033_988_749_895),
            (4.0, 1.366_025_403_784_438_6),
            (8.0, 1.207_106_781_186_547_5),
            (16.0, 1.112_372_435_695_794_5),
        ] {
            near(bound_of_k(k, ALPHA), expected);
            near(k_of(expected, ALPHA), k);
            near(worst_bound(85.0, entries(85.0, k), ALPHA), expected);
        }
        near(k_of(1.2, ALPHA), 8.333_333_333_333_336);
    }

    #[test]
    fn the_thesis_cache_for_85_nodes_has_3023_entries() {
        near(entries(85.0, 8.0).ceil(), 3023.0);
        near(worst_keys(10.0, entries(10.0, 8.0), ALPHA), 1_258.842_760_474_692);
        near(worst_keys(10.0, entries(10.0, 1.0), ALPHA), 70.077_552_789_821_38);
    }

    #[test]
    fn the_worst_number_of_keys_is_the_worst() {
        let (servers, held) = (100.0, 1000.0);
        let keys = worst_keys(servers, held, ALPHA);
        assert!((keys - 3713.82).abs() < 0.01, "{keys}");
        near(bound(servers, held, keys, ALPHA), worst_bound(servers, held, ALPHA));
        assert!((worst_bound(servers, held, ALPHA) - 1.58257).abs() < 1e-5);
        for other in [1500.0, 3000.0, 3600.0, 3800.0, 20_000.0] {
            assert!(bound(servers, held, other, ALPHA) < bound(servers, held, keys, ALPHA));
        }
    }

    #[test]
    fn unequal_servers_need_more_entries() {
        for (servers, each, expected) in [
            (100.0, 2.0, 2.301_029_995_663_981),
            (100.0, 8.0, 11.612_359_947_967_774),
            (1000.0, 2.0, 2.200_686_663_775_987_6),
            (85.0, 1.0, 1.0),
        ] {
            near(unequal_factor(servers, each), expected);
        }
    }

    #[test]
    fn entries_by_chance_are_those_of_an_independent_search() {
        for (servers, target, failure, expected) in [
            (10.0, 1.1, 1e-3, 399),
            (10.0, 1.2, 1e-6, 337),
            (10.0, 1.5, 1e-3, 70),
            (85.0, 1.2, 1e-6, 3603),
            (85.0, 1.5, 1e-3, 831),
            (100.0, 1.1, 1e-6, 8828),
            (1000.0, 1.2, 1e-3, 32468),
            (1000.0, 1.5, 1e-6, 18091),
        ] {
            let (entries, keys) = entries_by_chance(servers, target, failure);
            assert_eq!(entries, expected, "{servers} servers, {target}, {failure}");
            assert!(keys > entries);
        }
    }
}
