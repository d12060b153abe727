//! One bucket: tags, free slots, stamps.

use super::*;

#[test]
fn a_word_is_compared_as_its_bytes_are() {
    for word in [0, u32::MAX, 0x0100_0080, 0x7f80_8001, 0x0101_0101, 0xdead_beef] {
        for byte in 0..=255 {
            let expected =
                (0..4).filter(|&i| word.to_le_bytes()[i] == byte).fold(0, |set, i| set | 1 << i);
            assert_eq!(equal_bytes(word, byte), expected, "{word:#x} {byte}");
        }
    }
}

#[test]
fn tags_match_slot_by_slot_in_all_nine_bits() {
    let bucket = Bucket::default();
    let mut locked = bucket.lock();
    for (slot, tag) in [(0, 7), (2, 0x107), (3, 255), (4, 7), (11, 0x100)] {
        locked.fill(slot, Tag::new(tag), Location(u32::from(tag)));
    }
    let slots = |tag| bucket.tags().matching(Tag::new(tag)).collect::<Vec<_>>();
    assert_eq!(
        (slots(7), slots(0x107), slots(255), slots(9)),
        (vec![0, 4], vec![2], vec![3], vec![])
    );
    assert_eq!((slots(1), slots(0x101)), (vec![], vec![11]), "a free slot has no tag 0x100");
    assert_eq!(bucket.tags().free().collect::<Vec<_>>(), [1, 5, 6, 7, 8, 9, 10]);
    locked.clear(4);
    locked.fill(2, Tag::new(9), Location(0));
    assert_eq!(
        (slots(7), slots(0x107), slots(9), bucket.tags().get(4)),
        (vec![0], vec![], vec![2], None)
    );
    for (slot, tag) in [(0, 7), (2, 9), (3, 255), (11, 0x101)] {
        assert_eq!(bucket.tags().get(slot), Some(Tag::new(tag)));
    }
}

#[test]
fn only_what_a_reader_may_have_missed_disturbs_it() {
    let bucket = Bucket::default();
    let before = bucket.tags();
    let mut locked = bucket.lock();
    assert!(!bucket.is_unchanged(before) && bucket.try_lock().is_none());
    assert!(!bucket.is_unchanged(bucket.tags()), "a locked bucket may change");
    locked.fill(0, Tag::new(1), Location(1));
    drop(locked);
    assert!(bucket.is_unchanged(before), "a key entered");
    bucket.lock().advance();
    assert!(!bucket.is_unchanged(before));
}

#[test]
fn the_counter_wraps_without_touching_its_neighbours() {
    let bucket = Bucket::default();
    bucket.lock().fill(0, Tag::new(0x1ff), Location(1));
    let first = bucket.tags();
    let rounds = if cfg!(miri) { 3 } else { 1 << 19 };
    for _ in 0..rounds {
        bucket.lock().advance();
        assert!(bucket.try_lock().is_some());
        assert_eq!(bucket.tags().get(0), Some(Tag::new(0x1ff)));
    }
    assert_eq!(bucket.is_unchanged(first), rounds == 1 << 19);
}
