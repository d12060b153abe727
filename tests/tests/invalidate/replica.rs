//! `guira invalidate` behind a replica: what its log lacks is told, by `check` before it is read and by the daemon while it is.

use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::pair::{Pair, Replicating, region};
use guira_tests::server::within;
use guira_tests::shop::{Database, Shop, invalidate, told_by};

const SCHEMA: &str =
    "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 1), (2, 1)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

/// What is replicated isn't in its log, so nothing would ever come.
#[test]
fn a_mariadb_that_becomes_a_replica_and_does_not_log_it_ends_the_daemon() {
    let shop = Shop::<MariaDb>::new(1, SCHEMA, RULES, true, "");
    let master = MariaDb::numbered(9, false);
    let mut of_master = master.opener()();
    // Both have the schema from the beginning.
    of_master.ask("SET sql_log_bin = 0");
    <MariaDb as Replicating>::prepare(&mut of_master, SCHEMA);
    assert!(shop.asks("check").0, "a primary needn't log what it doesn't get");
    let mut daemon = shop.daemon();
    shop.sql().ask(&MariaDb::replicate(&master));
    let mut ended = None;
    within(30, "the daemon ends", || {
        ended = daemon.0.try_wait().expect("a test can have it");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|it| it.code()), Some(3), "{}", shop.said());
    let words = "its log lacks what it gets from another host: start it with --log-slave-updates";
    assert!(shop.said().contains(words), "{}", shop.said());
    shop.ends(3, words);
    let (code, told) = shop.asks_with("check", &[]);
    assert!(code == Some(3) && told.contains(words), "{told}");
    // Also while it is held, if it is read-only.
    shop.sql().ask("STOP SLAVE; SET GLOBAL read_only = 1");
    let (code, told) = shop.asks_with("check", &[]);
    assert!(code == Some(3) && told.contains(words), "{told}");
}

#[test]
fn a_mysql_that_does_not_log_what_it_replicates_is_refused() {
    if !mysql::is_there() {
        return;
    }
    let database = MySql::start(&["--log-replica-updates=OFF"]);
    <MySql as Replicating>::prepare(&mut database.opener()(), SCHEMA);
    let path = |name: &str| database.dir.join(name).display().to_string();
    std::fs::write(path("password"), "secret").expect("a test can have it");
    let text = format!(
        r#"{{"state": "{}", "rules": [{RULES}], "destinations": {{"c1": {{"routers": ["127.0.0.1:1"]}}}},
             "sources": {{"db": {{{}, "user": "guira", "password_file": "{}"}}}}}}"#,
        path("state"),
        database.source(),
        path("password")
    );
    std::fs::write(path("config"), text).expect("a test can have it");
    for name in ["check", "run"] {
        let (code, told) = told_by(&mut invalidate(name, &database.dir.join("config")));
        assert!(code == Some(3) && told.contains("without --log-replica-updates=OFF"), "{told}");
    }
}

/// A change at the master that was replicated.
fn change(shop: &Shop<Pair<MariaDb>>) {
    // A session takes the format when it begins.
    let statement = "UPDATE shop.users SET v = v + 1 WHERE id = 1 /* mcinv:user:1 */";
    shop.sql().ask(statement);
    shop.database.wait_for_replica();
}

#[test]
fn check_at_a_replica_tells_what_its_master_and_its_replication_must_be_given() {
    let shop = region::<MariaDb>(SCHEMA, RULES);
    let good = || {
        change(&shop);
        let (is_good, words) = shop.asks("check");
        assert!(is_good && words.contains("what comes depends on its master"), "{words}");
    };
    let finds = |words: &str| {
        let (code, told) = shop.asks_with("check", &[]);
        assert!(code == Some(3) && told.contains(words), "{words}: {told}");
    };
    good();
    let (mut master, mut replica) = (shop.sql(), shop.database.replica());
    // The replica makes rows of statements, and nothing of their comments.
    master.ask("SET GLOBAL binlog_format = STATEMENT");
    change(&shop);
    finds(
        "changes of the server 1 come without their statements, so that comments are lost: at its master",
    );
    master.ask("SET GLOBAL binlog_format = ROW");
    good();
    master.ask("SET GLOBAL binlog_annotate_row_events = OFF");
    change(&shop);
    finds("SET GLOBAL binlog_annotate_row_events = ON");
    master.ask("SET GLOBAL binlog_annotate_row_events = ON");
    good();
    // Replication that runs keeps the format with which it began.
    replica.ask("SET GLOBAL binlog_format = STATEMENT; STOP SLAVE; START SLAVE; SET GLOBAL binlog_format = ROW");
    master.ask("SET GLOBAL binlog_format = STATEMENT");
    change(&shop);
    finds("replication logs statements without rows, such as 'UPDATE shop.users");
    finds("STOP SLAVE; START SLAVE");
    master.ask("SET GLOBAL binlog_format = ROW");
    replica.ask("STOP SLAVE; START SLAVE; FLUSH BINARY LOGS");
    good();
    shop.reconfigure("\"server_id\": 4242", "\"server_id\": 1");
    finds("server_id 1 is that of a server whose changes it replicates");
}

#[test]
fn a_replica_that_drops_the_texts_of_its_master_is_told_and_init_says_where_each_is_run() {
    let mut shop = region::<MariaDb>(SCHEMA, RULES);
    shop.database.second.restart_with(&["--replicate-annotate-row-events=OFF".to_owned()]);
    let (code, told) = shop.asks_with("check", &[]);
    let words = "start it with --replicate-annotate-row-events=ON";
    assert!(code == Some(3) && told.contains(words), "{told}");
    let (_, told) = shop.asks("init");
    let host = shop.database.second.host();
    for words in [
        format!("-- 1. at {host}; if that is a replica, at its master instead"),
        format!("-- 2. at {host}, and, if that is a replica, at its master too"),
        "-- STOP SLAVE; START SLAVE; FLUSH BINARY LOGS;".to_owned(),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
}
