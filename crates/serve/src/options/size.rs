//! Sizes as typed, of what lies in memory.

use guira_front::size::{Error, parse_in};

/// In bytes; a number alone is so many times `unit`.
///
/// # Errors
/// What is no number, is below 0, or does not fit memory.
pub(crate) fn parse(text: &str, unit: usize) -> Result<usize, Error> {
    usize::try_from(parse_in(text, unit as u64)?).map_err(|_| Error::PosOverflow)
}

pub(crate) const KB: usize = 1 << 10;
pub(crate) const MB: usize = 1 << 20;
pub(crate) const GB: usize = 1 << 30;
