//! Changes whose keys can't be known, where they are to flush caches: nothing that was cached before stays.

use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::postgres::Postgres;
use guira_tests::server::eventually;
use guira_tests::shop::{Database, Shop, stop};

#[test]
fn rows_that_mariadb_logs_as_a_statement_and_a_truncate_flush_all_clusters() {
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}, {"table": "shop.pages", "keys": ["page:{id}"], "to": ["c1"]}"#;
    unknown_changes_flush::<MariaDb>(
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); CREATE TABLE pages (id INT PRIMARY KEY)",
        rules,
        &[
            (
                "SET SESSION binlog_format = STATEMENT; INSERT INTO shop.users VALUES (1, 1)",
                [false; 2],
            ),
            // Its rule says whom it is about.
            ("TRUNCATE TABLE shop.pages", [false, true]),
        ],
    );
}

#[test]
fn rows_without_their_old_values_flush_all_clusters_of_a_postgresql() {
    let rules = r#"{"table": "public.users", "keys": ["name:{v}"]}"#;
    unknown_changes_flush::<Postgres>(
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 1)",
        rules,
        &[("UPDATE users SET v = 2 WHERE id = 1", [false; 2])],
    );
}

/// Each statement leaves a key that no rule names in the clusters that are said.
fn unknown_changes_flush<D: Database>(schema: &str, rules: &str, changes: &[(&str, [bool; 2])]) {
    let shop = Shop::<D>::new(2, schema, rules, true, r#", "on_unknown": "flush""#);
    let (is_good, words) = shop.asks("check");
    assert!(is_good || words.contains("REPLICA IDENTITY"), "{words}");
    let mut daemon = shop.daemon();
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    for (statement, there) in changes {
        clients.iter_mut().for_each(|client| drop(client.set("any", b"v")));
        sql.ask(statement);
        shop.catch_up(&mut sql);
        eventually("caches are flushed", || is_there(&mut clients, "any") == *there);
    }
    assert_eq!(shop.metric("unknown_total"), Some(changes.len() as u64), "{}", shop.said());
    assert_eq!(shop.metric("flushes_wanted_total"), Some(changes.len() as u64));
    let said = shop.said();
    let place = |line: &str| {
        let (before, _) = line.split_once(": its keys are unknown")?;
        let place = before.split_once(", near ")?.1;
        place.contains([':', '/']).then(|| place.ends_with(|it: char| it.is_ascii_hexdigit()))
    };
    assert!(said.lines().filter_map(place).any(|it| it), "the log tells no place: {said}");
    stop(&mut daemon);
}
