//! What a program's source can say in its log: each `warn!` and `error!`, as a page of the reference.
//!
//! The message's literal is the declaration. Bad at: a message that is all placeholder, whose words come from elsewhere;
//! the page leaves it out, and says so.

use std::collections::{BTreeMap, BTreeSet};

/// Level and message of each warning and error of a file, its unit tests left out.
///
/// # Panics
/// If one begins with something else than a literal: the page couldn't have it.
#[must_use]
pub fn log_events(path: &str, text: &str) -> Vec<(&'static str, String)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (level, macro_name) in [("ERROR", "error!("), ("WARN", "warn!(")] {
        for (at, _) in code.match_indices(macro_name) {
            let arguments = code[at + macro_name.len()..].trim_start();
            let message = literal(arguments);
            found.push((level, message.unwrap_or_else(|| panic!("{path}: {arguments:.40}"))));
        }
    }
    found
}

/// The text of a string literal at the beginning of `code`, on one line.
fn literal(code: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = code.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                '\n' => rest = rest.as_str().trim_start().chars(),
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
}

/// Whether a message has words of its own beside its placeholders.
fn has_words(message: &str) -> bool {
    message.split('{').any(|part| {
        part.split_once('}').map_or(part, |(_, words)| words).contains(char::is_alphabetic)
    })
}

/// A row with `…` for each of its placeholders: two that differ in their names alone are one line in the log.
fn without_names(row: &str) -> String {
    let mut parts = row.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('…');
        text.push_str(part.split_once('}').map_or(part, |(_, words)| words));
    }
    text
}

/// The page: of each program its events.
#[must_use]
pub fn log_page<'p>(events: impl IntoIterator<Item = (&'p str, &'static str, String)>) -> String {
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for (program, level, message) in events {
        if !has_words(&message) {
            continue;
        }
        let message = message.replace("{}", "…").replace('|', "\\|");
        let row = format!("| `guira {program}` | {level} | `{message}` |\n");
        let told = rows.entry(without_names(&row)).or_default();
        // Of two that say the same, the one with more names says more.
        let names = |row: &str| row.matches('{').count();
        if (names(&row), &row) > (names(told), told) {
            *told = row;
        }
    }
    let rows: BTreeSet<String> = rows.into_values().collect();
    format!("{ABOUT}{}", rows.into_iter().collect::<String>())
}

const ABOUT: &str = "\
# Warnings and errors in the log

What `guira serve`, `guira route`, `guira store` and `guira invalidate` can write to their logs at the levels `WARN` and `ERROR`.
Words in braces, and `…`, stand for what the line is about, such as a path or the system's error. A line without words of
its own isn't here: it passes on, for instance, what is wrong with a configuration.

A test makes this page from the source, `cargo test -p guira-tests --test project tidy::`. Don't edit it.

| program | level | message |
|---|---|---|
";
