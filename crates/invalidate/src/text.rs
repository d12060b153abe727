//! Keys that a statement names in a comment.
//!
//! ```text
//! /* mcinv:user:1,cart%3A9;mark=eu.6b2f0c81a93d5e70 */ UPDATE …   our own form
//! UPDATE … /*app='shop',mcinv='user%3A1%2Ccart%3A9'*/        sqlcommenter's form: it is percent-encoded once more
//! ```
//! # Invariants
//! 1. Only a comment that begins or ends the statement counts; blanks and semicolons around it are ignored. No string
//!    literal can stand there. So text from users can't pass for a comment, and no SQL lexer is needed.
//! 2. At most [`WINDOW`] bytes are read at each end, however long the statement is.
//! 3. Comments are untrusted: each key must begin with an allowed prefix. A comment that exceeds a limit is refused as
//!    a whole.
//!
//! # Bad at
//! Comments that the client or the server removes before they are logged, as MariaDB's client does without
//! `--comments`.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::key::{Key, Refusal};
use crate::mark::{Unmark, options};

/// The limits on comments, and what they may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentLimits {
    /// Each key must begin with one of these prefixes. If there are none, comments are ignored.
    pub(crate) prefixes: Vec<String>,
    /// The longest list of keys, in bytes.
    pub(crate) bytes_max: usize,
    pub(crate) keys_max: usize,
    /// The region whose marks are accepted. `None`: none are.
    pub(crate) region: Option<String>,
}

/// What the comments of a statement name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) keys: Vec<Key>,
    /// The keys that writers of this region have marked, with the tokens of the marks.
    pub(crate) unmarks: Vec<Unmark>,
    pub(crate) refused: Vec<Refusal>,
    /// The number of options after the keys that have no effect.
    pub(crate) options: usize,
}

/// Reads the comments at both ends of a statement.
pub(crate) fn keys_in(statement: &[u8], limits: &CommentLimits) -> Named {
    let mut named = Named::default();
    if limits.prefixes.is_empty() {
        return named;
    }
    let statement = trimmed(statement);
    let first = first(statement);
    if let Some(comment) = first {
        add(&mut named, comment, limits);
    }
    if let Some(comment) = last(statement)
        && first.is_none_or(|first| !std::ptr::eq(first, comment))
    {
        add(&mut named, comment, limits);
    }
    named
}

/// Strips blanks and semicolons from both ends.
fn trimmed(mut statement: &[u8]) -> &[u8] {
    let is_aside = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
    while let [byte, rest @ ..] = statement
        && is_aside(byte)
    {
        statement = rest;
    }
    while let [rest @ .., byte] = statement
        && is_aside(byte)
    {
        statement = rest;
    }
    statement
}

/// Returns the inside of the comment that begins the statement.
fn first(statement: &[u8]) -> Option<&[u8]> {
    let inside = statement.strip_prefix(b"/*")?;
    let window = &inside[..inside.len().min(WINDOW)];
    match find(window, b"*/") {
        Some(end) => Some(&inside[..end]),
        // The comment is too long to be read whole. Its beginning shows whether it is one of ours.
        None => Some(window),
    }
    .filter(|inside| !is_code(inside))
}

/// Returns the inside of the comment that ends the statement.
fn last(statement: &[u8]) -> Option<&[u8]> {
    let inside = statement.strip_suffix(b"*/")?;
    let window = &inside[inside.len().saturating_sub(WINDOW)..];
    let at = window.windows(2).rposition(|pair| pair == b"/*")?;
    Some(&window[at + 2..]).filter(|inside| !is_code(inside))
}

/// `/*! … */` and `/*M! … */` are code for the server, not comments.
fn is_code(inside: &[u8]) -> bool {
    inside.starts_with(b"!") || inside.starts_with(b"M!")
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Adds what one comment names, if it is one of ours.
fn add(named: &mut Named, inside: &[u8], limits: &CommentLimits) {
    let is_whole = inside.len() < WINDOW;
    let inside = inside.trim_ascii();
    let list = match inside.strip_prefix(MARK) {
        Some(list) => Cow::Borrowed(list),
        None => match commenter_value(inside) {
            Some(list) => list,
            None => return,
        },
    };
    if !is_whole || list.len() > limits.bytes_max {
        named.refused.push(Refusal::Limit);
        return;
    }
    add_list(named, &list, limits);
}

/// Reads a bare list of keys, such as a logical message of PostgreSQL.
pub(crate) fn keys_of_list(list: &[u8], limits: &CommentLimits) -> Named {
    let mut named = Named::default();
    if list.len() > limits.bytes_max {
        named.refused.push(Refusal::Limit);
    } else {
        add_list(&mut named, list.trim_ascii(), limits);
    }
    named
}

fn add_list(named: &mut Named, list: &[u8], limits: &CommentLimits) {
    let mut parts = list.split(|byte| *byte == b';');
    let keys = parts.next().unwrap_or_default();
    let options = options(parts, limits.region.as_deref());
    named.options += options.unused;
    named.refused.extend(options.refused);
    let words: Vec<&[u8]> = keys.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    if words.len() > limits.keys_max {
        named.refused.push(Refusal::Limit);
        return;
    }
    if words.iter().any(|word| !is_word(word)) {
        named.refused.push(Refusal::Syntax);
        return;
    }
    for word in words {
        let bytes: Cow<'_, [u8]> = percent_decode(word).into();
        let has_prefix = limits.prefixes.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()));
        match Key::new(&bytes) {
            Ok(_) if !has_prefix => named.refused.push(Refusal::Prefix),
            Ok(key) => {
                match options.token.map(|token| Unmark::new(&key, token)) {
                    Some(Ok(unmark)) => named.unmarks.push(unmark),
                    Some(Err(why)) => named.refused.push(why),
                    None => {}
                }
                if !named.keys.contains(&key) {
                    named.keys.push(key);
                }
            }
            Err(why) => named.refused.push(why),
        }
    }
}

/// Whether a word can be a key: visible characters except `'` and `*`, and percent-encoded bytes.
fn is_word(word: &[u8]) -> bool {
    let mut rest = word;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            (b'%' | b'\'' | b'*', _) => return false,
            (b'!'..=b'~', _) => after,
            _ => return false,
        };
    }
    true
}

/// Returns the value of `mcinv` among sqlcommenter's `name='value'` pairs, decoded once.
fn commenter_value(inside: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut rest = inside;
    loop {
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].trim_ascii();
        let quoted = rest[equals + 1..].strip_prefix(b"'")?;
        let end = quoted.iter().position(|byte| *byte == b'\'')?;
        if name == b"mcinv" {
            return Some(percent_decode(&quoted[..end]).into());
        }
        rest = quoted[end + 1..].strip_prefix(b",")?;
    }
}

/// The beginning of a comment in our own form.
const MARK: &[u8] = b"mcinv:";
/// The number of bytes that are read at each end of a statement.
const WINDOW: usize = 4096 + 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> CommentLimits {
        let prefixes = vec!["user:".to_owned(), "cart:".to_owned()];
        CommentLimits { prefixes, bytes_max: 100, keys_max: 3, region: Some("eu".to_owned()) }
    }

    fn said(statement: &str) -> String {
        let named = keys_in(statement.as_bytes(), &limits());
        let keys: Vec<String> = named.keys.iter().map(ToString::to_string).collect();
        let refused: Vec<String> = named.refused.iter().map(|why| format!("{why:?}")).collect();
        [keys.join(" "), refused.join(" ")].join("|")
    }

    #[test]
    fn keys_stand_in_the_first_or_the_last_comment_only() {
        for (statement, expected) in [
            ("/* mcinv:user:1 */ UPDATE t SET a = 1", "user:1|"),
            (" ;/*mcinv:user:1,cart:9*/UPDATE t", "user:1 cart:9|"),
            ("UPDATE t SET a = 1 /* mcinv:user:1;mark=eu.7f3a */ ; ", "user:1|Mark"),
            ("UPDATE t /* mcinv:user:1;mark=eu.000000070000000f */", "user:1|"),
            ("/* mcinv:user:1 */ UPDATE t /* mcinv:user:1,user:2 */", "user:1 user:2|"),
            ("/* mcinv:user:1 */", "user:1|"),
            ("UPDATE t SET a = '/* mcinv:user:1 */'", "|"),
            ("UPDATE t SET a = '/* mcinv:user:1 */' /* x */", "|"),
            ("UPDATE /* mcinv:user:1 */ t SET a = 1", "|"),
            ("UPDATE t SET a = 1 -- mcinv:user:1", "|"),
            ("/*! mcinv:user:1 */ UPDATE t", "|"),
            ("/*M!100100 mcinv:user:1 */ UPDATE t", "|"),
            ("UPDATE t /*app='s',mcinv='user%3A1%2Ccart%3A9',z='1'*/", "user:1 cart:9|"),
            ("UPDATE t /*mcinv='user%3Aa%2520b'*/", "|Blank"),
            ("UPDATE t /*mcinv=user*/", "|"),
            ("UPDATE t /*a='1'mcinv='user%3A1'*/", "|"),
            ("/* mcinv:user%3A1 */ X", "user:1|"),
            ("/* mcinv:user:%31%2C2 */ X", "user:1,2|"),
            ("/* mcinv:secret:1,user:2 */ X", "user:2|Prefix"),
            ("/* mcinv:user:a%0D%0Aflush_all */ X", "|Blank"),
            ("/* mcinv: */ X", "|Empty"),
            ("/* mcinv:user:%4 */ X", "|Syntax"),
            ("/* mcinv:user:1 user:2 */ X", "|Syntax"),
            ("/* mcinv:user:\u{e9} */ X", "|Syntax"),
            ("/* mcinv:user:1,user:2,user:3,user:4 */ X", "|Limit"),
            ("/* mcinv:user:1", "user:1|"),
            ("/*", "|"),
            ("*/", "|"),
            ("", "|"),
        ] {
            assert_eq!(said(statement), expected, "{statement}");
        }
    }

    #[test]
    fn a_message_is_a_list_of_keys_by_the_same_rules() {
        let long = format!("user:{}", "x".repeat(100));
        for (list, keys, refused) in [
            ("user:1, cart:%32;mark=us.1\n", 2, 0),
            ("secret:1", 0, 1),
            ("user:1 user:2", 0, 1),
            ("user:1,user:2,user:3,user:4", 0, 1),
            (&*long, 0, 1),
            ("", 0, 1),
        ] {
            let named = keys_of_list(list.as_bytes(), &limits());
            assert_eq!((named.keys.len(), named.refused.len()), (keys, refused), "{list}");
        }
    }

    #[test]
    fn a_mark_goes_with_each_key_that_is_taken() {
        let marked = |list: &str, region: Option<&str>| {
            let limits = CommentLimits { region: region.map(str::to_owned), ..limits() };
            let named = keys_of_list(list.as_bytes(), &limits);
            let marker = |it: &Unmark| format!("{} {}", it.key, it.token);
            (named.unmarks.iter().map(marker).collect::<Vec<_>>().join(","), named.options)
        };
        let list = "user:1,secret:2,cart:%33;mark=eu.000000070000000f";
        let both = "user:1 000000070000000f,cart:3 000000070000000f";
        assert_eq!(marked(list, Some("eu")), (both.to_owned(), 0));
        assert_eq!(marked(list, Some("us")), (String::new(), 0));
        assert_eq!(marked(list, None), (String::new(), 1));
    }

    #[test]
    fn a_comment_over_a_limit_is_refused_as_a_whole() {
        let long = "x".repeat(101);
        assert_eq!(said(&format!("/* mcinv:user:1,user:{long} */ X")), "|Limit");
        let huge = "user:1,".repeat(200_000);
        assert_eq!(said(&format!("/* mcinv:{huge} */ X")), "|Limit");
        // At the end of a statement, it begins before the window: it isn't recognized as ours.
        assert_eq!(said(&format!("X /* mcinv:{huge} */")), "|");
    }

    #[test]
    fn without_prefixes_no_comment_is_looked_at() {
        let limits = CommentLimits { prefixes: Vec::new(), ..limits() };
        assert_eq!(keys_in(b"/* mcinv:user:1 */ X", &limits), Named::default());
    }

    proptest::proptest! {
        /// A key that a client encodes by the documented rule is read unchanged, in the first comment and in the last.
        #[test]
        fn what_is_encoded_is_read_again(
            tails in proptest::collection::vec("[ -~]{0,20}", 1..3), is_first: bool
        ) {
            let encode = |key: &str| -> String {
                key.bytes()
                    .map(|byte| match byte {
                        b'%' | b',' | b';' | b'\'' | b'*' => format!("%{byte:02X}"),
                        b'!'..=b'~' => char::from(byte).to_string(),
                        _ => format!("%{byte:02x}"),
                    })
                    .collect()
            };
            let keys: Vec<String> = tails.iter().map(|tail| format!("user:{tail}")).collect();
            let list: Vec<String> = keys.iter().map(|key| encode(key)).collect();
            let comment = format!("/* mcinv:{} */", list.join(","));
            let statement = match is_first {
                true => format!("{comment} UPDATE t SET a = '/* x */'"),
                false => format!("UPDATE t SET a = '/* x */' {comment};"),
            };
            let limits = CommentLimits { bytes_max: 1000, ..limits() };
            let named = keys_in(statement.as_bytes(), &limits);
            let mut expected: Vec<Key> = Vec::new();
            for key in keys.iter().filter_map(|key| Key::new(key.as_bytes()).ok()) {
                if !expected.contains(&key) {
                    expected.push(key);
                }
            }
            proptest::prop_assert_eq!(named.keys, expected);
        }

        #[test]
        fn no_statement_panics(statement: Vec<u8>) {
            let _ = keys_in(&statement, &limits());
            let _ = keys_in(&[b"/* mcinv:", &statement[..]].concat(), &limits());
            let _ = keys_in(&[&statement[..], b"*/"].concat(), &limits());
        }
    }
}
