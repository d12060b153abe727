//! The syntax of calls inside strings: brackets, commas, and the backslash that escapes them.

use guira_config::{ConfigError, Result};

/// The position of the first `wanted` without a backslash before it.
pub(super) fn find_unescaped(text: &str, wanted: u8) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let found = !is_escaped && byte == wanted;
        is_escaped = !is_escaped && byte == b'\\';
        found
    })
}

/// Appends `text` up to an unescaped `end`, without backslashes. Returns the position of `end`; `None`: all was
/// appended.
pub(super) fn unescape_until(text: &str, built: &mut String, end: u8) -> Option<usize> {
    let stop = find_unescaped(text, end);
    let mut is_escaped = false;
    for character in text[..stop.unwrap_or(text.len())].chars() {
        is_escaped = !is_escaped && character == '\\';
        if !is_escaped {
            built.push(character);
        }
    }
    stop
}

/// Splits the text between a call's brackets at commas that belong to no inner call.
pub(super) fn arguments(mut text: &str) -> Result<Vec<&str>> {
    let mut found = Vec::new();
    loop {
        let Some(mut comma) = find_unescaped(text, b',') else {
            found.push(trim(text));
            return Ok(found);
        };
        if let Some(open) = find_unescaped(&text[..comma], b'(') {
            let unmatched = || ConfigError::new(format!("Brackets do not match: {text}"));
            let close = matching_bracket(text, open).ok_or_else(unmatched)?;
            let rest = &text[close + 1..];
            if rest.is_empty() {
                found.push(trim(text));
                return Ok(found);
            }
            let next = rest.find(',');
            let next = next.ok_or_else(|| ConfigError::new("No comma after closing bracket"))?;
            comma = close + 1 + next;
        }
        found.push(trim(&text[..comma]));
        text = &text[comma + 1..];
    }
}

fn matching_bracket(text: &str, open: usize) -> Option<usize> {
    let (mut depth, mut is_escaped) = (0_u32, false);
    for (index, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            _ if is_escaped => {}
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        is_escaped = !is_escaped && byte == b'\\';
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

/// Removes surrounding blanks, except for one at the end that a backslash protects.
fn trim(text: &str) -> &str {
    let text = text.trim_start();
    let trimmed = text.trim_end();
    let backslashes = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count();
    match text[trimmed.len()..].chars().next() {
        Some(blank) if backslashes % 2 == 1 => &text[..trimmed.len() + blank.len_utf8()],
        _ => trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_at_their_own_commas() {
        for (text, expected) in [
            ("", vec![""]),
            ("a", vec!["a"]),
            (" a , b ", vec!["a", "b"]),
            ("@f(a,b),c", vec!["@f(a,b)", "c"]),
            ("@f(@g(a,b),c)", vec!["@f(@g(a,b),c)"]),
            ("a\\,b,c", vec!["a\\,b", "c"]),
            ("a\\ , ", vec!["a\\ ", ""]),
            ("a,", vec!["a", ""]),
        ] {
            assert_eq!(arguments(text), Ok(expected), "{text:?}");
        }
        assert!(arguments("@f(a,b").is_err());
        assert!(arguments("@f(a,b)c").is_err());
    }

    #[test]
    fn a_backslash_takes_the_meaning_away() {
        assert_eq!(find_unescaped("a\\%\\\\%", b'%'), Some(5));
        let mut built = String::new();
        assert_eq!(unescape_until("a\\%b\\\\%c", &mut built, b'%'), Some(6));
        assert_eq!(built, "a%b\\");
    }
}
