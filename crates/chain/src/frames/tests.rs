//! Each kind of frame byte by byte, in both directions; and the error for each fault.

use super::laws::{check, sealed};
use super::{
    Asked, BadFrame, FRAME_BYTES_MAX, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, fuzz_frames,
    parse_frame,
};
use crate::slot::{Effect, Message, Results, SlotCopy, Stand, Told, Version, WriteVerdict};
use crate::view::{Group, Member, Ranges, SLOTS, View};
use proptest::prelude::*;

fn bytes_of(frame: &PeerFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes).unwrap();
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn hello() -> PeerFrame {
    let text = str::to_owned;
    let (cluster, name, run) = (text("c1"), text("a"), text("9f"));
    PeerFrame::Hello(PeerHello { cluster, node: 4, name, run, epoch: 412 })
}

fn effect() -> Effect {
    Effect {
        version: Version { epoch: 3, seq: 7 },
        id: (9, 8),
        key: b"key".to_vec(),
        change: Some(Some(b"value".to_vec())),
        verdict: WriteVerdict::Done(7),
    }
}

fn slot(message: Message) -> PeerFrame {
    PeerFrame::Slot { slot: 0x1234, epoch: 5, message }
}

fn copy() -> SlotCopy {
    let stand = |value: Option<&[u8]>, seq| Stand {
        value: value.map(<[u8]>::to_vec),
        version: Version { epoch: 2, seq },
    };
    let results =
        vec![((1, 2), 3, WriteVerdict::Number(10, 3)), ((1, 3), 4, WriteVerdict::Missing)];
    let items = vec![(b"a".to_vec(), stand(Some(b"1"), 3)), (b"b".to_vec(), stand(None, 4))];
    let results = Results::from_entries(results, vec![(1, 1)]);
    SlotCopy { last: 4, items, results, complete_for: 6 }
}

fn view() -> View {
    let member = Member {
        name: "a".to_owned(),
        peers: "10.0.0.1:11312".to_owned(),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: "9f".to_owned(),
    };
    let all = Group { slots: Ranges::of(0, SLOTS), serving: vec![1], ..Group::default() };
    View {
        format: 1,
        cluster: "c1".to_owned(),
        epoch: 1,
        seed: String::new(),
        replicas: 1,
        min_write: 1,
        nodes: [(1, member)].into(),
        groups: vec![all],
    }
}

fn ask(asked: Asked) -> PeerFrame {
    PeerFrame::Ask { slot: 0x1234, epoch: 5, number: 6, asked }
}

fn told(told: Told) -> PeerFrame {
    PeerFrame::Told { number: 6, told }
}

fn header(kind: &str, slot: &str, epoch: &str) -> String {
    format!("01{kind}{slot}00000000{epoch}00000000000000")
}

fn number(byte: &str) -> String {
    format!("{byte}00000000000000")
}

/// The counterpart of [`each_kind`] for the requests of clients and the answers.
fn clients_kinds() -> Vec<(PeerFrame, String)> {
    vec![
        (
            ask(Asked::Read { key: b"key".to_vec() }),
            header("0a", "3412", "05") + &number("06") + "00 03006b6579",
        ),
        (
            ask(Asked::Write {
                id: (9, 8),
                is_repeated: true,
                key: b"key".to_vec(),
                command: b"value".to_vec(),
            }),
            header("0a", "3412", "05")
                + &number("06")
                + "02 09000000"
                + &number("08")
                + "03006b6579 05000000 76616c7565",
        ),
        (
            told(Told::Read(Some((b"value".to_vec(), 7)))),
            header("0b", "0000", "00") + &number("06") + "02 05000000 76616c7565" + &number("07"),
        ),
        (
            told(Told::Wrote(WriteVerdict::Said(b"1".to_vec()))),
            header("0b", "0000", "00") + &number("06") + "00 05 01000000 31",
        ),
        (
            PeerFrame::Hold { slot: 0x1234, epoch: 5, number: 6, key: b"key".to_vec() },
            header("0d", "3412", "05") + &number("06") + "03006b6579",
        ),
        (
            PeerFrame::Held { number: 6, term: 7 },
            header("0e", "0000", "00") + &number("06") + &number("07"),
        ),
        (
            PeerFrame::Invalidate { slot: 0x1234, number: 6, key: b"key".to_vec() },
            header("0f", "3412", "00") + &number("06") + "03006b6579",
        ),
        (
            PeerFrame::Invalidated { slot: 0x1234, number: 6, key: b"key".to_vec() },
            header("10", "3412", "00") + &number("06") + "03006b6579",
        ),
    ]
}

/// Each kind of frame with its bytes, without length and checksum: version, kind, slot, 0, epoch, body.
fn each_kind() -> Vec<(PeerFrame, String)> {
    let run = || "9f".to_owned();
    vec![
        (
            hello(),
            "0000000000000000 9c01000000000000".to_owned()
                + &hex(b"guira/1\n")
                + "0101 04000000 026331 0161 023966",
        ),
        (
            slot(Message::Effect(effect())),
            header("01", "3412", "05")
                + &number("03")
                + &number("07")
                + "09000000"
                + &number("08")
                + "00"
                + &number("07")
                + "03006b6579 01 05000000 76616c7565",
        ),
        (slot(Message::Durable(6)), header("02", "3412", "05") + &number("06")),
        (slot(Message::Ack(6)), header("03", "3412", "05") + &number("06")),
        (slot(Message::State(None)), header("04", "3412", "05")),
        (slot(Message::State(Some(0))), header("04", "3412", "05") + &number("00")),
        (
            slot(Message::Copy(Box::new(copy()))),
            header("05", "3412", "05")
                + &number("04")
                + &number("06")
                + "02000000"
                + &format!(
                    "01000000{}{}01{}{}",
                    number("02"),
                    number("03"),
                    number("0a"),
                    number("03")
                )
                + &format!("01000000{}{}02", number("03"), number("04"))
                + &format!("01000000 01000000{}", number("01"))
                + "02000000"
                + &format!("010061 01 0100000031 {}{}", number("02"), number("03"))
                + &format!("010062 00 {}{}", number("02"), number("04")),
        ),
        (
            PeerFrame::Renew { epoch: 5, asked: 6, run: run(), has_old_holds: false },
            header("06", "0000", "05") + &number("06") + "023966",
        ),
        (
            PeerFrame::Renew { epoch: 5, asked: 6, run: run(), has_old_holds: true },
            header("0c", "0000", "05") + &number("06") + "023966",
        ),
        (
            PeerFrame::Granted { asked: 6, run: run() },
            header("07", "0000", "00") + &number("06") + "023966",
        ),
        (PeerFrame::AskView, header("08", "0000", "00")),
        (
            PeerFrame::View(Box::new(view())),
            header("09", "0000", "00") + &hex(view().to_json().as_bytes()),
        ),
    ]
}

#[test]
fn each_kind_has_its_documented_bytes() {
    for (frame, expected) in each_kind().into_iter().chain(clients_kinds()) {
        let bytes = bytes_of(&frame);
        assert_eq!(hex(&bytes[8..]), expected.replace(' ', ""), "{frame:?}");
        assert_eq!(bytes, sealed(&bytes[8..]));
        assert_eq!(check(&bytes), Some(frame));
    }
    assert_eq!(hex(&bytes_of(&PeerFrame::AskView)[..8]), "100000000fe43f82");
}

/// Returns the error for a frame whose bytes behind the checksum `change` has changed.
fn refused(frame: &PeerFrame, change: impl FnOnce(&mut Vec<u8>)) -> BadFrame {
    let mut counted = bytes_of(frame).split_off(8);
    change(&mut counted);
    parse_frame(&sealed(&counted), FRAME_BYTES_MAX).unwrap_err()
}

#[test]
fn each_breach_is_named() {
    let effect = slot(Message::Effect(effect()));
    let copy = slot(Message::Copy(Box::new(copy())));
    let (run, has_old_holds) = ("9f".to_owned(), false);
    let renew = PeerFrame::Renew { epoch: 5, asked: 6, run, has_old_holds };
    let held = PeerFrame::Held { number: 6, term: 7 };
    let drop = PeerFrame::Invalidate { slot: 0, number: 6, key: b"key".to_vec() };
    type Change = fn(&mut Vec<u8>);
    let read = ask(Asked::Read { key: b"key".to_vec() });
    let stale = told(Told::Stale);
    let cases: [(&PeerFrame, Change, BadFrame); 29] = [
        (&read, |it| it[24] = 3, BadFrame::Tag("request", 3)),
        (&stale, |it| it[24] = 7, BadFrame::Tag("answer", 7)),
        (&stale, |it| it[2] = 1, BadFrame::Slot(1)),
        (&stale, |it| it[8] = 1, BadFrame::Epoch(1)),
        (&effect, |it| it[0] = 2, BadFrame::Version(2)),
        (&effect, |it| it[0] = 0, BadFrame::Version(0)),
        (&effect, |it| it[1] = 17, BadFrame::Kind(17)),
        (&held, |it| it[2] = 1, BadFrame::Slot(1)),
        (&held, |it| it[8] = 1, BadFrame::Epoch(1)),
        (&drop, |it| it[8] = 1, BadFrame::Epoch(1)),
        (&drop, |it| it[24] = 4, BadFrame::Cut("key")),
        (&drop, |it| it[24] = 0, BadFrame::Empty("key")),
        (&effect, |it| it[3] = 0x40, BadFrame::Slot(0x4034)),
        (&effect, |it| it[7] = 1, BadFrame::Reserved(1 << 24)),
        (&effect, |it| it[44] = 6, BadFrame::Tag("verdict", 6)),
        (&effect, |it| it[58] = 3, BadFrame::Tag("change", 3)),
        (&effect, |it| it.truncate(57), BadFrame::Cut("key")),
        (&effect, |it| it.truncate(66), BadFrame::Cut("value")),
        (&effect, |it| it[62] = 0xff, BadFrame::Cut("value")),
        (&effect, |it| it.push(0), BadFrame::Rest(1)),
        (&renew, |it| it[2] = 1, BadFrame::Slot(1)),
        (&renew, |it| it[1] = 7, BadFrame::Epoch(5)),
        (&renew, |it| it[26] = 0xff, BadFrame::NoText("run")),
        (&copy, |it| it[35] = 0xff, BadFrame::Cut("results")),
        (&hello(), |it| it[0] = 1, BadFrame::Version(1)),
        (&hello(), |it| it[16] = b'G', BadFrame::Foreign),
        (&hello(), |it| it.truncate(16), BadFrame::Foreign),
        (&hello(), |it| (it[24], it[25]) = (2, 3), BadFrame::Versions(2, 3)),
        (&hello(), |it| it.push(0), BadFrame::Rest(1)),
    ];
    for (at, (frame, change, why)) in cases.into_iter().enumerate() {
        assert_eq!(refused(frame, change), why, "case {at}");
    }
    let other = refused(&PeerFrame::View(Box::new(view())), |it| it[16 + 10] = b'2');
    assert!(other.to_string().contains("update it"), "{other}");
    assert!(matches!(refused(&effect, |it| it[1] = 9), BadFrame::Slot(_)));
    let newer = refused(&hello(), |it| (it[24], it[25]) = (2, 3)).to_string();
    assert!(newer.ends_with("update this program"), "{newer}");
    let older = refused(&hello(), |it| (it[24], it[25]) = (0, 0)).to_string();
    assert!(older.ends_with("update the peer"), "{older}");
}

#[test]
fn a_newer_hello_that_knows_this_version_is_taken() {
    let mut counted = bytes_of(&hello()).split_off(8);
    counted[25] = 2;
    counted.extend_from_slice(b"and more");
    assert_eq!(check(&sealed(&counted)), Some(hello()));
}

#[test]
fn what_is_too_long_is_known_by_its_length_and_is_not_written() {
    let said = |bytes: &[u8], most| parse_frame(bytes, most).unwrap_err();
    let ask = u32::try_from(FRAME_BYTES_MAX - 8 + 1).unwrap().to_le_bytes();
    let most = FRAME_BYTES_MAX;
    assert_eq!(said(&ask, most), BadFrame::TooLong("frame", most + 1, most));
    assert_eq!(said(&15_u32.to_le_bytes(), most), BadFrame::TooShort(23));
    // The first bytes of clients that speak other protocols.
    let most = HELLO_BYTES_MAX;
    for foreign in ["get key\r\n", "GET / HTTP/1.1", "\x16\x03\x01\x02\0\x01\0", "version\r\n"] {
        let why = said(foreign.as_bytes(), most);
        assert!(matches!(why, BadFrame::TooLong("frame", _, 2048)), "{foreign:?}: {why}");
    }

    let long = |key: usize, value: usize| {
        let (key, change) = (vec![b'k'; key], Some(Some(vec![b'v'; value])));
        slot(Message::Effect(Effect { key, change, ..effect() }))
    };
    let mut out = b"before".to_vec();
    let most = usize::from(u16::MAX);
    let why = long(most + 1, 0).encode(&mut out);
    assert_eq!(why, Err(BadFrame::TooLong("key", most + 1, most)));
    let bytes = FRAME_BYTES_MAX - bytes_of(&long(1, 0)).len();
    let why = long(1, bytes + 1).encode(&mut out);
    assert_eq!(why, Err(BadFrame::TooLong("frame", FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX)));
    let run = "r".repeat(256);
    let why = PeerFrame::Granted { asked: 0, run }.encode(&mut out);
    assert_eq!(why, Err(BadFrame::TooLong("run", 256, 255)));
    assert_eq!(out, b"before");
    long(most, bytes + 1 - most).encode(&mut out).unwrap();
    assert_eq!(out.len(), 6 + FRAME_BYTES_MAX);
}

#[test]
fn many_items_that_are_said_and_not_there_take_no_memory() {
    // Allocating room for 4 billion items would abort the test.
    let empty =
        SlotCopy { last: 0, items: Vec::new(), results: Results::default(), complete_for: 0 };
    let empty = slot(Message::Copy(Box::new(empty)));
    assert_eq!(refused(&empty, |it| it[32..36].fill(0xff)), BadFrame::Cut("results"));
    assert_eq!(refused(&empty, |it| it[36..40].fill(0xff)), BadFrame::Cut("forgotten"));
    assert_eq!(refused(&empty, |it| it[40..44].fill(0xff)), BadFrame::Cut("items"));
}

fn some_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn some_key(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..most)
}

fn some_verdict() -> impl Strategy<Value = WriteVerdict> {
    prop_oneof![
        any::<u64>().prop_map(WriteVerdict::Done),
        any::<(u64, u64)>().prop_map(|(number, unique)| WriteVerdict::Number(number, unique)),
        Just(WriteVerdict::Missing),
        Just(WriteVerdict::Conflict),
        Just(WriteVerdict::NotANumber),
        some_bytes(40).prop_map(WriteVerdict::Said),
    ]
}

fn some_effect() -> impl Strategy<Value = Effect> {
    let change = proptest::option::of(proptest::option::of(some_bytes(300)));
    (any::<(u64, u64)>(), any::<(u32, u64)>(), some_key(300), change, some_verdict()).prop_map(
        |((epoch, seq), id, key, change, verdict)| {
            let version = Version { epoch, seq };
            Effect { version, id, key, change, verdict }
        },
    )
}

fn some_copy() -> impl Strategy<Value = SlotCopy> {
    let results =
        proptest::collection::vec((any::<(u32, u64)>(), any::<u64>(), some_verdict()), 0..9);
    let stand = (proptest::option::of(some_bytes(40)), any::<u64>(), any::<u64>())
        .prop_map(|(value, epoch, seq)| Stand { value, version: Version { epoch, seq } });
    let items = proptest::collection::vec((some_key(40), stand), 0..9);
    let forgotten = proptest::collection::vec(any::<(u32, u64)>(), 0..9);
    (any::<u64>(), any::<u64>(), (results, forgotten), items).prop_map(
        |(last, complete_for, (results, forgotten), items)| {
            let results = Results::from_entries(results, forgotten);
            SlotCopy { last, items, results, complete_for }
        },
    )
}

fn some_ask() -> impl Strategy<Value = PeerFrame> {
    let asked = prop_oneof![
        some_key(40).prop_map(|key| Asked::Read { key }),
        (any::<(u32, u64)>(), any::<bool>(), some_key(40), some_bytes(300)).prop_map(
            |(id, is_repeated, key, command)| Asked::Write { id, is_repeated, key, command }
        ),
    ];
    (0..SLOTS, any::<(u64, u64)>(), asked)
        .prop_map(|(slot, (epoch, number), asked)| PeerFrame::Ask { slot, epoch, number, asked })
}

fn some_told() -> impl Strategy<Value = PeerFrame> {
    let told = prop_oneof![
        some_verdict().prop_map(Told::Wrote),
        any::<Option<u64>>().prop_map(|it| Told::Read(it.map(|unique| (b"v".to_vec(), unique)))),
        proptest::sample::select(vec![Told::Stale, Told::Busy, Told::Refused, Told::Unknown]),
    ];
    (any::<u64>(), told).prop_map(|(number, told)| PeerFrame::Told { number, told })
}

fn some_hold() -> impl Strategy<Value = PeerFrame> {
    let of = |(kind, slot, (epoch, number), key): (u8, u16, (u64, u64), Vec<u8>)| match kind {
        0 => PeerFrame::Hold { slot, epoch, number, key },
        1 => PeerFrame::Held { number, term: epoch },
        2 => PeerFrame::Invalidate { slot, number, key },
        _ => PeerFrame::Invalidated { slot, number, key },
    };
    (0..4_u8, 0..SLOTS, any::<(u64, u64)>(), some_key(300)).prop_map(of)
}

fn some_frame() -> impl Strategy<Value = PeerFrame> {
    let message = prop_oneof![
        some_effect().prop_map(Message::Effect),
        any::<u64>().prop_map(Message::Durable),
        any::<u64>().prop_map(Message::Ack),
        any::<Option<u64>>().prop_map(Message::State),
        some_copy().prop_map(|it| Message::Copy(Box::new(it))),
    ];
    let slot = (0..SLOTS, any::<u64>(), message)
        .prop_map(|(slot, epoch, message)| PeerFrame::Slot { slot, epoch, message });
    let run = || "[a-z0-9é]{0,60}";
    prop_oneof![
        6 => slot,
        1 => (run(), any::<u32>(), run(), run(), any::<u64>()).prop_map(
            |(cluster, node, name, run, epoch)| {
                PeerFrame::Hello(PeerHello { cluster, node, name, run, epoch })
            }
        ),
        1 => (any::<u64>(), any::<u64>(), run(), any::<bool>()).prop_map(
            |(epoch, asked, run, has_old_holds)| {
                PeerFrame::Renew { epoch, asked, run, has_old_holds }
            }
        ),
        1 => some_hold(),
        1 => (any::<u64>(), run()).prop_map(|(asked, run)| PeerFrame::Granted { asked, run }),
        1 => Just(PeerFrame::AskView),
        1 => some_ask(),
        1 => some_told(),
        1 => any::<u64>().prop_map(|epoch| PeerFrame::View(Box::new(View { epoch, ..view() }))),
    ]
}

proptest! {
    #[test]
    fn frames_go_there_and_back(frames in proptest::collection::vec(some_frame(), 1..5)) {
        let mut stream = Vec::new();
        for frame in &frames {
            frame.encode(&mut stream).unwrap();
        }
        let mut rest = &stream[..];
        for sent in &frames {
            let read = check(rest);
            prop_assert_eq!(read.as_ref(), Some(sent));
            let Framed::Whole { used, .. } = parse_frame(rest, FRAME_BYTES_MAX).unwrap() else {
                panic!("it was whole");
            };
            rest = &rest[used..];
        }
        prop_assert!(rest.is_empty());
    }

    /// Checks the properties of the fuzz target on frames with a few changed bytes.
    #[test]
    fn no_bytes_break_a_law(
        frame in some_frame(), changes in proptest::collection::vec(any::<(u16, u8)>(), 0..4),
        cut in any::<u16>(), noise in some_bytes(100),
    ) {
        let mut bytes = bytes_of(&frame);
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        fuzz_frames(&bytes);
        fuzz_frames(&bytes[8..]);
        fuzz_frames(&bytes[..usize::from(cut) % bytes.len()]);
        fuzz_frames(&noise);
    }

    /// A CRC-32 detects each error burst of up to 32 bits.
    #[test]
    fn damage_is_noticed(frame in some_frame(), at in any::<u16>(), bits in 1_u8..) {
        let mut bytes = bytes_of(&frame);
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= bits;
        let read = parse_frame(&bytes, FRAME_BYTES_MAX);
        prop_assert!(!matches!(read, Ok(Framed::Whole { .. })), "byte {}: {:?}", at, read);
    }
}
