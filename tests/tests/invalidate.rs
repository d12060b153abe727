//! `guira invalidate` behind a real MariaDB, in front of real routers and servers: which keys go, when, and that none is lost
//! when the daemon or the database is killed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use guira_tests::client::Client;
use guira_tests::cluster::Cluster;
use guira_tests::mariadb::{MariaDb, Sql};
use guira_tests::server::{Address, Running, eventually, free_port, guira, send_signal, within};
use rustix::process::Signal;

/// All of it.
struct Shop {
    database: MariaDb,
    clusters: Vec<Cluster>,
    config: PathBuf,
    http: u16,
}

impl Shop {
    /// A database with a schema, clusters `c1`, `c2`, …, and a configuration of these rules; `more` stands in the source.
    fn new(clusters: usize, schema: &str, rules: &str, leases: bool, more: &str) -> Self {
        let database = MariaDb::start(&[]);
        let mut sql = database.sql();
        sql.ask("CREATE DATABASE shop; USE shop");
        sql.ask(schema);
        sql.ask("CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'secret'");
        sql.ask("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO guira@'127.0.0.1'");
        let clusters: Vec<Cluster> = (0..clusters).map(|_| Cluster::start()).collect();
        let (dir, port, http) = (&database.dir, database.port, free_port());
        std::fs::write(dir.join("password"), "secret\n").expect("a test can have it");
        let mut destinations = String::new();
        for (number, cluster) in clusters.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            let router = cluster.router_port;
            write!(
                destinations,
                "{comma}\"c{}\": {{\"routers\": [\"127.0.0.1:{router}\"], \"leases\": {leases}}}",
                number + 1
            )
            .expect("a test can have it");
        }
        let text = format!(
            r#"{{ // a shop
            "state": "{0}/state", "http": "127.0.0.1:{http}",
            "sources": {{"db": {{"kind": "mariadb", "hosts": ["127.0.0.1:{port}"], "user": "guira",
                "password_file": "{0}/password", "server_id": 4242 {more}}}}},
            "rules": [{rules}], "destinations": {{{destinations}}} }}"#,
            dir.display()
        );
        let config = dir.join("invalidate.json");
        std::fs::write(&config, text).expect("a test can have it");
        Self { database, clusters, config, http }
    }

    /// Replaces a piece of the configuration.
    fn reconfigure(&self, piece: &str, by: &str) {
        let text = std::fs::read_to_string(&self.config).expect("a test can have it");
        assert!(text.contains(piece), "{piece}");
        std::fs::write(&self.config, text.replace(piece, by)).expect("a test can have it");
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(guira());
        command.args(["invalidate", name, "-c"]).arg(&self.config).stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it reads.
    fn daemon(&self) -> Running {
        let daemon = self.begin();
        for _ in 0..1500 {
            if self.metric("reading") == Some(1) {
                return daemon;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the daemon doesn't read: {}", self.said());
    }

    fn begin(&self) -> Running {
        let mut append = std::fs::OpenOptions::new();
        let log = append
            .create(true)
            .append(true)
            .open(self.database.dir.join("said"))
            .expect("a test can have it");
        let child: Child = self.command("run").stderr(log).spawn().expect("a test can have it");
        Running(child)
    }

    /// Starts a daemon, which ends by itself with a code and a sentence.
    fn ends(&self, code: i32, words: &str) {
        let mut daemon = self.begin();
        let mut ended = None;
        within(20, "it ends", || {
            ended = daemon.0.try_wait().expect("a test can have it");
            ended.is_some()
        });
        assert_eq!(ended.expect("a test can have it").code(), Some(code), "{}", self.said());
        assert!(self.said().contains(words), "{}", self.said());
    }

    /// What all series of a metric add up to.
    fn metric(&self, name: &str) -> Option<u64> {
        use std::io::{Read as _, Write as _};
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", self.http)).ok()?;
        socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        let begin = format!("guira_invalidate_{name}{{");
        let values = text.lines().filter(|line| line.starts_with(&begin));
        let values: Vec<u64> =
            values.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// Waits until what is committed is delivered everywhere.
    fn catch_up(&self, sql: &mut Sql) {
        let end = sql.ask("SELECT @@gtid_binlog_pos").concat();
        let position = self.database.dir.join("state/db/position");
        within(90, &format!("all up to {end} is delivered"), || {
            let text = std::fs::read_to_string(&position).unwrap_or_default();
            let next = text.lines().find_map(|line| line.strip_prefix("next "));
            let cursors = text.lines().filter(|line| line.starts_with("cursor "));
            text.contains(&format!("read {end}\n"))
                && cursors.clone().count() == self.clusters.len()
                && cursors.clone().all(|line| line.rsplit(' ').next() == next)
        });
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.database.dir.join("said")).unwrap_or_default()
    }
}

fn is_there(clients: &mut [Client], key: &str) -> Vec<bool> {
    clients.iter_mut().map(|client| client.get(key).is_some()).collect()
}

#[test]
fn keys_of_rules_comments_and_the_outbox_go_in_every_cluster() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, mail VARCHAR(90), g INT); \
                  CREATE TABLE other (id INT PRIMARY KEY); \
                  CREATE TABLE mcinv (k VARCHAR(250) NOT NULL, opts VARCHAR(250)) ENGINE = InnoDB; \
                  INSERT INTO users VALUES (1, 'Ann', 1), (2, 'Bob', 1)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}", "mail:{mail|lower}"]},
                   {"table": "shop.users", "on": ["delete"], "keys": ["group:{old.g}"], "to": ["c2"],
                    "on_truncate": ["users"]}"#;
    let more = r#", "outbox": "shop.mcinv", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(2, schema, rules, true, more);
    let checked = shop.command("check").output().expect("a test can have it");
    let words = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success(), "{words}");
    let _daemon = shop.daemon();
    let mut sql = shop.database.sql();
    let mut clients: Vec<Client> = shop.clusters.iter().map(Cluster::client).collect();
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
fn answers_without_keys(shop: &Shop, sql: &mut Sql, clients: &mut [Client]) {
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

#[test]
fn values_of_all_types_have_the_text_that_sql_shows() {
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
    let definition: Vec<String> =
        columns.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let schema =
        format!("SET GLOBAL time_zone = '+00:00'; CREATE TABLE types ({})", definition.join(", "));
    let keys: Vec<String> =
        columns.iter().map(|(name, ..)| format!("\"{name}:{{{name}|percent}}\"")).collect();
    let rules = format!("{{\"table\": \"shop.types\", \"keys\": [{}]}}", keys.join(", "));
    let shop = Shop::new(1, &schema, &rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.database.sql();
    let mut client = shop.clusters[0].client();
    let values: Vec<&str> = columns.iter().map(|(.., value)| *value).collect();
    let insert = format!("INSERT INTO types VALUES ({})", values.join(", "));
    // The first row says what SQL shows; the second one's keys must be those.
    sql.ask(&format!("USE shop; SET time_zone = '+00:00'; SET NAMES utf8mb4; {insert}"));
    shop.catch_up(&mut sql);
    let shown: Vec<&str> =
        columns.iter().map(|(name, ..)| if *name == "t" { "t + 0" } else { *name }).collect();
    let row = sql.ask(&format!("SELECT {} FROM types", shown.join(", "))).concat();
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

/// MariaDB sends a transaction that waits for a replica's word; readers see the old row meanwhile.
#[test]
fn no_delete_comes_before_the_change_can_be_read() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 1)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.database.sql();
    let mut client = shop.clusters[0].client();
    sql.ask("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC; SET GLOBAL rpl_semi_sync_master_timeout = 4000; \
             SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1; SET GLOBAL rpl_semi_sync_master_enabled = 1");
    let mut writer = shop.database.sql();
    let before = shop.metric("rows_total").expect("a test can have it");
    writer.begin("UPDATE shop.users SET v = 2 WHERE id = 1");
    eventually("the log has the change", || {
        shop.metric("rows_total").expect("a test can have it") > before
    });
    // A reader that has no lease misses, reads the old row and puts it into the cache.
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["1"], "the commit is held");
    client.set("user:1", b"1");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["1"], "the commit is held");
    assert_eq!(client.get("user:1").as_deref(), Some(&b"1"[..]), "a delete came too early");
    assert_eq!(shop.metric("deletes_total"), Some(0));
    eventually("the delete comes after the commit", || client.get("user:1").is_none());
    assert_eq!(sql.ask("SELECT v FROM shop.users"), ["2"]);
}

/// Readers without leases fill caches, while rows change and daemon and database are killed. In the end no cached value is
/// older than its row.
#[test]
fn no_stale_value_stays_over_kills_of_daemon_and_database() {
    let kills: u32 = std::env::var("GUIRA_KILLS").map_or(4, |text| text.parse().expect("a number"));
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                  INSERT INTO users SELECT seq, 0 FROM seq_0_to_49";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::new(2, schema, rules, false, "");
    let mut daemon = Some(shop.daemon());
    let [is_over, is_written] = [false; 2].map(|it| Arc::new(AtomicBool::new(it)));
    let written = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    let dir = shop.database.dir.clone();
    let open = move || MariaDb::sql_at(&dir);
    for number in 0..2 {
        let (is_over, open, address) =
            (Arc::clone(&is_over), open.clone(), shop.clusters[number].server.address().clone());
        threads.push(thread::spawn(move || read(number as u64, &is_over, &open, &address)));
    }
    let (ending, counting) = (Arc::clone(&is_written), Arc::clone(&written));
    let writer = thread::spawn(move || write(&ending, &open, &counting));
    for kill in 0..kills {
        let before = written.load(Relaxed);
        within(60, "rows change", || written.load(Relaxed) > before + 150);
        if kill % 4 == 3 {
            shop.database.kill();
            shop.database.restart();
        } else {
            drop(daemon.take());
            thread::sleep(Duration::from_millis(u64::from(kill % 3) * 100));
            daemon = Some(shop.daemon());
        }
    }
    is_written.store(true, Relaxed);
    writer.join().expect("a test can have it");
    let mut sql = shop.database.sql();
    // Readers go on filling until all is delivered, and a while longer.
    shop.catch_up(&mut sql);
    thread::sleep(Duration::from_secs(1));
    is_over.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a test can have it"));
    let rows: HashMap<String, String> = sql
        .ask("SELECT id, v FROM shop.users")
        .iter()
        .filter_map(|row| row.split_once('\t').map(|(id, v)| (id.to_owned(), v.to_owned())))
        .collect();
    let mut cached = 0;
    for cluster in &shop.clusters {
        let mut client = cluster.client();
        for (id, v) in &rows {
            if let Some(value) = client.get(&format!("user:{id}")) {
                assert_eq!(
                    &String::from_utf8_lossy(&value),
                    v,
                    "user:{id} is stale: {}",
                    shop.said()
                );
                cached += 1;
            }
        }
    }
    let changes = written.load(Relaxed);
    assert!(cached > 50, "readers filled only {cached}");
    println!(
        "{changes} changes, {kills} kills, {cached} of 100 values cached in the end, none stale"
    );
    send_signal(daemon.as_ref().expect("a test can have it").0.id(), Signal::TERM);
    let mut daemon = daemon.expect("a test can have it");
    within(20, "the daemon ends", || {
        daemon.0.try_wait().is_ok_and(|it| it.is_some_and(|it| it.success()))
    });
}

/// Gets keys; on a miss reads the row and sets it, without a lease.
fn read(seed: u64, is_over: &AtomicBool, open: &impl Fn() -> Sql, address: &Address) {
    let mut client = Client::connect(address);
    let mut sql = open();
    let mut random = seed;
    while !is_over.load(Relaxed) {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = random >> 40;
        let key = format!("user:{}", key % 50);
        if client.get(&key).is_some() {
            continue;
        }
        let id = &key[5..];
        match sql.try_ask(&format!("SELECT v FROM shop.users WHERE id = {id}")) {
            Some(rows) if rows.len() == 1 => drop(client.set(&key, rows[0].as_bytes())),
            _ => {
                thread::sleep(Duration::from_millis(50));
                sql = open();
            }
        }
    }
}

/// Counts rows up, in transactions of one to three.
fn write(is_over: &AtomicBool, open: &impl Fn() -> Sql, written: &AtomicU64) {
    let mut sql = open();
    let mut number = 0;
    while !is_over.load(Relaxed) {
        number += 1;
        let id = |step: u64| (number * 7 + step * 11) % 50;
        let update = |step| format!("UPDATE shop.users SET v = v + 1 WHERE id = {}", id(step));
        let statements: Vec<String> = (0..number % 3 + 1).map(update).collect();
        let end = if number % 10 == 0 { "ROLLBACK" } else { "COMMIT" };
        if sql.try_ask(&format!("BEGIN; {}; {end}", statements.join("; "))).is_none() {
            thread::sleep(Duration::from_millis(50));
            sql = open();
        }
        written.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_gap_in_the_log_and_columns_without_names_end_the_daemon_with_their_codes() {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY)";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.database.sql();
    let mut daemon = shop.daemon();
    sql.ask("INSERT INTO shop.users VALUES (1)");
    shop.catch_up(&mut sql);
    send_signal(daemon.0.id(), Signal::TERM);
    within(20, "it ends", || daemon.0.try_wait().is_ok_and(|it| it.is_some()));
    sql.ask("INSERT INTO shop.users VALUES (2); FLUSH BINARY LOGS; INSERT INTO shop.users VALUES (3); FLUSH BINARY LOGS");
    sql.ask("SET GLOBAL binlog_row_metadata = NO_LOG");
    shop.ends(3, "SET GLOBAL binlog_row_metadata = FULL");
    sql.ask("SET GLOBAL binlog_row_metadata = FULL");
    let last = sql.ask("SHOW MASTER STATUS").concat();
    let last = last.split('\t').next().expect("a test can have it").to_owned();
    sql.ask(&format!("PURGE BINARY LOGS TO '{last}'"));
    shop.ends(3, "its log doesn't go on from");
    let told = shop.command("positions").output().expect("a test can have it");
    assert!(
        String::from_utf8_lossy(&told.stdout).contains("source db: read up to '0-1-"),
        "{told:?}"
    );
}

#[test]
fn keys_of_compressed_rows_and_statements_go() {
    let schema =
        "CREATE TABLE users (id INT PRIMARY KEY, v TEXT); INSERT INTO users VALUES (1, 'a')";
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"], "on_truncate": ["users"]}"#;
    let more = r#", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(1, schema, rules, true, more);
    let mut sql = shop.database.sql();
    sql.ask("SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10");
    let _daemon = shop.daemon();
    let mut clients = [shop.clusters[0].client()];
    // A session takes the setting when it begins.
    let mut sql = shop.database.sql();
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
    let mut sql = shop.database.sql();
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
    let told = shop.command("positions").output().expect("a test can have it");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
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
