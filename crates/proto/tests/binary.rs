//! Tests of the binary protocol: the lengths that each opcode takes, and the laws over all of them.

use guira_proto::Parsed;
use guira_proto::binary::{
    self, BadPacket, Echo, HEADER_BYTES, Header, Packet, PacketBody, REQUEST_MAGIC, Status, opcode,
    parse, reply,
};
use proptest::prelude::*;

/// A request with these parts, its value included.
fn packet(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        opcode: code,
        key_bytes: u16::try_from(key.len()).expect("short"),
        extras_bytes: u8::try_from(extras.len()).expect("short"),
        body_bytes: u32::try_from(extras.len() + key.len() + value.len()).expect("short"),
        opaque: 0xdead_beef,
        cas: 7,
        ..Header::default()
    };
    [&header.to_bytes()[..], extras, key, value].concat()
}

fn status_of(bytes: &[u8]) -> Result<Packet<'_>, Status> {
    match parse(bytes) {
        Ok(Parsed::Request { request, .. }) => Ok(request),
        Err(BadPacket { reply: Some((echo, status)), close, .. }) => {
            assert_eq!(echo, Echo { opcode: bytes[1], opaque: 0xdead_beef });
            assert!(close || status == Status::UnknownCommand, "{status:?} ends the connection");
            Err(status)
        }
        other => panic!("{other:?}"),
    }
}

/// The lengths that an opcode takes: extras, whether there is a key, whether there is a value.
fn shapes(code: u8) -> Vec<(usize, bool, bool)> {
    use opcode::*;
    match code {
        GET | GET_Q | GET_K | GET_K_Q | DELETE | DELETE_Q => vec![(0, true, false)],
        SET | SET_Q | ADD | ADD_Q | REPLACE | REPLACE_Q => vec![(8, true, true), (8, true, false)],
        APPEND | APPEND_Q | PREPEND | PREPEND_Q => vec![(0, true, true), (0, true, false)],
        INCREMENT | INCREMENT_Q | DECREMENT | DECREMENT_Q => vec![(20, true, false)],
        TOUCH | GAT | GAT_Q | GAT_K | GAT_K_Q => vec![(4, true, false)],
        FLUSH | FLUSH_Q => vec![(0, false, false), (4, false, false)],
        NOOP | VERSION | QUIT | QUIT_Q => vec![(0, false, false)],
        STAT => vec![(0, false, false), (0, true, false)],
        _ => Vec::new(),
    }
}

#[test]
fn each_opcode_takes_its_own_lengths_and_no_others() {
    for (name, code) in opcode::ALL {
        let shapes = shapes(*code);
        for extras in [0, 1, 3, 4, 5, 7, 8, 9, 19, 20, 21, 255] {
            for (has_key, has_value) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let key = if has_key { &b"key"[..] } else { b"" };
                let value = if has_value { &b"value"[..] } else { b"" };
                let bytes = packet(*code, &vec![1; extras], key, value);
                let got = status_of(&bytes);
                let fits = shapes.contains(&(extras, has_key, has_value));
                let case = format!("{name} with {extras} bytes of extras, {key:?}, {value:?}");
                match got {
                    Ok(request) => {
                        assert!(fits, "{case} was taken");
                        assert_eq!(request.quiet, name.ends_with("_Q"), "{case}");
                        assert_eq!(request.value_bytes() as usize, value.len(), "{case}");
                    }
                    Err(Status::UnknownCommand) => assert!(name.starts_with("SASL_"), "{case}"),
                    Err(status) => {
                        assert!(!fits, "{case} was refused");
                        assert_eq!(status, Status::InvalidArguments, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn opcodes_that_nobody_has_are_unknown_and_their_values_thrown_away() {
    let known: Vec<u8> = opcode::ALL.iter().map(|(_, code)| *code).collect();
    for code in (0..=255).filter(|code| !known.contains(code)) {
        let bytes = packet(code, b"extr", b"key", b"value");
        let reply = Some((Echo { opcode: code, opaque: 0xdead_beef }, Status::UnknownCommand));
        let used = HEADER_BYTES + 4 + 3;
        assert_eq!(parse(&bytes), Err(BadPacket { reply, used, swallow: 5, close: false }));
    }
}

/// A word for the command of an opcode.
fn meaning(command: &PacketBody<'_>) -> String {
    match command {
        PacketBody::Get { with_key, touch, .. } => {
            let name = if touch.is_some() { "gat" } else { "get" };
            format!("{name}{}", if *with_key { "_k" } else { "" })
        }
        PacketBody::Store(store) => format!("{:?}", store.verb).to_lowercase(),
        PacketBody::Arithmetic(what) => {
            if what.decrement { "decrement" } else { "increment" }.to_owned()
        }
        other => {
            let name = format!("{other:?}").to_lowercase();
            name.split(' ').next().unwrap_or_default().to_owned()
        }
    }
}

#[test]
fn an_opcode_and_its_quiet_twin_ask_for_what_they_are_called() {
    for (name, code) in opcode::ALL.iter().filter(|(name, _)| !name.starts_with("SASL")) {
        let (extras, has_key, has_value) = shapes(*code)[0];
        let key = if has_key { &b"k"[..] } else { b"" };
        let value = if has_value { &b"v"[..] } else { b"" };
        let bytes = packet(*code, &vec![0; extras], key, value);
        let request = status_of(&bytes).unwrap();
        assert_eq!(meaning(&request.command), name.trim_end_matches("_Q").to_lowercase());
    }
}

#[test]
fn the_parts_of_a_request_are_read_from_their_places() {
    let extras = [0, 0, 0, 5, 0, 0, 1, 0];
    let bytes = packet(opcode::ADD, &extras, b"k", b"hello");
    let request = status_of(&bytes).unwrap();
    let PacketBody::Store(store) = request.command else { panic!("{request:?}") };
    assert_eq!((store.key, store.flags, store.exptime, store.value_bytes), (&b"k"[..], 5, 256, 5));
    assert_eq!((request.cas, request.quiet), (7, false));

    let numbers = [1u64 << 40, 9].map(u64::to_be_bytes).concat();
    for (exptime, creates) in [(0u32, Some(0)), (60, Some(60)), (u32::MAX, None)] {
        let extras = [&numbers[..], &exptime.to_be_bytes()].concat();
        let bytes = packet(opcode::DECREMENT_Q, &extras, b"n", b"");
        let PacketBody::Arithmetic(what) = status_of(&bytes).unwrap().command else { panic!() };
        assert_eq!((what.delta, what.initial, what.exptime), (1 << 40, 9, creates));
        assert!(what.decrement);
    }
}

#[test]
fn keys_and_bodies_have_their_limits() {
    let get = |key_bytes| packet(opcode::GET, b"", &vec![b'k'; key_bytes], b"");
    assert!(status_of(&get(250)).is_ok());
    assert_eq!(status_of(&get(251)), Err(Status::InvalidArguments));
    assert_eq!(status_of(&get(65_535)), Err(Status::InvalidArguments));

    let with_body = |body_bytes| {
        let header = Header { body_bytes, ..header_of(&packet(opcode::SET, &[0; 8], b"k", b"")) };
        [&header.to_bytes()[..], &[0; 8], b"k"].concat()
    };
    assert_eq!(status_of(&with_body(8)), Err(Status::UnknownCommand), "less than its parts");
    assert!(status_of(&with_body(9)).is_ok());
    assert!(status_of(&with_body(binary::BODY_BYTES_MAX)).is_ok());
    assert_eq!(status_of(&with_body(binary::BODY_BYTES_MAX + 1)), Err(Status::InvalidArguments));
}

fn header_of(bytes: &[u8]) -> Header {
    Header::read(bytes.first_chunk().expect("a header"))
}

#[test]
fn what_is_no_request_is_hung_up_on_at_once() {
    for first in (0..=255).filter(|first| *first != REQUEST_MAGIC) {
        let hang_up = Err(BadPacket { reply: None, used: 1, swallow: 0, close: true });
        assert_eq!(parse(&[first]), hang_up);
    }
}

#[test]
fn replies_repeat_opcode_and_opaque_and_count_their_bodies() {
    let echo = Echo { opcode: opcode::GET_K_Q, opaque: 99 };
    type Write<'a> = &'a dyn Fn(&mut Vec<u8>);
    let replies: [(Write<'_>, Status, u64, &[u8]); 8] = [
        (&|out| reply::hit(out, echo, 3, 5, None, 0), Status::Success, 3, b"\0\0\0\x05"),
        (&|out| reply::hit(out, echo, 3, 5, Some(b"k"), 0), Status::Success, 3, b"\0\0\0\x05k"),
        (&|out| reply::done(out, echo, 4), Status::Success, 4, b""),
        (&|out| reply::number(out, echo, 4, 258), Status::Success, 4, b"\0\0\0\0\0\0\x01\x02"),
        (&|out| reply::text(out, echo, "1.6"), Status::Success, 0, b"1.6"),
        (&|out| reply::stat(out, echo, b"pid", b"1"), Status::Success, 0, b"pid1"),
        (&|out| reply::miss_with_key(out, echo, b"k"), Status::NotFound, 0, b"k"),
        (
            &|out| reply::error(out, echo, Status::Exists),
            Status::Exists,
            0,
            b"Data exists for key.",
        ),
    ];
    for (write, status, cas, body) in replies {
        let mut out = b"before".to_vec();
        write(&mut out);
        let (header, rest) = out[6..].split_first_chunk().unwrap();
        let header = Header::read(header);
        assert_eq!((header.magic, header.opcode, header.opaque), (0x81, 0x0d, 99));
        assert_eq!((header.status, header.cas, rest), (status.code(), cas, body));
        assert_eq!(header.body_bytes as usize, body.len());
    }
}

/// Requests of all kinds, most of them valid.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let code = prop_oneof![8 => 0..=0x24u8, 1 => any::<u8>()];
    let extras = prop_oneof![Just(0), Just(4), Just(8), Just(20), 0..30usize];
    let key = prop_oneof![4 => 0..12usize, 1 => 240..260usize];
    (code, extras, key, 0..20usize, any::<u8>()).prop_map(|(code, extras, key, value, byte)| {
        packet(code, &vec![byte; extras], &vec![byte; key], &vec![byte; value])
    })
}

proptest! {
    #[test]
    fn a_mere_prefix_is_never_an_error_and_what_follows_does_not_matter(
        bytes in requests(),
        after in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let parsed = parse(&bytes);
        let used = match parsed {
            Ok(Parsed::Request { used, .. }) | Err(BadPacket { used, .. }) => used,
            Ok(Parsed::Incomplete { .. }) => panic!("it is whole"),
        };
        for cut in 0..used {
            let Ok(Parsed::Incomplete { at_least }) = parse(&bytes[..cut]) else {
                panic!("cut at {cut}");
            };
            prop_assert!(cut < at_least && at_least <= used);
        }
        prop_assert_eq!(parse(&bytes[..used]), parsed);
        let followed = [&bytes[..], &after].concat();
        prop_assert_eq!(parse(&followed), parsed);
        if let Ok(Parsed::Request { request, used }) = parsed {
            let mut again = Vec::new();
            request.encode(&mut again);
            prop_assert_eq!(&again, &bytes[..used]);
        }
    }

    #[test]
    fn headers_are_written_as_they_were_read(bytes in any::<[u8; HEADER_BYTES]>()) {
        prop_assert_eq!(Header::read(&bytes).to_bytes(), bytes);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&[&[REQUEST_MAGIC], &bytes[..]].concat());
    }
}
