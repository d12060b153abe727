//! A plot as SVG: lines with markers over two axes, or bars over categories.
//!
//! It is made for readability: colours after Okabe and Ito that colour-blind readers can distinguish, a separate marker
//! per series, and labels in full words. The paper's figures are dashed and hollow, in the colour of the series that
//! they refer to. The plot has its own background, and another one for readers that prefer dark pages.
//!
//! The same plot gives the same bytes. Points that an axis can't show (NaN, infinities, values that aren't positive on
//! a logarithmic axis) are left out and break their line.
//!
//! ```text
//! title
//! legend: ● a  ■ b  ○ a (paper)
//! y's label
//! ┌────────────┐
//! ticks   area │   scale.rs: places of values    marks.rs: lines, markers, bars
//! └────────────┘   pen.rs: colours, words, straight lines
//!   ticks, x's label
//! ```
//! Bad at: more than ten series, thousands of points, labels that overlap because their values are close.

mod legend;
mod marks;
mod pen;
mod scale;

use std::fmt::Write;

use crate::outcome::{Axis, Plot};
use legend::Legend;
use marks::{Bars, Look, lines};
use pen::{PALETTE, escape, line, text, width_of};
use scale::{Place, Span};

/// The plot's SVG.
pub(crate) fn svg(plot: &Plot) -> String {
    let categories = &plot.x.categories;
    let legend = Legend::new(&plot.series, WIDTH - 2.0 * MARGIN);
    let looks: Vec<Look> = legend.looks().collect();
    let shown: Vec<Vec<(f64, f64)>> =
        plot.series.iter().map(|it| showable(&it.points, plot)).collect();
    let finite = || shown.iter().flatten().filter(|(x, y)| x.is_finite() && y.is_finite());
    let top = MARGIN + 34.0 + legend.height() + 20.0;
    let bottom = top + AREA_HEIGHT;

    let mut y = Span::of(finite().map(|p| p.1), plot.y.is_log);
    if categories.is_empty() {
        y.widen();
    } else {
        y.widen_for_bars();
    }
    let y_ticks = y.ticks(&plot.y.label, AREA_HEIGHT, 26.0);
    let widest = y_ticks.iter().map(|(_, text)| width_of(text, 12.0)).fold(0.0, f64::max);
    let left = MARGIN + widest + 8.0;
    let y = Place::new(y, bottom, top);

    let mut body = heading(&plot.title);
    legend.draw(&mut body, (MARGIN, MARGIN + 34.0), !categories.is_empty());
    text(&mut body, MARGIN, top - 14.0, "start", &label(&plot.y));
    for (value, name) in &y_ticks {
        let at = y.at(*value);
        line(&mut body, "grid", (left, at), (RIGHT, at));
        text(&mut body, left - 6.0, at + 4.0, "end", name);
    }
    let below = if categories.is_empty() {
        let mut x = Span::of(finite().map(|p| p.0), plot.x.is_log);
        let values: Vec<f64> = finite().map(|p| p.0).collect();
        let ticks = x.ticks_at(&values, &plot.x.label, RIGHT - left);
        let x = Place::new(x, left + 8.0, RIGHT);
        for (value, name) in &ticks {
            let at = x.at(*value);
            line(&mut body, "axis", (at, bottom), (at, bottom + 5.0));
            text(&mut body, at, bottom + 19.0, "middle", name);
        }
        lines(&mut body, &looks, &shown, &x, &y);
        24.0
    } else {
        let bars = Bars { left, right: RIGHT, bottom, categories };
        bars.draw(&mut body, &looks, &shown, &y);
        bars.names(&mut body)
    };
    line(&mut body, "axis", (left, bottom), (RIGHT, bottom));
    if finite().next().is_none() {
        text(&mut body, (left + RIGHT) / 2.0, (top + bottom) / 2.0, "middle", "no figures");
    }
    text(&mut body, (left + RIGHT) / 2.0, bottom + below + 16.0, "middle", &label(&plot.x));
    document(&body, bottom + below + 16.0 + MARGIN, &plot.title)
}

/// Returns the points, with NaN for those that can't be shown, so that lines break there.
fn showable(points: &[(f64, f64)], plot: &Plot) -> Vec<(f64, f64)> {
    let fits = |value: f64, axis: &Axis| value.is_finite() && (!axis.is_log || value > 0.0);
    let is_shown = |&(x, y): &(f64, f64)| fits(x, &plot.x) && fits(y, &plot.y);
    points.iter().map(|p| if is_shown(p) { *p } else { (f64::NAN, f64::NAN) }).collect()
}

/// Returns an axis's label, without the unit if its ticks have it.
fn label(axis: &Axis) -> String {
    match scale::unit_of_time(&axis.label) {
        Some((name, _)) if axis.is_log => name.to_owned(),
        _ => axis.label.clone(),
    }
}

fn heading(title: &str) -> String {
    let (x, y) = (MARGIN, MARGIN + 14.0);
    format!("<text class=\"title\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(title))
}

fn document(body: &str, height: f64, title: &str) -> String {
    let mut style = STYLE.to_owned();
    for (at, (light, _)) in PALETTE.iter().enumerate() {
        writeln!(style, ".c{at}{{color:{light}}}").expect("a string takes all");
    }
    style.push_str(DARK_STYLE);
    for (at, (_, dark)) in PALETTE.iter().enumerate() {
        write!(style, ".c{at}{{color:{dark}}}").expect("a string takes all");
    }
    style.push_str("}\n");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n\
         <style>\n{style}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n\
         {body}</svg>\n",
        escape(title)
    )
}

const WIDTH: f64 = 760.0;
const AREA_HEIGHT: f64 = 300.0;
const MARGIN: f64 = 16.0;
const RIGHT: f64 = WIDTH - MARGIN - 12.0;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}
.value{font-size:10.5px}
.back{fill:#fff}
.grid{stroke:#e3e7eb}
.axis{stroke:#57606a}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.mark{fill:currentColor;stroke:currentColor;stroke-width:1.5}
.bar{fill:currentColor}
.papers.line{stroke-dasharray:6 4;stroke-width:1.6}
.papers.mark{fill:#fff}
.papers.bar{fill-opacity:.14;stroke:currentColor;stroke-width:1.4;stroke-dasharray:4 3}
";

const DARK_STYLE: &str = "\
@media (prefers-color-scheme:dark){
text{fill:#d8dee4}.back{fill:#16191d}.grid{stroke:#30363d}.axis{stroke:#9aa4af}.papers.mark{fill:#16191d}
";

#[cfg(test)]
mod tests;
