//! `guira invalidate` and a database whose log was reset: it gives numbers again that were read already. What it changed under them is
//! never sent, so it is a gap, and not a failover.

use std::thread;
use std::time::Duration;

use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::server::eventually;
use guira_tests::shop::{Database, Shop, stop};

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                      INSERT INTO users VALUES (1, 1), (2, 1), (3, 1)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

fn change(id: u32) -> String {
    format!("UPDATE shop.users SET v = v + 1 WHERE id = {id}")
}

#[test]
fn mariadbs_reset_master_is_a_gap_and_no_failover() {
    a_reset_is_a_gap::<MariaDb>("RESET MASTER", "");
}

#[test]
fn mysqls_reset_of_its_log_is_a_gap_and_no_failover() {
    if mysql::is_there() {
        a_reset_is_a_gap::<MySql>("RESET BINARY LOGS AND GTIDS", r#", "cascades": "accepted""#);
    }
}

/// The transaction after the reset has the number of the first one that was ever read.
fn a_reset_is_a_gap<D: Database>(reset: &str, more: &str) {
    let shop = Shop::<D>::new(2, SCHEMA, RULES, true, more);
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let fill = |keys: &[&str]| {
        for client in &mut shop.clients() {
            keys.iter().for_each(|key| drop(client.set(key, b"refilled")));
        }
    };
    let mut daemon = shop.daemon();
    sql.ask(&change(1));
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    fill(&["user:1", "user:2"]);
    sql.ask(reset);
    sql.ask(&change(2));
    shop.ends(3, "gives their numbers again");
    assert!(shop.said().contains("flush the caches"), "{}", shop.said());
    assert_eq!(is_there(&mut clients, "user:1"), [true; 2], "nothing of it is a failover's");
    shop.reconfigure("\"server_id\"", "\"on_gap\": \"flush\", \"server_id\"");
    let _daemon = shop.daemon();
    eventually("all is flushed", || is_there(&mut clients, "user:2") == [false; 2]);
    fill(&["user:3"]);
    sql.ask(&change(3));
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:3"), [false; 2], "{}", shop.said());
    let counted = ["gaps_total", "lost_transactions_total"].map(|name| shop.metric(name));
    assert_eq!(counted, [Some(1), Some(0)], "{}", shop.said());
    under_a_daemon_that_reads(&shop, reset);
}

/// The next transactions have numbers that it has read already.
fn under_a_daemon_that_reads<D: Database>(shop: &Shop<D>, reset: &str) {
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let fill = |keys: &[&str]| {
        for client in &mut shop.clients() {
            keys.iter().for_each(|key| drop(client.set(key, b"refilled")));
        }
    };
    let connects = shop.metric("connects_total");
    // It looks at the host every 2 seconds, and stays.
    thread::sleep(Duration::from_secs(5));
    assert_eq!(shop.metric("connects_total"), connects, "{}", shop.said());
    fill(&["user:1", "user:2"]);
    sql.ask(reset);
    sql.ask(&change(2));
    eventually("the gap is noticed", || shop.metric("gaps_total") == Some(2));
    eventually("all is flushed", || is_there(&mut clients, "user:1") == [false; 2]);
    assert_eq!(is_there(&mut clients, "user:2"), [false; 2], "{}", shop.said());
    fill(&["user:3"]);
    sql.ask(&change(3));
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:3"), [false; 2], "{}", shop.said());
}
