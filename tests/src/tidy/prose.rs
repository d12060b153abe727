//! Documents: one heading of the first rank, no dead link, everything mentioned that must be.

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
