//! Rates against threads, with a control that shows how much the machine allows.
//!
//! A second thread doubles nothing if the machine's second processor is busy with something else. So next to the
//! tables, work that shares nothing is measured. What it gains from more threads is what can be gained at that moment,
//! and a table's *share* is its own gain divided by that. All numbers of threads and all tables take turns in the same
//! rounds.

use crate::data::{Data, Line, Point, ratio};
use crate::figures::check;
use crate::measure::{Quartiles, in_turns};
use crate::{Bound, Check};
use anyhow::Result;

/// Measures rates in millions per second: a line for each of `names`, with a point for each number of `threads`. The
/// last name is the control. `one` gets the number of threads, the variant and a seed, and returns a rate per second.
pub(crate) fn measure(
    threads: &[usize],
    names: &[String],
    rounds: usize,
    seed: u64,
    one: impl Fn(usize, usize, u64) -> f64,
) -> Result<Vec<Line>> {
    let variants = names.len();
    let one = |turn: usize, seed| one(threads[turn / variants], turn % variants, seed) / 1e6;
    let rounds = in_turns(threads.len() * variants, rounds, seed, one)?;
    let line = |(variant, name): (usize, &String)| {
        let places = threads.iter().enumerate();
        let places = places.map(|(at, &threads)| (threads as f64, at * variants + variant));
        let line = Line::of_rounds(name, &rounds, places);
        if variant + 1 == variants { line.aside() } else { line }
    };
    Ok(names.iter().enumerate().map(line).collect())
}

/// Measured rates, for judging.
pub(crate) struct Gains<'d> {
    data: &'d Data,
    control: &'d Line,
}

impl<'d> Gains<'d> {
    /// Takes the lines of `data`, of which `control` is the control.
    pub(crate) fn of(data: &'d Data, control: &str) -> Self {
        Self { data, control: data.line(control) }
    }

    /// Returns the rate of one line relative to that of another, with so many threads.
    pub(crate) fn ratio(&self, threads: usize, over: &str, under: &str) -> f64 {
        let [over, under] = [over, under].map(|name| self.data.line(name).at(threads as f64));
        ratio(over, under)
    }

    /// Returns a line's rate with so many threads, relative to its rate with one.
    pub(crate) fn gain(&self, threads: usize, name: &str) -> f64 {
        gain(self.data.line(name), threads)
    }

    /// Returns the gain that the machine allowed.
    pub(crate) fn possible(&self, threads: usize) -> f64 {
        gain(self.control, threads)
    }

    /// The check of a line's gain from a second thread, as a share of what the machine allowed.
    pub(crate) fn second_thread(&self, name: &str, bound: Bound, reason: &'static str) -> Check {
        let ends = |line: &'d Line| [line.at(1.0), line.at(2.0)];
        second_thread(name, ends(self.data.line(name)), ends(self.control), bound, reason)
    }

    /// The check of a line's gain from four threads, as a share of what the machine allowed.
    pub(crate) fn four_threads(&self, name: &str, bound: Bound, reason: &'static str) -> Check {
        let ends = |line: &'d Line| [line.at(1.0), line.at(4.0)];
        let claim =
            format!("{name}: gain from four threads, to the gain of work that shares nothing");
        let possible = self.possible(4);
        check(claim, share(ends(self.data.line(name)), ends(self.control)), bound, reason).judged_if(
            possible >= SECOND_PROCESSOR,
            || format!("four threads gained work that shares nothing {possible:.2} times, of at least {SECOND_PROCESSOR}"),
        )
    }

    /// The check that a line scales like work that shares nothing.
    pub(crate) fn scales(&self, name: &str, least: f64) -> Check {
        self.second_thread(name, Bound::AtLeast(least), SCALES)
    }

    /// The check that a line under one lock doesn't scale.
    pub(crate) fn waits(&self, name: &str, most: f64) -> Check {
        self.second_thread(name, Bound::AtMost(most), WAITS)
    }
}

fn gain(line: &Line, threads: usize) -> f64 {
    ratio(line.at(threads as f64), line.at(1.0))
}

/// The check of the gain from a second thread, relative to the gain of work that shares nothing in the same rounds: the
/// median of the rounds. Each is given with one thread and with two. It isn't judged if the machine gave no second
/// processor.
pub(crate) fn second_thread(
    name: &str,
    own: [&Point; 2],
    control: [&Point; 2],
    bound: Bound,
    reason: &'static str,
) -> Check {
    let claim =
        format!("{name}: gain from a second thread, to the gain of work that shares nothing");
    check(claim, share(own, control), bound, reason).judged_if(
        ratio(control[1], control[0]) >= SECOND_PROCESSOR,
        || {
            let possible = ratio(control[1], control[0]);
            format!("a second thread gained work that shares nothing {possible:.2} times, of at least {SECOND_PROCESSOR}")
        },
    )
}

fn share([one, two]: [&Point; 2], [control_one, control_two]: [&Point; 2]) -> f64 {
    let gains = |one: &Point, two: &Point| {
        let pairs = one.samples.iter().zip(&two.samples);
        pairs.map(|(one, two)| two / one).collect::<Vec<_>>()
    };
    let pairs = gains(one, two).into_iter().zip(gains(control_one, control_two));
    Quartiles::of(&pairs.map(|(own, possible)| own / possible).collect::<Vec<_>>()).median
}

/// Why a gain has a lower bound.
pub(crate) const SCALES: &str =
    "nothing is written that the other thread reads, or seldom; the rest is noise of the machine";
/// Why a gain has an upper bound.
pub(crate) const WAITS: &str = "one lock is held during nearly all of an operation";
/// The share at which a second thread gains nothing, if the control doubles.
pub(crate) const NOTHING_GAINED: f64 = 0.5;
/// If the control gains at least this, there was a second processor. A lower gain shows nothing about tables.
pub(crate) const SECOND_PROCESSOR: f64 = 1.6;
