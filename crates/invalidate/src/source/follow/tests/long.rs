//! Events that are longer than what is kept of one.

use super::{CUT, follow, follow_bytes, follow_said};
use crate::source::made::{self, Made};
use crate::source::{event, rows};

/// Bytes that can't be compressed: an event with 20 MB of them goes on in a second packet.
fn random(count: usize) -> Vec<u8> {
    let mut number = 7_u64;
    let next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        number.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn long_events_are_read_for_what_rules_need_and_kept_no_longer() {
    let (long, mut text) = (random(17_000_000), b"BEGIN /* ".to_vec());
    text.resize(3_000_000, b'x');
    text.extend_from_slice(b" */ /* mcinv:page:1 */");
    let rows =
        [made::row(1, b"a", &long), made::row(2, b"b", b""), made::row(3, b"c", &long[..1 << 20])];
    let log = [
        made::gtid(1, 0, b""),
        made::query(&text),
        made::other(8),
        made::inserted(8, std::slice::from_ref(&long)),
        Made(event::ANNOTATE, [&b"/* mcinv:page:2 */"[..], &long[..2 << 20]].concat()),
        made::users(7),
        made::inserted(7, &rows),
        made::updated(7, &rows[..2]),
        made::compressed_rows(7, &[made::row(4, b"d", &[0; 9_000_000])]),
        made::xid(),
        made::gtid(2, 0, b""),
        made::payload(&[
            made::query(b"BEGIN"),
            made::users(7),
            made::inserted(7, &[made::row(5, b"e", &long[..3_000_000])]),
            made::xid(),
        ]),
        made::gtid(3, 1, b""),
        made::compressed_query(&text),
    ];
    let expected = "page:1 page:2 user:1 name:a user:2 name:b user:3 name:c user:4 name:d user:5 name:e page:1";
    let told = follow(&log);
    assert_eq!(told.why, CUT);
    assert_eq!(told.keys().join(" "), expected);
    assert_eq!((&*told.position, told.unknown), ("0-1-3", 0));
    // The same with checksums. If one is wrong, nothing of its event is taken.
    let mut events: Vec<Vec<u8>> = log.iter().map(|event| event.bytes(100)).collect();
    for event in &mut events {
        let size = u32::try_from(event.len() + 4).unwrap().to_le_bytes();
        event[9..13].copy_from_slice(&size);
        let sum = crc32fast::hash(event).to_le_bytes();
        event.extend_from_slice(&sum);
    }
    let told = follow_bytes(&events, true);
    assert_eq!((told.keys().join(" "), &*told.why), (expected.to_owned(), CUT));
    let (first, _) = expected.split_once(" user:5").unwrap();
    for (at, keys) in [(6, ""), (11, first)] {
        let mut wrong = events.clone();
        wrong[at][2_000_000] ^= 1;
        let told = follow_bytes(&wrong, true);
        assert!(told.why.contains("whose checksum is wrong"), "{at}: {}", told.why);
        assert_eq!(told.keys().join(" "), keys, "{at}");
    }
}

#[test]
fn new_images_with_differences_are_found_in_long_events_too() {
    let row = |id, name: &[u8]| made::row(id, name, &random(2_000_000));
    // An update whose new images list the JSON columns that are differences: none, in both forms.
    let images = [row(1, b"a"), vec![0], row(1, b"b"), row(2, b"c"), vec![1], row(2, b"d")];
    let mut rows = made::updated(7, &images);
    rows.0 = rows::PARTIAL_UPDATE;
    let told = follow(&[made::mysql_gtid(1), made::users(7), rows, made::xid()]);
    let expected = "user:1 name:a name:b user:2 name:c name:d";
    assert_eq!((told.keys().join(" "), &*told.why), (expected.to_owned(), CUT));
}

#[test]
fn a_long_event_ends_with_its_last_packet_which_may_be_empty() {
    let of = |length| made::inserted(7, &[made::row(1, b"a", &vec![b'x'; length])]);
    // Two full packets, or three.
    let full = 2 * ((1 << 24) - 1) - of(0).bytes(100).len() - 1;
    for length in [full - 1, full, full + 1, full + 1000] {
        let told = follow(&[made::gtid(1, 0, b""), made::users(7), of(length), made::xid()]);
        assert_eq!(
            (told.keys().join(" ").as_str(), &*told.why),
            ("user:1 name:a", CUT),
            "{length}"
        );
    }
}

#[test]
fn a_connection_that_breaks_within_a_long_event_is_no_event_that_can_not_be_read() {
    let mut said = Vec::new();
    let event = made::inserted(7, &[made::row(1, b"a", &random(17_000_000))]).bytes(100);
    made::put_packet(&mut said, &event);
    // Within the first packet, between the two, in the head of the second, and within the second.
    let first = 4 + (1 << 24) - 1;
    for cut in [30, 3_000_000, first, first + 2, first + 4, first + 1000, said.len() - 1] {
        let told = follow_said(said[..cut].to_vec(), false);
        assert_eq!(told.why, CUT, "{cut}");
    }
}

#[test]
fn a_long_event_that_lies_about_its_length_is_told_and_a_key_of_megabytes_is_unknown() {
    let begin = [made::gtid(1, 0, b""), made::users(7)];
    let with = |event: Made| [&begin[..], &[event, made::xid()]].concat();
    let long = random(17_000_000);
    for size in [19, 27, 5000, 2_000_000, 30_000_000, u32::MAX] {
        let mut events: Vec<Vec<u8>> = with(made::inserted(7, &[made::row(1, b"a", &long)]))
            .iter()
            .map(|it| it.bytes(9))
            .collect();
        events[2][9..13].copy_from_slice(&size.to_le_bytes());
        let told = follow_bytes(&events, false);
        assert!(
            told.why.contains("it ends too early") || told.why.contains("as long as it says"),
            "{size}: {}",
            told.why
        );
        assert_eq!(told.keys.len(), 0, "{size}");
    }
    // The packet continues after the event.
    let mut events: Vec<Vec<u8>> = with(made::inserted(7, &[made::row(1, b"a", &long)]))
        .iter()
        .map(|it| it.bytes(9))
        .collect();
    events[2].extend_from_slice(&[0; 3]);
    let told = follow_bytes(&events, false);
    assert!(told.why.contains("as long as it says"), "{}", told.why);
    assert_eq!(told.keys.len(), 0);
    // A value that claims to continue beyond its event.
    let mut row = made::row(1, b"a", &long);
    row[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(follow(&with(made::inserted(7, &[row]))).why.contains("it ends too early"));
    // A rule needs the name, which has at most 60 KB: a hundred of them are too many.
    let rows: Vec<Vec<u8>> = (0..100).map(|id| made::row(id, &long[..60_000], b"")).collect();
    let told = follow(&with(made::inserted(7, &rows)));
    assert_eq!((told.unknown, told.keys.len(), &*told.why, &*told.position), (1, 0, CUT, "0-1-1"));
    // 12 MiB of zeros, compressed to a few bytes.
    let bomb = made::row(1, b"a", &vec![0; 12 << 20]);
    assert_eq!(follow(&with(made::compressed_rows(7, &[bomb]))).keys().join(" "), "user:1 name:a");
}
