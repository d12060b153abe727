//! Lines, markers and bars.

use std::fmt::Write;

use super::pen::{PALETTE, escape, text, width_of};
use super::scale::Place;
use crate::number::{label, three_digits, two_digits};

/// The look of a series: colour and marker by number, hollow and dashed if it is the paper's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) nth: usize,
    pub(super) is_papers: bool,
}

impl Look {
    /// Returns the class for the style sheet.
    pub(super) fn class(self) -> String {
        let papers = if self.is_papers { " papers" } else { "" };
        format!("c{}{papers}", self.nth % PALETTE.len())
    }
}

/// Draws each of `series` as a line with markers, each with its look.
pub(super) fn lines(
    body: &mut String,
    looks: &[Look],
    series: &[Vec<(f64, f64)>],
    x: &Place,
    y: &Place,
) {
    for (&look, points) in looks.iter().zip(series) {
        let placed: Vec<_> = points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        let mut path = String::new();
        let mut pen = 'M';
        for &(x, y) in &placed {
            if x.is_finite() && y.is_finite() {
                write!(path, "{pen}{x:.1} {y:.1}").expect("a string takes all");
                pen = 'L';
            } else {
                pen = 'M';
            }
        }
        if path.contains('L') {
            writeln!(body, "<path class=\"line {}\" d=\"{path}\"/>", look.class())
                .expect("a string takes all");
        }
        let nth = placed.len().div_ceil(MARKERS_MAX).max(1);
        for &(x, y) in placed.iter().step_by(nth).filter(|(x, y)| x.is_finite() && y.is_finite()) {
            body.push_str(&marker(look, x, y));
            body.push('\n');
        }
    }
}

/// Returns a marker at a position.
pub(super) fn marker(look: Look, x: f64, y: f64) -> String {
    let shape = match look.nth % 6 {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.6 -3.6h7.2v7.2h-7.2z",
        2 => "m0 -4.8l4.4 7.8h-8.8z",
        3 => "m0 -5l5 5l-5 5l-5 -5z",
        4 => "m0 4.8l4.4 -7.8h-8.8z",
        _ => "m-4 -4l8 8m0 -8l-8 8",
    };
    format!("<path class=\"mark {}\" d=\"M{x:.1} {y:.1}{shape}\"/>", look.class())
}

/// Groups of bars over categories.
pub(super) struct Bars<'a> {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    pub(super) categories: &'a [String],
}

impl Bars<'_> {
    /// Draws a group per category, with a bar per series, and its figure if there is room.
    pub(super) fn draw(
        &self,
        body: &mut String,
        looks: &[Look],
        series: &[Vec<(f64, f64)>],
        y: &Place,
    ) {
        let group = self.group();
        let wide = (group * 0.8 / series.len().max(1) as f64).min(64.0);
        for (nth, _) in self.categories.iter().enumerate() {
            let is_here = |p: &&(f64, f64)| p.0 == nth as f64 && p.1.is_finite();
            let all = looks.iter().zip(series);
            let bars: Vec<(Look, f64)> = all
                .filter_map(|(look, points)| Some((*look, points.iter().find(is_here)?.1)))
                .collect();
            let middle = self.left + group * (nth as f64 + 0.5);
            let begin = middle - wide * bars.len() as f64 / 2.0;
            for (nth, (look, value)) in bars.into_iter().enumerate() {
                bar(body, look, (begin + wide * nth as f64, wide), value, y);
            }
        }
    }

    /// Writes the categories' names below, on several lines, or rotated if a word doesn't fit. Returns the height that
    /// they take.
    pub(super) fn names(&self, body: &mut String) -> f64 {
        let group = self.group();
        let fits = |word: &str| width_of(word, 12.0) <= group;
        let is_aslant = !self.categories.iter().flat_map(|name| name.split(' ')).all(fits);
        let mut height = 0.0f64;
        for (nth, name) in self.categories.iter().enumerate() {
            let middle = self.left + group * (nth as f64 + 0.5);
            if is_aslant {
                let (x, y) = (middle + 4.0, self.bottom + 14.0);
                writeln!(
                    body,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" \
                     transform=\"rotate(-35 {x:.1} {y:.1})\">{}</text>",
                    escape(name)
                )
                .expect("a string takes all");
                height = height.max(14.0 + width_of(name, 12.0) * 0.58);
                continue;
            }
            let lines = broken(name, group);
            for (line, words) in lines.iter().enumerate() {
                text(body, middle, self.bottom + 18.0 + 15.0 * line as f64, "middle", words);
            }
            height = height.max(9.0 + 15.0 * lines.len() as f64);
        }
        height
    }

    fn group(&self) -> f64 {
        (self.right - self.left) / self.categories.len().max(1) as f64
    }
}

/// Draws a bar that begins at `x` and is `wide`, with as many digits of its figure as fit.
fn bar(body: &mut String, look: Look, (x, wide): (f64, f64), value: f64, y: &Place) {
    let (base, end) = (y.base(), y.at(value));
    let (top, tall) = (base.min(end), (base - end).abs());
    let (from, width) = (x + 1.0, (wide - 2.0).max(1.0));
    writeln!(
        body,
        "<rect class=\"bar {}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{tall:.1}\"/>",
        look.class(),
    )
    .expect("a string takes all");
    let figures = [label(three_digits(value)), label(two_digits(value))];
    if let Some(figure) = figures.iter().find(|it| width_of(it, 11.5) <= wide) {
        let (x, y) = (x + wide / 2.0, top - 4.0);
        writeln!(
            body,
            "<text class=\"value\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{figure}</text>"
        )
        .expect("a string takes all");
    }
}

/// Breaks `name` between words into lines of at most `width`.
fn broken(name: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines
            .last_mut()
            .filter(|line| width_of(line, 12.0) + width_of(word, 12.0) + 7.0 <= width)
        {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// With more points than this, only some of them have markers.
const MARKERS_MAX: usize = 40;
