//! Inflates what MariaDB compressed (`log_bin_compress`): texts of statements, and images of rows.
//!
//! ```text
//! head 1: 0x80, the algorithm in three bits (0: zlib), the length's number of bytes in three bits
//! the length · zlib's stream
//! ```
//! The length is big-endian. The sender may lie about it: a stream that turns out shorter or longer is refused.

use std::io::{self, BufRead, Read};

use flate2::bufread::ZlibDecoder;

/// The inflated bytes, read as a stream: they aren't kept in memory.
pub(super) struct Inflated<R> {
    stream: ZlibDecoder<R>,
    left: u64,
}

impl<R: BufRead> Inflated<R> {
    pub(super) fn new(mut packed: R) -> io::Result<Self> {
        let mut head = [0; 1];
        packed.read_exact(&mut head)?;
        let [head] = head;
        if head & IS_PACKED == 0 || head & ALGORITHM != 0 {
            return Err(broken("a compressed event of an unknown kind"));
        }
        let mut length = [0; 8];
        packed.read_exact(&mut length[8 - usize::from(head & LENGTH_BYTES)..])?;
        Ok(Self { stream: ZlibDecoder::new(packed), left: u64::from_be_bytes(length) })
    }
}

impl<R: BufRead> Read for Inflated<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        // One byte more than expected reveals a stream that goes on.
        let mut more = [0];
        let into = if self.left == 0 { &mut more[..] } else { &mut into[..most] };
        let wants = !into.is_empty();
        let read = self.stream.read(into).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                broken("a compressed event that can't be inflated")
            }
            _ => error,
        })?;
        match self.left {
            0 if read == 0 => Ok(0),
            left if left > 0 && (read > 0 || !wants) => {
                self.left -= read as u64;
                Ok(read)
            }
            _ => Err(broken("a compressed event that isn't as long as it says")),
        }
    }
}

fn broken(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

const IS_PACKED: u8 = 0x80;
const ALGORITHM: u8 = 0x70;
const LENGTH_BYTES: u8 = 0x07;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write as _;

    /// Compresses in MariaDB's format, with the given length in the head.
    fn packed(text: &[u8], length: u32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        [&[0x84][..], &length.to_be_bytes(), &encoder.finish().unwrap()].concat()
    }

    fn inflate(packed: &[u8]) -> Option<Vec<u8>> {
        let mut inflated = Vec::new();
        Inflated::new(packed).ok()?.read_to_end(&mut inflated).ok()?;
        Some(inflated)
    }

    #[test]
    fn what_is_longer_or_shorter_than_it_says_is_refused() {
        let text = vec![b'a'; 5000];
        let whole = packed(&text, 5000);
        assert_eq!(inflate(&whole), Some(text.clone()));
        assert_eq!(inflate(&[&[0x82, 0x13, 0x88], &whole[5..]].concat()), Some(text.clone()));
        assert_eq!(inflate(&packed(b"", 0)), Some(Vec::new()));
        for length in [0, 1, 4999, 5001, (64 << 20) + 1, u32::MAX] {
            assert!(inflate(&packed(&text, length)).is_none(), "{length}");
        }
        for cut in 0..whole.len() {
            assert!(inflate(&whole[..cut]).is_none(), "{cut}");
        }
        assert!(inflate(&[&[0x94], &whole[1..]].concat()).is_none(), "another algorithm");
        assert!(inflate(&[&[0x04], &whole[1..]].concat()).is_none());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(mut packed: Vec<u8>, head in 0x80..0x88_u8) {
            packed.insert(0, head);
            let _ = inflate(&packed);
        }
    }
}
