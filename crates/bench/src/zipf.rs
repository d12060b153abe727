//! Zipf ranks: rank k of n is drawn with a probability in proportion to 1 / k^theta.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996): the density is bounded by an integrable hat, the hat's
//! integral is inverted, and the little that the hat holds too much is rejected. Exact for every
//! theta >= 0, 1 included, where the approximation that YCSB uses (Gray et al., SIGMOD 1994) is only
//! defined below 1 and needs the sum over all n beforehand.
//!
//! # Costs
//! No table, nothing to precompute; about 1.1 rounds of one exponential and one logarithm a number
//! (some 50 ns).

use crate::rng::Rng;

/// The distribution over ranks 0 (most popular) to n - 1.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: u64,
    theta: f64,
    /// The hat's integral at the left end of rank 1 and the right end of rank n.
    integral: (f64, f64),
    /// Points nearer than this to their rank are under the density for sure.
    sure: f64,
}

impl Zipf {
    /// Over `ranks` >= 1 ranks with the exponent `theta` >= 0 (0 is uniform; YCSB's is 0.99).
    pub fn new(ranks: u64, theta: f64) -> Self {
        debug_assert!(ranks >= 1 && theta >= 0.0);
        let mut zipf = Self { ranks, theta, integral: (0.0, 0.0), sure: 0.0 };
        zipf.integral = (zipf.area(1.5) - 1.0, zipf.area(ranks as f64 + 0.5));
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank, 0 being the most popular.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let (first, last) = self.integral;
        loop {
            let area = last + rng.unit() * (first - last);
            let x = self.area_inverse(area);
            let k = x.round().clamp(1.0, self.ranks as f64);
            if k - x <= self.sure || area >= self.area(k + 0.5) - self.density(k) {
                return rank_of(k).min(self.ranks - 1);
            }
        }
    }

    /// The hat: x^-theta.
    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the hat up to x, by a form that stays exact near theta = 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let y = (1.0 - self.theta) * log;
        log * if y.abs() > 1e-8 { y.exp_m1() / y } else { 1.0 + y / 2.0 }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let y = (area * (1.0 - self.theta)).max(-1.0);
        (area * if y.abs() > 1e-8 { y.ln_1p() / y } else { 1.0 - y / 2.0 }).exp()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "k is a whole number between 1 and the number of ranks"
)]
fn rank_of(k: f64) -> u64 {
    k as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws `draws` ranks and returns chi-square over the ranks pooled into cells that expect at
    /// least `draws` / 400 each, with the number of cells.
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
                // Mean `cells`, deviation sqrt(2 cells): five deviations, fixed seed.
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
