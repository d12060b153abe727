//! Zipf ranks: rank k of n is drawn with a probability proportional to 1 / k^theta.
//!
//! The implementation is that of `rand_distr`, which is exact for every theta >= 0, including 1. The
//! approximation that YCSB uses (Gray et al., SIGMOD 1994) is only defined below 1, and needs the sum
//! over all n beforehand.
//!
//! # Costs
//! No table and no preparation; about 1.1 rounds of up to three powers per number, 70 to 110 ns.

use crate::rng::Rng;
use rand_distr::Distribution as _;

/// The distribution over ranks 0 (most popular) to n - 1.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    from_one: rand_distr::Zipf<f64>,
    ranks: u64,
}

impl Zipf {
    /// A distribution over `ranks` >= 1 ranks with the exponent `theta` >= 0 (0 is uniform; YCSB uses 0.99).
    ///
    /// # Panics
    /// If there are no ranks, or the exponent is negative.
    pub fn new(ranks: u64, theta: f64) -> Self {
        let from_one = rand_distr::Zipf::new(ranks as f64, theta);
        Self { from_one: from_one.unwrap_or_else(|error| panic!("{error}")), ranks }
    }

    /// Draws a rank, 0 being the most popular.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 1; rounding may put it above the number of ranks"
    )]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        (self.from_one.sample(rng) as u64 - 1).min(self.ranks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws `draws` ranks. Returns chi-square over the ranks, pooled into cells that expect at least
    /// `draws` / 400 each, and the number of cells.
    fn chi_square(ranks: u64, theta: f64, draws: u32) -> (f64, usize) {
        let zipf = Zipf::new(ranks, theta);
        let mut rng = Rng::new(42);
        let mut seen = vec![0u32; usize::try_from(ranks).unwrap()];
        for _ in 0..draws {
            seen[usize::try_from(zipf.rank(&mut rng)).unwrap()] += 1;
        }
        let total: f64 = (1..=ranks).map(|k| (k as f64).powf(-theta)).sum();
        let (mut sum, mut cells, mut cell) = (0.0, 0, (0.0, 0.0));
        for (rank, &n) in seen.iter().enumerate() {
            let expected = f64::from(draws) * ((rank + 1) as f64).powf(-theta) / total;
            cell = (cell.0 + f64::from(n), cell.1 + expected);
            if cell.1 >= f64::from(draws) / 400.0 {
                sum += (cell.0 - cell.1).powi(2) / cell.1;
                cells += 1;
                cell = (0.0, 0.0);
            }
        }
        (sum, cells)
    }

    #[test]
    fn ranks_have_the_analytic_probabilities() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2] {
            for ranks in [10, 1000, 100_000] {
                let (sum, cells) = chi_square(ranks, theta, 400_000);
                // The mean is `cells`, the deviation sqrt(2 cells): five deviations, with a fixed seed.
                let bound = cells as f64 + 5.0 * (2.0 * cells as f64).sqrt();
                assert!(sum < bound, "theta {theta}, {ranks} ranks: {sum} over {cells} cells");
            }
        }
    }

    #[test]
    fn the_check_notices_a_wrong_exponent() {
        let wrong = Zipf::new(1000, 0.9);
        let mut rng = Rng::new(42);
        let zeros = (0..400_000).filter(|_| wrong.rank(&mut rng) == 0).count();
        let total: f64 = (1..=1000).map(|k| f64::from(k).powf(-0.99)).sum();
        let expected = 400_000.0 / total;
        assert!((zeros as f64 - expected).powi(2) / expected > 100.0);
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let mut rng = Rng::new(3);
        assert!((0..100).all(|_| Zipf::new(1, 0.99).rank(&mut rng) == 0));
    }
}
