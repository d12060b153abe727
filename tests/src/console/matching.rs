//! May this output stand where a page shows that one? Rules that a reader of the page guesses at once:
//!
//! - `…` or `...` within a line stands for any text, and alone on a line for any lines;
//! - blanks stand for blanks, however many, and those at a line's end don't count;
//! - where numbers vary, a number stands for any number;
//! - everything else stands for itself.

/// A part of a shown line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Anything,
    Number,
    Blanks,
    Exactly(char),
}

/// Whether `output` is what the page shows as `shown`.
#[must_use]
pub fn matches(shown: &str, output: &str, numbers_vary: bool) -> bool {
    let output: Vec<&str> = output.lines().collect();
    // Which numbers of lines of the output the lines shown so far can stand for.
    let mut open = vec![false; output.len() + 1];
    open[0] = true;
    for line in shown.lines() {
        let mut next = vec![false; output.len() + 1];
        if matches!(line.trim(), "..." | "…") {
            let first = open.iter().position(|&is| is).unwrap_or(next.len());
            next[first..].fill(true);
        } else {
            let parts = parts(line, numbers_vary);
            for at in (0..output.len()).filter(|&at| open[at]) {
                next[at + 1] = line_matches(&parts, output[at]);
            }
        }
        open = next;
    }
    open[output.len()]
}

/// A number's inner characters: `1,234.5` is one.
fn is_of_number(text: &[char], at: usize) -> bool {
    let digit = |at: usize| text.get(at).is_some_and(char::is_ascii_digit);
    digit(at) || (at > 0 && matches!(text[at], '.' | ',') && digit(at - 1) && digit(at + 1))
}

fn number_end(text: &[char], mut at: usize) -> usize {
    while at < text.len() && is_of_number(text, at) {
        at += 1;
    }
    at
}

fn parts(line: &str, numbers_vary: bool) -> Vec<Part> {
    let text: Vec<char> = line.trim_end().replace("...", "…").chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = number_end(&text, at);
        if numbers_vary && end > at {
            parts.push(Part::Number);
            at = end;
            continue;
        }
        let part = match text[at] {
            '…' => Part::Anything,
            c if c.is_whitespace() => Part::Blanks,
            c => Part::Exactly(c),
        };
        if part != Part::Blanks || parts.last() != Some(&Part::Blanks) {
            parts.push(part);
        }
        at += 1;
    }
    parts
}

fn line_matches(parts: &[Part], line: &str) -> bool {
    let text: Vec<char> = line.trim_end().chars().collect();
    let mut open = vec![false; text.len() + 1];
    open[0] = true;
    for part in parts {
        let mut next = vec![false; text.len() + 1];
        for at in (0..=text.len()).filter(|&at| open[at]) {
            match *part {
                Part::Anything => next[at..].fill(true),
                Part::Number => {
                    let end = number_end(&text, at);
                    next[end] |= end > at;
                }
                Part::Blanks => {
                    let blanks = text[at..].iter().take_while(|c| c.is_whitespace()).count();
                    next[at + blanks] |= blanks > 0;
                }
                Part::Exactly(c) => {
                    if text.get(at) == Some(&c) {
                        next[at + 1] = true;
                    }
                }
            }
        }
        open = next;
    }
    open[text.len()]
}
