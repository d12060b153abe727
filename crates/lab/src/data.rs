//! The measurements of an experiment, without conclusions.
//!
//! Measuring and judging are two functions. `measure` fills a [`Data`]; `judge` makes plots, tables, checks and a
//! sentence from it, and from nothing else. So three things need no new measurement: a page can be made again from
//! stored data; several attempts can be [joined](Data::join) and judged as one; and a wrong result can be
//! [planted](crate::plants) to see whether a check detects it.
//!
//! ```text
//! Data ─ lines by name ─ points by x ─ samples, a round each: "with tags, present"  x = 2 threads  [4.1, 4.3, 4.2]
//! ```
//!
//! In points that were measured by turns, the samples of a round have the same index. So a comparison is the median of
//! the rounds' ratios ([`ratio`]). Joining attempts appends rounds: the median counts.

use crate::measure::{Quartiles, Rounds};
use serde::{Deserialize, Deserializer, Serialize};

/// All lines of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Data {
    /// The lines, whose names differ.
    pub lines: Vec<Line>,
}

/// The measurements of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The name, as in the legend.
    pub name: String,
    /// How planted wrong results change it.
    pub role: Role,
    /// The points, by rising `x`.
    pub points: Vec<Point>,
}

/// The claims about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Its height compared with other lines, and its shape if it has several points: a flat line must fail.
    Judged,
    /// That it is flat: a steep line must fail.
    Flat,
    /// None: it is a control, a circumstance, or only drawn.
    Aside,
}

/// A point of a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Threads, load or size; the index of a name if the axis has names.
    pub x: f64,
    /// One figure per round.
    #[serde(deserialize_with = "read_samples")]
    pub samples: Vec<f64>,
}

impl Data {
    /// Adds a line.
    ///
    /// # Panics
    /// If there is already a line with that name.
    pub(crate) fn push(&mut self, line: Line) {
        assert!(self.find(&line.name).is_none(), "two lines are called {}", line.name);
        self.lines.push(line);
    }

    /// Adds a line of one figure.
    pub(crate) fn fact(&mut self, name: &str, figure: f64) {
        self.push(Line::new(name, [(0.0, vec![figure])]));
    }

    /// Adds a line of one figure on which no claim rests.
    pub(crate) fn aside(&mut self, name: &str, figure: f64) {
        self.push(Line::new(name, [(0.0, vec![figure])]).aside());
    }

    /// Returns the line with this name.
    ///
    /// # Panics
    /// If there is none. `measure` and `judge` of an experiment must agree on the names.
    #[must_use]
    pub(crate) fn line(&self, name: &str) -> &Line {
        self.find(name).unwrap_or_else(|| panic!("there is no line {name}"))
    }

    /// Returns the figure of a line that has only one.
    #[must_use]
    pub(crate) fn figure(&self, name: &str) -> f64 {
        self.line(name).points.first().map_or(f64::NAN, Point::median)
    }

    /// Returns the line with this name, if there is one.
    #[must_use]
    pub(crate) fn find(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// Returns the name of a line that has no points, or has a point without samples.
    #[must_use]
    pub(crate) fn line_of_nothing(&self) -> Option<&str> {
        let is_empty = |line: &&Line| {
            line.points.is_empty() || line.points.iter().any(|point| point.samples.is_empty())
        };
        self.lines.iter().find(is_empty).map(|line| line.name.as_str())
    }

    /// Joins attempts into one measurement: the rounds of each follow those of the previous one.
    ///
    /// A point that a later attempt lacks keeps the rounds that it has.
    #[must_use]
    pub(crate) fn join<'d>(attempts: impl IntoIterator<Item = &'d Self>) -> Self {
        let mut attempts = attempts.into_iter();
        let mut joined = attempts.next().cloned().unwrap_or_default();
        for attempt in attempts {
            for line in &mut joined.lines {
                let Some(further) = attempt.find(&line.name) else { continue };
                for point in &mut line.points {
                    let same = further.points.iter().find(|it| it.x.total_cmp(&point.x).is_eq());
                    point.samples.extend(same.iter().flat_map(|it| &it.samples));
                }
            }
        }
        joined
    }
}

impl Line {
    /// Creates a line about which claims are made.
    #[must_use]
    pub(crate) fn new(name: &str, points: impl IntoIterator<Item = (f64, Vec<f64>)>) -> Self {
        let points = points.into_iter().map(|(x, samples)| Point { x, samples }).collect();
        Self { name: name.into(), role: Role::Judged, points }
    }

    /// Creates a line from the variants of `rounds`, each at its `x`.
    #[must_use]
    pub(crate) fn of_rounds(
        name: &str,
        rounds: &Rounds,
        places: impl IntoIterator<Item = (f64, usize)>,
    ) -> Self {
        Self::new(name, places.into_iter().map(|(x, variant)| (x, rounds.samples[variant].clone())))
    }

    /// Creates a line with one figure at each `x`, for counts.
    #[must_use]
    pub(crate) fn of_figures(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, points.into_iter().map(|(x, figure)| (x, vec![figure])))
    }

    /// Declares that the claim is that the line is flat.
    #[must_use]
    pub(crate) fn flat(self) -> Self {
        Self { role: Role::Flat, ..self }
    }

    /// Declares that no claim rests on the line.
    #[must_use]
    pub(crate) fn aside(self) -> Self {
        Self { role: Role::Aside, ..self }
    }

    /// Returns the point at `x`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub(crate) fn at(&self, x: f64) -> &Point {
        let found = self.points.iter().find(|point| point.x.total_cmp(&x).is_eq());
        found.unwrap_or_else(|| panic!("{} has no point at {x}", self.name))
    }

    /// Returns the median at `x`.
    ///
    /// # Panics
    /// If there is no such point.
    #[must_use]
    pub(crate) fn median(&self, x: f64) -> f64 {
        self.at(x).median()
    }

    /// Returns each point's `x` and median, for a plot.
    pub(crate) fn medians(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().map(|point| (point.x, point.median()))
    }

    /// Returns the medians, in order.
    #[must_use]
    pub(crate) fn figures(&self) -> Vec<f64> {
        self.medians().map(|(_, figure)| figure).collect()
    }

    /// Returns the last median; NaN if there is none.
    #[must_use]
    pub(crate) fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, Point::median)
    }
}

impl Point {
    /// Returns the median of the rounds.
    #[must_use]
    pub(crate) fn median(&self) -> f64 {
        Quartiles::of(&self.samples).median
    }
}

/// NaN equals NaN here: two attempts that lack the same figure measured the same.
impl PartialEq for Point {
    fn eq(&self, other: &Self) -> bool {
        let all = |point: &Self| {
            let figures = std::iter::once(&point.x).chain(&point.samples);
            figures.map(|it| it.to_bits()).collect::<Vec<_>>()
        };
        all(self) == all(other)
    }
}

/// Returns how many times `under` the figure of `over` is: the median of the rounds' ratios.
///
/// NaN if the two were not measured in the same rounds.
#[must_use]
pub(crate) fn ratio(over: &Point, under: &Point) -> f64 {
    if over.samples.len() != under.samples.len() {
        return f64::NAN;
    }
    let pairs = over.samples.iter().zip(&under.samples);
    Quartiles::of(&pairs.map(|(over, under)| over / under).collect::<Vec<_>>()).median
}

/// JSON has no infinities and no NaN: they are written as `null` and read as NaN.
fn read_samples<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let samples: Vec<Option<f64>> = Vec::deserialize(from)?;
    Ok(samples.into_iter().map(|it| it.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_lines(rounds: [f64; 2]) -> Data {
        let mut data = Data::default();
        data.push(Line::new("a", [(1.0, rounds.to_vec()), (2.0, vec![8.0, 8.0])]));
        data.push(Line::of_figures("b", [(1.0, 1.0)]).aside());
        data
    }

    #[test]
    fn ratios_pair_by_round_and_need_the_same_rounds() {
        let data = two_lines([4.0, 2.0]);
        assert_eq!(ratio(data.line("a").at(2.0), data.line("a").at(1.0)), 3.0);
        assert!(ratio(data.line("a").at(1.0), data.line("b").at(1.0)).is_nan());
    }

    #[test]
    fn joined_attempts_are_one_measurement_of_more_rounds() {
        let joined = Data::join([&two_lines([4.0, 2.0]), &two_lines([6.0, 6.0])]);
        assert_eq!(joined.line("a").at(1.0).samples, [4.0, 2.0, 6.0, 6.0]);
        assert_eq!(joined.line("a").median(1.0), 5.0);
        assert_eq!(joined.line("b").role, Role::Aside);
    }

    #[test]
    fn what_is_no_number_is_read_back_as_such() {
        let mut data = Data::default();
        data.fact("infinite", f64::INFINITY);
        let text = serde_json::to_string(&data).unwrap();
        let read: Data = serde_json::from_str(&text).unwrap();
        assert!(read.figure("infinite").is_nan());
    }

    #[test]
    #[should_panic(expected = "two lines are called a")]
    fn a_name_is_given_once() {
        let mut data = two_lines([1.0, 1.0]);
        data.fact("a", 1.0);
    }
}
