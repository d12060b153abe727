//! Values that are too large for one item: `L1L2SizeSplitRoute` and `BigValueRoute`.

use guira_client::{Op, Outcome, Reply, Request};

use super::{get, of, story, tree};

#[test]
fn large_values_stand_in_the_second_pool_behind_a_sentinel() {
    let canned = tree(
        "a b",
        r#"{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|a", "l2": "PoolRoute|b",
        "threshold": 10}"#,
    );
    let large = Request { value: "0123456789".into(), ..of(Op::Set) };
    canned.answers("a=stored b=stored");
    assert_eq!(story(&canned, &of(Op::Set)), "stored: a set k");
    canned.ask(&large);
    let [first, second] = &canned.requests()[..] else { panic!() };
    assert_eq!((&first.value[..], first.flags), (&b"0123456789"[..], 0));
    assert_eq!((second.value.len(), second.flags), (0, 0x20));
    canned.ask(&Request { op: Op::LeaseSet, token: 9, ..large });
    let [first, second] = &canned.requests()[..] else { panic!() };
    assert_eq!(first.key, [b"k|==|", &second.value[..]].concat());
    assert_eq!((first.op, second.op, second.token), (Op::Set, Op::LeaseSet, 9));
    let sentinel = Reply { flags: 0x20, value: "7".into(), ..Reply::new(Outcome::Found) };
    canned.answer("a", [sentinel.clone()]);
    canned.answers("b=found:x");
    assert_eq!(story(&canned, &get("k")), "found: a get k, b get k|==|7");
    canned.answers("b=notfound");
    canned.answer("a", [sentinel.clone(), sentinel, Reply::new(Outcome::Stored)]);
    let expected = "local_error: a get k, b get k|==|7, a gets k, a cas k";
    assert_eq!(story(&canned, &get("k")), expected);
}

#[test]
fn a_big_value_is_cut_joined_and_missed_if_a_chunk_is_gone() {
    let route = r#"{"type": "BigValueRoute", "target": "PoolRoute|a", "split_threshold": 4, "batch_size": 2}"#;
    let canned = tree("a", route);
    canned.answers("a=stored");
    let set = Request { value: "0123456789".into(), flags: 3, ..of(Op::Set) };
    assert_eq!(canned.ask(&set).outcome, Outcome::Stored);
    let sent = canned.requests();
    let values: Vec<&[u8]> = sent[..3].iter().map(|request| &request.value[..]).collect();
    assert_eq!(values, [b"0123", &b"4567"[..], b"89"]);
    assert!(sent[3].value.starts_with(b"1-3-") && sent[3].flags == 0x8003);
    let index = Reply { value: sent[3].value.clone(), flags: 0x8003, ..Reply::new(Outcome::Found) };
    let chunk = |value: &'static str| Reply { value: value.into(), ..Reply::new(Outcome::Found) };
    canned.answer("a", [index.clone(), chunk("0123"), chunk("4567"), chunk("89")]);
    let reply = canned.ask(&get("k"));
    assert_eq!((&reply.value[..], reply.flags), (&b"0123456789"[..], 0x8003));
    let keys: Vec<_> = canned.requests()[1..].iter().map(|request| request.key.clone()).collect();
    assert_eq!(keys, sent[..3].iter().map(|request| request.key.clone()).collect::<Vec<_>>());
    canned.answer("a", [index.clone(), chunk("0123"), Reply::new(Outcome::NotFound), chunk("89")]);
    assert_eq!(canned.ask(&get("k")).outcome, Outcome::NotFound);
    for odd in ["1-3", "2-3-4", "1-99999999999-1", "1-x-1", "1-3-4-5", ""] {
        canned.answer("a", [Reply { value: odd.as_bytes().to_vec().into(), ..index.clone() }]);
        assert_eq!(canned.ask(&get("k")).outcome, Outcome::NotFound, "{odd}");
    }
}

/// A forged index must not turn one get into a million.
#[test]
fn an_index_that_a_client_forged_costs_a_batch_of_gets() {
    let route = r#"{"type": "BigValueRoute", "target": "PoolRoute|a", "split_threshold": 40, "batch_size": 2}"#;
    let canned = tree("a", route);
    let index = |value: &'static str| Reply {
        value: value.into(),
        flags: 0x8000,
        ..Reply::new(Outcome::Found)
    };
    for forged in ["1-16384-5", "1-1000000-5", "1-0-5"] {
        canned.answer("a", [index(forged), Reply::new(Outcome::NotFound)]);
        assert_eq!(canned.ask(&get("k")).outcome, Outcome::NotFound);
        assert!(canned.asked().len() <= 3, "{forged}");
    }
    let endless = Request { value: vec![b'x'; 40 << 14 | 1].into(), ..of(Op::Set) };
    assert_eq!(canned.ask(&endless).outcome, Outcome::BadValue);
    assert_eq!(canned.asked().len(), 0);
}

#[test]
fn nothing_is_appended_to_a_value_in_chunks() {
    let route = r#"{"type": "BigValueRoute", "target": "PoolRoute|a", "split_threshold": 4, "batch_size": 2}"#;
    let canned = tree("a", route);
    let found = |flags, value: &'static str| Reply {
        value: value.into(),
        flags,
        ..Reply::new(Outcome::Found)
    };
    for (there, expected) in [
        (found(0x8000, "1-3-5"), "client_error: a get k"),
        (found(0, "abcd"), "client_error: a get k"),
        (found(0, "a"), "stored: a get k, a append k"),
        (Reply::new(Outcome::NotFound), "stored: a get k, a append k"),
        (Reply::new(Outcome::Timeout), "timeout: a get k"),
    ] {
        canned.answer("a", [there, Reply::new(Outcome::Stored)]);
        assert_eq!(story(&canned, &of(Op::Append)), expected);
    }
}
