//! The colour and marker of each series, and the legend.

use std::fmt::Write;

use super::marks::{Look, marker};
use super::pen::{escape, width_of};
use crate::outcome::Series;

/// The series' names, each with its look.
pub(super) struct Legend {
    /// Name, look, and place in the legend: from its left and top.
    entries: Vec<(String, Look, (f64, f64))>,
    height: f64,
}

impl Legend {
    /// Creates the legend of `series`, wrapped to lines of at most `width`.
    pub(super) fn new(series: &[Series], width: f64) -> Self {
        let looks = looks(series);
        let names = series.iter().map(|it| {
            let says_so = !it.is_papers || it.name.to_lowercase().contains("paper");
            if says_so { it.name.clone() } else { format!("{} (paper)", it.name) }
        });
        let (mut x, mut y) = (0.0, 0.0);
        let mut entries = Vec::new();
        for (name, look) in names.zip(looks) {
            let wide = SWATCH + width_of(&name, 12.0) + 18.0;
            if x > 0.0 && x + wide > width {
                (x, y) = (0.0, y + LINE);
            }
            entries.push((name, look, (x, y)));
            x += wide;
        }
        let height = if entries.is_empty() { 0.0 } else { y + LINE };
        Self { entries, height }
    }

    pub(super) fn height(&self) -> f64 {
        self.height
    }

    /// Looks of the series, in their order.
    pub(super) fn looks(&self) -> impl Iterator<Item = Look> {
        self.entries.iter().map(|(_, look, _)| *look)
    }

    pub(super) fn draw(&self, body: &mut String, (left, top): (f64, f64), are_bars: bool) {
        for (name, look, (x, y)) in &self.entries {
            let (x, y) = (left + x, top + y);
            let (class, middle) = (look.class(), y - 4.0);
            let swatch = if are_bars {
                let (x, y) = (x + 8.0, y - 10.0);
                format!("<path class=\"bar {class}\" d=\"M{x:.1} {y:.1}h18v11h-18z\"/>")
            } else {
                let line = format!("<path class=\"line {class}\" d=\"M{x:.1} {middle:.1}h26\"/>");
                line + &marker(*look, x + 13.0, middle)
            };
            let x = x + SWATCH;
            writeln!(body, "{swatch}<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(name))
                .expect("a string takes all");
        }
    }
}

/// Assigns a colour and a marker to each subject. The paper's series gets those of the measured series about the same
/// subject.
fn looks(series: &[Series]) -> Vec<Look> {
    let mut subjects: Vec<String> = Vec::new();
    let looks = series.iter().map(|it| {
        let subject = subject(&it.name);
        let nth = subjects.iter().position(|known| *known == subject).unwrap_or_else(|| {
            subjects.push(subject);
            subjects.len() - 1
        });
        Look { nth, is_papers: it.is_papers }
    });
    looks.collect()
}

/// Returns the subject of a series: its name without the part that says who measured it.
fn subject(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| c.is_whitespace() || "(),:".contains(c));
    words
        .filter(|word| {
            !["", "paper", "paper's", "papers", "the", "here", "ours", "measured"].contains(word)
        })
        .collect::<Vec<_>>()
        .join(" ")
}

const SWATCH: f64 = 32.0;
const LINE: f64 = 19.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figures_look_like_the_measured_ones_about_the_same() {
        let of = |name: &str, is_papers| Series { name: name.into(), points: vec![], is_papers };
        let series = [
            of("cuckoo", false),
            of("chaining", false),
            of("chaining (paper)", true),
            of("Paper: LRU", true),
        ];
        let nth: Vec<_> = looks(&series).iter().map(|look| look.nth).collect();
        assert_eq!(nth, [0, 1, 1, 2]);
    }

    #[test]
    fn a_long_legend_is_broken_into_lines() {
        let of = |n: u32| Series {
            name: format!("a series of number {n}"),
            points: vec![],
            is_papers: false,
        };
        let series: Vec<_> = (0..6).map(of).collect();
        assert!(Legend::new(&series, 700.0).height() > LINE);
        assert_eq!(Legend::new(&series[..2], 700.0).height(), LINE);
    }
}
