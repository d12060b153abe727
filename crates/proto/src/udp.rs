//! The frame of a datagram: the request it belongs to, and its position in a reply.
//!
//! ```text
//! request:2 sequence:2 datagrams:2 reserved:2 | text or binary, up to PAYLOAD_BYTES_MAX in a reply
//! ```
//! Numbers are big-endian. A request is one datagram. A reply has as many as it needs, each with the
//! request's number, its own position and the number of datagrams.

use std::ops::Range;

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 8;
/// The largest datagram of a reply, frame included: it fits in an Ethernet frame.
pub const DATAGRAM_BYTES_MAX: usize = 1400;
/// Bytes of a reply that one datagram carries.
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - FRAME_BYTES;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The client's number for its request.
    pub request: u16,
    /// The position among the message's datagrams, from 0.
    pub sequence: u16,
    /// The number of datagrams in the message.
    pub datagrams: u16,
}

impl Frame {
    /// Returns the frame as it is sent.
    pub fn to_bytes(self) -> [u8; FRAME_BYTES] {
        let [r0, r1] = self.request.to_be_bytes();
        let [s0, s1] = self.sequence.to_be_bytes();
        let [d0, d1] = self.datagrams.to_be_bytes();
        [r0, r1, s0, s1, d0, d1, 0, 0]
    }

    /// Splits a datagram into frame and payload. Returns `None` if it is too short for both.
    pub fn split(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (&[r0, r1, s0, s1, d0, d1, _, _], payload) = datagram.split_first_chunk()?;
        let frame = Frame {
            request: u16::from_be_bytes([r0, r1]),
            sequence: u16::from_be_bytes([s0, s1]),
            datagrams: u16::from_be_bytes([d0, d1]),
        };
        (!payload.is_empty()).then_some((frame, payload))
    }
}

/// Returns the number and the payload of a request. `None`: the datagram is too short, or part of a
/// request of several datagrams, which isn't supported.
pub fn request(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (frame, payload) = Frame::split(datagram)?;
    (frame.datagrams == 1).then_some((frame.request, payload))
}

/// Returns the frames of a reply of `reply_bytes`, each with the range of bytes that it carries. `None`:
/// the reply needs more datagrams than a frame can count.
pub fn reply_frames(
    request: u16,
    reply_bytes: usize,
) -> Option<impl Iterator<Item = (Frame, Range<usize>)>> {
    let datagrams = u16::try_from(reply_bytes.div_ceil(PAYLOAD_BYTES_MAX)).ok()?;
    Some((0..datagrams).map(move |sequence| {
        let start = usize::from(sequence) * PAYLOAD_BYTES_MAX;
        let end = (start + PAYLOAD_BYTES_MAX).min(reply_bytes);
        (Frame { request, sequence, datagrams }, start..end)
    }))
}
