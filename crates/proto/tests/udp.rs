//! Tests of frames: a reply in datagrams can be put together again, and only a request is accepted as one.

use guira_proto::udp::{
    DATAGRAM_BYTES_MAX, FRAME_BYTES, Frame, PAYLOAD_BYTES_MAX, reply_frames, request,
};
use proptest::prelude::*;

#[test]
fn a_request_is_one_datagram_with_something_in_it() {
    assert_eq!(request(b"\x01\x02\0\0\0\x01\0\0get k\r\n"), Some((0x0102, &b"get k\r\n"[..])));
    assert_eq!(request(b"\x01\x02\0\x07\0\x01\xff\xffx"), Some((0x0102, &b"x"[..])));
    for datagram in [
        &b""[..],
        b"\x01\x02\0\0\0\x01\0",
        b"\x01\x02\0\0\0\x01\0\0",
        b"\x01\x02\0\0\0\x02\0\0get k\r\n",
        b"\x01\x02\0\0\0\0\0\0get k\r\n",
        b"\x01\x02\0\0\x01\x01\0\0get k\r\n",
    ] {
        assert_eq!(request(datagram), None, "{datagram:?}");
    }
}

#[test]
fn a_reply_that_nobody_could_count_has_no_frames() {
    let most = usize::from(u16::MAX) * PAYLOAD_BYTES_MAX;
    assert_eq!(reply_frames(1, most).map(Iterator::count), Some(65_535));
    assert!(reply_frames(1, most + 1).is_none());
    assert_eq!(reply_frames(1, 0).map(Iterator::count), Some(0));
}

proptest! {
    #[test]
    fn the_datagrams_of_a_reply_put_together_are_the_reply(
        number in any::<u16>(),
        reply in proptest::collection::vec(any::<u8>(), 0..10_000),
    ) {
        let mut together = Vec::new();
        let mut count = 0;
        for (frame, bytes) in reply_frames(number, reply.len()).unwrap() {
            let datagram = [&frame.to_bytes()[..], &reply[bytes]].concat();
            prop_assert!(datagram.len() <= DATAGRAM_BYTES_MAX && datagram.len() > FRAME_BYTES);
            let (read, payload) = Frame::split(&datagram).unwrap();
            prop_assert_eq!(read, frame);
            prop_assert_eq!((read.request, usize::from(read.sequence)), (number, count));
            together.extend_from_slice(payload);
            count += 1;
        }
        prop_assert_eq!(&together, &reply);
        for (frame, _) in reply_frames(number, reply.len()).unwrap() {
            prop_assert_eq!(usize::from(frame.datagrams), count);
        }
    }
}
