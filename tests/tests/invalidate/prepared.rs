//! `guira invalidate` and XA transactions of a MariaDB that is killed: whichever of them the database still has, nothing is lost, and
//! nothing is waited for that can't come.

use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::server::{eventually, within};
use guira_tests::shop::Database as _;

type Shop = guira_tests::shop::Shop<MariaDb>;

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                      INSERT INTO users VALUES (1, 1), (2, 1), (3, 1)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

fn change(id: u32) -> String {
    format!("UPDATE shop.users SET v = v + 1 WHERE id = {id}")
}

fn prepare(shop: &Shop, name: &str, id: u32) {
    let change = change(id);
    shop.sql().ask(&format!("XA START '{name}'; {change}; XA END '{name}'; XA PREPARE '{name}'"));
}

fn fill(shop: &Shop) {
    for client in &mut shop.clients() {
        ["user:1", "user:2", "user:3"].iter().for_each(|key| drop(client.set(key, b"v")));
    }
}

/// The engine prepares a transaction after it is in the log. Here it writes that nowhere before the crash.
#[test]
fn an_xa_transaction_that_the_log_has_and_the_killed_database_lost_is_not_waited_for() {
    let mut shop = Shop::new(2, SCHEMA, RULES, true, "");
    let _daemon = shop.daemon();
    fill(&shop);
    shop.sql().ask(
        "SET GLOBAL innodb_flush_log_at_timeout = 2700; SET GLOBAL innodb_flush_log_at_trx_commit = 0",
    );
    prepare(&shop, "lost", 1);
    eventually("it is in the log", || shop.metric("prepared") == Some(1));
    shop.database.kill();
    shop.database.restart();
    let mut sql = shop.sql();
    assert!(sql.ask("XA RECOVER").is_empty(), "the engine wrote it all the same");
    sql.ask(&change(2));
    shop.catch_up(&mut sql);
    assert_eq!(shop.metric("prepared"), Some(0));
    assert!(shop.said().contains("it doesn't have it any more"), "{}", shop.said());
    let mut clients = shop.clients();
    // It may have been committed: nobody knows, so its keys go.
    assert_eq!(is_there(&mut clients, "user:1"), [false; 2], "{}", shop.said());
    assert_eq!(is_there(&mut clients, "user:2"), [false; 2], "{}", shop.said());
    assert_eq!(is_there(&mut clients, "user:3"), [true; 2], "{}", shop.said());
}

#[test]
fn an_xa_transaction_that_the_killed_database_still_has_is_waited_for() {
    let mut shop = Shop::new(2, SCHEMA, RULES, true, "");
    let _daemon = shop.daemon();
    fill(&shop);
    prepare(&shop, "kept", 1);
    eventually("it is in the log", || shop.metric("prepared") == Some(1));
    let mut clients = shop.clients();
    for _ in 0..2 {
        shop.database.kill();
        shop.database.restart();
        let mut sql = shop.sql();
        assert_eq!(sql.ask("XA RECOVER").len(), 1);
        sql.ask(&change(2));
        within(30, "the next one goes", || is_there(&mut clients, "user:2") == [false; 2]);
        // The answer of the database is there as soon as the log is read up to its end then.
        sql.ask(&change(3));
        within(30, "the next one goes", || is_there(&mut clients, "user:3") == [false; 2]);
        assert_eq!(is_there(&mut clients, "user:1"), [true; 2], "{}", shop.said());
        assert_eq!(shop.metric("prepared"), Some(1));
        fill(&shop);
    }
    let mut sql = shop.sql();
    sql.ask("XA COMMIT 'kept'");
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:1"), [false; 2], "{}", shop.said());
    assert_eq!(shop.metric("unknown_total"), Some(0), "{}", shop.said());
}
