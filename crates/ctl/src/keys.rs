//! The listing of keys, and the patterns that select from it.
//!
//! # Costs
//! Keys are read, matched and written one by one, so the listing takes the memory of one buffer, whatever
//! the server's size.

use std::io::{self, Write as _};

use guira_client::{Address, Failure, Outcome};

use crate::args::{Keys, Server, bytes};
use crate::ask::output;
use crate::trouble::Trouble;

pub(crate) async fn list(args: &Keys) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let client = args.server.client(*timeout)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (_, mut keys) in client.keys() {
        while let Some(key) = keys.next().await.map_err(no_listing(server))? {
            if args.pattern.as_ref().is_none_or(|pattern| is_like(bytes(pattern), &key)) {
                line(&mut out, &key).map_err(output)?;
            }
        }
    }
    out.flush().map_err(output)
}

/// Explains the failure of a server that doesn't know the command.
fn no_listing(server: &Address) -> impl FnOnce(Failure) -> Trouble + use<'_> {
    |failure| match failure.outcome {
        Outcome::BadCommand => {
            let message = "neither a router nor a node of a replicated store lists keys: ask the caches behind the router; a replicated store has no list".to_owned();
            Trouble::of(server)(Failure { message, ..failure })
        }
        _ => Trouble::of(server)(failure),
    }
}

/// Writes a key on a line; if a line can't hold it, in the server's own encoding.
fn line(out: &mut impl io::Write, key: &[u8]) -> io::Result<()> {
    if key.iter().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
        let mut encoded = Vec::new();
        guira_proto::append_uri(&mut encoded, key);
        out.write_all(&encoded)?;
    } else {
        out.write_all(key)?;
    }
    out.write_all(b"\n")
}

/// Whether `key` matches `pattern`, where `*` stands for any bytes and `?` for one.
///
/// On a mismatch the search returns only to the last `*`. The part before it has matched at the first
/// possible place, so trying a later one can't help.
fn is_like(pattern: &[u8], key: &[u8]) -> bool {
    let (mut p, mut k) = (0, 0);
    let mut star = None;
    while k < key.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, k));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == key[k] => {
                p += 1;
                k += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                k = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_keys() {
        for (pattern, key, is) in [
            ("user:*", "user:1", true),
            ("user:*", "user:", true),
            ("user:*", "users:1", false),
            ("*:1", "user:1", true),
            ("*:1", "user:1:2", false),
            ("u*r*1", "user:rr:11", true),
            ("?", "a", true),
            ("?", "", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*", "ab", true),
            ("*ab", "aab", true),
            ("a**", "a", true),
        ] {
            assert_eq!(is_like(pattern.as_bytes(), key.as_bytes()), is, "{pattern} {key}");
        }
    }
}
