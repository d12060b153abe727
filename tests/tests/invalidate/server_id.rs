//! The number by which a database knows `guira invalidate`: a database ends the older of two connections that read its log under one
//! number. So a `check` beside the daemon comes without one, and a second daemon that has the same is told.

use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::server::within;
use guira_tests::shop::{Database, Shop, stop};

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

#[test]
fn a_check_beside_the_daemon_does_not_end_its_reading_of_mariadbs_log() {
    checks_disturb_no_daemon::<MariaDb>("");
}

#[test]
fn a_check_beside_the_daemon_does_not_end_its_reading_of_mysqls_log() {
    if mysql::is_there() {
        checks_disturb_no_daemon::<MySql>(r#", "cascades": "accepted""#);
    }
}

/// `check` got the daemon's connection ended. The daemon connected anew at once and, on a busy machine, ended the check's in turn.
fn checks_disturb_no_daemon<D: Database>(more: &str) {
    let shop = Shop::<D>::new(1, SCHEMA, RULES, true, more);
    let mut sql = shop.sql();
    let mut daemon = shop.daemon();
    for id in 1..=3 {
        let (is_good, words) = shop.asks("check");
        assert!(is_good, "{words}");
        sql.ask(&format!("INSERT INTO shop.users VALUES ({id})"));
        shop.catch_up(&mut sql);
    }
    assert_eq!(shop.metric("connects_total"), Some(1), "{}", shop.said());
    stop(&mut daemon);
}

#[test]
fn two_daemons_with_one_number_are_told_and_one_reads_again_when_the_other_ends() {
    let shop = Shop::<MariaDb>::new(1, SCHEMA, RULES, true, "");
    let mut daemon = shop.daemon();
    let state = format!("{}/state", shop.database.dir().display());
    shop.reconfigure(&state, &format!("{state}2"));
    shop.reconfigure("\"http\":", "// \"http\":");
    let mut other = shop.begin();
    let words = "another client has the server_id 4242, too";
    within(20, "the first one is told", || shop.said().contains(words));
    stop(&mut other);
    within(30, "it reads again", || shop.metric("reading") == Some(1));
    stop(&mut daemon);
}
