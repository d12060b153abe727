//! What MariaDB compressed (`log_bin_compress`): texts of statements, and images of rows.
//!
//! ```text
//! 1 byte: 0x80, the algorithm in three bits (0: zlib), in three bits how many bytes the length has · the length · zlib's stream
//! ```
//! The length is big-endian. It is the sender's word: no more than it says is inflated, and no more than [`INFLATED_MAX`].

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use super::bytes::{Broken, Bytes};

/// Inflates all of it.
pub(super) fn inflate(packed: &[u8]) -> Result<Vec<u8>, Broken> {
    let mut bytes = Bytes(packed);
    let head = bytes.byte()?;
    if head & IS_PACKED == 0 || head & ALGORITHM != 0 {
        return Err(Broken("a compressed event of an unknown kind"));
    }
    let length = bytes.big(usize::from(head & LENGTH_BYTES))?;
    if length > INFLATED_MAX {
        return Err(Broken("a compressed event of more than 64 MiB"));
    }
    let mut inflated = Vec::new();
    // One byte more tells a stream that goes on after what it says. Memory grows with what is really there.
    let read = ZlibDecoder::new(bytes.0).take(length + 1).read_to_end(&mut inflated);
    match read {
        Ok(read) if read as u64 == length => Ok(inflated),
        Ok(_) => Err(Broken("a compressed event that isn't as long as it says")),
        Err(_) => Err(Broken("a compressed event that can't be inflated")),
    }
}

const IS_PACKED: u8 = 0x80;
const ALGORITHM: u8 = 0x70;
const LENGTH_BYTES: u8 = 0x07;
/// As long as an event may be that isn't compressed.
const INFLATED_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write as _;

    /// As MariaDB packs it, with a length of the caller's.
    fn packed(text: &[u8], length: u32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        [&[0x84][..], &length.to_be_bytes(), &encoder.finish().unwrap()].concat()
    }

    #[test]
    fn what_is_longer_than_it_says_is_refused() {
        let text = vec![b'a'; 5000];
        let whole = packed(&text, 5000);
        assert_eq!(inflate(&whole), Ok(text.clone()));
        assert_eq!(inflate(&[&[0x82, 0x13, 0x88], &whole[5..]].concat()), Ok(text.clone()));
        for length in [0, 4999, 5001, (64 << 20) + 1, u32::MAX] {
            assert!(inflate(&packed(&text, length)).is_err(), "{length}");
        }
        for cut in 0..whole.len() {
            assert!(inflate(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(inflate(&[&[0x94], &whole[1..]].concat()).is_err(), "another algorithm");
        assert!(inflate(&[&[0x04], &whole[1..]].concat()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(mut packed: Vec<u8>, head in 0x80..0x88_u8) {
            packed.insert(0, head);
            let _ = inflate(&packed);
        }
    }
}
