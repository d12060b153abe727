//! What the source tree promises of itself, as functions from text to complaints.
//!
//! ```text
//! rust     a file's size, head, functions, unsafe blocks, words
//! edges    which crate may depend on which
//! prose    a document's headings and links
//! english  a document's phrases, sentences and length
//! floors   which module of a crate may use which
//! log      what the programs can say in their logs
//! names    one name for one thing
//! ```
//! `tests/project/tidy.rs` runs them over the repository and feeds each of them bad input.
//!
//! # Invariants
//! 1. Each function is pure: it gets text and returns one line a complaint, with the line's number.
//! 2. `rust` looks at lines, without a parser: rustfmt's form is assumed, and CI checks that. `floors` parses.

mod edges;
mod english;
mod floors;
mod log;
mod names;
mod prose;
mod rust;

pub use edges::{EDGES, check_edges};
pub use english::{
    BANNED, SENTENCE_WORDS_MAX, WORDS_MAX, check_english, check_length, check_sentences,
};
pub use floors::{Breach, check_floors};
pub use log::{log_events, log_page};
pub use names::check_names;
pub use prose::{check_document, check_hops, check_mentions, check_references};
pub use rust::{LINES_MAX, LINES_OF_FUNCTION_MAX, UNSAFE_FILES, check_rust};

/// Parts of words that nothing in the repository may hold: places of one machine, and its people's tools.
///
/// Written in halves, so that this file doesn't hold them.
const FOREIGN: [(&str, &str); 7] = [
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/tmp/re", "f"),
    ("/tmp/tar", "get"),
    ("../sha", "red/"),
    ("sub-ag", "ent"),
];

/// Complains of paths and words that belong to one machine.
#[must_use]
pub fn check_words(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (first, second) in FOREIGN {
            let word = format!("{first}{second}");
            if line.contains(&word) {
                found.push(format!("{path}:{}: says {word:?}", at + 1));
            }
        }
    }
    found
}
