//! A transaction that MySQL compressed (`binlog_transaction_compression`): its events, one after the other.
//!
//! ```text
//! fields: kind, length, value, all lengths packed · 0: the end of fields · zstd's frames, of events without checksums
//! ```
//! The stream is inflated as its events are taken: memory for one event, and for zstd's window, which is 2 MiB at MySQL's default
//! level and 128 MiB at most.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use super::bytes::{Broken, Bytes};

/// What is left of a payload.
pub(super) struct Payload<'p> {
    frames: Frames<'p>,
}

enum Frames<'p> {
    Plain(&'p [u8]),
    Within(Box<StreamingDecoder<&'p [u8], ruzstd::decoding::FrameDecoder>>),
}

impl<'p> Payload<'p> {
    pub(super) fn new(body: &'p [u8]) -> Result<Self, Broken> {
        let mut bytes = Bytes(body);
        let mut algorithm = ZSTD;
        loop {
            let kind = bytes.packed()?;
            if kind == END_OF_FIELDS {
                break;
            }
            let mut value = Bytes(bytes.packed_text()?);
            if kind == ALGORITHM {
                algorithm = value.packed()?;
            }
        }
        let frames = match algorithm {
            ZSTD => Frames::Within(Box::new(decoder(bytes.0)?)),
            NONE => Frames::Plain(bytes.0),
            _ => return Err(Broken("a transaction compressed in an unknown way")),
        };
        Ok(Self { frames })
    }

    /// Reads the next event into `event`; false: there is none.
    pub(super) fn next(&mut self, event: &mut Vec<u8>) -> Result<bool, Broken> {
        event.clear();
        if !self.fill(event, HEAD)? {
            return Ok(false);
        }
        let mut head = Bytes(event);
        head.take(4)?;
        let kind = head.byte()?;
        head.take(4)?;
        let size = head.count(4)?;
        if kind == super::event::PAYLOAD || kind == super::event::FORMAT {
            return Err(Broken("a compressed transaction within another"));
        }
        let rest = size.checked_sub(HEAD).filter(|_| size <= EVENT_MAX);
        let rest = rest.ok_or(Broken("a compressed event whose length can't be"))?;
        match self.fill(event, rest)? || rest == 0 {
            true => Ok(true),
            false => Err(CUT),
        }
    }

    /// Appends so many bytes; false: there are none.
    fn fill(&mut self, event: &mut Vec<u8>, count: usize) -> Result<bool, Broken> {
        let wanted = event.len() + count;
        while event.len() < wanted {
            let before = event.len();
            // Memory grows with what is really there.
            let most = (wanted - before) as u64;
            match &mut self.frames {
                Frames::Plain(bytes) => bytes.take(most).read_to_end(event),
                Frames::Within(decoder) => decoder.take(most).read_to_end(event),
            }
            .map_err(|_| Broken("a compressed transaction that can't be inflated"))?;
            if event.len() > before {
                continue;
            }
            match &mut self.frames {
                Frames::Within(old) if !old.get_ref().is_empty() => **old = decoder(old.get_ref())?,
                _ if wanted - before == count => return Ok(false),
                _ => return Err(CUT),
            }
        }
        Ok(true)
    }
}

/// Of the frame that begins here.
fn decoder(
    bytes: &[u8],
) -> Result<StreamingDecoder<&[u8], ruzstd::decoding::FrameDecoder>, Broken> {
    StreamingDecoder::new(bytes).map_err(|_| Broken("a compressed transaction without its frame"))
}

const END_OF_FIELDS: usize = 0;
const ALGORITHM: usize = 2;
const ZSTD: usize = 0;
const NONE: usize = 255;
const HEAD: usize = 19;
/// As long as an event may be that isn't compressed.
const EVENT_MAX: usize = 64 << 20;
const CUT: Broken = Broken("a compressed transaction that ends too early");

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

    fn events(body: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
        let (mut payload, mut events, mut event) = (Payload::new(body)?, Vec::new(), Vec::new());
        while payload.next(&mut event)? {
            events.push(event.clone());
        }
        Ok(events)
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
