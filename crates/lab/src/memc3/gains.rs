//! Rates against threads, with a control that tells how much the machine allows.
//!
//! A second thread doubles nothing if the machine's second processor is busy with something else. So beside the tables
//! there is work that shares nothing: what it gains from more threads is what can be gained at that moment, and a
//! table's *share* is its own gain divided by that. All numbers of threads and all tables take turns in the same rounds.

use super::f5a::in_turns;
use crate::data::{Data, Line, ratio};
use crate::figures::check;
use crate::measure::Spread;
use crate::{Bound, Check};
use anyhow::Result;

/// Measures rates in millions a second: a line for each of `names`, a point for each number of `threads`. The last of the
/// names is the control. `one` is given the number of threads, the variant and a seed, and returns a rate a second.
pub(crate) fn measure(
    threads: &[usize],
    names: &[String],
    seed: u64,
    one: impl Fn(usize, usize, u64) -> f64,
) -> Result<Vec<Line>> {
    let variants = names.len();
    let one = |turn: usize, seed| one(threads[turn / variants], turn % variants, seed) / 1e6;
    let rounds = in_turns(threads.len() * variants, ROUNDS, seed, one)?;
    let line = |(variant, name): (usize, &String)| {
        let places = threads.iter().enumerate();
        let places = places.map(|(at, &threads)| (threads as f64, at * variants + variant));
        let line = Line::of_rounds(name, &rounds, places);
        if variant + 1 == variants { line.aside() } else { line }
    };
    Ok(names.iter().enumerate().map(line).collect())
}

/// What was measured, to be judged.
pub(crate) struct Gains<'d> {
    data: &'d Data,
    control: &'d Line,
}

impl<'d> Gains<'d> {
    /// Lines of `data`, of which `control` is the control.
    pub(crate) fn of(data: &'d Data, control: &str) -> Self {
        Self { data, control: data.line(control) }
    }

    /// With so many threads, the rate of one line to that of another.
    pub(crate) fn ratio(&self, threads: usize, over: &str, under: &str) -> f64 {
        let [over, under] = [over, under].map(|name| self.data.line(name).at(threads as f64));
        ratio(over, under)
    }

    /// A line's rate with so many threads, to its rate with one.
    pub(crate) fn gain(&self, threads: usize, name: &str) -> f64 {
        gain(self.data.line(name), threads)
    }

    /// What the machine allowed.
    pub(crate) fn possible(&self, threads: usize) -> f64 {
        gain(self.control, threads)
    }

    /// A line's gain, to what the machine allowed: the median of the rounds.
    pub(crate) fn share(&self, threads: usize, name: &str) -> f64 {
        let line = self.data.line(name);
        let gains = |line: &Line| {
            let [many, one] = [threads as f64, 1.0].map(|threads| line.at(threads).samples.clone());
            many.into_iter().zip(one).map(|(many, one)| many / one)
        };
        let shares = gains(line).zip(gains(self.control)).map(|(own, possible)| own / possible);
        Spread::of(&shares.collect::<Vec<_>>()).median
    }

    /// That a line scales as what shares nothing does.
    pub(crate) fn scales(&self, name: &str, least: f64) -> Check {
        let reason = "nothing is written that the other thread reads, or seldom; the rest is noise of the machine";
        self.judged(name, Bound::AtLeast(least), reason)
    }

    /// That a line under one lock does not.
    pub(crate) fn waits(&self, name: &str, most: f64) -> Check {
        let reason = "one lock is held during nearly all of an operation";
        self.judged(name, Bound::AtMost(most), reason)
    }

    /// Not judged where the machine gave no second processor.
    fn judged(&self, name: &str, bound: Bound, reason: &'static str) -> Check {
        let claim =
            format!("{name}: gain from a second thread, to the gain of work that shares nothing");
        let possible = self.possible(2);
        check(claim, self.share(2, name), bound, reason).judged_if(
            possible >= SECOND_PROCESSOR,
            || {
                format!(
                    "a second thread gained work that shares nothing only {possible:.2} times, of at least {SECOND_PROCESSOR}"
                )
            },
        )
    }
}

fn gain(line: &Line, threads: usize) -> f64 {
    ratio(line.at(threads as f64), line.at(1.0))
}

/// From this gain of the control on, there was a second processor: less says nothing of tables.
const SECOND_PROCESSOR: f64 = 1.6;
const ROUNDS: usize = 5;
