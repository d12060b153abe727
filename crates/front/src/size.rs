//! Sizes as users type them: `4g`, `512k`, `1.5 MiB`, or a bare number in the flag's own unit.
//!
//! Kilobytes, megabytes and gigabytes are powers of two, as memcached's are, whether `k`, `kb` or `KiB` is typed.

pub use parse_size::Error;
use parse_size::{ByteSuffix, Config};

/// Parses a size into bytes; a bare number counts multiples of `unit`.
///
/// # Errors
/// The text is no number, is negative, or doesn't fit into 64 bits.
pub fn parse_in(text: &str, unit: u64) -> Result<u64, Error> {
    let config = Config::new().with_binary().with_byte_suffix(ByteSuffix::Allow);
    config.with_default_factor(unit).parse_size(text.trim())
}

/// Parses a size into bytes; a bare number counts bytes.
///
/// # Errors
/// A sentence that explains what a size looks like.
pub fn parse(text: &str) -> Result<u64, String> {
    parse_in(text, 1)
        .map_err(|_| "a size is a number of bytes, or has a unit: 512k, 4m, 1g".to_owned())
}

/// Parses a number of things: `250`, `10k`, `1m`, `1.5g`. Here `k` is 1000.
///
/// # Errors
/// A sentence that explains what a number looks like.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a number such as 250, 10k, 1m");
    let lower = text.trim().to_ascii_lowercase();
    let (digits, factor) = match lower.chars().last() {
        Some('k') => (&lower[..lower.len() - 1], 1_000.0),
        Some('m') => (&lower[..lower.len() - 1], 1_000_000.0),
        Some('g') => (&lower[..lower.len() - 1], 1_000_000_000.0),
        _ => return lower.parse().map_err(|_| wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let product = (number * factor).round();
    if !(0.0..1e15).contains(&product) {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1e15, as just checked"
    )]
    Ok(product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;

    #[test]
    fn a_size_has_the_unit_that_it_names_or_the_flags_own() {
        for (text, unit, bytes) in [
            ("64", MB, 64 * MB),
            ("64", 1, 64),
            ("4g", MB, 4 * GB),
            ("4G", KB, 4 * GB),
            ("512k", MB, 512 * KB),
            ("2MiB", 1, 2 * MB),
            ("2mb", 1, 2 * MB),
            ("1.5g", 1, 3 * GB / 2),
            (" 7 ", 1, 7),
            ("4096b", MB, 4096),
        ] {
            assert_eq!(parse_in(text, unit), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "-1g", "x", "4q", "99999999999g", "0x10"] {
            assert!(parse_in(text, MB).is_err(), "{text}");
            assert!(parse(text).is_err_and(|words| words.contains("512k")), "{text}");
        }
        assert_eq!(parse("64k"), Ok(64 * KB));
    }

    #[test]
    fn a_count_has_decimal_units() {
        for (text, means) in
            [("250", 250), ("10k", 10_000), ("1.5M", 1_500_000), ("1g", 1_000_000_000)]
        {
            assert_eq!(parse_count(text), Ok(means));
        }
        for text in ["", "k", "-1k", "x", "1e99g"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
