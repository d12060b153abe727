//! The properties that hold for all inputs.

use super::bytes::put_u32;
use super::{FRAME_BYTES_MAX, Framed, PeerFrame, parse_frame};

/// Checks the properties on any bytes: as the input of a link, and behind a right checksum.
///
/// # Panics
/// A property doesn't hold.
pub fn fuzz_frames(input: &[u8]) {
    let _ = check(input);
    let _ = check(&sealed(input));
}

/// Builds a frame from the bytes that its checksum covers.
pub(super) fn sealed(counted: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(counted.len() + 8);
    put_u32(&mut frame, u32::try_from(counted.len()).unwrap_or(u32::MAX));
    put_u32(&mut frame, crc32c::crc32c(counted));
    frame.extend_from_slice(counted);
    frame
}

/// Checks the properties. Returns the frame at the front of `input`, if there is one.
pub(super) fn check(input: &[u8]) -> Option<PeerFrame> {
    let (frame, used) = match parse_frame(input, FRAME_BYTES_MAX) {
        Ok(Framed::Whole { frame, used }) => (frame, used),
        Ok(Framed::Incomplete { at_least }) => {
            assert!(at_least > input.len() && at_least <= FRAME_BYTES_MAX);
            return None;
        }
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return None;
        }
    };
    assert!(used <= input.len(), "read past the end");
    let whole = input[..used].to_vec();
    let alone = Framed::Whole { frame: frame.clone(), used };
    assert_eq!(parse_frame(&whole, FRAME_BYTES_MAX).as_ref(), Ok(&alone), "what follows mattered");
    for cut in (0..used).step_by(used / 64 + 1) {
        let Ok(Framed::Incomplete { at_least }) = parse_frame(&whole[..cut], used) else {
            panic!("{cut} bytes of {used} aren't incomplete");
        };
        assert!((cut + 1..=used).contains(&at_least), "{at_least}");
    }
    let mut again = Vec::new();
    assert_eq!(frame.encode(&mut again), Ok(()));
    match &*frame {
        PeerFrame::View(_) => {
            let used = again.len();
            let same = Framed::Whole { frame: frame.clone(), used };
            assert_eq!(parse_frame(&again, used), Ok(same));
        }
        // The hello of a newer version may have more parts.
        PeerFrame::Hello(_) => assert!(again.len() <= whole.len()),
        _ => assert_eq!(again, whole),
    }
    Some(*frame)
}
