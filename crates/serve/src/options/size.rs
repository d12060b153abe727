//! Sizes as typed: `4g`, `512k`, `1.5 MiB`; or a number alone, in the unit that the flag speaks of.

use parse_size::{ByteSuffix, Config, Error};

/// Kilobytes, megabytes and gigabytes are powers of two, as memcached's are, whether `k`, `kb` or `KiB` is typed.
///
/// # Errors
/// What is no number, is below 0, or does not fit memory.
pub(crate) fn parse(text: &str, unit: usize) -> Result<usize, Error> {
    let config = Config::new().with_binary().with_byte_suffix(ByteSuffix::Allow);
    let bytes = config.with_default_factor(unit as u64).parse_size(text.trim())?;
    usize::try_from(bytes).map_err(|_| Error::PosOverflow)
}

pub(crate) const KB: usize = 1 << 10;
pub(crate) const MB: usize = 1 << 20;
pub(crate) const GB: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(parse(text, unit).ok(), Some(bytes), "{text}");
        }
        for text in ["", "k", "-1", "-1g", "x", "4q", "99999999999g", "0x10"] {
            assert!(parse(text, MB).is_err(), "{text}");
        }
    }
}
