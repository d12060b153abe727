//! Rates against threads, with a control that tells how much the machine allows.
//!
//! A second thread doubles nothing if the machine's second processor is busy with something else. So beside the tables
//! there is work that shares nothing: what it gains from more threads is what can be gained at that moment, and a
//! table's *share* is its own gain divided by that. All numbers of threads and all tables take turns in the same rounds.

use super::f5a::in_turns;
use crate::figures::check;
use crate::measure::{Rounds, Spread};
use crate::{Bound, Check, Series};
use anyhow::Result;

/// Rates by number of threads and variant; the last variant is the control.
pub(crate) struct Gains {
    threads: &'static [usize],
    variants: usize,
    rounds: Rounds,
}

impl Gains {
    /// Measures; `one` is given the number of threads, the variant, and a seed.
    pub(crate) fn measure(
        threads: &'static [usize],
        variants: usize,
        seed: u64,
        one: impl Fn(usize, usize, u64) -> f64,
    ) -> Result<Self> {
        let one = |turn: usize, seed| one(threads[turn / variants], turn % variants, seed);
        let rounds = in_turns(threads.len() * variants, ROUNDS, seed, one)?;
        Ok(Self { threads, variants, rounds })
    }

    /// The median rate of a variant with the threads at `place`, in millions a second.
    pub(crate) fn rate(&self, place: usize, variant: usize) -> f64 {
        self.rounds.median(place * self.variants + variant) / 1e6
    }

    /// A variant's rates against threads.
    pub(crate) fn line(&self, name: &str, variant: usize) -> Series {
        let point =
            |(place, &threads): (usize, &usize)| (threads as f64, self.rate(place, variant));
        crate::figures::series(name, self.threads.iter().enumerate().map(point))
    }

    /// With the threads at `place`, the rate of one variant to that of another.
    pub(crate) fn ratio(&self, place: usize, over: usize, under: usize) -> f64 {
        let [over, under] = [over, under].map(|variant| place * self.variants + variant);
        self.rounds.ratio(over, under).median
    }

    /// A variant's rate with the threads at `place`, to its rate with those at the first place.
    pub(crate) fn gain(&self, place: usize, variant: usize) -> f64 {
        self.rounds.ratio(place * self.variants + variant, variant).median
    }

    /// What the machine allowed.
    pub(crate) fn possible(&self, place: usize) -> f64 {
        self.gain(place, self.variants - 1)
    }

    /// A variant's gain, to what the machine allowed.
    pub(crate) fn share(&self, place: usize, variant: usize) -> f64 {
        let of =
            |place: usize, variant: usize| &self.rounds.samples[place * self.variants + variant];
        let control = self.variants - 1;
        let share = |round: usize| {
            let gain = |variant: usize| of(place, variant)[round] / of(0, variant)[round];
            gain(variant) / gain(control)
        };
        Spread::of(&(0..ROUNDS).map(share).collect::<Vec<_>>()).median
    }

    /// That a variant scales as what shares nothing does; not judged where the machine gave no second processor.
    pub(crate) fn scales(&self, name: &str, variant: usize, least: f64) -> Option<Check> {
        let reason = "nothing is written that the other thread reads, or seldom; the rest is noise of the machine";
        self.judged(name, variant, Bound::AtLeast(least), reason)
    }

    /// That a variant under one lock does not; not judged where the machine gave no second processor.
    pub(crate) fn waits(&self, name: &str, variant: usize, most: f64) -> Option<Check> {
        let reason = "one lock is held during nearly all of an operation";
        self.judged(name, variant, Bound::AtMost(most), reason)
    }

    fn judged(
        &self,
        name: &str,
        variant: usize,
        bound: Bound,
        reason: &'static str,
    ) -> Option<Check> {
        let claim =
            format!("{name}: gain from a second thread, to the gain of work that shares nothing");
        let is_fair = self.possible(1) >= SECOND_PROCESSOR;
        is_fair.then(|| check(claim, self.share(1, variant), bound, reason))
    }
}

/// From this gain of the control on, there was a second processor: less says nothing of tables.
const SECOND_PROCESSOR: f64 = 1.6;
const ROUNDS: usize = 5;
