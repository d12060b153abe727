//! `guira invalidate` and events of many MiB of real databases: their keys go, and the daemon's memory doesn't grow by them.

use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::server::peak_bytes_of;
use guira_tests::shop::{Database, Shop};

const ROW_BYTES: usize = 12_000_000;
/// An idle daemon has 19 MiB. An event of an update has two images of a row: with one in memory it would be 42. Inflating
/// takes up to 16 more, the more the busier the machine is.
const PEAK_MAX: u64 = 40 << 20;
const NO_KEYS: [&str; 4] = ["user:9", "user:8", "page:9", "page:8"];

/// Transactions with large rows, each with the keys that go. `compress` is said in the session first.
fn keys_go<D: Database>(compress: &str, kinds: &[&str]) {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), body LONGTEXT); \
                  CREATE TABLE others (id INT PRIMARY KEY, body LONGTEXT)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}", "name:{name}"]}"#;
    let more = r#", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::<D>::new(1, schema, rules, true, more);
    let daemon = shop.daemon();
    let mut clients = [shop.clusters[0].client()];
    // That the log can be shown.
    shop.sql().ask(&format!("SET GLOBAL max_allowed_packet = 1073741824; {compress}"));
    // A session takes settings when it begins.
    let mut sql = shop.sql();
    sql.ask("USE shop");
    // Compressed, it is still of many packets.
    let text = hex(ROW_BYTES);
    let statements = [
        (
            format!(
                "BEGIN; INSERT INTO users VALUES (1, 'a', REPEAT('a', {ROW_BYTES})), (2, 'b', NULL); \
                 INSERT INTO others VALUES (1, REPEAT('b', {ROW_BYTES})); UPDATE users SET body = CONCAT(body, 'b') WHERE id = 1; \
                 INSERT INTO users VALUES (3, 'c', ''); COMMIT"
            ),
            &["user:1", "name:a", "user:2", "name:b", "user:3", "name:c"][..],
        ),
        (format!("INSERT INTO users VALUES (4, 'd', '{text}')"), &["user:4", "name:d"]),
        ("UPDATE users SET name = 'e'".to_owned(), &["user:1", "name:a", "user:4", "name:e"]),
        ("DELETE FROM users WHERE id = 4".to_owned(), &["user:4", "name:e"]),
        (
            format!(
                "SET SESSION binlog_format = STATEMENT; INSERT INTO others VALUES (2, '{text}') /* mcinv:page:1 */"
            ),
            &["page:1"],
        ),
    ];
    for (number, (statement, gone)) in statements.into_iter().enumerate() {
        let shown: String = statement.chars().take(60).collect();
        gone.iter().chain(&NO_KEYS).for_each(|key| drop(clients[0].set(key, b"v")));
        sql.ask(&statement);
        shop.catch_up(&mut sql);
        // The others' texts are longer than what the client takes.
        if number == 0 {
            let logged = sql.ask("SHOW BINLOG EVENTS").join("\n");
            kinds.iter().for_each(|kind| assert!(logged.contains(kind), "the log has no {kind}"));
        }
        for key in gone {
            assert_eq!(is_there(&mut clients, key), [false], "{shown}: {key}: {}", shop.said());
        }
        for key in NO_KEYS {
            assert_eq!(is_there(&mut clients, key), [true], "{shown}: {key}");
        }
    }
    let peak = peak_bytes_of(daemon.0.id()).expect("it runs");
    println!("{compress}: {} KiB", peak >> 10);
    assert!(peak < PEAK_MAX, "it took {peak} bytes");
}

/// So many digits without order.
fn hex(count: usize) -> String {
    let mut number = 7_u64;
    let next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b"0123456789abcdef"[usize::try_from(number >> 60).unwrap_or(0)])
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn keys_of_mariadbs_large_rows_go_and_take_no_memory() {
    keys_go::<MariaDb>("", &["Write_rows", "Update_rows"]);
    let compress = "SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10";
    keys_go::<MariaDb>(compress, &["Write_rows_compressed", "Update_rows_compressed"]);
}

#[test]
fn keys_of_mysqls_large_rows_go_and_take_no_memory() {
    if !mysql::is_there() {
        return;
    }
    keys_go::<MySql>("", &["Write_rows", "Update_rows"]);
    keys_go::<MySql>("SET GLOBAL binlog_transaction_compression = ON", &["Transaction_payload"]);
}
