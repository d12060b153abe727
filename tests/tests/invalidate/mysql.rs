//! `guira invalidate` behind a real MySQL 9: what it has in common with MariaDB, and what it has of its own. A machine that can't get
//! one says so: `SKIPPED mysql9`.

use std::process::Command;

use guira_tests::keys::{self, is_there};
use guira_tests::mysql::{self, MySql};
use guira_tests::server::{eventually, own_directory, send_signal, within, workspace};
use guira_tests::shop::{ROWS, stop};
use rustix::process::Signal;

type Shop = guira_tests::shop::Shop<MySql>;

#[test]
fn keys_of_rules_comments_and_the_outbox_go_in_every_cluster() {
    if mysql::is_there() {
        keys::go_in_every_cluster::<MySql>();
    }
}

#[test]
fn values_of_all_types_have_the_text_that_sql_shows() {
    if mysql::is_there() {
        keys::have_the_text_that_sql_shows::<MySql>();
    }
}

/// A daemon that starts meanwhile must not take what is held for what the database lost.
#[test]
fn no_delete_comes_before_the_change_can_be_read() {
    if !mysql::is_there() {
        return;
    }
    let hold = "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; \
                SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC; SET GLOBAL rpl_semi_sync_source_timeout = 8000; \
                SET GLOBAL rpl_semi_sync_source_wait_no_replica = 1; SET GLOBAL rpl_semi_sync_source_enabled = 1";
    keys::wait_until_the_change_can_be_read::<MySql>(hold, |shop, daemon| {
        send_signal(daemon.0.id(), Signal::KILL);
        *daemon = shop.daemon();
    });
}

#[test]
fn no_stale_value_stays_over_kills_of_daemon_and_database() {
    if !mysql::is_there() {
        return;
    }
    let schema = format!(
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); SET cte_max_recursion_depth = {ROWS}; INSERT INTO users \
         WITH RECURSIVE seq (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM seq WHERE n < {}) SELECT n, 0 FROM seq",
        ROWS - 1
    );
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::new(2, &schema, rules, false, "");
    shop.stays_fresh_over_kills("shop.users");
}

#[test]
fn keys_of_tagged_compressed_and_partial_transactions_go() {
    if !mysql::is_there() {
        return;
    }
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v TEXT, j JSON, k JSON, w VECTOR(2)); \
                  INSERT INTO users VALUES (1, 'a', JSON_OBJECT('a', REPEAT('x', 999), 'b', 1), JSON_OBJECT('a', 1), NULL)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"], "on_truncate": ["users"]}"#;
    let more = r#", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(1, schema, rules, true, more);
    let daemon = shop.daemon();
    let mut clients = [shop.clusters[0].client()];
    let mut sql = shop.sql();
    sql.ask("USE shop; SET SESSION binlog_row_value_options = PARTIAL_JSON");
    let statements = [
        ("SET GTID_NEXT = 'AUTOMATIC:audit'; INSERT INTO users (id) VALUES (2)", "user:2"),
        (
            "SET SESSION binlog_transaction_compression = ON; INSERT INTO users (id, v) VALUES (3, REPEAT('a', 60000))",
            "user:3",
        ),
        ("DELETE FROM users WHERE id = 3 /* mcinv:page:1 */", "page:1"),
        (
            "SET GTID_NEXT = 'AUTOMATIC'; UPDATE users SET j = JSON_SET(j, '$.b', 2) WHERE id = 1",
            "user:1",
        ),
        (
            "SET SESSION binlog_transaction_compression = OFF; UPDATE users SET j = JSON_SET(j, '$.b', 3), k = JSON_SET(k, '$.a', 2) WHERE id = 1",
            "user:1",
        ),
        ("UPDATE users SET w = TO_VECTOR('[1,2]') WHERE id = 2", "user:2"),
        (
            "XA START 'z'; UPDATE users SET v = 'b' WHERE id = 1; XA END 'z'; XA COMMIT 'z' ONE PHASE",
            "user:1",
        ),
        ("SET GTID_NEXT = 'AUTOMATIC:other'; TRUNCATE TABLE users", "users"),
    ];
    for (statement, gone) in statements {
        let all = ["user:1", "user:2", "user:3", "page:1", "users"];
        all.iter().for_each(|key| drop(clients[0].set(key, b"v")));
        sql.ask(statement);
        shop.catch_up(&mut sql);
        for key in all {
            let is_kept = key != gone && !(gone == "page:1" && key == "user:3");
            let said = shop.said();
            assert_eq!(is_there(&mut clients, key), [is_kept], "{statement}: {key}: {said}");
        }
    }
    let kinds = sql.ask("SHOW BINLOG EVENTS").join("\n");
    for kind in ["Gtid_tagged", "Transaction_payload", "Update_rows_partial"] {
        assert!(kinds.contains(kind), "the log has none: {kinds}");
    }
    // A position with tags is asked for again.
    drop(daemon);
    clients[0].set("user:7", b"v");
    sql.ask("INSERT INTO users (id) VALUES (7)");
    let _daemon = shop.daemon();
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:7"), [false], "{}", shop.said());
    let (_, told) = shop.asks("positions");
    assert!(told.contains(":audit:1-3") && told.contains(":other:1-2"), "{told}");
}

#[test]
fn a_gap_and_what_must_be_set_end_the_daemon_with_what_mends_it() {
    if !mysql::is_there() {
        return;
    }
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.sql();
    let mut daemon = shop.daemon();
    sql.ask("INSERT INTO shop.users VALUES (1)");
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    for (wrong, right, words) in [
        (
            "binlog_row_metadata = MINIMAL",
            "binlog_row_metadata = FULL",
            "SET PERSIST binlog_row_metadata = FULL",
        ),
        (
            "binlog_row_image = MINIMAL",
            "binlog_row_image = FULL",
            "SET PERSIST binlog_row_image = FULL",
        ),
        ("binlog_format = STATEMENT", "binlog_format = ROW", "SET PERSIST binlog_format = ROW"),
        ("gtid_mode = ON_PERMISSIVE", "gtid_mode = ON", "gtid_mode = OFF_PERMISSIVE"),
    ] {
        sql.ask(&format!("SET GLOBAL {wrong}"));
        shop.ends(3, words);
        let (is_good, told) = shop.asks("check");
        assert!(!is_good && told.contains(words), "{told}");
        sql.ask(&format!("SET GLOBAL {right}"));
    }
    sql.ask("INSERT INTO shop.users VALUES (2); FLUSH BINARY LOGS; INSERT INTO shop.users VALUES (3); FLUSH BINARY LOGS");
    let last = sql.ask("SHOW BINARY LOG STATUS").concat();
    let last = last.split('\t').next().expect("a test can have it").to_owned();
    sql.ask(&format!("PURGE BINARY LOGS TO '{last}'"));
    shop.ends(3, "has purged what wasn't read");
    let (code, told) = shop.asks_with("check", &[]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("has purged what wasn't read"), "{told}");
    sql.ask("RESET BINARY LOGS AND GTIDS");
    let (code, told) = shop.asks_with("check", &[]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("its log was reset"), "{told}");
    shop.ends(3, "its log was reset (RESET MASTER)");
    // The answer `now` goes on from the new history.
    shop.reconfigure("\"server_id\"", "\"on_gap\": \"now\", \"server_id\"");
    let _daemon = shop.daemon();
    let mut clients = [shop.clusters[0].client()];
    clients[0].set("user:9", b"v");
    sql.ask("INSERT INTO shop.users VALUES (9)");
    // The stored position has the numbers of the new history, too, until it is replaced.
    eventually("its key goes", || is_there(&mut clients, "user:9") == [false]);
}

#[test]
fn check_tells_of_rights_columns_and_cascades_with_the_sql_that_mends_them() {
    if !mysql::is_there() {
        return;
    }
    let schema = "CREATE TABLE users (id INT PRIMARY KEY); CREATE TABLE carts (id INT PRIMARY KEY, u INT, \
                  CONSTRAINT of_user FOREIGN KEY (u) REFERENCES users (id) ON DELETE CASCADE)";
    let rules = r#"{"table": "shop.carts", "keys": ["cart:{id}"]}"#;
    let more = r#", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(1, schema, rules, true, more);
    let mut sql = shop.sql();
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "since 9.6 cascades are in the log: {told}");
    let mut clients = [shop.clusters[0].client()];
    let daemon = shop.daemon();
    sql.ask("INSERT INTO shop.users VALUES (1); INSERT INTO shop.carts VALUES (5, 1)");
    shop.catch_up(&mut sql);
    clients[0].set("cart:5", b"v");
    sql.ask("DELETE FROM shop.users");
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "cart:5"), [false], "{}", shop.said());
    drop(daemon);
    shop.reconfigure("cart:{id}", "cart:{id}:{gone}");
    sql.ask("SET GLOBAL binlog_rows_query_log_events = OFF; REVOKE REPLICATION SLAVE ON *.* FROM guira@'%'");
    let (is_good, told) = shop.asks("check");
    assert!(!is_good);
    for words in [
        "no column 'gone'",
        "SET PERSIST binlog_rows_query_log_events = ON",
        "GRANT REPLICATION SLAVE ON *.* TO 'guira'@'%'",
    ] {
        assert!(told.contains(words), "{told}");
    }
    sql.ask("REVOKE REFERENCES ON shop.* FROM guira@'%'");
    let (_, told) = shop.asks("check");
    assert!(told.contains("GRANT REFERENCES ON `shop`.`carts` TO 'guira'@'%'"), "{told}");
}

#[test]
fn a_password_goes_to_a_server_that_forgot_its_proof_by_a_socket_only() {
    if !mysql::is_there() {
        return;
    }
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, "CREATE TABLE users (id INT PRIMARY KEY)", rules, true, "");
    let (socket, port) = (shop.database.dir.join("s"), shop.database.port);
    let (socket, port) = (socket.display().to_string(), format!("127.0.0.1:{port}"));
    shop.reconfigure(&socket, &port);
    let (is_good, told) = shop.asks("check");
    assert!(!is_good && told.contains("Name its unix socket in hosts"), "{told}");
    shop.reconfigure(&port, &socket);
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "the socket is private: {told}");
    shop.reconfigure(&socket, &port);
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "the server knows it now: {told}");
    std::fs::write(shop.database.dir.join("password"), "other").expect("a test can have it");
    let (is_good, told) = shop.asks("check");
    assert!(!is_good && told.contains("the password is wrong, or"), "{told}");
    shop.reconfigure(&port, &socket);
    let (is_good, told) = shop.asks("check");
    assert!(!is_good && told.contains("Access denied"), "{told}");
}

#[test]
fn a_machine_that_cannot_get_it_is_told_why() {
    let dir = own_directory();
    // A machine that has no apt.
    let programs = dir.join("programs");
    std::fs::create_dir(&programs).expect("a test can have it");
    for name in ["bash", "env", "flock", "mkdir", "realpath", "timeout"] {
        let from = format!("/usr/bin/{name}");
        std::os::unix::fs::symlink(from, programs.join(name)).expect("a test can have it");
    }
    let mut get = Command::new(workspace().join("tests/databases/get"));
    let told = get.arg("mysql9").arg(dir.join("mysql9")).env("PATH", &programs).output();
    let told = told.expect("it runs");
    let _ = std::fs::remove_dir_all(&dir);
    let words = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told.status.code(), Some(1), "{words}");
    assert!(words.trim_end().ends_with("this is no Debian: apt-get is missing"), "{words}");
}

#[test]
fn after_a_gap_it_goes_on_from_now_and_flushes_all_if_it_must() {
    if !mysql::is_there() {
        return;
    }
    let schema = "CREATE TABLE users (id INT PRIMARY KEY); INSERT INTO users VALUES (1), (2)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(2, schema, rules, true, "");
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let mut daemon = shop.daemon();
    sql.ask("DELETE FROM shop.users WHERE id = 1");
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    sql.ask("INSERT INTO shop.users VALUES (3)");
    sql.ask("FLUSH BINARY LOGS");
    let last = sql.ask("SHOW BINARY LOG STATUS").concat();
    let last = last.split('\t').next().expect("a test can have it");
    within(30, "it is purged", || {
        sql.ask(&format!("PURGE BINARY LOGS TO '{last}'"));
        sql.ask("SHOW BINARY LOGS").len() == 1
    });
    shop.ends(3, "its log doesn't go on from");
    for (answer, is_kept) in [("flush", false), ("no gap", true)] {
        if is_kept {
            stop(&mut daemon);
        } else {
            shop.reconfigure("\"server_id\"", "\"on_gap\": \"flush\", \"server_id\"");
        }
        for key in ["user:3", "other"] {
            clients.iter_mut().for_each(|client| drop(client.set(key, b"v")));
        }
        daemon = shop.daemon();
        shop.catch_up(&mut sql);
        for key in ["user:3", "other"] {
            assert_eq!(is_there(&mut clients, key), [is_kept; 2], "{answer}: {}", shop.said());
        }
        clients.iter_mut().for_each(|client| drop(client.set("user:2", b"v")));
        sql.ask("DELETE FROM shop.users WHERE id = 2; INSERT INTO shop.users VALUES (2)");
        shop.catch_up(&mut sql);
        assert_eq!(is_there(&mut clients, "user:2"), [false; 2], "{answer}");
    }
}
