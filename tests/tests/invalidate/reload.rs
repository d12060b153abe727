//! SIGHUP: other rules and destinations hold while rows change, and no delete is lost over it; a bad file changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use guira_tests::keys;
use guira_tests::mariadb::MariaDb;
use guira_tests::postgres::Postgres;
use guira_tests::server::{Running, send_signal, within};
use guira_tests::shop::{Database, Shop, stop};
use rustix::process::Signal;

#[test]
fn no_delete_is_lost_while_mariadbs_rules_and_destinations_change() {
    changes_under_load::<MariaDb>("shop.users");
}

#[test]
fn no_delete_is_lost_while_postgresqls_rules_and_destinations_change() {
    changes_under_load::<Postgres>("public.users");
}

/// Rows of the load.
const ROWS: u64 = 1500;

fn changes_under_load<D: Database>(table: &'static str) {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v INT)";
    let rule = |key: &str| format!(r#"{{"table": "{table}", "keys": ["user:{{id}}"{key}]}}"#);
    let shop = Shop::<D>::new(2, schema, &rule(""), false, "");
    let mut daemon = shop.daemon();
    let mut clients = shop.clients();
    for client in &mut clients {
        for id in 0..ROWS {
            client.set(&format!("user:{id}"), b"old");
        }
    }
    let written = Arc::new(AtomicU64::new(0));
    let writer = {
        let (open, written) = (shop.database.opener(), Arc::clone(&written));
        thread::spawn(move || {
            let mut sql = open();
            for id in 0..ROWS {
                sql.ask(&format!("INSERT INTO {table} VALUES ({id}, 0)"));
                written.store(id, Relaxed);
            }
        })
    };
    // Each time the rule has another key besides, and a destination is another one: its seat and its courier are new.
    let last_c2 = shop.config_of("c2");
    let mut before = (rule(""), last_c2.clone());
    for round in 1..=8 {
        within(60, "rows change", || written.load(Relaxed) >= round * ROWS / 10);
        let after = (
            rule(&format!(", \"round:{round}:{{id}}\"")),
            last_c2.replace('}', &format!(", \"flush_after\": \"{round}s\"}}")),
        );
        shop.reconfigure(&before.0, &after.0);
        shop.reconfigure(&before.1, &after.1);
        before = after;
        hear(&shop, &daemon, "the configuration was read again");
    }
    writer.join().expect("it writes all");
    let mut sql = shop.sql();
    shop.catch_up(&mut sql);
    for (number, client) in clients.iter_mut().enumerate() {
        let left: Vec<u64> =
            (0..ROWS).filter(|id| client.get(&format!("user:{id}")).is_some()).collect();
        assert_eq!(left, [0; 0], "c{} keeps them: {}", number + 1, shop.said());
    }
    assert!(shop.metric("keys_of_rules_total") > Some(ROWS), "the rules never changed");
    stop(&mut daemon);
}

/// Sends SIGHUP, and waits until it is answered so, once more.
fn hear<D: Database>(shop: &Shop<D>, daemon: &Running, words: &str) {
    let count = || shop.said().matches(words).count();
    let before = count();
    send_signal(daemon.0.id(), Signal::HUP);
    within(30, words, || count() > before);
}

#[test]
fn a_bad_file_changes_nothing_and_a_good_one_takes_destinations_in_and_lets_them_go() {
    let schema =
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 0), (2, 0)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::<MariaDb>::new(2, schema, rules, true, "");
    let c2 = shop.config_of("c2");
    shop.reconfigure(&format!(", {c2}"), "");
    let mut daemon = shop.daemon();
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let mut changes = |kept: [bool; 2], cards: [bool; 2]| {
        for client in &mut clients {
            client.set("user:1", b"old");
            client.set("card:1", b"old");
        }
        sql.ask("UPDATE shop.users SET v = v + 1");
        for (key, kept) in [("user:1", kept), ("card:1", cards)] {
            for (client, _) in clients.iter_mut().zip(kept).filter(|(_, kept)| !kept) {
                within(30, &format!("{key} goes"), || client.get(key).is_none());
            }
        }
        for (key, kept) in [("user:1", kept), ("card:1", cards)] {
            assert_eq!(keys::is_there(&mut clients, key), kept, "{key}: {}", shop.said());
        }
    };
    changes([false, true], [true, true]);
    // What can't be read, a rule for a destination that isn't there, and what only a start takes.
    for (piece, by, words) in [
        ("\"rules\"", "\"ruls\"", "unknown field 'ruls', did you mean 'rules'?"),
        ("\"keys\":", "\"to\": [\"c2\"], \"keys\":", "names 'c2', which is no destination"),
        (
            "\"server_id\": 4242",
            "\"server_id\": 4243",
            "SIGHUP: sources: a change there takes a restart",
        ),
    ] {
        shop.reconfigure(piece, by);
        hear(&shop, &daemon, words);
        within(20, "it is told", || shop.metric("config_refused") == Some(1));
        shop.reconfigure(by, piece);
        changes([false, true], [true, true]);
    }
    // A destination more, a key more; then the first destination goes.
    shop.reconfigure("\"user:{id}\"", "\"user:{id}\", \"card:{id}\"");
    shop.reconfigure("\"destinations\": {", &format!("\"destinations\": {{{c2}, "));
    hear(&shop, &daemon, "rules 1, destinations 2, of which 1 are new or changed");
    within(20, "it is good", || shop.metric("config_refused") == Some(0));
    within(20, "the rules hold", || {
        shop.metric("connects_total") == Some(2) && shop.metric("reading") == Some(1)
    });
    changes([false, false], [false, false]);
    shop.reconfigure(&format!(", {}", shop.config_of("c1")), "");
    hear(&shop, &daemon, "rules 1, destinations 1, of which 0 are new or changed");
    changes([true, false], [true, false]);
    within(20, "its position is kept no more", || {
        !shop.asks("positions").1.contains("destination c1")
    });
    stop(&mut daemon);
}
