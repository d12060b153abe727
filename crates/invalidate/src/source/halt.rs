//! Why the daemon can't go on by itself.

/// An exit code and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Halt {
    pub(crate) code: u8,
    pub(crate) words: String,
}

/// The state folder, its device, or a port can't be used.
pub(crate) const UNUSABLE: u8 = 2;
/// A gap, a setting, a right or a column.
pub(crate) const BAD: u8 = 3;
/// An unknown event.
pub(crate) const UNREADABLE: u8 = 4;
