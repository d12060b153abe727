//! `guira invalidate` and a flush of many servers: each has its turn, over the time that the destination gives.

use std::thread;
use std::time::Duration;

use guira_tests::client::Client;
use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::server::{Program, Server, eventually, one_pool, within};
use guira_tests::shop::Shop;
use rustix::process::Signal;

const SERVERS: usize = 4;

/// How many of them still have the item.
fn filled(clients: &mut [Client]) -> usize {
    clients.iter_mut().filter_map(|client| client.get("other")).count()
}

#[test]
fn servers_are_flushed_one_after_the_other_over_a_time_and_none_is_forgotten() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"], "on_truncate": "flush"}"#;
    let shop = Shop::<MariaDb>::new(1, schema, rules, true, "");
    let servers: Vec<Server> =
        (0..SERVERS).map(|_| Server::start_tcp(Program::Guira, &["-m", "64"])).collect();
    let ports: Vec<u16> = servers.iter().map(Server::port).collect();
    let config = one_pool(&ports);
    let flags = ["--config", &config, "--enable-flush-cmd", "--server-timeout", "300"];
    let router = Server::start_router(&flags);
    let own = format!("\"127.0.0.1:{}\"", shop.clusters[0].router_port);
    let spread = format!("\"127.0.0.1:{}\"], \"flush_over\": \"4s\"", router.port());
    shop.reconfigure(&format!("{own}]"), &spread);
    let (is_good, words) = shop.asks("check");
    assert!(is_good, "{words}");
    let _daemon = shop.daemon();
    let mut clients: Vec<Client> = servers.iter().map(Server::connect).collect();
    clients.iter_mut().for_each(|client| drop(client.set("other", b"v")));
    // Its turn comes while it hangs.
    servers[1].signal(Signal::STOP);
    let mut others: Vec<Client> = [0, 2, 3].map(|at: usize| servers[at].connect()).into();
    shop.sql().ask("TRUNCATE TABLE shop.users");
    let mut seen = vec![3];
    within(60, "the others are flushed", || {
        let now = filled(&mut others);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        thread::sleep(Duration::from_millis(20));
        now == 0
    });
    assert_eq!(seen, [3, 2, 1, 0], "one after the other: {}", shop.said());
    assert_eq!(shop.metric("flush_servers_left"), Some(1), "{}", shop.said());
    assert_eq!((shop.metric("flush_due"), shop.metric("flushes_total")), (Some(1), Some(0)));
    eventually("its turn has failed", || shop.metric("flush_failing") == Some(1));
    servers[1].signal(Signal::CONT);
    within(60, "the last one is flushed", || filled(&mut clients) == 0);
    eventually("it is over", || shop.metric("flush_due") == Some(0));
    assert_eq!(shop.metric("flushes_total"), Some(1), "{}", shop.said());
    assert_eq!(shop.metric("flush_failing"), Some(0), "{}", shop.said());
    shop.catch_up(&mut shop.sql());
    for (more, turns) in [(&[][..], SERVERS), (&["--at-once"], 0)] {
        clients.iter_mut().for_each(|client| drop(client.set("other", b"v")));
        let (code, told) = shop.asks_with("flush", &[&["c1"], more].concat());
        assert_eq!((code, filled(&mut clients)), (Some(0), 0), "{told}");
        assert_eq!(told.matches(" is flushed, ").count(), turns, "{told}");
    }
}

#[test]
fn a_destination_is_flushed_by_hand_and_no_other() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::<MariaDb>::new(2, schema, rules, true, "");
    let _daemon = shop.daemon();
    let mut clients = shop.clients();
    for (is_refused, code, is_kept) in [(true, 2, true), (false, 0, false)] {
        shop.clusters[0].refuse_flushes(is_refused);
        clients.iter_mut().for_each(|client| drop(client.set("other", b"v")));
        let (ended, told) = shop.asks_with("flush", &["c1"]);
        assert_eq!(ended, Some(code), "{told}");
        assert_eq!(told.contains("--enable-flush-cmd"), is_refused, "{told}");
        assert_eq!(is_there(&mut clients, "other"), [is_kept, true], "{told}");
    }
    let (ended, told) = shop.asks_with("flush", &["c3"]);
    assert!(ended == Some(1) && told.contains("'c3' is no destination"), "{told}");
}

/// A router that flushes all at once, or nothing.
#[test]
fn a_server_is_flushed_by_its_name_only_where_flushes_are_allowed() {
    let server = Server::start_tcp(Program::Guira, &["-m", "64"]);
    let name = format!("127.0.0.1:{}", server.port());
    let config =
        format!(r#"{{"pools": {{"a": {{"servers": ["{name}"]}}}}, "route": "PoolRoute|a"}}"#);
    for (flags, answer, is_kept) in [
        (&[][..], "ERROR: Command disabled".to_owned(), true),
        (&["--enable-flush-cmd"], "OK".to_owned(), false),
    ] {
        let router = Server::start_router(&[&["--config", &config], flags].concat());
        let mut client = router.connect();
        client.set("k", b"v");
        let mut told = |question: &str| {
            let value = client.get(&format!("__mcrouter__.{question}")).expect("an answer");
            String::from_utf8_lossy(&value).into_owned()
        };
        assert_eq!(told("servers"), format!("{name}\n"));
        assert_eq!(told(&format!("flush({name})")), answer);
        if !is_kept {
            assert_eq!(told("flush(127.0.0.1:1)"), "ERROR: flush: no such server");
        }
        assert_eq!(client.get("k").is_some(), is_kept);
    }
}
