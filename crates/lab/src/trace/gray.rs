//! Zipf ranks as YCSB draws them, for figures that were measured with YCSB.
//!
//! Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994: the two most popular ranks exactly,
//! the others by inverting a continuous approximation. Over 1e8 ranks with exponent 0.99 the thousand most popular get
//! 37.9 % of the requests instead of 37.2 %, which is worth half a point of an LRU's misses.
//! [`guira_bench::Zipf`] is exact.

use guira_bench::Rng;

/// The distribution over ranks 0 (most popular) to n - 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrayZipf {
    ranks: f64,
    /// Sums of the probabilities, not yet divided by the whole: of all ranks, and of the first two.
    sums: (f64, f64),
    alpha: f64,
    eta: f64,
}

impl GrayZipf {
    /// Over `ranks` of at least 2, with an exponent below 1.
    pub(crate) fn new(ranks: u64, theta: f64) -> Self {
        let all = sum(ranks, theta);
        let two = 1.0 + 0.5f64.powf(theta);
        let ranks = ranks as f64;
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - theta)) / (1.0 - two / all);
        Self { ranks, sums: (all, two), alpha: 1.0 / (1.0 - theta), eta }
    }

    /// Draws a rank.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of ranks"
    )]
    pub(crate) fn rank(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit();
        let (all, two) = self.sums;
        match unit * all {
            first if first < 1.0 => 0,
            second if second < two => 1,
            _ => (self.ranks * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64,
        }
    }
}

/// The sum of k^-theta over the ranks: the first exactly, the rest by its integral between the half numbers.
fn sum(ranks: u64, theta: f64) -> f64 {
    let exactly = ranks.min(EXACTLY);
    let first: f64 = (1..=exactly).map(|k| (k as f64).powf(-theta)).sum();
    let area = |x: f64| x.powf(1.0 - theta) / (1.0 - theta);
    first + area(ranks as f64 + 0.5) - area(exactly as f64 + 0.5)
}

/// Beyond so many ranks the integral differs from the sum by less than a part in 1e9.
const EXACTLY: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_which_ycsb_has_as_a_constant() {
        assert!((sum(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn popular_ranks_have_the_share_that_the_formula_gives_them() {
        let (zipf, mut rng) = (GrayZipf::new(100_000_000, 0.99), Rng::new(1));
        let popular = (0..200_000).filter(|_| zipf.rank(&mut rng) < 1000).count();
        // 0.37895 by the inverse; five standard deviations are 1085.
        assert!(popular.abs_diff(75_790) < 1085, "{popular}");
    }
}
