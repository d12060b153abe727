//! Fan-outs, prefixes, names and errors of whole trees, and properties that all trees have.

use std::time::Duration;

use guira_client::{Op, Outcome, Request};
use proptest::prelude::*;

use crate::outcome;
use crate::settings::Settings;
use crate::tree::canned::{Canned, outcome_named, pools};

fn tree(hosts: &str, route: &str) -> Canned {
    Canned::new(&format!("{{ {}, \"route\": {route} }}", pools(hosts)))
}

/// The reply to a get on the leaves `a`, `b` and `c`, and the leaves that were asked.
#[test]
fn fan_outs_answer_as_the_children_s_outcomes_have_it() {
    let three = r#"["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]"#;
    for (kind, answers, expected) in [
        ("AllSyncRoute", "a=found b=notfound c=found", "notfound"),
        ("AllSyncRoute", "a=found b=notfound c=timeout", "timeout"),
        ("AllSyncRoute", "a=tko b=timeout c=found", "tko"),
        ("AllSyncRoute", "a=client_error b=local_error c=remote_error", "client_error"),
        ("AllSyncRoute", "a=touched b=client_error c=found", "touched"),
        ("AllInitialRoute", "a=found b=timeout c=timeout", "found"),
        ("AllAsyncRoute", "a=found b=found c=found", "notfound"),
        ("AllFastestRoute", "a=timeout b=notfound c=found", "notfound"),
        ("AllFastestRoute", "a=timeout b=tko c=busy", "busy"),
        ("AllFastestRoute", "a=bad_key b=found c=found", "bad_key"),
        ("AllMajorityRoute", "a=found b=timeout c=found", "found"),
        ("AllMajorityRoute", "a=found b=notfound c=timeout", "timeout"),
        ("AllMajorityRoute", "a=timeout b=notfound c=notfound", "notfound"),
        ("MissFailoverRoute", "a=notfound b=found c=timeout", "found"),
        ("MissFailoverRoute", "a=notfound b=notfound c=timeout", "timeout"),
        ("FailoverRoute", "a=timeout b=notfound c=found", "notfound"),
        ("FailoverRoute", "a=bad_key b=found c=found", "bad_key"),
        ("FailoverRoute", "a=timeout b=busy c=tko", "tko"),
    ] {
        let canned = tree("a b c", &format!(r#"{{"type": "{kind}", "children": {three}}}"#));
        canned.answers(answers);
        let outcome = canned.outcome(Op::Get, "k");
        assert_eq!(outcome, outcome_named(expected), "{kind} {answers}");
        let expected = match kind {
            "FailoverRoute" | "MissFailoverRoute" => continue,
            _ => ["a get k", "b get k", "c get k"],
        };
        let mut asked = canned.asked();
        asked.sort();
        assert_eq!(asked, expected, "{kind} {answers}");
    }
}

#[test]
fn a_reply_comes_when_the_route_has_what_it_waits_for() {
    let three = r#"["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]"#;
    let seconds = Duration::from_secs;
    for (kind, expected) in [
        ("AllSyncRoute", 3),
        ("AllFastestRoute", 1),
        ("AllInitialRoute", 2),
        ("AllAsyncRoute", 0),
        ("AllMajorityRoute", 2),
    ] {
        let canned = tree("a b c", &format!(r#"{{"type": "{kind}", "children": {three}}}"#));
        canned.answers("a=found b=found c=found");
        canned.delay("a", seconds(2));
        canned.delay("b", seconds(1));
        canned.delay("c", seconds(3));
        let (_, took) = canned.timed(&Request::new(Op::Get, "k"));
        assert_eq!(took, seconds(expected), "{kind}");
        assert_eq!(canned.asked().len(), 3, "{kind}");
    }
}

#[test]
fn routing_prefixes_choose_and_broadcast() {
    let config = format!(
        r#"{{ {}, "routes": [
            {{"aliases": ["/r/a/"], "route": {{"type": "PrefixSelectorRoute",
                "policies": {{"x": "PoolRoute|x", "xy": "PoolRoute|y"}}, "wildcard": "PoolRoute|a"}}}},
            {{"aliases": ["/r/b/", "/s/b/"], "route": "PoolRoute|b"}},
            {{"aliases": ["/r/fallback/"], "route": "PoolRoute|f"}}] }}"#,
        pools("a b f x y")
    );
    let settings = Settings { default_route: "/r/a/".to_owned(), ..Settings::default() };
    let canned = Canned::with(&config, &settings).unwrap();
    for (key, expected) in [
        ("k", "a"),
        ("x1", "x"),
        ("xy1", "y"),
        ("/r/a/x1", "x"),
        ("/r/b/x1", "b"),
        ("/r/nowhere/k", "f"),
        ("/s/nowhere/k", ""),
        ("/*/*/k", "a b f"),
        ("/*/*/x1", "x b f"),
        ("/r/*/k", "a b f"),
        ("/s/*/k", "b"),
        ("/*/b/k", "b"),
        ("/s*/*/k", "b"),
    ] {
        let request = Request::new(Op::Get, key);
        assert_eq!(canned.reachable(&request).join(" "), expected, "{key}");
        let reply = canned.ask(&request);
        let hosts: Vec<String> = canned.asked().iter().map(|asked| asked[..1].to_owned()).collect();
        assert_eq!(hosts.len(), expected.split_whitespace().count(), "{key}");
        if expected.is_empty() {
            assert_eq!(reply.outcome, Outcome::LocalError);
            assert_eq!(reply.message, "RootRoute: No rh found");
        }
    }
    let settings = Settings { send_invalid_route_to_default: true, ..settings };
    let canned = Canned::with(&config, &settings).unwrap();
    assert_eq!(canned.reachable(&Request::new(Op::Get, "/s/nowhere/k")), ["a"]);
}

#[test]
fn a_request_for_all_servers_reaches_each_once() {
    let canned = tree(
        "a b,c d",
        r#"["PoolRoute|a", "PoolRoute|bc"]"#.split(',').next_back().unwrap().trim_end_matches(']'),
    );
    canned.answers("b=ok c=ok");
    assert_eq!(canned.outcome(Op::FlushAll, ""), Outcome::Ok);
    assert_eq!(canned.asked(), ["b flushall ", "c flushall "]);
}

#[test]
fn deletes_carry_the_name_under_which_they_are_logged() {
    let canned = tree(
        "a b",
        r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|a",
        "operation_policies": {"delete": {"type": "AllSyncRoute", "children": [
            "PoolRoute|a", {"type": "PoolRoute", "pool": "b", "asynclog_name": "n"},
            {"type": "PoolRoute", "pool": "b", "asynclog": false}]}}}"#,
    );
    canned.outcome(Op::Set, "k");
    canned.outcome(Op::Delete, "k");
    assert_eq!(canned.asked(), ["a set k", "a delete k log=a", "b delete k log=n", "b delete k"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (route, message) in [
        ("\n{\"type\":\n \"XYZRoute\"}", "Unknown RouteHandle: XYZRoute line: 3"),
        ("\"nothing\"", "Unknown type or Missing Name Handle : nothing line: 1"),
        (
            "{\"type\": \"HashRoute\",\n \"children\": \"Pool|a\", \"salt\": 1}",
            "HashRoute: salt is int64, expected string line: 2",
        ),
        ("\n\"PoolRoute|none\"", "Can not read pool: none line: 2"),
        ("[]", "0 RouteHandles in list, expected 1 line: 1"),
        (
            "{\"type\": \"OperationSelectorRoute\", \"operation_policies\": {\"fly\": \"NullRoute\"}}",
            "Unknown operation: fly",
        ),
        (
            "{\"type\": \"FailoverRoute\", \"failover_errors\": [\"found\"], \"children\": [\"NullRoute\", \"ErrorRoute\"]}",
            "not a valid error type",
        ),
    ] {
        let config = format!("{{ {}, \"route\": {route} }}", pools("a"));
        let error = Canned::with(&config, &Settings::default()).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn names_stand_for_one_route_and_pools_inherit() {
    let canned = Canned::new(
        r#"{
        "pools": {"a": {"servers": ["h:1"], "server_timeout": 5, "keep_routing_prefix": true},
                  "b": {"inherit": "a", "servers": ["g:1:ascii", "[::1]:7"]}},
        "named_handles": {"first": "second", "second": {"type": "PoolRoute", "pool": "b"}},
        "route": {"type": "AllSyncRoute", "children": ["first", "second", "ErrorRoute|e", "ErrorRoute|e"]}
    }"#,
    );
    let request = Request::new(Op::Get, "k");
    let outline = crate::tree::outline(&*canned.tree.root, &request);
    let host = if outline.contains("host|g") { "g" } else { "::1" };
    let pool = format!("   asynclog:b\n    hash|Ch3\n     host|{host}\n");
    let error = "   error|log|mc_res_local_error|e\n";
    assert_eq!(outline, format!("proxy\n root\n  all-sync\n{pool}{pool}{error}{error}"));
    assert_eq!(canned.tree.pools["b"].len(), 2);
}

proptest! {
    #[test]
    fn one_child_is_the_child(
        kind in proptest::sample::select(vec!["AllSyncRoute", "AllFastestRoute", "AllInitialRoute",
            "AllMajorityRoute", "FailoverRoute", "MissFailoverRoute", "HashRoute", "RandomRoute",
            "HostIdRoute"]),
        answer in any_outcome(),
    ) {
        let canned = tree("a", &format!(r#"{{"type": "{kind}", "children": ["PoolRoute|a"]}}"#));
        canned.answers(&format!("a={answer}"));
        prop_assert_eq!(canned.outcome(Op::Get, "k"), outcome_named(answer));
        prop_assert_eq!(canned.asked(), ["a get k"]);
    }

    #[test]
    fn a_miss_failover_inside_another_is_one(answers in [any_outcome(), any_outcome(), any_outcome()]) {
        let flat = r#"{"type": "MissFailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]}"#;
        let nested = r#"{"type": "MissFailoverRoute", "children": ["PoolRoute|a",
            {"type": "MissFailoverRoute", "children": ["PoolRoute|b", "PoolRoute|c"]}]}"#;
        let [a, b, c] = answers;
        let results = [flat, nested].map(|route| {
            let canned = tree("a b c", route);
            canned.answers(&format!("a={a} b={b} c={c}"));
            (canned.outcome(Op::Get, "k"), canned.asked())
        });
        prop_assert_eq!(&results[0], &results[1]);
    }

    #[test]
    fn visit_lists_what_is_reached(
        kind in proptest::sample::select(vec!["AllSyncRoute", "AllInitialRoute", "AllAsyncRoute",
            "MissFailoverRoute", "FailoverRoute", "AllMajorityRoute"]),
        answer in any_outcome(),
    ) {
        let canned = tree("a b c", &format!(r#"{{"type": "{kind}",
            "children": ["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]}}"#));
        canned.answers(&format!("a={answer} b={answer} c={answer}"));
        let request = Request::new(Op::Get, "k");
        let may = canned.reachable(&request);
        canned.ask(&request);
        let mut reached: Vec<String> =
            canned.asked().iter().map(|asked| asked[..1].to_owned()).collect();
        reached.sort();
        prop_assert!(may.starts_with(&reached), "{:?} {:?}", may, reached);
        let goes_on = outcome::is_failover_error(outcome_named(answer));
        prop_assert!(reached == may || (kind.ends_with("FailoverRoute") && !(goes_on && kind == "FailoverRoute")));
    }
}

fn any_outcome() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "found",
        "notfound",
        "timeout",
        "tko",
        "busy",
        "connect_error",
        "bad_key",
        "remote_error",
        "local_error",
        "client_error",
    ])
}
