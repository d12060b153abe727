//! `guira invalidate` behind a real MariaDB, in front of real routers and servers: which keys go, when, and that none is lost
//! when the daemon or the database is killed.

use std::thread;
use std::time::Duration;

use guira_tests::client::Client;
use guira_tests::keys::{self, is_there};
use guira_tests::mariadb::MariaDb;
use guira_tests::server::{eventually, send_signal, within};
use guira_tests::shop::{Database as _, ROWS, stop};
use guira_tests::sql::Sql;
use rustix::process::Signal;

type Shop = guira_tests::shop::Shop<MariaDb>;

#[test]
fn keys_of_rules_comments_and_the_outbox_go_in_every_cluster() {
    keys::go_in_every_cluster::<MariaDb>();
}

#[test]
fn values_of_all_types_have_the_text_that_sql_shows() {
    keys::have_the_text_that_sql_shows::<MariaDb>();
}

#[test]
fn no_delete_comes_before_the_change_can_be_read() {
    let hold = "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC; SET GLOBAL rpl_semi_sync_master_timeout = 4000; \
                SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1; SET GLOBAL rpl_semi_sync_master_enabled = 1";
    keys::wait_until_the_change_can_be_read::<MariaDb>(hold, |_, _| {});
}

/// Readers without leases fill caches, while rows change and daemon and database are killed. In the end no cached value is
/// older than its row.
#[test]
fn no_stale_value_stays_over_kills_of_daemon_and_database() {
    let schema = format!(
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users SELECT seq, 0 FROM seq_0_to_{}",
        ROWS - 1
    );
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::new(2, &schema, rules, false, "");
    shop.stays_fresh_over_kills("shop.users");
}

#[test]
fn a_gap_in_the_log_and_columns_without_names_end_the_daemon_with_their_codes() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.sql();
    let mut daemon = shop.daemon();
    sql.ask("INSERT INTO shop.users VALUES (1)");
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    sql.ask("INSERT INTO shop.users VALUES (2); FLUSH BINARY LOGS; INSERT INTO shop.users VALUES (3); FLUSH BINARY LOGS");
    sql.ask("SET GLOBAL binlog_row_metadata = NO_LOG");
    shop.ends(3, "SET GLOBAL binlog_row_metadata = FULL");
    sql.ask("SET GLOBAL binlog_row_metadata = FULL");
    let last = sql.ask("SHOW MASTER STATUS").concat();
    let last = last.split('\t').next().expect("a test can have it").to_owned();
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "{told}");
    sql.ask(&format!("PURGE BINARY LOGS TO '{last}'"));
    let (code, told) = shop.asks_with("check", &[]);
    assert_eq!(code, Some(3), "{told}");
    for words in [
        "its log doesn't go on from '0-1-",
        "remove db/position from the state folder",
        "or set \"on_gap\" to \"flush\" or \"now\"",
    ] {
        assert!(told.contains(words), "{told}");
    }
    shop.ends(3, "its log doesn't go on from");
    let (_, told) = shop.asks("positions");
    assert!(told.contains("source db: read up to '0-1-"), "{told}");
}

#[test]
fn keys_of_compressed_rows_and_statements_go() {
    let schema =
        "CREATE TABLE users (id INT PRIMARY KEY, v TEXT); INSERT INTO users VALUES (1, 'a')";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"], "on_truncate": ["users"]}"#;
    let more = r#", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(1, schema, rules, true, more);
    let mut sql = shop.sql();
    sql.ask("SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10");
    let _daemon = shop.daemon();
    let mut clients = [shop.clusters[0].client()];
    // A session takes the setting when it begins.
    let mut sql = shop.sql();
    sql.ask("USE shop");
    for (statement, gone) in [
        ("INSERT INTO users VALUES (2, REPEAT('a', 60000))", "user:2"),
        ("UPDATE users SET v = REPEAT('b', 5000) WHERE id = 1", "user:1"),
        ("DELETE FROM users WHERE id = 2", "user:2"),
        (
            "SET SESSION binlog_format = STATEMENT; \
             INSERT INTO users VALUES (3, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') /* mcinv:page:3 */",
            "page:3",
        ),
        (
            "TRUNCATE TABLE users /* aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa */",
            "users",
        ),
    ] {
        let all = ["user:1", "user:2", "user:3", "page:3", "users"];
        all.iter().for_each(|key| drop(clients[0].set(key, b"v")));
        sql.ask(statement);
        shop.catch_up(&mut sql);
        for key in all {
            assert_eq!(
                is_there(&mut clients, key),
                [key != gone],
                "{statement}: {key}: {}",
                shop.said()
            );
        }
    }
    let kinds = sql.ask("SHOW BINLOG EVENTS").join("\n");
    for kind in ["Write_rows_compressed", "Update_rows_compressed", "Delete_rows_compressed"] {
        assert!(kinds.contains(kind), "the log has none: {kinds}");
    }
    assert!(kinds.contains("Query_compressed"), "the log has none: {kinds}");
}

#[test]
fn an_event_that_it_cannot_read_ends_the_daemon_with_its_code() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v TEXT)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.sql();
    // Else the changed event's checksum is wrong, which is another mistake.
    sql.ask("SET GLOBAL binlog_checksum = NONE");
    let through = changed_on_its_way(shop.database.port, 23, 99);
    shop.reconfigure(&format!("127.0.0.1:{}", shop.database.port), &format!("127.0.0.1:{through}"));
    let mut daemon = shop.daemon();
    sql.ask("CREATE TABLE shop.others (id INT PRIMARY KEY)");
    shop.catch_up(&mut sql);
    sql.ask("INSERT INTO shop.users VALUES (1, 'a')");
    within(20, "it ends", || daemon.0.try_wait().is_ok_and(|it| it.is_some()));
    shop.ends(4, "an event of the unknown kind 99");
    let (_, told) = shop.asks("positions");
    assert!(told.contains("source db: read up to '0-1-"), "{told}");
}

/// A port that leads to the database, on the way from which events of a kind become ones of another.
fn changed_on_its_way(database: u16, kind: u8, other: u8) -> u16 {
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a test can have it");
    let port = listener.local_addr().expect("a test can have it").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", database)))
            else {
                return;
            };
            let (mut asks, mut asked) =
                (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
            thread::spawn(move || {
                let _ = std::io::copy(&mut asks, &mut asked);
                let _ = asked.shutdown(std::net::Shutdown::Both);
            });
            thread::spawn(move || change_events(server, client, kind, other));
        }
    });
    port
}

/// Hands packets on until one side ends.
fn change_events(
    mut from: std::net::TcpStream,
    mut to: std::net::TcpStream,
    kind: u8,
    other: u8,
) -> Option<()> {
    use std::io::{Read as _, Write as _};
    loop {
        let mut packet = vec![0; 4];
        from.read_exact(&mut packet).ok()?;
        let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
        (&mut from).take(length.into()).read_to_end(&mut packet).ok()?;
        // A zero, a time, the kind, the server, the event's size.
        let is_event = packet.len() > 23
            && packet[4] == 0
            && packet[14..18] == (length - 1).to_le_bytes()
            && packet[9] == kind;
        if is_event {
            packet[9] = other;
        }
        to.write_all(&packet).ok()?;
    }
}

/// What changed while the log couldn't be read stays as it was (`now`), or goes with all else that is cached (`flush`).
#[test]
fn after_a_gap_it_goes_on_from_now_and_flushes_all_if_it_must() {
    let schema =
        "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 1), (2, 1)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(2, schema, rules, true, r#", "on_gap": "now""#);
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let mut daemon = shop.daemon();
    sql.ask("UPDATE shop.users SET v = 2 WHERE id = 1");
    shop.catch_up(&mut sql);
    for (answer, is_kept) in [("now", true), ("flush", false)] {
        stop(&mut daemon);
        clients.iter_mut().for_each(|client| drop(client.set("user:1", b"v")));
        clients.iter_mut().for_each(|client| drop(client.set("other", b"v")));
        shop.reconfigure("\"now\"", &format!("\"{answer}\""));
        let (is_good, words) = shop.asks("check");
        assert!(is_good && !words.contains("doesn't go on"), "{words}");
        sql.ask("UPDATE shop.users SET v = v + 1 WHERE id = 1");
        purge(&mut sql);
        let (is_good, words) = shop.asks("check");
        assert!(is_good && words.contains("its log doesn't go on from the stored"), "{words}");
        daemon = shop.daemon();
        shop.catch_up(&mut sql);
        for key in ["user:1", "other"] {
            assert_eq!(is_there(&mut clients, key), [is_kept; 2], "{answer}: {}", shop.said());
        }
        assert_eq!(shop.metric("gaps_total"), Some(1), "{}", shop.said());
        assert_eq!(shop.metric("flushes_total"), Some(if is_kept { 0 } else { 2 }));
        // It goes on: a change after the gap is a delete.
        clients.iter_mut().for_each(|client| drop(client.set("user:2", b"v")));
        clients.iter_mut().for_each(|client| drop(client.set("other", b"v")));
        sql.ask("UPDATE shop.users SET v = v + 1 WHERE id = 2");
        shop.catch_up(&mut sql);
        assert_eq!(is_there(&mut clients, "user:2"), [false; 2]);
        assert_eq!(is_there(&mut clients, "other"), [true; 2]);
    }
    // The gap is over: a restart finds none, and flushes nothing.
    stop(&mut daemon);
    let _daemon = shop.daemon();
    shop.catch_up(&mut sql);
    assert_eq!((shop.metric("gaps_total"), shop.metric("flushes_total")), (Some(0), Some(0)));
    assert_eq!(is_there(&mut clients, "other"), [true; 2]);
}

/// What is in the log so far is gone.
fn purge(sql: &mut Sql) {
    sql.ask("FLUSH BINARY LOGS");
    let last = sql.ask("SHOW MASTER STATUS").concat();
    let last = last.split('\t').next().expect("a test can have it").to_owned();
    // A file stays while the last daemon's connection reads it, and until a checkpoint is beyond it.
    within(30, "it is purged", || {
        sql.ask(&format!("PURGE BINARY LOGS TO '{last}'"));
        sql.ask("SHOW BINARY LOGS").len() == 1
    });
}

/// What nobody but an operator mends has an exit code; a database that is away has none.
#[test]
fn what_somebody_must_mend_ends_it_and_signals_do_as_the_documents_say() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.sql();
    sql.ask("SET GLOBAL binlog_format = MIXED");
    shop.ends(3, "SET GLOBAL binlog_format = ROW");
    sql.ask("SET GLOBAL binlog_format = ROW");
    let password = shop.database.dir.join("password");
    std::fs::write(&password, "wrong").expect("a test can have it");
    shop.ends(3, "error 1045: Access denied");
    std::fs::write(&password, "secret").expect("a test can have it");
    sql.ask("REVOKE REPLICATION SLAVE ON *.* FROM guira@'127.0.0.1'");
    shop.ends(3, "REPLICATION SLAVE privilege");
    sql.ask("GRANT REPLICATION SLAVE ON *.* TO guira@'127.0.0.1'");
    let mut daemon = shop.daemon();
    // The state folder is this one's. Its port is the last thing that another one asks for.
    shop.ends(2, "another guira invalidate has it");
    let state = format!("{}/state", shop.database.dir.display());
    shop.reconfigure(&state, &format!("{state}2"));
    shop.ends(2, "another program has it");
    shop.reconfigure(&format!("{state}2"), &state);
    for signal in [Signal::HUP, Signal::USR2] {
        send_signal(daemon.0.id(), signal);
    }
    within(20, "it hears it", || shop.said().contains("SIGHUP: the configuration was read again"));
    sql.ask("INSERT INTO shop.users VALUES (1)");
    shop.catch_up(&mut sql);
    shop.database.kill();
    within(20, "it waits", || shop.said().contains("it is asked again"));
    send_signal(daemon.0.id(), Signal::USR1);
    let mut ended = None;
    within(20, "it ends", || {
        ended = daemon.0.try_wait().expect("a test can have it");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|it| it.code()), Some(0), "{}", shop.said());
    // It waits at its start, too.
    let before = shop.said().matches("it is asked again").count();
    let mut daemon = shop.begin();
    within(20, "it waits", || shop.said().matches("it is asked again").count() > before + 2);
    stop(&mut daemon);
    let (code, told) = shop.asks_with("check", &[]);
    assert!(code == Some(3) && told.contains("Connection refused"), "{code:?} {told}");
}

#[test]
fn a_rule_of_a_table_or_a_column_that_is_not_there_is_found_before_a_row_ends_the_daemon() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    assert_eq!(shop.asks_with("check", &[]).0, Some(0));
    let finds = |words: &str| {
        let (code, told) = shop.asks_with("check", &[]);
        assert!(code == Some(3) && told.contains(words), "{code:?} {told}");
    };
    shop.reconfigure("user:{id}", "user:{nick}");
    finds("shop.users has no column 'nick', which a rule needs");
    shop.reconfigure("shop.users", "shop.userz");
    finds(
        "shop.userz isn't there, or the user can't see it: GRANT REFERENCES ON `shop`.`userz` TO 'guira'@'127.0.0.1'",
    );
    shop.reconfigure("shop.userz", "shop.users");
    shop.reconfigure("user:{nick}", "user:{id}");
    shop.sql().ask("REVOKE REFERENCES ON shop.* FROM guira@'127.0.0.1'");
    finds("GRANT REFERENCES ON `shop`.`users` TO 'guira'@'127.0.0.1'");
    let (_, sql) = shop.asks("init");
    assert!(sql.contains("GRANT REFERENCES ON `shop`.`users` TO 'guira'@"), "{sql}");
}

/// The file that the log is written to is gone, as after a disk's repair: the database says where its log ends, and can't send it.
#[test]
fn a_log_that_cannot_be_read_for_long_is_no_reason_for_one_flush_after_the_other() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(2, schema, rules, true, r#", "on_gap": "flush""#);
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let mut daemon = shop.daemon();
    sql.ask("INSERT INTO shop.users VALUES (1)");
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    let file = sql.ask("SHOW MASTER STATUS").concat();
    let file = file.split('\t').next().expect("a test can have it");
    let path = shop.database.dir.join("data").join(file);
    std::fs::remove_file(path).expect("a test can have it");
    let _daemon = shop.begin();
    let tries = || shop.said().matches("can't be read on yet").count();
    within(30, "it tries several times", || tries() >= 4);
    assert_eq!((shop.metric("gaps_total"), shop.metric("flushes_total")), (Some(1), Some(0)));
    sql.ask("INSERT INTO shop.users VALUES (2)");
    clients.iter_mut().for_each(|client| drop(client.set("user:2", b"v")));
    sql.ask("FLUSH BINARY LOGS");
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:2"), [false; 2], "what wasn't read meanwhile");
    assert_eq!((shop.metric("gaps_total"), shop.metric("flushes_total")), (Some(1), Some(2)));
}

/// A flush that a cluster doesn't take is tried again, also by the next daemon, and holds back no delete.
#[test]
fn an_emptied_or_dropped_table_flushes_its_rules_destinations_once_they_take_it() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY); CREATE TABLE logs (id INT PRIMARY KEY); \
                  CREATE TABLE pages (id INT PRIMARY KEY) PARTITION BY RANGE (id) \
                  (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN MAXVALUE)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"], "to": ["c2"], "on_truncate": "flush"},
                   {"table": "shop.logs", "keys": ["log:{id}"], "on_truncate": "ignore"},
                   {"table": "shop.pages", "keys": ["page:{id}"], "on_truncate": "flush"}"#;
    let mut shop = Shop::new(2, schema, rules, true, "");
    let (is_good, words) = shop.asks("check");
    assert!(is_good, "{words}");
    let mut daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let fill = |clients: &mut Vec<Client>| {
        clients.iter_mut().for_each(|client| drop(client.set("any", b"v")));
    };
    for (statement, there) in [
        ("TRUNCATE TABLE shop.logs", [true, true]),
        ("TRUNCATE TABLE shop.users", [true, false]),
        // Only the second of these tables has a rule that flushes, and then the new name.
        ("RENAME TABLE shop.logs TO shop.old, shop.users TO shop.away", [true, false]),
        ("ALTER TABLE shop.away RENAME TO shop.users", [true, false]),
        ("RENAME TABLE shop.old TO shop.logs", [true, true]),
        ("ALTER TABLE shop.pages ADD COLUMN a INT", [true, true]),
        ("ALTER TABLE shop.pages TRUNCATE PARTITION p", [false, false]),
        ("DROP TABLE shop.logs, shop.pages", [false, false]),
        // Its statements don't say which tables it has: all rules of its tables count.
        ("DROP DATABASE shop", [false, false]),
    ] {
        fill(&mut clients);
        sql.ask(statement);
        shop.catch_up(&mut sql);
        assert_eq!(is_there(&mut clients, "any"), there, "{statement}: {}", shop.said());
    }
    assert_eq!(shop.metric("unknown_total"), Some(0), "{}", shop.said());
    // A router that refuses: check says so, and the flush waits for one that doesn't.
    shop.clusters[1].refuse_flushes(true);
    let (is_good, words) = shop.asks("check");
    assert!(!is_good && words.contains("--enable-flush-cmd"), "{words}");
    sql.ask("CREATE DATABASE shop; CREATE TABLE shop.users (id INT PRIMARY KEY)");
    fill(&mut clients);
    clients[1].set("user:7", b"v");
    sql.ask("TRUNCATE TABLE shop.users; INSERT INTO shop.users VALUES (7)");
    eventually("the delete passes by", || clients[1].get("user:7").is_none());
    within(20, "the flush is tried", || shop.said().contains("Command disabled"));
    assert_eq!(is_there(&mut clients, "any"), [true, true]);
    assert_eq!(shop.metric("flush_due"), Some(1));
    thread::sleep(Duration::from_millis(1500));
    stop(&mut daemon);
    shop.clusters[1].refuse_flushes(false);
    let _daemon = shop.daemon();
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "any"), [true, false], "{}", shop.said());
}
