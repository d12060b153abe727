//! MySQL's GTID events: the plain one (33) and, since 8.3, the one with a tag (42).
//!
//! ```text
//! 33   flags 1 | uuid 16 | number 8 | what else replicas need
//! 42   numbers of MySQL's serialization: version, size, last field that must be known · field 0: flags
//!      · 1: uuid, each byte a number · 2: number, with a sign · 3: tag, after its length · what else replicas need
//! ```
//! A number of the serialization has 1 to 9 bytes: one more than its first byte has trailing ones.

use super::bytes::{Broken, Bytes};
use super::event::Gtid;
use crate::gtid::{GtidSource, is_tag};
use crate::position::TransactionName;

pub(super) fn plain_gtid(body: &[u8]) -> Result<Gtid, Broken> {
    let mut bytes = Bytes(body);
    bytes.take(1)?;
    let mut uuid = [0; 16];
    uuid.copy_from_slice(bytes.take(16)?);
    gtid(GtidSource { uuid, tag: String::new() }, bytes.little(8)?)
}

pub(super) fn tagged_gtid(body: &[u8]) -> Result<Gtid, Broken> {
    let mut bytes = Bytes(body);
    let (version, _size, needed) = (number(&mut bytes)?, number(&mut bytes)?, number(&mut bytes)?);
    if version != VERSION || needed > FIELDS_KNOWN {
        return Err(Broken("a tagged GTID of an unknown form"));
    }
    field(&mut bytes, 0)?;
    number(&mut bytes)?;
    field(&mut bytes, 1)?;
    let mut source = GtidSource::default();
    for byte in &mut source.uuid {
        *byte = u8::try_from(number(&mut bytes)?).map_err(|_| ODD)?;
    }
    field(&mut bytes, 2)?;
    let folded = number(&mut bytes)?;
    if folded & 1 != 0 {
        return Err(ODD);
    }
    field(&mut bytes, 3)?;
    let length = usize::try_from(number(&mut bytes)?).map_err(|_| ODD)?;
    let tag = std::str::from_utf8(bytes.take(length)?).map_err(|_| ODD)?;
    if !tag.is_empty() && !is_tag(tag) {
        return Err(ODD);
    }
    // The database shows tags in lower case.
    source.tag = tag.to_ascii_lowercase();
    gtid(source, folded >> 1)
}

fn gtid(source: GtidSource, number: u64) -> Result<Gtid, Broken> {
    if number == 0 || number >= u64::MAX >> 1 {
        return Err(ODD);
    }
    Ok(Gtid {
        name: TransactionName::MySql { source, number },
        stands_alone: true,
        prepares: None,
        completes: None,
    })
}

fn field(bytes: &mut Bytes<'_>, expected: u64) -> Result<(), Broken> {
    match number(bytes)? == expected {
        true => Ok(()),
        false => Err(Broken("a tagged GTID without a field that it must have")),
    }
}

fn number(bytes: &mut Bytes<'_>) -> Result<u64, Broken> {
    let first = bytes.byte()?;
    let more = first.trailing_ones() as usize;
    let rest = bytes.little(more)?;
    Ok(match more {
        8 => rest,
        7 => rest,
        _ => rest << (7 - more) | u64::from(first) >> (more + 1),
    })
}

const VERSION: u64 = 1;
/// The number of fields that current servers write and replicas must know. More fields may change the meaning of these.
const FIELDS_KNOWN: u64 = 12;
const ODD: Broken = Broken("a GTID that can't be");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::LogPlace;

    #[test]
    fn numbers_of_the_serialization_are_read() {
        for (packed, expected) in [
            (&[0x00][..], 0),
            (&[0xfe], 127),
            (&[0x01, 0x02], 128),
            (&[0xfd, 0xff], 16_383),
            (&[0x03, 0x00, 0x02], 16_384),
            (&[0xff; 9], u64::MAX),
        ] {
            assert_eq!(number(&mut Bytes(packed)), Ok(expected), "{packed:?}");
            assert!(number(&mut Bytes(&packed[..packed.len() - 1])).is_err());
        }
    }

    #[test]
    fn gtids_with_and_without_a_tag_are_read_and_cut_ones_refused() {
        let uuid: Vec<u8> = (0..16).collect();
        let plain = [&[1][..], &uuid, &7_u64.to_le_bytes(), &[2; 18]].concat();
        let source = |tag: &str| {
            let mut source = GtidSource { tag: tag.to_owned(), ..GtidSource::default() };
            source.uuid.copy_from_slice(&uuid);
            source
        };
        let name = TransactionName::MySql { source: source(""), number: 7 };
        assert_eq!(plain_gtid(&plain).unwrap().name, name);
        assert!((0..25).all(|cut| plain_gtid(&plain[..cut]).is_err()));
        let folded: Vec<u8> = uuid.iter().map(|byte| byte << 1).collect();
        let tagged = [&[2, 100, 20, 0, 2, 2][..], &folded, &[4, 7 << 2, 6, 10], b"audit"].concat();
        let name = TransactionName::MySql { source: source("audit"), number: 7 };
        assert_eq!(tagged_gtid(&tagged).unwrap().name, name);
        assert!((0..tagged.len()).all(|cut| tagged_gtid(&tagged[..cut]).is_err()));
        let with_tag = |tag: &[u8]| {
            let length = u8::try_from(tag.len() << 1).unwrap();
            [&tagged[..tagged.len() - 6], &[length], tag].concat()
        };
        for wrong in [&b"a b"[..], b"1a", b"a,b", b"a:1", b"a'", b"\xc3\xa9", &[b'a'; 33]] {
            assert!(tagged_gtid(&with_tag(wrong)).is_err(), "{}", wrong.escape_ascii());
        }
        for right in [&b"audit"[..], b"Audit", b"_1", b"", &[b'a'; 32]] {
            let TransactionName::MySql { source, .. } = tagged_gtid(&with_tag(right)).unwrap().name
            else {
                panic!("MySQL's")
            };
            let place = LogPlace { file: LogPlace::file_of(&source), offset: 7 };
            assert_eq!(place.gtid(), Some((source, 7)), "{}", right.escape_ascii());
        }
        let unknown = [&[4][..], &tagged[1..]].concat();
        assert!(tagged_gtid(&unknown).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_event_panics(body: Vec<u8>) {
            let _ = (plain_gtid(&body), tagged_gtid(&body));
        }
    }
}
