//! Clients that get and set at a fixed rate while something happens to a cluster: what they saw, moment by moment.
//!
//! A client waits for each reply. So it falls behind its rate while it waits, and doesn't catch up.

use super::super::load::key;
use super::verdicts::{Busy, Meter};
use crate::live::{Answer, Client, Router, pause, pause_until};
use crate::measure::now;
use anyhow::Result;
use guira_bench::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What the clients do.
pub(super) struct Traffic {
    pub(super) seed: u64,
    /// So many keys are stored already, and are only read.
    pub(super) keys: u64,
    /// The time before something happens, and after it.
    pub(super) around: Duration,
}

/// What they saw.
pub(super) struct Seen {
    /// Replies per second in each [`BIN`] from the begin.
    pub(super) rates: Vec<f64>,
    /// When it began to happen, and when it was over.
    pub(super) begun: Duration,
    pub(super) ended: Duration,
    pub(super) longest_get: Duration,
    pub(super) longest_set: Duration,
    pub(super) busy: Busy,
    /// Requests without a good reply.
    pub(super) errors: u64,
    /// Keys of which a stored value is gone, or older than the last one whose store was answered.
    pub(super) lost: u64,
}

impl Seen {
    /// The mean rate in the bins that lie between two moments.
    pub(super) fn rate(&self, from: Duration, to: Duration) -> f64 {
        let at = |time: Duration| (time.as_secs_f64() / BIN.as_secs_f64()).floor();
        let between = |it: &(usize, &f64)| it.0 as f64 > at(from) && (it.0 as f64) < at(to);
        let rates: Vec<f64> =
            self.rates.iter().enumerate().filter(between).map(|it| *it.1).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    }

    /// The mean rate before it happened. The first moments don't count.
    pub(super) fn before(&self) -> f64 {
        self.rate(self.begun / 3, self.begun)
    }

    /// Each bin's begin in seconds, and its rate relative to that before. The first and the last bin aren't whole.
    pub(super) fn relative(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let before = self.before();
        let whole = self.rates.iter().enumerate().skip(1).take(self.rates.len().saturating_sub(3));
        whole.map(move |(at, rate)| (at as f64 * BIN.as_secs_f64(), rate / before))
    }
}

/// What one client saw.
#[derive(Default)]
struct Own {
    /// When replies came.
    replies: Vec<Duration>,
    longest_get: Duration,
    longest_set: Duration,
    errors: u64,
    /// Values of its own keys: the last one whose store was answered.
    stored: Vec<u64>,
}

impl Traffic {
    /// Runs the clients while `happens` does, and looks for lost values at the end.
    pub(super) fn watch(
        &self,
        router: &Router,
        happens: impl FnOnce() -> Result<()>,
    ) -> Result<Seen> {
        let (port, meter) = (router.port, Meter::read(router)?);
        let (begun, stop) = (now(), AtomicBool::new(false));
        let (result, all) = thread::scope(|scope| {
            let stop = &stop;
            let spawn = |place| scope.spawn(move || self.client(port, place, begun, stop));
            let clients: Vec<_> = (0..CLIENTS).map(spawn).collect();
            pause(self.around);
            let from = begun.elapsed();
            let happened = happens();
            let to = begun.elapsed();
            pause(self.around);
            stop.store(true, Relaxed);
            let join = |client: thread::ScopedJoinHandle<'_, _>| {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let all: Vec<Own> = clients.into_iter().map(join).collect();
            (happened.map(|()| [from, to]), all)
        });
        let [from, to] = result?;
        let (length, busy) = (begun.elapsed(), Meter::read(router)?.busy_since(meter));
        let bins = length.as_secs_f64() / BIN.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few hundred"
        )]
        let mut rates = vec![0.0; bins.ceil() as usize];
        for reply in all.iter().flat_map(|own| &own.replies) {
            let bin = usize::try_from(reply.as_micros() / BIN.as_micros())?;
            rates[bin] += 1.0 / BIN.as_secs_f64();
        }
        Ok(Seen {
            rates,
            begun: from,
            ended: to,
            longest_get: all.iter().map(|own| own.longest_get).max().unwrap_or_default(),
            longest_set: all.iter().map(|own| own.longest_set).max().unwrap_or_default(),
            busy,
            errors: all.iter().map(|own| own.errors).sum(),
            lost: self.lost(port, &all)?,
        })
    }

    fn client(&self, port: u16, place: u64, begun: Instant, stop: &AtomicBool) -> Own {
        let mut own = Own { stored: vec![0; OWN_KEYS], ..Own::default() };
        let mut rng = Rng::new(self.seed * CLIENTS + place);
        let mut client = None;
        let mut value = 0;
        let mut due = begun + EACH.mul_f64(place as f64 / CLIENTS as f64);
        while !stop.load(Relaxed) {
            pause_until(due);
            let at = now();
            due = (due + EACH).max(at);
            let own_key = usize::try_from(rng.below(OWN_KEYS as u64)).unwrap_or(0);
            let is_set = rng.below(SET_OF) == 0;
            value += u64::from(is_set);
            let mut ask = || -> Result<bool> {
                let client = match &mut client {
                    Some(client) => client,
                    none => none.insert(Client::connect(port)?),
                };
                match is_set {
                    true => client.set(&own_name(place, own_key), value),
                    false => Ok(client.get(&key(rng.below(self.keys)))? == Answer::Value(1)),
                }
            };
            let answer = ask();
            let waited = at.elapsed();
            if is_set {
                own.longest_set = own.longest_set.max(waited);
            } else {
                own.longest_get = own.longest_get.max(waited);
            }
            match answer {
                Ok(true) if is_set => own.stored[own_key] = value,
                Ok(true) => {}
                Ok(false) => own.errors += 1,
                Err(_) => {
                    own.errors += 1;
                    client = None;
                }
            }
            own.replies.push(begun.elapsed());
        }
        own
    }

    /// The number of keys of which something is lost.
    fn lost(&self, port: u16, all: &[Own]) -> Result<u64> {
        let mut client = Client::connect(port)?;
        let mut lost = 0;
        for (place, own) in (0..).zip(all) {
            for (number, stored) in own.stored.iter().enumerate().filter(|it| *it.1 > 0) {
                let is_there = match client.get(&own_name(place, number))? {
                    // A later store may have taken place without an answer.
                    Answer::Value(found) => found >= *stored,
                    Answer::Miss | Answer::Error => false,
                };
                lost += u64::from(!is_there);
            }
        }
        for number in 0..self.keys {
            lost += u64::from(client.get(&key(number))? != Answer::Value(1));
        }
        Ok(lost)
    }
}

fn own_name(client: u64, number: usize) -> String {
    format!("own-{client}-{number}")
}

/// The length of a bin.
pub(super) const BIN: Duration = Duration::from_millis(100);
const CLIENTS: u64 = 20;
/// A client begins a request this often, so that all begin 1000 a second.
const EACH: Duration = Duration::from_millis(20);
/// Of so many requests one is a set.
const SET_OF: u64 = 4;
const OWN_KEYS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_bins_between_two_moments() {
        let rates: Vec<f64> = (0..10).map(|bin| if bin < 5 { 100.0 } else { 50.0 }).collect();
        let seen = Seen {
            rates,
            begun: BIN * 5,
            ended: BIN * 6,
            longest_get: BIN,
            longest_set: BIN,
            busy: Busy::default(),
            errors: 0,
            lost: 0,
        };
        assert_eq!(seen.before(), 100.0);
        assert_eq!(seen.rate(BIN * 5, BIN * 9), 50.0);
        let relative: Vec<f64> = seen.relative().map(|it| it.1).collect();
        assert_eq!(relative, [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5]);
    }
}
