//! Requests to the cache and to the child, and the values that are stored.

use std::time::{Duration, SystemTime};

use guira_client::{Op, Outcome, Reply, Request};

use crate::settings::Clock;
use crate::settings::Settings;
use crate::tree::canned::{Canned, pools};

/// A route on host 5, with a clock that stands at 1,000.234 s after 1970.
fn lookaside(rest: &str) -> Canned {
    let clock = Clock::new(|| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_234));
    let settings = Settings { clock, host_id: 5, ..Settings::default() };
    let config = format!(
        r#"{{ {}, "route": {{"type": "CarbonLookasideRoute", "child": "PoolRoute|a",
            "cache": "PoolRoute|c", "prefix": "p:" {rest}}} }}"#,
        pools("a c")
    );
    Canned::with(&config, &settings).unwrap()
}

const LEASES: &str = r#", "ttl": 9, "lease_settings": {"enable_leases": true, "initial_wait_interval_ms": 10,
    "max_wait_interval_ms": 25, "num_retries": 3}"#;

fn story(canned: &Canned, op: Op) -> String {
    let reply = canned.ask(&Request { value: "v".into(), ..Request::new(op, "k") });
    format!("{}: {}", crate::outcome::name(reply.outcome), canned.asked().join(", "))
}

#[test]
fn a_get_is_answered_from_the_cache_or_fills_it() {
    let canned = lookaside(r#", "ttl": 9"#);
    for (answers, op, expected) in [
        ("c=found:x", Op::Get, "found: c get p:k"),
        ("c=notfound a=found:x", Op::Get, "found: c get p:k, a get k, c set p:k"),
        ("c=notfound a=notfound", Op::Get, "notfound: c get p:k, a get k"),
        ("c=notfound a=timeout", Op::Get, "timeout: c get p:k, a get k"),
        ("c=timeout a=found:x", Op::Get, "found: c get p:k, a get k"),
        ("a=stored", Op::Set, "stored: a set k"),
        ("a=deleted", Op::Delete, "deleted: a delete k log=a"),
        ("a=found", Op::Gets, "found: a gets k"),
    ] {
        canned.answers(answers);
        assert_eq!(story(&canned, op), expected, "{answers}");
    }
    canned.answers("c=notfound");
    canned.answer("a", [Reply { value: "x".into(), flags: 7, ..Reply::new(Outcome::Found) }]);
    canned.ask(&Request::new(Op::Get, "k"));
    let set = canned.requests().pop().unwrap();
    assert_eq!((&set.value[..], set.flags, set.exptime), (&b"x"[..], 7, 9));
}

#[test]
fn one_fills_under_its_lease_and_the_others_wait_for_it() {
    let canned = lookaside(LEASES);
    let lease = Reply { token: 7, ..Reply::new(Outcome::NotFound) };
    let hot = || Reply { token: 1, ..Reply::new(Outcome::NotFoundHot) };
    canned.answers("a=found:x");
    canned.answer("c", [lease]);
    canned.ask(&Request::new(Op::Get, "k"));
    let set = canned.requests().pop().unwrap();
    assert_eq!((set.op, set.token), (Op::LeaseSet, 7));
    canned.answer("c", [hot(), hot(), Reply { value: "y".into(), ..Reply::new(Outcome::Found) }]);
    let (reply, took) = canned.timed(&Request::new(Op::Get, "k"));
    assert_eq!((&reply.value[..], took), (&b"y"[..], Duration::from_millis(10 + 20)));
    assert_eq!(canned.asked().join(", "), ["c lease-get p:k"; 3].join(", "));
    canned.answer("c", [hot()]);
    let (reply, took) = canned.timed(&Request::new(Op::Get, "k"));
    assert_eq!((&reply.value[..], took), (&b"x"[..], Duration::from_millis(10 + 20 + 25)));
    assert_eq!(canned.asked().len(), 4 + 1, "and nothing is stored without a lease");
}

#[test]
fn keys_of_the_cache_tell_hosts_and_parts_of_a_second_apart() {
    for (rest, key) in [
        (r#", "ttl": 1, "key_split_size": 3"#, "p:k:ks2"),
        (r#", "ttl": 1, "key_split_size": 1"#, "p:k"),
        (r#", "ttl": 100, "ttl_unit_ms": true"#, "p:k:2"),
        (r#", "ttl": 100, "ttl_unit_ms": true, "key_split_size": 2"#, "p:k:ks1:2"),
    ] {
        let canned = lookaside(rest);
        canned.answers("c=notfound a=found:x");
        canned.ask(&Request::new(Op::Get, "k"));
        let requests = canned.requests();
        assert_eq!([&requests[0].key, &requests[2].key], [key, key]);
        assert_eq!(requests[2].exptime, 1);
    }
    let canned = lookaside(r#", "ttl": 9"#);
    canned.ask(&Request::new(Op::Get, vec![b'k'; 249]));
    assert_eq!(canned.asked().len(), 1, "no room for the prefix: the child alone");
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let of = |rest: &str| {
        let config = format!(
            r#"{{"route": {{"type": "CarbonLookasideRoute", "child": "NullRoute" {rest}}} }}"#
        );
        Canned::with(&config, &Settings::default()).err().map(|error| error.to_string())
    };
    for (rest, wrong) in [
        (r#", "ttl": 1"#, "no flavor 'web'"),
        (r#", "cache": "NullRoute""#, "ttl not found"),
        (r#", "cache": "NullRoute", "ttl": 300, "ttl_unit_ms": true"#, "multiple of a ttl"),
        (r#", "cache": "NullRoute", "ttl": 1, "key_split_size": 0"#, "expected 1 to"),
        (
            r#", "cache": "NullRoute", "ttl": 1, "lease_settings": {"num_retries": -1}"#,
            "num_retries",
        ),
        (r#", "ttl": 1, "flavor": "file:none""#, "no file file:none"),
    ] {
        let error = of(rest).unwrap_or_default();
        assert!(error.contains(wrong), "{rest}: {error}");
    }
}
