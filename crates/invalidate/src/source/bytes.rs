//! Reads numbers and texts from a packet whose lengths may be wrong.

use std::fmt;

/// The rest of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

/// Why a packet can't be read: it ends too early, or contains what can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<'b> Bytes<'b> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a little-endian number of `bytes` bytes, at most eight.
    pub(super) fn little(&mut self, bytes: usize) -> Result<u64, Broken> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Reads a big-endian number of `bytes` bytes, at most eight.
    pub(super) fn big(&mut self, bytes: usize) -> Result<u64, Broken> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    pub(super) fn byte(&mut self) -> Result<u8, Broken> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn short(&mut self) -> Result<u16, Broken> {
        let taken = self.take(2)?;
        Ok(u16::from_le_bytes([taken[0], taken[1]]))
    }

    pub(super) fn long(&mut self) -> Result<u32, Broken> {
        let taken = self.take(4)?;
        Ok(u32::from_le_bytes([taken[0], taken[1], taken[2], taken[3]]))
    }

    /// Reads a little-endian length or count of `bytes` bytes.
    pub(super) fn count(&mut self, bytes: usize) -> Result<usize, Broken> {
        usize::try_from(self.little(bytes)?).map_err(|_| CUT)
    }

    /// Reads a length of MySQL's protocol: one byte, or 2, 3 or 8 bytes after one that selects the size.
    pub(super) fn packed(&mut self) -> Result<usize, Broken> {
        match self.byte()? {
            0xfc => self.count(2),
            0xfd => self.count(3),
            0xfe => self.count(8),
            0xfb | 0xff => Err(Broken("a length that is none")),
            small => Ok(usize::from(small)),
        }
    }

    /// Reads a text that follows its packed length.
    pub(super) fn packed_text(&mut self) -> Result<&'b [u8], Broken> {
        let length = self.packed()?;
        self.take(length)
    }

    /// Reads a text up to a zero, and skips the zero.
    pub(super) fn until_zero(&mut self) -> Result<&'b [u8], Broken> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(CUT)?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }
}

const CUT: Broken = Broken("it ends too early");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_lengths_are_read_or_told_to_be_cut() {
        let mut bytes = Bytes(&[1, 2, 3, 0xfc, 2, 0, b'a', b'b', b'c', 0, 0xfb]);
        assert_eq!((bytes.little(2), bytes.big(1)), (Ok(0x201), Ok(3)));
        assert_eq!(bytes.packed_text(), Ok(&b"ab"[..]));
        assert_eq!(bytes.until_zero(), Ok(&b"c"[..]));
        assert!(bytes.packed().is_err());
        assert_eq!(bytes.take(1), Err(CUT));
        assert_eq!(Bytes(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]).packed_text(), Err(CUT));
        assert_eq!(Bytes(b"abc").until_zero(), Err(CUT));
    }
}
