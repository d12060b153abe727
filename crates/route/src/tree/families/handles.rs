//! What each route does with a request, on leaves that give canned answers.

use std::time::{Duration, SystemTime};

use guira_client::{Op, Outcome, Reply, Request};

use crate::outcome;
use crate::settings::Settings;
use crate::settings::{Clock, LogSink};
use crate::tree::canned::{Canned, pools};

mod large;

fn tree(hosts: &str, route: &str) -> Canned {
    Canned::new(&config(hosts, route))
}

fn config(hosts: &str, route: &str) -> String {
    format!("{{ {}, \"route\": {route} }}", pools(hosts))
}

/// Settings with a clock that stands at 1,000 s after 1970.
fn settings(host_id: u32) -> Settings {
    let clock = Clock::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1000));
    Settings { clock, host_id, ..Settings::default() }
}

/// Sends a request. Returns the outcome and the servers asked: `found: a get k, b add k`.
fn story(canned: &Canned, request: &Request) -> String {
    let reply = canned.ask(request);
    format!("{}: {}", outcome::name(reply.outcome), canned.asked().join(", "))
}

fn get(key: &str) -> Request {
    Request::new(Op::Get, key.as_bytes().to_vec())
}

fn of(op: Op) -> Request {
    Request { value: "v".into(), ..Request::new(op, "k") }
}

const WARM_UP: &str =
    r#"{"type": "WarmUpRoute", "cold": "PoolRoute|c", "warm": "PoolRoute|w", "exptime": 60}"#;

#[test]
fn a_cold_cluster_takes_what_the_warm_one_has_but_never_something_stale() {
    let canned = tree("c w", WARM_UP);
    for (answers, op, expected) in [
        ("c=found", Op::Get, "found: c get k"),
        ("c=notfound,stored w=found:x", Op::Get, "found: c get k, w get k, c add k"),
        ("c=notfound,notstored w=found:x", Op::Get, "notfound: c get k, w get k, c add k"),
        ("c=timeout,notstored w=found:x", Op::Get, "found: c get k, w get k, c add k"),
        ("c=notfound w=notfound", Op::Get, "notfound: c get k, w get k"),
        (
            "c=notfound,stored,found w=found:x",
            Op::Gets,
            "found: c gets k, w get k, c add k, c gets k",
        ),
        ("c=notfound,stored,found w=found:x", Op::Gat, "found: c gat k, w get k, c add k, c gat k"),
        ("c=notfoundhot w=found", Op::LeaseGet, "notfoundhot: c lease-get k"),
        ("c=notfound w=found:x", Op::LeaseGet, "found: c lease-get k, w get k, c lease-set k"),
        ("c=notfound w=found", Op::MetaGet, "found: c metaget k, w metaget k"),
        ("c=deleted w=found", Op::Delete, "deleted: c delete k log=c"),
        ("c=stored w=found", Op::Set, "stored: c set k"),
    ] {
        canned.answers(answers);
        assert_eq!(story(&canned, &of(op)), expected, "{answers}");
    }
}

#[test]
fn a_value_lives_as_long_in_the_cold_cluster_as_in_the_warm_one() {
    let route = r#"{"type": "WarmUpRoute", "cold": "PoolRoute|c", "warm": "PoolRoute|w"}"#;
    let canned = Canned::with(&config("c w", route), &settings(0)).unwrap();
    for (exptime, expected) in [("1030", Some(30)), ("0", Some(0)), ("999", None)] {
        canned.answers("c=notfound,stored");
        let message = format!("age: 1; exptime: {exptime}; from: unknown");
        let found = Reply { value: "x".into(), ..Reply::new(Outcome::Found) };
        let meta = Reply { message: message.into(), ..Reply::new(Outcome::Found) };
        canned.answer("w", [found, meta]);
        assert_eq!(canned.ask(&get("k")).outcome, Outcome::Found);
        let requests = canned.requests();
        let add = requests.iter().find(|request| request.op == Op::Add);
        assert_eq!(add.map(|add| add.exptime), expected);
    }
    for (left, expected) in [("f0 t30", Some(30)), ("t-1 f0", Some(0)), ("f0 t0", None)] {
        canned.answers("c=notfound,stored");
        let found = Reply { value: "x".into(), ..Reply::new(Outcome::Found) };
        let by_mg = Reply { meta: Some(left.as_bytes().into()), ..found.clone() };
        canned.answer("w", [found, Reply::new(Outcome::BadCommand), by_mg]);
        assert_eq!(canned.ask(&get("k")).outcome, Outcome::Found);
        let requests = canned.requests();
        let add = requests.iter().find(|request| request.op == Op::Add);
        assert_eq!(add.map(|add| add.exptime), expected, "by a server without metaget: {left}");
    }
}

#[test]
fn keys_are_changed_as_the_route_says() {
    for (route, key, expected) in [
        (r#""ensure_key_prefix": """#, "k", "k"),
        (r#""ensure_key_prefix": "p:""#, "k", "p:k"),
        (r#""ensure_key_prefix": "p:""#, "p:k", "p:k"),
        (r#""ensure_key_prefix": "p:", "modify_inplace": true"#, "abk", "p:k"),
        (r#""replace_key_prefix": "a", "ensure_key_prefix": "bb""#, "ak", "bbk"),
        (r#""set_key_suffix": "/s""#, "k", "k/s"),
        (r#""set_routing_prefix": "/x/y/""#, "k", "/x/y/k"),
        (r#""set_routing_prefix": "/x/y/""#, "/./././k", "/x/y/./k"),
        (r#""set_routing_prefix": """#, "/././k", "k"),
    ] {
        let route = format!(r#"{{"type": "ModifyKeyRoute", "target": "PoolRoute|a", {route}}}"#);
        let canned = tree("a", &route);
        canned.ask(&get(key));
        let keys: Vec<_> = canned.requests().into_iter().map(|request| request.key).collect();
        assert_eq!(keys, [expected.as_bytes()], "{route}");
    }
    let route = r#"{"type": "ModifyKeyRoute", "target": "PoolRoute|a", "ensure_key_prefix": "p"}"#;
    let long = tree("a", route).ask(&get(&"k".repeat(250)));
    assert!(long.message.starts_with(b"ModifyKeyRoute: invalid key"));
}

#[test]
fn groups_of_commands_have_routes_of_their_own() {
    let canned = tree(
        "g u d r x",
        r#"{"type": "RoutingGroupRoute", "default_policy": "PoolRoute|x", "routing_group_policies": {
        "get_like": "PoolRoute|g", "update_like": "PoolRoute|u", "delete_like": "PoolRoute|d",
        "arithmetic_like": "PoolRoute|r"}}"#,
    );
    for (op, host) in
        [(Op::Gat, "g"), (Op::Cas, "u"), (Op::Delete, "d"), (Op::Decr, "r"), (Op::Touch, "x")]
    {
        canned.ask(&of(op));
        assert_eq!(canned.asked()[0][..1], *host);
    }
}

#[test]
fn a_hit_in_the_second_cache_moves_to_the_first_and_misses_are_kept() {
    let canned = tree(
        "a b",
        r#"{"type": "L1L2CacheRoute", "l1": "PoolRoute|a", "l2": "PoolRoute|b",
        "upgradingL1Exptime": 5, "ncacheExptime": 7, "ncacheUpdatePeriod": 2}"#,
    );
    canned.answers("a=notfound b=found:x");
    assert_eq!(story(&canned, &get("k")), "found: a get k, b get k, a add k");
    canned.answers("b=notfound");
    canned.ask(&get("k"));
    let kept = canned.requests().pop().unwrap();
    assert_eq!(
        (kept.op, &kept.value[..], kept.flags, kept.exptime),
        (Op::Add, &b"ncache"[..], 0x10000, 7)
    );
    canned.answer("a", [Reply { flags: 0x10000, ..Reply::new(Outcome::Found) }]);
    assert_eq!(story(&canned, &get("k")), "notfound: a get k");
    assert_eq!(story(&canned, &get("k")), "notfound: a get k, b get k, a set k");
}

#[test]
fn hosts_use_their_own_copies_and_deletes_reach_all() {
    let split = r#"{"type": "PoolRoute", "pool": "a", "asynclog": false, "shard_splits": {"1": 3,
        "2": {"new_split_size": 2, "split_start": 500, "migration_period": 1000}}}"#;
    let copies = r#"{"type": "KeySplitRoute", "destination": "PoolRoute|a", "replicas": 3}"#;
    for (route, host_id, op, key, expected) in [
        (split, 2, Op::Get, "p:1:x", "a get p:1ba:x"),
        (split, 3, Op::Get, "p:1:x", "a get p:1:x"),
        (split, 2, Op::Get, "p:7:x", "a get p:7:x"),
        (split, 2, Op::Delete, "p:1:x", "a delete p:1:x, a delete p:1aa:x, a delete p:1ba:x"),
        (split, 1, Op::Get, "p:2:x", "a get p:2aa:x"),
        (split, 16383, Op::Get, "p:2:x", "a get p:2:x"),
        (split, 1, Op::Delete, "p:2:x", "a delete p:2aa:x"),
        (copies, 0, Op::Get, "k", "a get k"),
        (copies, 2, Op::Get, "k|#|x", "a get k::2|#|x"),
        (copies, 2, Op::Set, "k", "a set k::2"),
        (copies, 2, Op::Delete, "k", "a delete k log=a, a delete k::1 log=a, a delete k::2 log=a"),
    ] {
        let canned = Canned::with(&config("a", route), &settings(host_id)).unwrap();
        let request = Request::new(op, key);
        canned.ask(&request);
        let mut asked = canned.asked();
        asked.sort();
        assert_eq!(asked.join(", "), expected, "{host_id} {key}");
        assert_eq!(canned.reachable(&request).len(), asked.len());
    }
}

#[test]
fn shard_splits_are_ignored_where_that_is_set() {
    let split =
        r#"{"type": "PoolRoute", "pool": "a", "asynclog": false, "shard_splits": {"1": 3}}"#;
    let settings = Settings { ignores_shard_splits: true, ..settings(2) };
    let canned = Canned::with(&config("a", split), &settings).unwrap();
    assert_eq!(story(&canned, &get("p:1:x")), "notfound: a get p:1:x");
}

#[test]
fn keys_move_at_their_own_time_and_deletes_go_to_both_meanwhile() {
    for (start, op, expected) in [
        (2000, Op::Get, "a get k"),
        (2000, Op::Delete, "a delete k log=a"),
        (990, Op::Delete, "a delete k log=a, b delete k log=b"),
        (990, Op::Get, "a get k"),
        (700, Op::Get, "b get k"),
        (700, Op::Delete, "b delete k log=b"),
    ] {
        let route = format!(
            r#"{{"type": "MigrateRoute", "from": "PoolRoute|a", "to": "PoolRoute|b",
            "start_time": {start}, "interval": 100}}"#
        );
        let canned = Canned::with(&config("a b", &route), &settings(0)).unwrap();
        canned.ask(&of(op));
        assert_eq!(canned.asked().join(", "), expected, "{start}");
    }
}

#[test]
fn shadows_get_copies_of_their_share_and_nobody_waits() {
    let route = |shadow: &str| {
        format!(
            r#"{{"type": "PoolRoute", "pool": "a", "shadows": [{{"target": "PoolRoute|s", {shadow}}}]}}"#
        )
    };
    let all = r#""index_range": [0, 1], "key_fraction_range": [0, 1]"#;
    let canned = tree("a s", &route(all));
    canned.answers("a=found s=timeout");
    canned.delay("s", Duration::from_secs(5));
    assert_eq!(canned.timed(&get("k")).1, Duration::ZERO);
    let mut asked = canned.asked();
    asked.sort();
    assert_eq!(asked, ["a get k", "s get k shadow"]);
    for (shadow, at_least, at_most) in [
        (r#""index_range": [0, 1], "key_fraction_range": [0, 0.25]"#, 150, 350),
        (
            r#""index_range": [0, 1], "key_fraction_range": [0, 1], "requests_fraction": 0.5"#,
            400,
            600,
        ),
        (r#""index_range": [1, 2], "key_fraction_range": [0, 1]"#, 0, 0),
        (r#""keys_to_shadow": ["k1", "k2"]"#, 2, 2),
        // The value in the configuration holds until the variable has been read.
        (
            r#""index_range": [0, 1], "key_fraction_range": [0, 1], "key_fraction_range_rv": "none""#,
            1000,
            1000,
        ),
    ] {
        let canned = tree("a s", &route(shadow));
        (0..1000).for_each(|number| drop(canned.ask(&get(&format!("k{number}")))));
        let copies = canned.asked().iter().filter(|asked| asked.ends_with(" shadow")).count();
        assert!((at_least..=at_most).contains(&copies), "{shadow}: {copies}");
    }
}

#[test]
fn a_shadow_s_lease_is_asked_for_beside_the_client_s_and_its_token_goes_with_the_client_s() {
    let canned = tree(
        "a s",
        r#"{"type": "PoolRoute", "pool": "a", "shadows": [
            {"target": "PoolRoute|s", "index_range": [0, 1], "key_fraction_range": [0, 1]}]}"#,
    );
    let lease = |token| Reply { token, ..Reply::new(Outcome::NotFound) };
    let seconds = Duration::from_secs;
    for (normal, shadow, of_normal, of_shadow) in [(5, 8, 0, 0), (6, 9, 1, 0), (7, 10, 0, 1)] {
        canned.answer("a", [lease(normal)]);
        canned.answer("s", [lease(shadow)]);
        canned.delay("a", seconds(of_normal));
        canned.delay("s", seconds(of_shadow));
        assert_eq!(canned.timed(&of(Op::LeaseGet)).1, seconds(of_normal));
        assert_eq!(canned.asked(), ["s lease-get k shadow", "a lease-get k"]);
        canned.wait(seconds(2));
        canned.ask(&Request { token: normal, ..of(Op::LeaseSet) });
        let tokens: Vec<u64> = canned.requests().iter().map(|request| request.token).collect();
        assert_eq!(tokens, [shadow, normal]);
    }
}

#[test]
fn a_staging_copy_follows_the_live_pool() {
    let canned =
        tree("w s", r#"{"type": "StagingRoute", "warm": "PoolRoute|w", "staging": "PoolRoute|s"}"#);
    for (answers, op, expected) in [
        ("w=found s=found", Op::Get, "found: w get k, s metaget k"),
        ("w=found s=notfound", Op::Get, "found: w get k, s metaget k, w metaget k, s add k"),
        ("w=found s=busy", Op::Get, "found: w get k, s metaget k"),
        ("w=notfound", Op::Get, "notfound: w get k"),
        ("w=stored s=timeout", Op::Cas, "stored: w cas k, s set k"),
        ("w=deleted s=notfound", Op::Delete, "notfound: w delete k log=w, s delete k log=s"),
        ("w=touched", Op::Touch, "touched: w touch k, s touch k"),
        ("w=timeout", Op::Touch, "timeout: w touch k"),
    ] {
        canned.answers(answers);
        assert_eq!(story(&canned, &of(op)), expected, "{answers}");
    }
}

#[test]
fn limits_hold_requests_back_or_turn_them_away() {
    let route = r#"{"type": "RateLimitRoute", "target": "PoolRoute|a", "rates": {"gets_rate": 2, "gets_burst": 3}}"#;
    let canned = tree("a", route);
    canned.answers("a=found");
    let found = |canned: &Canned| {
        (0..10).filter(|_| canned.outcome_now(&get("k")) == Outcome::Found).count()
    };
    assert_eq!(found(&canned), 0);
    canned.wait(Duration::from_secs(10));
    assert_eq!(found(&canned), 3);
    canned.wait(Duration::from_secs(1));
    assert_eq!(found(&canned), 2);
    let canned = tree("a", r#"{"type": "PoolRoute", "pool": "a", "max_outstanding": 2}"#);
    canned.answers("a=found");
    canned.delay("a", Duration::from_secs(1));
    assert_eq!(canned.all_at_once(&vec![get("k"); 6]), Duration::from_secs(3));
}

#[test]
fn a_server_that_warms_up_gets_a_growing_share() {
    let route = r#"{"type": "PoolRoute", "pool": "a", "slow_warmup": {"failoverTarget": "PoolRoute|b",
        "settings": {"enable_threshold": 0.5, "disable_threshold": 0.9, "start": 0.1, "step": 1}}}"#;
    let canned = tree("a b", route);
    canned.answers("a=notfound b=found");
    for _ in 0..100 {
        canned.outcome_now(&get("k"));
    }
    assert!(canned.asked().iter().all(|asked| asked.starts_with('a')));
    for _ in 0..200 {
        canned.outcome_now(&get("k"));
    }
    let own = canned.asked().iter().filter(|asked| asked.starts_with('a')).count();
    assert!((5..50).contains(&own), "{own}");
}

#[test]
fn delays_are_added_and_what_was_found_is_logged() {
    let route = r#"{"type": "LatencyInjectionRoute", "child": "PoolRoute|a", "before_latency_ms": 20,
        "after_latency_ms": 30, "total_latency_ms": 70}"#;
    let canned = tree("a", route);
    assert_eq!(canned.timed(&get("k")).1, Duration::from_millis(70));
    let lines = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = {
        let lines = lines.clone();
        LogSink::new(move |line| lines.lock().push(line.to_owned()))
    };
    let settings = Settings { log, is_logging_route_enabled: true, ..Settings::default() };
    let canned = Canned::with(&config("a", "\"PoolRoute|a\""), &settings).unwrap();
    canned.answers("a=notfound,found:xyz");
    canned.ask(&get("k"));
    canned.ask(&get("k"));
    let lines = lines.lock();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("Key: k request name: get") && lines[0].contains("user ip: N/A"));
}

#[test]
fn guards_look_at_keys_and_clients() {
    let route =
        r#"{"type": "HashStopAllowListRoute", "target": "PoolRoute|a", "prefixes": ["x:"]}"#;
    let canned = tree("a", route);
    canned.answers("a=found");
    for (key, expected) in
        [("k", Outcome::Found), ("x:1|#|2", Outcome::Found), ("y:1|#|2", Outcome::LocalError)]
    {
        assert_eq!(canned.outcome(Op::Get, key), expected, "{key}");
    }
    let route = r#"{"type": "BlackholeRoute", "default": "PoolRoute|a", "blackhole_child": "NullRoute",
        "policies": {"key": [{"op": "equals", "value": "gone"}]}}"#;
    let canned = tree("a", route);
    canned.answers("a=found");
    assert_eq!(canned.outcome(Op::Get, "gone"), Outcome::NotFound);
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::Found);
    let route =
        r#"{"type": "OriginalClientHashRoute", "children": ["PoolRoute|a", "PoolRoute|b"]}"#;
    let mut canned = tree("a b", route);
    assert_eq!(canned.outcome(Op::Get, "k"), Outcome::LocalError);
    canned.context.client = "127.0.0.1".parse().ok();
    canned.asked();
    canned.outcome(Op::Get, "k");
    canned.outcome(Op::Get, "k2");
    let asked = canned.asked();
    assert_eq!(asked[0][..1], asked[1][..1]);
}

#[test]
fn each_hash_function_spreads_keys_and_buckets_stand_for_keys() {
    for hash in [
        r#""Ch3""#,
        r#""Crc32""#,
        r#"{"hash_func": "WeightedCh3", "weights": [1, 1, 1]}"#,
        r#"{"hash_func": "Rendezvous", "tags": ["x", "y", "z"]}"#,
        r#"{"hash_func": "WeightedRendezvous", "tags": ["x", "y", "z"], "weights": [1, 1, 1]}"#,
        r#"{"hash_func": "Ch3", "salt": "s"}"#,
        r#"{"hash_func": "LoadBalancer"}"#,
        r#"{"hash_func": "WeightedCh3", "weights": [1, 1, 1]}, "bucketize": true,
            "total_buckets": 1000, "bucketization_keyspace": "s""#,
    ] {
        let route = format!(r#"{{"type": "PoolRoute", "pool": "abc", "hash": {hash}}}"#);
        let canned = tree("a,b,c", &route);
        for number in 0..600 {
            canned.outcome_now(&get(&format!("key{number}")));
        }
        let asked = canned.asked();
        for host in ["a", "b", "c"] {
            let share = asked.iter().filter(|asked| asked.starts_with(host)).count();
            assert!((130..270).contains(&share), "{hash} {host}: {share}");
        }
    }
    let canned = tree("a,b,c", r#"{"type": "PoolRoute", "pool": "abc", "hash": "ConstShard"}"#);
    for (shard, host) in ["a", "b", "c"].into_iter().enumerate() {
        canned.outcome_now(&get(&format!("x:{shard}:y")));
        assert_eq!(canned.asked()[0][..1], *host);
    }
}

#[test]
fn the_latest_of_a_host_is_one_child_until_it_fails() {
    let latest = r#"{"type": "LatestRoute", "failover_count": 2,
        "children": ["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]}"#;
    let mut firsts = std::collections::BTreeSet::new();
    for host_id in 0..20 {
        let canned = Canned::with(&config("a b c", latest), &settings(host_id)).unwrap();
        canned.answers("a=timeout b=timeout c=timeout");
        canned.outcome(Op::Get, "k");
        let asked = canned.asked();
        canned.outcome(Op::Get, "other");
        assert_eq!(asked.len(), 2);
        assert_eq!(canned.asked()[0][..1], asked[0][..1]);
        firsts.insert(asked[0].clone());
    }
    assert_eq!(firsts.len(), 3);
}
