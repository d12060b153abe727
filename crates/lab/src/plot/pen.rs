//! The tools for all parts of a plot: colours, text, straight lines.

use std::fmt::Write;

/// Okabe and Ito's colours without yellow, which is hard to see on white: for white, and for near-black.
pub(super) const PALETTE: [(&str, &str); 7] = [
    ("#0072b2", "#4da6e0"),
    ("#d55e00", "#f0803c"),
    ("#009e73", "#2fc79b"),
    ("#b0508c", "#dd8fbd"),
    ("#e69f00", "#f0b840"),
    ("#3fa0d8", "#8fd0f5"),
    ("#4d4d4d", "#c0c0c0"),
];

pub(super) fn text(body: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escape(words);
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>")
        .expect("a string takes all");
}

pub(super) fn line(body: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        body,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    )
    .expect("a string takes all");
}

pub(super) fn escape(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.fold(String::new(), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
        escaped
    })
}

/// Estimates the width of `text` in letters of this size, generously for a common sans-serif font.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}
