//! Cases that the tables of requests and replies don't reach easily.

use super::*;
use crate::engine::Record;
use crate::horizon::Horizon;
use crate::item::{Item, Marks};
use crate::terms::Terms;
use bytes::Bytes;
use guira_client::Request;

const NOW: u32 = 1_800_000_000;

fn request(op: Op, meta: Option<&str>) -> Request {
    Request { meta: meta.map(|flags| flags.as_bytes().into()), ..Request::new(op, "k") }
}

fn decided(request: &Request, current: Option<&Current>) -> (Effect, Said) {
    let terms = Terms::of(request);
    decide(Order { request, terms: &terms, now: NOW, value_max: 8 }, current)
}

fn current(value: &'static str) -> Current {
    Current { item: Item { value: value.into(), ..Item::default() }, unique: 5 }
}

fn put(effect: Effect) -> Item {
    match effect {
        Effect::Put(item) => item,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_counts_until_it_is_flushed_or_has_ended() {
    let horizon = Horizon::default();
    let record = |expiry| Record {
        seq: 9,
        value: Item { expiry, value: "v".into(), ..Item::default() }.encode(),
    };
    let of = |record: Option<&Record>| Current::of(record, &horizon, NOW).map(|it| it.unique);
    assert_eq!(of(None), Err(Gone::Absent));
    assert_eq!(of(Some(&record(0))), Ok(9));
    assert_eq!(of(Some(&record(NOW + 1))), Ok(9));
    assert_eq!(of(Some(&record(NOW))), Err(Gone::Expired));
    assert_eq!(of(Some(&Record { seq: 9, value: Bytes::new() })), Err(Gone::Absent));
    horizon.take(&Record { seq: 10, value: horizon.record(0) });
    assert_eq!(of(Some(&record(0))), Err(Gone::Flushed));
}

#[test]
fn a_touch_keeps_the_unique_and_a_store_gives_a_new_one() {
    let there = current("1");
    let touch = Request { exptime: 60, ..request(Op::Touch, None) };
    let touched = put(decided(&touch, Some(&there)).0);
    assert_eq!((touched.expiry, touched.unique), (NOW + 60, Some(5)));
    for op in [Op::Set, Op::Incr, Op::Append] {
        assert_eq!(put(decided(&request(op, None), Some(&there)).0).unique, None, "{op:?}");
    }
    let stale = put(decided(&request(Op::Delete, Some("I")), Some(&there)).0);
    assert_eq!((stale.unique, stale.marks.is_stale), (None, true));
    let own = Current { item: Item { unique: Some(77), ..there.item.clone() }, unique: 77 };
    let stale = put(decided(&request(Op::Delete, Some("I")), Some(&own)).0);
    assert_eq!(stale.unique, None, "its client's own goes too");
    let emptied = put(decided(&request(Op::Delete, Some("x")), Some(&own)).0);
    assert_eq!(emptied.unique, Some(77));
    let emptied = put(decided(&request(Op::Delete, Some("x")), Some(&there)).0);
    assert_eq!((emptied.unique, emptied.value.len()), (Some(5), 0));
}

#[test]
fn a_value_that_would_become_too_long_is_not_stored() {
    let there = current("12345678");
    let append = Request { value: "9".into(), ..request(Op::Append, None) };
    let (effect, said) = decided(&append, Some(&there));
    assert_eq!(effect, Effect::Nothing);
    assert!(matches!(said, Said::Store(Outcome::NotStored, _)));
}

#[test]
fn an_item_that_is_to_be_filled_is_seen_by_meta_gets_alone() {
    let (effect, _) = decided(&request(Op::Get, Some("v N30")), None);
    let made = Current { item: put(effect), unique: 7 };
    let marks = Marks { is_won: true, is_unfilled: true, ..Marks::default() };
    assert_eq!((made.item.marks, made.item.expiry), (marks, NOW + 30));
    for (op, outcome) in [
        (Op::Get, Outcome::NotFound),
        (Op::Gat, Outcome::NotFound),
        (Op::Touch, Outcome::NotFound),
        (Op::Incr, Outcome::NotFound),
    ] {
        let (effect, said) = decided(&request(op, None), Some(&made));
        assert_eq!(effect, Effect::Nothing, "{op:?}");
        assert!(matches!(said, Said::Plain(plain) if plain == outcome), "{op:?}");
    }
    assert!(matches!(decided(&request(Op::Add, None), Some(&made)).0, Effect::Put(_)));
    let (effect, said) = decided(&request(Op::Get, Some("v N30")), Some(&made));
    assert_eq!(effect, Effect::Nothing);
    assert!(matches!(said, Said::Hit(hit) if hit.was_won && !hit.has_won));
}

#[test]
fn an_item_for_a_miss_that_ends_at_once_is_a_miss() {
    let (effect, said) = decided(&request(Op::Get, Some("v N-1")), None);
    assert_eq!(effect, Effect::Nothing);
    assert!(matches!(said, Said::Plain(Outcome::NotFound)));
}

/// Regression: a client could make its session panic.
#[test]
fn a_number_in_a_long_value_is_counted_and_keeps_its_length() {
    for bytes in [3, 65_535, 65_536, 900_000] {
        let mut value = vec![b' '; bytes];
        value[0] = b'9';
        let item = Item { value: value.into(), ..Item::default() };
        let asked = Request { delta: 2, ..request(Op::Incr, None) };
        let counted = put(decided(&asked, Some(&Current { item, unique: 5 })).0);
        assert_eq!((counted.value.len(), &counted.value[..3]), (bytes, &b"11 "[..]));
    }
}
