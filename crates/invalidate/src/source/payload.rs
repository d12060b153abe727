//! A transaction that MySQL compressed (`binlog_transaction_compression`): its events, one after the other.
//!
//! ```text
//! fields: kind, length, value, all lengths packed · 0: the end of fields
//! zstd frames: events without checksums
//! ```
//! The stream is inflated while its events are read. This takes memory for zstd's window: 2 MiB at MySQL's default
//! level, 128 MiB at most.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::bytes::{Broken, Bytes};
use super::event::HEAD;

/// The rest of a payload.
pub(super) struct Payload<R: Read> {
    frames: Frames<R>,
}

enum Frames<R: Read> {
    Plain(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Payload<R> {
    pub(super) fn new(mut body: R) -> io::Result<Self> {
        let mut algorithm = ZSTD;
        loop {
            let kind = packed(&mut body)?;
            if kind == END_OF_FIELDS {
                break;
            }
            let length = packed(&mut body)?;
            let mut value = Vec::new();
            (&mut body).take(length.min(FIELD_MAX + 1)).read_to_end(&mut value)?;
            if value.len() as u64 != length {
                return Err(broken(CUT));
            }
            if kind == ALGORITHM {
                algorithm = packed(&mut &value[..])?;
            }
        }
        let frames = match algorithm {
            ZSTD => Frames::Within(Box::new(decoder(body)?)),
            NONE => Frames::Plain(body),
            _ => return Err(broken(Broken("a transaction compressed in an unknown way"))),
        };
        Ok(Self { frames })
    }

    /// Reads the head of the next event into `event`. Returns how many bytes follow it; `None` at the end.
    pub(super) fn next(&mut self, event: &mut Vec<u8>) -> io::Result<Option<usize>> {
        event.clear();
        self.by_ref().take(HEAD as u64).read_to_end(event)?;
        if event.is_empty() {
            return Ok(None);
        }
        if event.len() < HEAD {
            return Err(broken(CUT));
        }
        let mut head = Bytes(&event[4..]);
        let kind = head.byte().map_err(broken)?;
        head.take(4).map_err(broken)?;
        let size = head.count(4).map_err(broken)?;
        if kind == super::event::PAYLOAD || kind == super::event::FORMAT {
            return Err(broken(Broken("a compressed transaction within another")));
        }
        let rest = size.checked_sub(HEAD);
        rest.map(Some).ok_or_else(|| broken(Broken("a compressed event whose length can't be")))
    }

    /// Appends `count` bytes to the event.
    pub(super) fn fill(&mut self, event: &mut Vec<u8>, count: usize) -> io::Result<()> {
        // Memory grows only with the bytes that really arrive.
        match self.by_ref().take(count as u64).read_to_end(event)? {
            read if read == count => Ok(()),
            _ => Err(broken(CUT)),
        }
    }
}

/// Reads the inflated events, one after the other.
impl<R: BufRead> Read for Payload<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.frames {
                Frames::Plain(bytes) => return bytes.read(into),
                Frames::Ended => return Ok(0),
                Frames::Within(decoder) => {
                    let read = decoder.read(into).map_err(|_| broken(UNREADABLE))?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                }
            }
            let Frames::Within(ended) = std::mem::replace(&mut self.frames, Frames::Ended) else {
                return Ok(0);
            };
            let mut rest = ended.into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.frames = Frames::Within(Box::new(decoder(rest)?));
            }
        }
    }
}

/// Creates a decoder for the frame that begins here.
fn decoder<R: Read>(from: R) -> io::Result<StreamingDecoder<R, FrameDecoder>> {
    StreamingDecoder::new_with_max_window_size(from, WINDOW_MAX).map_err(|error| {
        let words = format!("a compressed transaction without its frame: {error}");
        io::Error::new(io::ErrorKind::InvalidData, words)
    })
}

/// Reads a length of MySQL's protocol.
fn packed(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 9];
    let read = |from: &mut dyn Read, into: &mut [u8]| {
        from.read_exact(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => broken(CUT),
            _ => error,
        })
    };
    read(from, &mut bytes[..1])?;
    let more = match bytes[0] {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => 0,
    };
    read(from, &mut bytes[1..=more])?;
    Bytes(&bytes[..=more]).packed().map(|number| number as u64).map_err(broken)
}

fn broken(why: Broken) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.0)
}

const END_OF_FIELDS: u64 = 0;
const ALGORITHM: u64 = 2;
const ZSTD: u64 = 0;
const NONE: u64 = 255;
/// The longest value of a field.
const FIELD_MAX: u64 = 64;
/// The window of zstd's highest level.
const WINDOW_MAX: u64 = 128 << 20;
const CUT: Broken = Broken("a compressed transaction that ends too early");
const UNREADABLE: Broken = Broken("a compressed transaction that can't be inflated");

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn inner(kind: u8, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(HEAD + body.len()).unwrap();
        [&[0; 4][..], &[kind], &[0; 4], &size.to_le_bytes(), &[0; 6], body].concat()
    }

    fn packed(frames: &[u8]) -> Vec<u8> {
        let length = u16::try_from(frames.len()).unwrap().to_le_bytes();
        [&[2, 1, 0, 3, 1, 9, 1, 3, 0xfc][..], &length, &[0], frames].concat()
    }

    fn events(body: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let read = || -> io::Result<_> {
            let (mut payload, mut events, mut event) =
                (Payload::new(body)?, Vec::new(), Vec::new());
            while let Some(rest) = payload.next(&mut event)? {
                payload.fill(&mut event, rest)?;
                events.push(event.clone());
            }
            Ok(events)
        };
        read().map_err(|error| error.to_string())
    }

    #[test]
    fn events_come_out_of_one_frame_or_several_and_lies_are_refused() {
        let all = [inner(2, b"BEGIN"), inner(30, &[7; 5000]), inner(16, &[])];
        let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let whole = all.concat();
        assert_eq!(events(&packed(&frame(&whole))), Ok(all.to_vec()));
        let (one, two) = whole.split_at(1000);
        assert_eq!(events(&packed(&[frame(one), frame(two)].concat())), Ok(all.to_vec()));
        let plain = [&[2, 3, 0xfc, 255, 0, 0][..], &whole].concat();
        assert_eq!(events(&plain), Ok(all.to_vec()));
        let good = packed(&frame(&whole));
        for cut in 0..good.len() {
            assert!(events(&good[..cut]).is_err(), "{cut}");
        }
        for wrong in [inner(40, b"x"), inner(15, b"x"), whole[..whole.len() - 1].to_vec()] {
            assert!(events(&packed(&frame(&wrong))).is_err());
        }
        let mut long = inner(30, b"x");
        long[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(events(&packed(&frame(&long))).is_err());
        long[9..13].copy_from_slice(&3_u32.to_le_bytes());
        assert!(events(&packed(&frame(&long))).is_err());
        assert!(events(&[2, 1, 7, 0]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(body: Vec<u8>, flipped in 0..80_usize, bit in 0..8) {
            let _ = events(&body);
            let frame = compress_to_vec(&inner(2, &[7; 300])[..], CompressionLevel::Fastest);
            let mut packed = packed(&frame);
            let at = flipped % packed.len();
            packed[at] ^= 1_u8 << bit;
            let _ = events(&packed);
        }
    }
}
