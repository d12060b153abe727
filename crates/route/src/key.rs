//! The parts of a key: routing, hashing, and the part that servers see.
//!
//! ```text
//! /region/cluster/  user:5  |#|likes
//! └── prefix ────┘  └────┬─────────┘
//!                   └─┬─┘ without prefix: the part that servers see
//!                     routing key: the part that is hashed, and that policies by prefix check
//! ```

use bytes::Bytes;

/// The prefix: up to and including the third slash, if the key begins with one; otherwise empty.
pub(crate) fn prefix(key: &[u8]) -> &[u8] {
    if key.first() != Some(&b'/') {
        return &[];
    }
    let mut slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.nth(2).map_or(&[], |(third, _)| &key[..=third])
}

/// The key without its prefix, as servers see it unless they want the prefix.
pub(crate) fn without_prefix(key: &[u8]) -> &[u8] {
    &key[prefix(key).len()..]
}

/// The key without its prefix, up to the hash stop.
pub(crate) fn routing_key(key: &[u8]) -> &[u8] {
    let key = without_prefix(key);
    &key[..hash_stop(key).unwrap_or(key.len())]
}

/// The part after the routing key: the hash stop and everything behind it.
pub(crate) fn after_routing_key(key: &[u8]) -> &[u8] {
    let key = without_prefix(key);
    &key[hash_stop(key).unwrap_or(key.len())..]
}

fn hash_stop(key: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'|', key).find(|&at| key[at..].starts_with(HASH_STOP))
}

/// Concatenates parts.
pub(crate) fn concat(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

/// Marks the end of the part that is hashed.
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
