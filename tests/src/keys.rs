//! Which keys must go at which change, whichever of MariaDB and MySQL it is: their SQL and their logs are nearly the same.

use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::server::{Running, eventually};
use crate::shop::{Database, Shop};
use crate::sql::Sql;

/// At which clusters a key is cached.
pub fn is_there(clients: &mut [Client], key: &str) -> Vec<bool> {
    clients.iter_mut().map(|client| client.get(key).is_some()).collect()
}

/// Keys of rules, comments and the outbox go, in every cluster, and no other.
///
/// # Panics
/// If one doesn't, or another does.
pub fn go_in_every_cluster<D: Database>() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, mail VARCHAR(90), g INT); \
                  CREATE TABLE other (id INT PRIMARY KEY); \
                  CREATE TABLE mcinv (k VARCHAR(250) NOT NULL, opts VARCHAR(250)) ENGINE = InnoDB; \
                  INSERT INTO users VALUES (1, 'Ann', 1), (2, 'Bob', 1)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}", "mail:{mail|lower}"]},
                   {"table": "shop.users", "on": ["delete"], "keys": ["group:{old.g}"], "to": ["c2"],
                    "on_truncate": ["users"]}"#;
    let more = r#", "outbox": "shop.mcinv", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::<D>::new(2, schema, rules, true, more);
    let (is_good, words) = shop.asks("check");
    assert!(is_good, "{words}");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    sql.ask("USE shop");
    for (statements, gone) in [
        ("UPDATE users SET mail = 'Anne' WHERE id = 1", &["user:1", "mail:ann", "mail:anne"][..]),
        ("INSERT INTO users VALUES (3, NULL, 2)", &["user:3"]),
        ("BEGIN; DELETE FROM users WHERE id = 2; COMMIT", &["user:2", "mail:bob"]),
        ("BEGIN; UPDATE users SET g = 7 WHERE id = 1; ROLLBACK", &[]),
        ("/* mcinv:page:1,page:%32 */ INSERT INTO other VALUES (1)", &["page:1", "page:2"]),
        ("INSERT INTO other VALUES (2) /* mcinv:page:3 */", &["page:3"]),
        ("INSERT INTO mcinv (k) VALUES ('page:4'), ('secret:1')", &["page:4"]),
        ("INSERT INTO other VALUES (3)", &[]),
        (
            "XA START 'x'; UPDATE users SET g = 8 WHERE id = 1; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
            &["user:1", "mail:anne"],
        ),
        (
            "XA START 'y'; UPDATE users SET g = 9 WHERE id = 3; XA END 'y'; XA PREPARE 'y'; XA ROLLBACK 'y'",
            &[],
        ),
    ] {
        let all = [
            "user:1",
            "user:2",
            "user:3",
            "mail:ann",
            "mail:anne",
            "mail:bob",
            "page:1",
            "page:2",
            "page:3",
            "page:4",
            "secret:1",
        ];
        for client in &mut clients {
            all.iter().for_each(|key| drop(client.set(key, b"v")));
        }
        sql.ask(statements);
        shop.catch_up(&mut sql);
        for key in all {
            let expected = !gone.contains(&key);
            assert_eq!(
                is_there(&mut clients, key),
                [expected; 2],
                "{statements}: {key}: {}",
                shop.said()
            );
        }
    }
    answers_without_keys(&shop, &mut sql, &mut clients);
}

/// A rule for one destination, a TRUNCATE, a statement without rows: what has no key is counted.
fn answers_without_keys<D: Database>(shop: &Shop<D>, sql: &mut Sql, clients: &mut [Client]) {
    for key in ["group:1", "group:2", "users"] {
        clients.iter_mut().for_each(|client| drop(client.set(key, b"v")));
    }
    sql.ask("DELETE FROM users WHERE id = 3");
    shop.catch_up(sql);
    assert_eq!(is_there(clients, "group:2"), [true, false], "only at c2");
    assert_eq!(shop.metric("unknown_total"), Some(0));
    sql.ask("TRUNCATE TABLE users");
    shop.catch_up(sql);
    assert_eq!(is_there(clients, "users"), [true, false]);
    assert_eq!(shop.metric("unknown_total"), Some(1), "the first rule has no answer");
    assert_eq!(shop.metric("keys_refused_total"), Some(1), "secret: is no prefix");
    sql.ask("SET SESSION binlog_format = STATEMENT; INSERT INTO users VALUES (9, 'x', 1)");
    shop.catch_up(sql);
    assert_eq!(shop.metric("unknown_total"), Some(2));
}

/// Values of all types have the text that SQL shows.
///
/// # Panics
/// If one has another.
pub fn have_the_text_that_sql_shows<D: Database>() {
    let columns = [
        ("a", "TINYINT", "-5"),
        ("b", "INT UNSIGNED", "4000000000"),
        ("c", "BIGINT", "-9223372036854775808"),
        ("d", "MEDIUMINT UNSIGNED", "16777215"),
        ("e", "DECIMAL(20,3)", "-12345678901.250"),
        ("f", "DECIMAL(9,9)", "0.000000001"),
        ("g", "ENUM('x','y')", "'y'"),
        ("h", "SET('p','q','r')", "'p,r'"),
        ("i", "DATE", "'2026-02-28'"),
        ("j", "DATETIME(3)", "'2026-02-28T01:02:03.045'"),
        ("l", "TIME(2)", "'-101:02:03.50'"),
        ("m", "YEAR", "2031"),
        ("n", "CHAR(200) CHARACTER SET utf8mb4", "'é-x'"),
        ("o", "TEXT", "'text'"),
        ("p", "BLOB", "'blob'"),
        ("q", "DOUBLE", "1.25"),
        ("r", "SMALLINT UNSIGNED", "65535"),
        ("s", "VARCHAR(300)", "'long'"),
        ("t", "BIT(12)", "b'100000000001'"),
        ("u", "TIMESTAMP(1) NULL", "'2026-07-01 10:20:30.4'"),
    ];
    let schema =
        |columns: &str| format!("SET GLOBAL time_zone = '+00:00'; CREATE TABLE types ({columns})");
    let session = "USE shop; SET time_zone = '+00:00'; SET NAMES utf8mb4";
    let shown = |name: &str| if name == "t" { "t + 0".to_owned() } else { name.to_owned() };
    are_what_sql_shows::<D>("shop.types", &columns, schema, session, shown);
}

/// Keys with the values of a row are written with the text that SQL shows. `columns` have a name, a type and a value
/// each. `schema` makes the table `types` of their definitions, `session` makes SQL show values as rules do, `shown` is
/// what is selected of a column.
///
/// # Panics
/// If one is written otherwise.
pub fn are_what_sql_shows<D: Database>(
    table: &str,
    columns: &[(&str, &str, &str)],
    schema: impl FnOnce(&str) -> String,
    session: &str,
    shown: fn(&str) -> String,
) {
    let definition: Vec<String> =
        columns.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let keys: Vec<String> =
        columns.iter().map(|(name, ..)| format!("\"{name}:{{{name}|percent}}\"")).collect();
    let rules = format!("{{\"table\": \"{table}\", \"keys\": [{}]}}", keys.join(", "));
    let shop = Shop::<D>::new(1, &schema(&definition.join(", ")), &rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut client = shop.clusters[0].client();
    let values: Vec<&str> = columns.iter().map(|(.., value)| *value).collect();
    let insert = format!("INSERT INTO types VALUES ({})", values.join(", "));
    // The first row says what SQL shows; the second one's keys must be those.
    sql.ask(&format!("{session}; {insert}"));
    shop.catch_up(&mut sql);
    let selected: Vec<String> = columns.iter().map(|(name, ..)| shown(name)).collect();
    let row = sql.ask(&format!("SELECT {} FROM types", selected.join(", "))).concat();
    let texts: Vec<&str> = row.split('\t').collect();
    assert_eq!(texts.len(), columns.len(), "{row}");
    let percent = |text: &str| -> String {
        let encoded = |byte: u8| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        text.bytes().map(encoded).collect()
    };
    let keys: Vec<String> = columns
        .iter()
        .zip(&texts)
        .map(|((name, ..), text)| format!("{name}:{}", percent(text)))
        .collect();
    keys.iter().for_each(|key| drop(client.set(key, b"v")));
    client.set("a:%2D6", b"another row's");
    sql.ask(&insert);
    shop.catch_up(&mut sql);
    let left: Vec<&String> = keys.iter().filter(|key| client.get(key).is_some()).collect();
    assert!(left.is_empty(), "{left:?} of {row}");
    assert!(client.get("a:%2D6").is_some());
}

/// A database sends a transaction that waits for a replica's word; readers see the old row meanwhile. No delete comes before the change
/// can be read. `hold` has commits wait for some seconds, `meanwhile` is done in them.
///
/// # Panics
/// If one comes.
pub fn wait_until_the_change_can_be_read<D: Database>(
    hold: &str,
    meanwhile: impl FnOnce(&Shop<D>, &mut Running),
) {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 1)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::<D>::new(1, schema, rules, true, "");
    let mut daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut client = shop.clusters[0].client();
    sql.ask(hold);
    let mut writer = shop.sql();
    let before = shop.metric("rows_total").expect("a test can have it");
    writer.begin("UPDATE shop.users SET v = 2 WHERE id = 1");
    eventually("the log has the change", || {
        shop.metric("rows_total").expect("a test can have it") > before
    });
    // A reader that has no lease misses, reads the old row and puts it into the cache.
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["1"], "the commit is held");
    client.set("user:1", b"1");
    thread::sleep(Duration::from_millis(1500));
    meanwhile(&shop, &mut daemon);
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["1"], "the commit is held");
    assert_eq!(client.get("user:1").as_deref(), Some(&b"1"[..]), "a delete came too early");
    assert_eq!(shop.metric("deletes_total"), Some(0));
    eventually("the delete comes after the commit", || client.get("user:1").is_none());
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["2"]);
}
