//! Logins over text: memcached has no command for them and uses a `set` whose value is `user password`.
//!
//! ```text
//! set anything 0 0 7\r\n | foo bar\r\n       key, flags and exptime are ignored
//! └─ a line of ≥ 6 bytes ─┘ └ ≤ 16,384 bytes, split at the first space
//! ```
//! As with [`parse`](crate::parse), a prefix is never an error, and bytes beyond `used` aren't examined.

use crate::fixed;
use memchr::memchr;

/// The input at the front of a buffer, on a connection that has not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextLogin<'b> {
    /// Part of a line.
    Line,
    /// The line, and part of the value.
    Value,
    /// A user and a password.
    Token {
        /// The bytes before the first space.
        user: &'b [u8],
        /// The bytes after it.
        password: &'b [u8],
        /// Bytes of line and value.
        used: usize,
    },
    /// Anything else, which is refused and not executed.
    Refused {
        /// The reply.
        reply: &'static [u8],
        /// Bytes to remove.
        used: usize,
    },
    /// An input that a client of this protocol never sends: the connection is closed without a reply.
    Junk,
}

/// Reads one login attempt from the front of `input`.
pub fn parse_login(input: &[u8]) -> TextLogin<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > LINE_BYTES_MAX { TextLogin::Junk } else { TextLogin::Line };
    };
    if end < LINE_BYTES_MIN {
        return TextLogin::Junk;
    }
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let used = end + 1;
    let refused = |reply, used| TextLogin::Refused { reply, used };
    let Some(value_bytes) = value_bytes(line) else {
        return refused(fixed::UNAUTHENTICATED, used);
    };
    if value_bytes > TOKEN_BYTES_MAX {
        return refused(fixed::AUTH_TOKEN_TOO_LONG, used);
    }
    let rest = &input[used..];
    let Some((value, end)) = rest.get(..value_bytes + 2).map(|v| v.split_at(value_bytes)) else {
        return TextLogin::Value;
    };
    let used = used + value_bytes + 2;
    if end != b"\r\n" {
        return refused(fixed::AUTH_BAD_END, used);
    }
    match memchr(b' ', value) {
        Some(at) => TextLogin::Token { user: &value[..at], password: &value[at + 1..], used },
        None => refused(fixed::AUTH_BAD_TOKEN, used),
    }
}

/// The length that a `set` line announces.
fn value_bytes(line: &[u8]) -> Option<usize> {
    let mut words = line.split(|&b| b == b' ').filter(|word| !word.is_empty());
    let is_set = words.next()?.starts_with(b"set") && line.starts_with(b"set");
    let number = std::str::from_utf8(words.nth(3)?).ok()?.parse::<u32>().ok()?;
    is_set.then_some(number as usize)
}

/// A shorter line can't be a login; as in memcached, it closes the connection.
const LINE_BYTES_MIN: usize = 6;
/// A longer line without a newline closes the connection.
const LINE_BYTES_MAX: usize = 2048;
/// The limit for user, space and password together.
const TOKEN_BYTES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_user_and_password_is_a_login_whatever_its_key() {
        let token = TextLogin::Token { user: b"foo", password: b"b r", used: 25 };
        assert_eq!(parse_login(b"set any 0 0 7 \r\nfoo b r\r\n."), token);
    }

    #[test]
    fn a_prefix_is_never_an_error() {
        let whole = b"set k 0 0 7\r\nfoo bar\r\n";
        for cut in 0..whole.len() {
            let want = if cut < 13 { TextLogin::Line } else { TextLogin::Value };
            assert_eq!(parse_login(&whole[..cut]), want, "{cut}");
        }
    }

    #[test]
    fn everything_else_is_refused_in_memcacheds_words() {
        let refused = |reply, used| TextLogin::Refused { reply, used };
        for (input, want) in [
            (&b"get foo\r\n"[..], refused(fixed::UNAUTHENTICATED, 9)),
            (b"set k 0 0\r\n", refused(fixed::UNAUTHENTICATED, 11)),
            (b"set k 0 0 -1\r\n", refused(fixed::UNAUTHENTICATED, 14)),
            (b"set k 0 0 16385\r\n", refused(fixed::AUTH_TOKEN_TOO_LONG, 17)),
            (b"set k 0 0 3\r\na b..", refused(fixed::AUTH_BAD_END, 18)),
            (b"set k 0 0 2\r\nhi\r\n", refused(fixed::AUTH_BAD_TOKEN, 17)),
            (b"quit\r\n", TextLogin::Junk),
        ] {
            assert_eq!(parse_login(input), want, "{}", input.escape_ascii());
        }
        assert_eq!(parse_login(&[b'x'; 2049]), TextLogin::Junk);
    }
}
