//! `guira invalidate replay` sends again what the journal keeps, behind real databases and in front of real clusters.

use guira_tests::client::Client;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::postgres::Postgres;
use guira_tests::shop::{Database, Shop, stop};

#[test]
fn what_mariadb_changed_is_sent_again_from_a_position_or_a_time() {
    replays::<MariaDb>("shop");
}

#[test]
fn what_postgresql_changed_is_sent_again_from_a_position_or_a_time() {
    replays::<Postgres>("public");
}

#[test]
fn what_mysql_changed_is_sent_again_from_a_position_or_a_time() {
    if mysql::is_there() {
        replays::<MySql>("shop");
    }
}

fn replays<D: Database>(schema: &str) {
    let tables = "CREATE TABLE users (id INT PRIMARY KEY); CREATE TABLE pages (id INT PRIMARY KEY)";
    let rules = format!(
        r#"{{"table": "{schema}.users", "keys": ["user:{{id}}"]}},
           {{"table": "{schema}.pages", "keys": ["page:{{id}}"], "to": ["c1"], "on_truncate": "flush"}}"#
    );
    let shop: Shop<D> = Shop::new(2, tables, &rules, true, "");
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let mut daemon = shop.daemon();
    sql.ask(&format!("INSERT INTO {schema}.users VALUES (1)"));
    shop.catch_up(&mut sql);
    let first = D::end(&mut sql);
    sql.ask(&format!("INSERT INTO {schema}.users VALUES (2)"));
    sql.ask(&format!(
        "INSERT INTO {schema}.users VALUES (30); INSERT INTO {schema}.pages VALUES (4)"
    ));
    shop.catch_up(&mut sql);
    // All have all of it, and the journal keeps it.
    let replay = |clients: &mut Vec<Client>, more: &[&str]| -> (Option<i32>, String, String) {
        let keys = ["user:1", "user:2", "user:30", "page:4", "any"];
        for client in clients.iter_mut() {
            keys.iter().for_each(|key| drop(client.set(key, b"v")));
        }
        let (code, told) = shop.asks_with("replay", more);
        let mut gone = Vec::new();
        for (number, client) in (1..).zip(clients) {
            let missing = keys.iter().filter(|key| client.get(key).is_none());
            gone.extend(missing.map(|key| format!("{key}@{number}")));
        }
        (code, gone.join(" "), told)
    };
    let after = ["--from-position", &*first];
    let dry = [&after[..], &["--dry-run"]].concat();
    let (code, gone, told) = replay(&mut clients, &dry);
    assert_eq!((code, &*gone), (Some(0), ""), "{told}");
    for words in [
        "user:2: c1 delete",
        "user:2: c2 delete",
        "page:4: c1 delete",
        "5 deletes and 0 flushes of 3 entries would be sent",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("user:1:") && !told.contains("page:4: c2"), "{told}");
    for (more, expected) in [
        (&[][..], "user:2@1 user:30@1 page:4@1 user:2@2 user:30@2"),
        (&["--to", "c2"], "user:2@2 user:30@2"),
        (&["--match", "user:3", "--rate", "1000"], "user:30@1 user:30@2"),
        (&["--until", "5m"], ""),
    ] {
        let (code, gone, told) = replay(&mut clients, &[&after[..], more].concat());
        assert_eq!((code, &*gone), (Some(0), expected), "{more:?}: {told}");
    }
    // Older than the journal: what it has is sent, and what it lacks is told.
    let all = "user:1@1 user:2@1 user:30@1 page:4@1 user:1@2 user:2@2 user:30@2";
    let (code, gone, told) = replay(&mut clients, &["--from-time", "2h"]);
    assert_eq!((code, &*gone), (Some(3), all), "{told}");
    assert!(told.contains("doesn't reach back that far: its oldest entry is of 20"), "{told}");
    sql.ask(&format!("TRUNCATE TABLE {schema}.pages"));
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    // Without a daemon, too. A flush goes with what it was for, not with keys that are looked for.
    let (code, gone, told) = replay(&mut clients, &after);
    let flushed = "user:1@1 user:2@1 user:30@1 page:4@1 any@1 user:2@2 user:30@2";
    assert_eq!((code, &*gone), (Some(0), flushed), "{told}");
    let (code, gone, told) = replay(&mut clients, &[&after[..], &["--match", "user:3"]].concat());
    assert_eq!((code, &*gone), (Some(0), "user:30@1 user:30@2"), "{told}");
    mistakes(&shop, &after);
}

fn mistakes<D: Database>(shop: &Shop<D>, after: &[&str]) {
    let others = ["0-1-5", "0/5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"];
    let form = |position: &str| position.find(['/', ':']).map(|at| position.as_bytes()[at]);
    for other in others.into_iter().filter(|other| form(other) != form(after[1])) {
        let (code, told) = shop.asks_with("replay", &["--from-position", other]);
        let words = "is another database's position";
        assert!(code == Some(2) && told.contains(words), "{other}: {code:?} {told}");
    }
    for (more, code, words) in [
        (&[][..], 1, "--from-time or --from-position is needed"),
        (&["--from-position", "x"][..], 1, "is no position"),
        (&["--from-time", "yesterday"], 1, "'yesterday' is no time"),
        (&["--from-time", "1h", "--to", "c3"], 1, "'c3' is no destination, did you mean"),
        (&["--from-time", "1h", "--source", "x"], 1, "'x' is no source"),
    ] {
        let (told_code, told) = shop.asks_with("replay", more);
        assert!(told_code == Some(code) && told.contains(words), "{more:?}: {told_code:?} {told}");
    }
    let router = format!("127.0.0.1:{}", shop.clusters[1].router_port);
    shop.reconfigure(&router, "127.0.0.1:1");
    let (code, told) = shop.asks_with("replay", after);
    assert!(code == Some(2) && told.contains("destination c2: router 127.0.0.1:1:"), "{told}");
}
