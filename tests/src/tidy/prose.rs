//! Documents: one heading of the first rank, no dead link, everything mentioned that must be, nothing that is gone.

use std::fs;
use std::path::Path;

/// Complains of a document's headings and of relative links that lead nowhere.
///
/// `root` is the repository's root, `path` the document's path below it.
#[must_use]
pub fn check_document(root: &Path, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut titles = 0;
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        titles += usize::from(line.starts_with("# "));
        for link in links(line) {
            let file = link.split('#').next().unwrap_or_default();
            let beside = root.join(path).parent().map(|dir| dir.join(file));
            let foreign = link.contains("://") || link.starts_with("mailto:");
            if !foreign && !file.is_empty() && !beside.is_some_and(|target| target.exists()) {
                found.push(format!("{path}:{}: the link to {link} leads nowhere", at + 1));
            }
        }
    }
    if titles != 1 {
        found.push(format!("{path}: {titles} headings of the first rank, one is wanted"));
    }
    found
}

/// Complains of each of `wanted` that `text` doesn't mention as a word of its own.
#[must_use]
pub fn check_mentions<'w>(
    path: &str,
    text: &str,
    wanted: impl IntoIterator<Item = &'w str>,
) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mentions = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    };
    wanted
        .into_iter()
        .filter(|word| !mentions(word))
        .map(|word| format!("{path}: doesn't mention {word}"))
        .collect()
}

/// Complains of files and functions that a document names and that aren't there.
///
/// A name is `FILE.rs` or `FILE.rs::FUNCTION` in backticks, with a path from the root, from `crates`, or from the document.
#[must_use]
pub fn check_references(root: &Path, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        for name in line.split('`').skip(1).step_by(2) {
            let (file, function) = name.split_once("::").unwrap_or((name, ""));
            if !file.ends_with(".rs") || !file.contains('/') || file.contains(['*', '{', ' ']) {
                continue;
            }
            let here = root.join(path).with_file_name(file);
            let places = [root.join(file), root.join("crates").join(file), here];
            let code = places.iter().find_map(|place| fs::read_to_string(place).ok());
            match code {
                None => found.push(format!("{path}:{at}: there is no file {file}")),
                Some(code) if !function.is_empty() && !has_function(&code, function) => {
                    found.push(format!("{path}:{at}: {file} has no function {function}"));
                }
                Some(_) => {}
            }
        }
    }
    found
}

fn has_function(code: &str, name: &str) -> bool {
    !bodies(code, name).is_empty()
}

/// The text of each function of that name, up to the brace that ends it.
fn bodies<'c>(code: &'c str, name: &str) -> Vec<&'c str> {
    let pattern = format!("fn {name}");
    let found = code.match_indices(&pattern).filter_map(|(at, found)| {
        let rest = &code[at + found.len()..];
        let indent = code[..at].rsplit('\n').next().unwrap_or_default();
        let blanks = indent.len() - indent.trim_start().len();
        let end = rest.find(&format!("\n{}}}", " ".repeat(blanks))).unwrap_or(rest.len());
        rest.starts_with(['(', '<']).then(|| &rest[..end])
    });
    found.collect()
}

/// Complains of hops that no hop before them calls. A hop is a row of a table that begins with `FILE.rs::FUNCTION` in
/// backticks, with a path from `crates`.
#[must_use]
pub fn check_hops(root: &Path, table: &str) -> Vec<String> {
    let hops: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`')?.0.split_once("::"))
        .collect();
    let (mut found, mut before) = (Vec::new(), String::new());
    for (at, (file, function)) in hops.iter().enumerate() {
        let is_called = ["(", "::<"].iter().any(|it| before.contains(&format!("{function}{it}")));
        if at > 0 && !is_called {
            found.push(format!("no hop before {file}::{function} calls it"));
        }
        let code = fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        before += &bodies(&code, function).concat();
    }
    if hops.is_empty() {
        found.push("there are no hops".to_owned());
    }
    found
}

/// Lines outside of fences, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The targets of `[text](target)` in a line, code spans left out.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, part) in line.split('`').enumerate() {
        if at % 2 == 0 {
            for rest in part.split("](").skip(1) {
                found.extend(rest.split([')', ' ']).next());
            }
        }
    }
    found
}
