//! Sizes of objects in memory, as typed.

use guira_front::size::{Error, parse_in};

/// Parses a size into bytes. A number without a suffix is multiplied by `unit`.
///
/// # Errors
/// The text isn't a number, is negative, or exceeds the address space.
pub(crate) fn parse(text: &str, unit: usize) -> Result<usize, Error> {
    usize::try_from(parse_in(text, unit as u64)?).map_err(|_| Error::PosOverflow)
}

pub(crate) const KB: usize = 1 << 10;
pub(crate) const MB: usize = 1 << 20;
pub(crate) const GB: usize = 1 << 30;
