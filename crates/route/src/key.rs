//! The parts of a key: where it goes, what is hashed, what the server sees.
//!
//! ```text
//! /region/cluster/  user:5  |#|likes
//! └── prefix ────┘  └────┬─────────┘
//!                   └─┬─┘ without prefix: what the server sees
//!                     routing key: what is hashed, and what policies by prefix look at
//! ```

use bytes::Bytes;

/// Up to and with the third slash, if the key begins with one; else empty.
pub(crate) fn prefix(key: &[u8]) -> &[u8] {
    if key.first() != Some(&b'/') {
        return &[];
    }
    let mut slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.nth(2).map_or(&[], |(third, _)| &key[..=third])
}

/// The key as the server sees it, unless it wants the prefix too.
pub(crate) fn without_prefix(key: &[u8]) -> &[u8] {
    &key[prefix(key).len()..]
}

/// Without prefix, up to the hash stop.
pub(crate) fn routing_key(key: &[u8]) -> &[u8] {
    let key = without_prefix(key);
    &key[..hash_stop(key).unwrap_or(key.len())]
}

/// What follows the routing key: the hash stop and what is behind it.
pub(crate) fn after_routing_key(key: &[u8]) -> &[u8] {
    let key = without_prefix(key);
    &key[hash_stop(key).unwrap_or(key.len())..]
}

fn hash_stop(key: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'|', key).find(|&at| key[at..].starts_with(HASH_STOP))
}

/// Parts one after the other.
pub(crate) fn concat(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

/// Ends the part of a key that is hashed.
pub(crate) const HASH_STOP: &[u8] = b"|#|";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_falls_into_its_parts() {
        for (key, expected) in [
            ("a", ["", "a", "a", ""]),
            ("/a/b/c", ["/a/b/", "c", "c", ""]),
            ("/a/b", ["", "/a/b", "/a/b", ""]),
            ("a/b/c/d", ["", "a/b/c/d", "a/b/c/d", ""]),
            ("/*/*/a|#|b|#|c", ["/*/*/", "a|#|b|#|c", "a", "|#|b|#|c"]),
            ("a||#|b", ["", "a||#|b", "a|", "|#|b"]),
            ("|#|", ["", "|#|", "", "|#|"]),
            ("a|", ["", "a|", "a|", ""]),
        ] {
            let bytes = key.as_bytes();
            let parts = [
                prefix(bytes),
                without_prefix(bytes),
                routing_key(bytes),
                after_routing_key(bytes),
            ];
            assert_eq!(parts.map(|part| std::str::from_utf8(part).unwrap()), expected, "{key}");
        }
    }
}
