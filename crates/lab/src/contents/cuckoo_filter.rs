//! Tables and figures.

use super::Entry;

pub(super) const ENTRIES: &[Entry] = &[];
