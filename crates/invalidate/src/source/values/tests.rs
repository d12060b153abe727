//! Values, compared with the text that SQL shows.

use super::*;

fn text(kind: Kind, is_unsigned: bool, stored: &[u8]) -> String {
    let mut words = Words::default();
    [b"x", b"y", b"z"].iter().for_each(|word| words.push(*word));
    let column = Column { name: Vec::new(), kind, is_unsigned, words };
    let mut bytes = Bytes(stored);
    let read = value(&column, &mut bytes, true);
    let mut passed = Bytes(stored);
    value(&column, &mut passed, false).unwrap();
    assert_eq!((bytes.0, passed.0), (&b""[..], &b""[..]), "{kind:?}");
    for cut in 0..stored.len() {
        assert!(value(&column, &mut Bytes(&stored[..cut]), true).is_err(), "{kind:?} {cut}");
    }
    match read.unwrap() {
        Cell::Text(text) => String::from_utf8_lossy(&text).into_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn values_have_the_text_that_sql_shows() {
    for (kind, stored, expected) in [
        (Kind::Int(1), &[0xff][..], "-1"),
        (Kind::Int(3), &[0, 0, 0x80], "-8388608"),
        (Kind::Int(8), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "9223372036854775807"),
        (Kind::Float, &[0, 0, 0xc0, 0x3f], "1.5"),
        (Kind::Year, &[126], "2026"),
        (Kind::Date, &[0x7a, 0xd5, 0x0f], "2026-11-26"),
        (Kind::OldTimestamp, &[0, 0, 0, 0], "0000-00-00 00:00:00"),
        (Kind::Timestamp(0), &[0x65, 0xe0, 0x4b, 0x80], "2024-02-29 09:16:48"),
        (Kind::Timestamp(3), &[0x65, 0xe0, 0x4b, 0x80, 0x04, 0xce], "2024-02-29 09:16:48.123"),
        (Kind::Time(0), &[0x80, 0x10, 0x83], "01:02:03"),
        (Kind::Time(0), &[0x7f, 0xef, 0x7d], "-01:02:03"),
        (Kind::Time(2), &[0x7f, 0xff, 0xff, 0xce], "-00:00:00.50"),
        (Kind::Text(1), b"\x02ab", "ab"),
        (Kind::Text(2), b"\x02\0ab", "ab"),
        (Kind::Opaque(4), b"\x02\0\0\0ab", "Opaque"),
        (Kind::Enum(1), &[2], "y"),
        (Kind::Enum(1), &[9], "9"),
        (Kind::Set(1), &[0b101], "x,z"),
        (Kind::Bits(2), &[1, 2], "258"),
        (Kind::Decimal { digits: 10, after_point: 2 }, &[0x80, 0, 0, 12, 34], "12.34"),
        (Kind::Decimal { digits: 10, after_point: 2 }, &[0x7f, 0xff, 0xff, 0xf3, 0xdd], "-12.34"),
        (Kind::Decimal { digits: 3, after_point: 0 }, &[0x80, 0], "0"),
    ] {
        assert_eq!(text(kind, false, stored), expected, "{kind:?}");
    }
    assert_eq!(text(Kind::Int(2), true, &[0xff, 0xff]), "65535");
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(kind: u8, sizes: [u8; 2], stored: Vec<u8>, is_unsigned: bool) {
        if let Ok(kind) = Kind::read(kind, &mut Bytes(&sizes)) {
            let column = Column { name: Vec::new(), kind, is_unsigned, words: Words::default() };
            let (mut bytes, mut passed) = (Bytes(&stored), Bytes(&stored));
            let read = value(&column, &mut bytes, true).is_ok();
            proptest::prop_assert_eq!(read, value(&column, &mut passed, false).is_ok());
            if read {
                proptest::prop_assert_eq!(bytes.0.len(), passed.0.len());
            }
        }
    }
}
