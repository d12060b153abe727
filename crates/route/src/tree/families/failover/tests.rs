//! The order of children, the errors that cause a failover, the number of tries, and the way of leases.

use guira_client::{Op, Outcome, Reply, Request};

use crate::counters::Counter;
use crate::tree::canned::{Canned, pools};

fn failover(rest: &str) -> Canned {
    Canned::new(&format!(
        r#"{{ {}, "route": {{"type": "FailoverRoute",
            "children": ["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"] {rest}}} }}"#,
        pools("a b c")
    ))
}

fn hosts(canned: &Canned) -> String {
    canned.asked().iter().map(|asked| &asked[..1]).collect()
}

#[test]
fn errors_that_are_listed_go_on_by_kind_of_command() {
    let canned = failover(r#", "failover_errors": {"gets": ["remote_error"], "updates": []}"#);
    canned.answers("a=remote_error b=busy c=found");
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Busy);
    assert_eq!(hosts(&canned), "ab");
    assert_eq!(canned.outcome(Op::Set, "k"), Outcome::RemoteError);
    assert_eq!(hosts(&canned), "a");
    assert_eq!(canned.outcome(Op::Delete, "k"), Outcome::Found);
    assert_eq!(hosts(&canned), "abc");
}

#[test]
fn tries_are_counted_but_not_for_servers_that_weren_t_asked() {
    let canned = failover(r#", "failover_policy": {"type": "InOrderPolicy", "max_tries": 2}"#);
    canned.answers("a=timeout b=timeout c=found");
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Timeout);
    assert_eq!(hosts(&canned), "ab");
    canned.answers("a=tko");
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Found);
    assert_eq!(hosts(&canned), "abc");
}

#[test]
fn the_limit_lets_a_share_of_requests_fail_over() {
    let canned = failover(r#", "failover_limit": {"rate": 0.2, "burst": 1}"#);
    canned.answers("a=timeout b=found");
    let found = (0..100).filter(|_| canned.outcome(Op::Get, "k") == Outcome::Found).count();
    assert_eq!(found, 20);
    assert_eq!(canned.context.counters.get(Counter::FailoverLimited), 80);
    canned.answers("a=tko");
    let found = (0..100).filter(|_| canned.outcome(Op::Get, "k") == Outcome::Found).count();
    assert_eq!(found, 100);
}

#[test]
fn the_child_with_fewest_recent_failures_is_asked_next() {
    let canned =
        failover(r#", "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 2}"#);
    canned.answers("a=timeout b=timeout c=found");
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Timeout);
    assert_eq!(hosts(&canned), "ab");
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Found);
    assert_eq!(hosts(&canned), "ac");
}

#[test]
fn a_set_under_a_lease_goes_where_the_lease_came_from_once() {
    let canned = failover(r#", "enable_lease_pairing": true, "name": "pair""#);
    canned.answers("a=timeout");
    canned.answer("b", [Reply { token: 42, ..Reply::new(Outcome::NotFound) }]);
    let reply = canned.ask(&Request::new(Op::LeaseGet, "k"));
    assert_eq!(reply.token >> 32, 0x7ace_b00c);
    canned.asked();
    canned.answers("a=notstored b=stored");
    let set = Request { token: reply.token, ..Request::new(Op::LeaseSet, "k") };
    assert_eq!(canned.ask(&set).outcome, Outcome::Stored);
    assert_eq!(canned.requests()[0].token, 42);
    assert_eq!(canned.ask(&set).outcome, Outcome::NotStored);
    assert_eq!(hosts(&canned), "a");
}

#[test]
fn a_key_with_a_hash_stop_shows_where_it_failed_over() {
    let long = format!("k|#|{}", "x".repeat(240));
    for (rest, key, expected) in [
        (r#", "failover_tag": true"#, "k|#|x", "k|#|x:failover=1"),
        (r#", "failover_tag": true"#, "k", "k"),
        (r#", "failover_tag": true"#, &long[..], &long[..]),
        ("", "k|#|x", "k|#|x"),
    ] {
        let canned = failover(rest);
        canned.answers("a=timeout b=timeout c=found");
        canned.outcome(Op::Get, key);
        let keys: Vec<_> = canned.requests().into_iter().map(|request| request.key).collect();
        assert_eq!(keys, [key, expected, expected]);
    }
}

#[test]
fn what_is_stored_in_the_gutter_lives_shortly() {
    let canned = Canned::new(&format!(
        r#"{{ {}, "route": {{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|a",
            "failover": ["PoolRoute|b"], "failover_exptime": 10}} }}"#,
        pools("a b")
    ));
    canned.answers("a=connect_error b=stored");
    for (exptime, expected) in [(0, 10), (5, 5), (60, 10), (-1, -1)] {
        let set = Request { exptime, ..Request::new(Op::Set, "k") };
        assert_eq!(canned.ask(&set).outcome, Outcome::Stored);
        let sent: Vec<i64> = canned.requests().iter().map(|request| request.exptime).collect();
        assert_eq!(sent, [exptime, expected]);
    }
}

#[test]
fn a_deterministic_order_is_the_key_s_own_and_passes_by_failed_domains() {
    let config = |domains: &str| {
        format!(
            r#"{{"pools": {{"p": {{"servers": ["a:1", "b:1", "c:1", "d:1", "e:1", "f:1"],
                "failure_domains": [1, 1, 1, 2, 2, 2]}}}},
            "route": {{"type": "SaltedFailoverRoute", "pool": "p", "failover_policy": {{
                "type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 3,
                "enable_failure_domains": {domains}}}}}}}"#
        )
    };
    let (plain, domains) = (Canned::new(&config("false")), Canned::new(&config("true")));
    for canned in [&plain, &domains] {
        canned.answers("a=tko b=tko c=tko d=tko e=tko f=tko");
    }
    let mut has_crossed_later = false;
    for key in (0..50).map(|number| format!("k{number}")) {
        assert_eq!(plain.outcome(Op::Get, &key), Outcome::Tko);
        let order = hosts(&plain);
        plain.outcome(Op::Get, &key);
        assert_eq!(hosts(&plain), order);
        let distinct: std::collections::BTreeSet<char> = order.chars().collect();
        assert_eq!(distinct.len(), 3, "{order}");
        domains.outcome(Op::Get, &key);
        let crossed = hosts(&domains);
        let is_first = |host: char| host < 'd';
        let mut two = crossed.chars().take(2).map(is_first);
        assert_ne!(two.next(), two.next(), "{crossed}");
        has_crossed_later |= crossed != order;
    }
    assert!(has_crossed_later);
}
