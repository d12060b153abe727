//! The laws of the binary protocol and of the datagrams' frames.

use crate::check_requests;
use guira_proto::Parsed;
use guira_proto::binary::{self, BadPacket, HEADER_BYTES, Header};
use guira_proto::udp::{self, Frame};

/// Parses a whole stream of binary requests and checks the laws on each.
pub fn check_packets(stream: &[u8]) {
    let mut rest = stream;
    while !rest.is_empty() {
        let Some(taken) = check_packet(rest) else { return };
        rest = &rest[taken.min(rest.len())..];
    }
}

/// Checks one request at the front of `input`; how many bytes it and its value take, if the stream goes on.
fn check_packet(input: &[u8]) -> Option<usize> {
    let input = input.to_vec();
    let parsed = binary::parse(&input);
    let (used, value_bytes, is_closed) = match parsed {
        Ok(Parsed::Incomplete { at_least }) => {
            assert!(at_least > input.len() && at_least <= HEADER_BYTES + 255 + 65_535);
            return None;
        }
        Ok(Parsed::Request { request, used }) => {
            let mut again = Vec::new();
            request.encode(&mut again);
            assert_eq!(again.len(), used);
            let same = Parsed::Request { request, used };
            assert_eq!(binary::parse(&again), Ok(same), "written as {again:02x?}");
            assert!(request.key().is_none_or(|key| (1..=250).contains(&key.len())));
            (used, u64::from(request.value_bytes()), false)
        }
        Err(BadPacket { used, swallow, close, reply }) => {
            assert!(close || reply.is_some(), "a refusal that goes on has a reply");
            assert!(!close || swallow == 0);
            (used, swallow, close)
        }
    };
    assert!(used <= input.len(), "read past the end");
    assert!(value_bytes <= u64::from(binary::BODY_BYTES_MAX));
    let head = input[..used].to_vec();
    if head[0] == binary::REQUEST_MAGIC {
        assert_eq!(binary::parse(&head), parsed, "what follows mattered");
        for cut in (0..used).step_by(used / 64 + 1) {
            let prefix = head[..cut].to_vec();
            let Ok(Parsed::Incomplete { at_least }) = binary::parse(&prefix) else {
                panic!("a prefix of {cut} bytes is not incomplete");
            };
            assert!(at_least > cut && at_least <= used);
        }
    }
    let header = input.first_chunk().map(|header| (Header::read(header), header));
    assert!(header.is_none_or(|(read, bytes)| read.to_bytes() == *bytes));
    let value_bytes = usize::try_from(value_bytes).expect("at most a gigabyte");
    (!is_closed).then(|| used.saturating_add(value_bytes))
}

/// Takes a datagram apart as a server does, and its payload as the stream of requests that it is.
pub fn check_datagram(datagram: &[u8]) {
    let datagram = datagram.to_vec();
    let Some((number, payload)) = udp::request(&datagram) else { return };
    match payload.first() {
        Some(&binary::REQUEST_MAGIC) => check_packets(payload),
        _ => check_requests(payload),
    }
    // The payload as a reply: cut and put together it is the same.
    let mut together = Vec::new();
    for (frame, bytes) in udp::reply_frames(number, payload.len()).expect("a short reply") {
        let sent = [&frame.to_bytes()[..], &payload[bytes]].concat();
        assert!(sent.len() <= udp::DATAGRAM_BYTES_MAX);
        let (read, part) = Frame::split(&sent).expect("it has a payload");
        assert_eq!(read, frame);
        together.extend_from_slice(part);
    }
    assert_eq!(together, payload);
}
