//! Rust files: size, head, functions, unsafe blocks, unfinished work.

/// Lines that a file may have.
pub const LINES_MAX: usize = 600;

/// Lines that a function's body may have, comments and empty lines left out.
pub const LINES_OF_FUNCTION_MAX: usize = 70;

/// The only files that may hold `unsafe`.
pub const UNSAFE_FILES: [&str; 6] = [
    "crates/index/src/mapping.rs",
    "crates/cache/src/memory/arena.rs",
    "crates/filter/src/hint.rs",
    "crates/disk/src/reads/ring.rs",
    "crates/front/src/slices.rs",
    "crates/store/rivals/src/engines/rocks.rs",
];

/// Complains of all that a `.rs` file may not be or hold.
#[must_use]
pub fn check_rust(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > LINES_MAX {
        found.push(format!("{path}: {} lines, {LINES_MAX} are allowed", lines.len()));
    }
    if !lines.first().is_some_and(|line| line.starts_with("//! ")) {
        found.push(format!("{path}:1: doesn't begin with `//!` and what the file is for"));
    }
    found.extend(check_unsafe(path, &lines));
    found.extend(check_unfinished(path, &lines));
    found.extend(check_functions(path, &lines));
    found
}

/// `unsafe` in listed files only, each with its reason above.
fn check_unsafe(path: &str, lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = without_text(line);
        let is_unsafe = words(&code).any(|word| word == "unsafe");
        if is_unsafe && !UNSAFE_FILES.contains(&path) {
            found.push(format!("{path}:{}: unsafe outside of {UNSAFE_FILES:?}", at + 1));
        }
        if is_unsafe && (code.contains("unsafe {") || code.contains("unsafe impl")) {
            let reason = reason_above(lines, at);
            if reason.split_whitespace().count() < 2 {
                found.push(format!("{path}:{}: unsafe with no SAFETY that says why", at + 1));
            }
        }
    }
    found
}

/// The SAFETY comment that stands right above line `at` (or above the statement that it's part of).
fn reason_above(lines: &[&str], at: usize) -> String {
    let mut reason = Vec::new();
    for line in lines[..at].iter().rev().take(12).map(|line| line.trim()) {
        let Some(comment) = line.strip_prefix("//") else {
            if line.ends_with(';') || line.ends_with('}') || line.is_empty() {
                break;
            }
            continue;
        };
        if let Some((_, first)) = comment.split_once("SAFETY:") {
            reason.push(first);
            reason.reverse();
            return reason.join(" ");
        }
        reason.push(comment);
    }
    String::new()
}

/// No work left for an unknown day: a note names its issue.
fn check_unfinished(path: &str, lines: &[&str]) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mark = marks.iter().find(|mark| words(line).any(|word| word == **mark));
        let numbered =
            line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(mark) = mark.filter(|_| !numbered) {
            found.push(format!("{path}:{}: {mark} without an issue's number", at + 1));
        }
    }
    found
}

/// No function longer than a screen and a half.
fn check_functions(path: &str, lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut body = 0;
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        match &open {
            Some((begun, end)) if line == end => {
                if body > LINES_OF_FUNCTION_MAX {
                    let most = LINES_OF_FUNCTION_MAX;
                    found.push(format!(
                        "{path}:{begun}: {body} lines in a function, {most} allowed"
                    ));
                }
                open = None;
            }
            Some(_) => body += usize::from(is_code(line)),
            None if begins_function(line) && !line.ends_with('}') => {
                open = Some((at + 1, format!("{indent}}}")));
                body = 0;
            }
            None => {}
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let code = without_text(line);
    code.contains('(')
        && words(&code).take(6).any(|word| word == "fn")
        && !code.trim_start().starts_with("//")
        && !code.ends_with(';')
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// The line without its comment and without what stands between quotation marks.
fn without_text(line: &str) -> String {
    let mut code = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => {
                chars.next();
            }
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            c if !quoted => code.push(c),
            _ => {}
        }
    }
    code
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
