//! The names of clusters and nodes.

/// Whether a cluster or a node may have this name: [`NAME_FORM`].
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_good)
}

/// The form of names, in words.
pub const NAME_FORM: &str = "a name has letters, digits, - _ and ., 64 at most";
const NAME_BYTES_MAX: usize = 64;
