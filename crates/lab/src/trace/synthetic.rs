//! Traces made by rule: zipf, zipf with objects asked for once, zipf whose popular objects change.
//!
//! The rank of a request is drawn from a zipf distribution, and the rank's object is looked up. With `once`, that share
//! of the requests is for objects that are never requested again. With `drift`, every [`DRIFT_EVERY`] requests that
//! share of the ranks gets new objects, popular ones more often: the rank is the square of a uniform number.

use std::str::FromStr;

use guira_bench::{Rng, Zipf, mix};

use super::request::TraceRequest;

/// A trace made by rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Synthetic {
    /// Exponent of the distribution of ranks.
    pub theta: f64,
    /// How many ranks there are.
    pub keys: u64,
    /// How many requests to make.
    pub requests: u64,
    /// Share of requests for an object that is never asked for again.
    pub once: f64,
    /// Share of the ranks that gets new objects every 20,000 requests.
    pub drift: f64,
}

impl Synthetic {
    /// Calls `each` with every request; the same seed gives the same requests.
    pub(crate) fn generate(&self, seed: u64, each: &mut dyn FnMut(TraceRequest)) {
        let zipf = Zipf::new(self.keys, self.theta);
        let mut rng = Rng::new(seed);
        let mut renewed = Renewed::default();
        let mut fresh = self.keys;
        let mut next_key = || {
            fresh += 1;
            mix(fresh - 1)
        };
        for number in 0..self.requests {
            if self.drift > 0.0 && number % DRIFT_EVERY == DRIFT_EVERY - 1 {
                for _ in 0..whole(self.drift * self.keys as f64) {
                    let rank = whole(self.keys as f64 * rng.unit().powi(2));
                    renewed.insert(rank.min(self.keys - 1), next_key());
                }
            }
            let key = if self.once > 0.0 && rng.unit() < self.once {
                next_key()
            } else {
                let rank = zipf.rank(&mut rng);
                renewed.get(&rank).copied().unwrap_or_else(|| mix(rank))
            };
            each(TraceRequest::get(key));
        }
    }
}

impl FromStr for Synthetic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not zipf:THETA:KEYS:REQUESTS[:once=SHARE][:drift=SHARE]");
        let mut fields = text.split(':');
        let is_zipf = fields.next() == Some("zipf");
        let mut number = || fields.next()?.parse::<f64>().ok().filter(|number| *number >= 0.0);
        let (theta, keys, requests) = (number(), number(), number());
        let (Some(theta), Some(keys), Some(requests), true) = (theta, keys, requests, is_zipf)
        else {
            return Err(wrong());
        };
        let mut made =
            Self { theta, keys: whole(keys), requests: whole(requests), once: 0.0, drift: 0.0 };
        for field in fields {
            let (name, value) = field.split_once('=').ok_or_else(wrong)?;
            let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let place = match name {
                "once" => &mut made.once,
                "drift" => &mut made.drift,
                _ => return Err(wrong()),
            };
            *place = share.ok_or_else(wrong)?;
        }
        let is_sensible = made.keys > 0 && made.theta.is_finite();
        if is_sensible { Ok(made) } else { Err(wrong()) }
    }
}

/// Ranks whose object isn't the first one any more.
type Renewed = rapidhash::RapidHashMap<u64, u64>;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates; all that are given here are counts"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Requests between two changes of what is popular.
pub(super) const DRIFT_EVERY: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded::{Recorder, Trace};

    fn made(text: &str) -> Trace {
        let mut recorder = Recorder::default();
        text.parse::<Synthetic>().unwrap().generate(1, &mut |request| recorder.push(request));
        recorder.finish()
    }

    #[test]
    fn objects_asked_for_once_add_their_share_of_requests_to_the_footprint() {
        let (plain, once) = (made("zipf:0.9:1000:1e5"), made("zipf:0.9:1000:1e5:once=0.15"));
        assert_eq!((plain.len(), plain.footprint()), (100_000, 1000));
        // Five standard deviations of a binomial with n = 100 000 and p = 0.15 are 565.
        assert!(once.footprint().abs_diff(16_000) < 565, "{}", once.footprint());
    }

    #[test]
    fn drift_adds_objects() {
        let drifting = made("zipf:0.9:1000:1e5:drift=0.1");
        assert!((1100..=1500).contains(&drifting.footprint()), "{}", drifting.footprint());
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["zip:1:2:3", "zipf:1:2", "zipf:1:0:3", "zipf:nan:2:3", "zipf:1:2:3:x=1"] {
            assert!(text.parse::<Synthetic>().is_err(), "{text}");
        }
        assert!("zipf:1:2:3:once=2".parse::<Synthetic>().is_err());
    }
}
