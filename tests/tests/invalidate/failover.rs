//! `guira invalidate` and several hosts of a database: read-only ones are passed over, a replica takes the primary's place, and what
//! the old primary committed and the new one never got is deleted again.

use std::thread;
use std::time::Duration;

use guira_tests::client::Client;
use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::pair::{Pair, Replicating};
use guira_tests::postgres::Postgres;
use guira_tests::server::{eventually, send_signal, within};
use guira_tests::shop::{Database, Shop, stop};
use rustix::process::Signal;

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                      INSERT INTO users VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

fn shop<D: Replicating>() -> Shop<Pair<D>> {
    Shop::new(2, SCHEMA, RULES, true, "")
}

fn fill<D: Replicating>(shop: &Shop<Pair<D>>, keys: &[&str]) {
    for mut client in shop.clients() {
        keys.iter().for_each(|key| drop(client.set(key, b"refilled")));
    }
}

fn change(id: u32) -> String {
    format!("UPDATE shop.users SET v = v + 1 WHERE id = {id}")
}

/// A change at the present primary deletes its key, and no snapshot of another host was needed.
fn goes_on<D: Replicating>(shop: &Shop<Pair<D>>, id: u32) {
    let key = format!("user:{id}");
    fill(shop, &[&key]);
    let mut sql = shop.sql();
    sql.ask(&change(id));
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut shop.clients(), &key), [false; 2], "{}", shop.said());
    assert_eq!(shop.metric("barrier_passed_by_total"), Some(0), "{}", shop.said());
}

#[test]
fn keys_of_what_a_new_mariadb_primary_lacks_are_deleted_again() {
    lost_changes_are_deleted_again::<MariaDb>();
}

#[test]
fn keys_of_what_a_new_mysql_primary_lacks_are_deleted_again() {
    if mysql::is_there() {
        lost_changes_are_deleted_again::<MySql>();
    }
}

fn lost_changes_are_deleted_again<D: Replicating>() {
    let mut shop = shop::<D>();
    let (is_good, words) = shop.asks("check");
    let (first, second) = (shop.database.first.host(), shop.database.second.host());
    assert!(is_good && words.contains(&format!("{first}: its log can be read")), "{words}");
    assert!(words.contains(&format!("{second}: its log can be read")), "{words}");
    assert_eq!(words.matches("it is read-only now").count(), 1, "{words}");
    let mut daemon = shop.daemon();
    goes_on(&shop, 1);
    let said = shop.said();
    assert!(said.contains(&format!("{second}: it is read-only")), "{said}");
    assert_eq!(shop.metric("host"), Some(1), "the replica is named first: {said}");
    shop.database.wait_for_replica();
    // What comes now is lost, though a cache has it.
    shop.database.replica().ask(D::CUT);
    let mut sql = shop.sql();
    sql.ask(&change(2));
    sql.ask(&format!("BEGIN; {}; {}; COMMIT", change(3), change(4)));
    shop.catch_up(&mut sql);
    let all = ["user:2", "user:3", "user:4", "user:5", "other"];
    fill(&shop, &all);
    shop.database.kill();
    shop.database.promote();
    let mut clients = shop.clients();
    for key in ["user:2", "user:3", "user:4"] {
        eventually("a lost change's key goes", || is_there(&mut clients, key) == [false; 2]);
    }
    for key in ["user:5", "other"] {
        assert_eq!(is_there(&mut clients, key), [true; 2], "{}", shop.said());
    }
    goes_on(&shop, 5);
    let counted = ["lost_transactions_total", "lost_keys_total", "gaps_total", "host"];
    let counted = counted.map(|name| shop.metric(name));
    assert_eq!(counted, [Some(2), Some(3), Some(0), Some(0)], "{}", shop.said());
    assert!(shop.said().contains("without 2 transactions"), "{}", shop.said());
    // Once is enough, also for the next daemon; and a replay knows what is of before.
    stop(&mut daemon);
    fill(&shop, &all);
    let _daemon = shop.daemon();
    goes_on(&shop, 6);
    assert_eq!(shop.metric("lost_transactions_total"), Some(0), "{}", shop.said());
    assert_eq!(is_there(&mut clients, "user:2"), [true; 2], "{}", shop.said());
}

#[test]
fn a_daemon_that_died_with_its_mariadb_primary_finds_what_is_lost() {
    what_is_lost_is_found_after_a_crash::<MariaDb>();
}

#[test]
fn a_daemon_that_died_with_its_mysql_primary_finds_what_is_lost() {
    if mysql::is_there() {
        what_is_lost_is_found_after_a_crash::<MySql>();
    }
}

/// The daemon dies before it has stored the position of what it deleted.
fn what_is_lost_is_found_after_a_crash<D: Replicating>() {
    let mut shop = shop::<D>();
    let daemon = shop.daemon();
    goes_on(&shop, 1);
    shop.database.wait_for_replica();
    shop.database.replica().ask(D::CUT);
    fill(&shop, &["user:2"]);
    let mut sql = shop.sql();
    let position = || std::fs::read_to_string(shop.database.dir().join("state/db/position"));
    let stored = position().expect("it was stored");
    // Positions are stored each second: right after one there is time.
    sql.ask(&change(3));
    within(10, "another position is stored", || position().is_ok_and(|text| text != stored));
    sql.ask(&change(2));
    let mut clients = shop.clients();
    eventually("it is deleted", || is_there(&mut clients, "user:2") == [false; 2]);
    send_signal(daemon.0.id(), Signal::KILL);
    drop(daemon);
    fill(&shop, &["user:2", "user:5"]);
    shop.database.kill();
    shop.database.promote();
    let _daemon = shop.daemon();
    eventually("a lost change's key goes", || is_there(&mut clients, "user:2") == [false; 2]);
    goes_on(&shop, 4);
    assert_eq!(is_there(&mut clients, "user:5"), [true; 2], "{}", shop.said());
}

#[test]
fn a_mariadb_primary_that_is_made_a_replica_is_left_and_nothing_is_missing() {
    a_switch_loses_nothing::<MariaDb>();
}

#[test]
fn a_mysql_primary_that_is_made_a_replica_is_left_and_nothing_is_missing() {
    if mysql::is_there() {
        a_switch_loses_nothing::<MySql>();
    }
}

fn a_switch_loses_nothing<D: Replicating>() {
    let mut shop = shop::<D>();
    let _daemon = shop.daemon();
    goes_on(&shop, 1);
    shop.sql().ask("SET GLOBAL read_only = 1");
    shop.database.wait_for_replica();
    shop.database.promote();
    goes_on(&shop, 2);
    let counted = ["lost_transactions_total", "gaps_total", "host"].map(|name| shop.metric(name));
    assert_eq!(counted, [Some(0), Some(0), Some(0)], "{}", shop.said());
}

/// A replica that lost its own log has nothing that a position could be found in.
#[test]
fn a_host_whose_log_has_nothing_in_common_with_what_was_read_is_a_gap() {
    let mut shop = shop::<MariaDb>();
    let mut daemon = shop.daemon();
    goes_on(&shop, 1);
    stop(&mut daemon);
    shop.database.promote();
    let mut sql = shop.database.replica();
    sql.ask("RESET MASTER");
    sql.ask(&change(2));
    shop.database.kill();
    let (_, words) = shop.asks("check");
    assert!(words.contains("nothing in common with it"), "{words}");
    shop.ends(3, "its log has nothing in common with it");
    assert!(shop.said().contains("flush the caches"), "{}", shop.said());
    fill(&shop, &["user:2", "other"]);
    shop.reconfigure("\"server_id\"", "\"on_gap\": \"flush\", \"server_id\"");
    let _daemon = shop.daemon();
    goes_on(&shop, 3);
    assert_eq!(is_there(&mut shop.clients(), "other"), [false; 2], "{}", shop.said());
    assert_eq!(shop.metric("gaps_total"), Some(1));
}

/// The slot isn't at the standby; or somebody made it after the promotion, and the log has grown beyond what was read: then nothing but
/// the timeline tells.
#[test]
fn a_promoted_postgresql_is_a_gap_also_if_somebody_makes_the_slot() {
    for is_slot_made in [false, true] {
        let schema = "CREATE TABLE users (id INT PRIMARY KEY, v TEXT); \
                      INSERT INTO users VALUES (1, ''), (2, ''), (3, ''), (4, '')";
        let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
        let more = r#", "on_gap": "flush""#;
        let mut shop = Shop::<Postgres>::new(2, schema, rules, true, more);
        let standby = shop.database.standby();
        let host = format!("\"127.0.0.1:{}\"", shop.database.port);
        shop.reconfigure(&host, &format!("\"127.0.0.1:{}\", {host}", standby.port));
        let (is_good, words) = shop.asks("check");
        assert!(is_good && words.contains("it is a standby"), "{words}");
        let mut daemon = shop.daemon();
        let (mut sql, mut clients) = (shop.sql(), shop.clients());
        let fill = |clients: &mut [Client], key: &str| {
            clients.iter_mut().for_each(|client| drop(client.set(key, b"v")));
        };
        fill(&mut clients, "user:1");
        sql.ask("UPDATE users SET v = 'a' WHERE id = 1");
        shop.catch_up(&mut sql);
        assert_eq!(is_there(&mut clients, "user:1"), [false; 2], "{}", shop.said());
        assert_eq!(shop.metric("host"), Some(1), "{}", shop.said());
        let mut other = standby.opener()();
        eventually("it is replicated", || other.ask("SELECT v FROM users WHERE id = 1") == ["a"]);
        other.ask("ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()");
        eventually("it is cut", || other.ask("SELECT count(*) FROM pg_stat_wal_receiver") == ["0"]);
        let long = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 60000) n)";
        sql.ask(&format!("UPDATE users SET v = {long} WHERE id = 2"));
        shop.catch_up(&mut sql);
        if is_slot_made {
            stop(&mut daemon);
        }
        for key in ["user:2", "user:3", "other"] {
            fill(&mut clients, key);
        }
        shop.database.kill();
        other.ask("SELECT pg_promote()");
        if is_slot_made {
            other.ask("SELECT pg_create_logical_replication_slot('guira', 'pgoutput')");
            other.ask("UPDATE users SET v = 'b' WHERE id = 3");
            other.ask(&format!(
                "CREATE TABLE more AS SELECT {long} || n FROM generate_series(1, 3) n"
            ));
            other.ask("CHECKPOINT");
            daemon = shop.daemon();
        }
        eventually("all is flushed", || is_there(&mut clients, "other") == [false; 2]);
        for key in ["user:2", "user:3"] {
            assert_eq!(is_there(&mut clients, key), [false; 2], "{}", shop.said());
        }
        within(20, "it is read", || shop.metric("reading") == Some(1));
        fill(&mut clients, "user:4");
        fill(&mut clients, "other");
        other.ask("UPDATE users SET v = 'c' WHERE id = 4");
        shop.catch_up(&mut other);
        assert_eq!(is_there(&mut clients, "user:4"), [false; 2], "{}", shop.said());
        assert_eq!(is_there(&mut clients, "other"), [true; 2], "{}", shop.said());
        assert_eq!(shop.metric("gaps_total"), Some(1), "{}", shop.said());
        assert!(shop.said().contains("the host was promoted at"), "{}", shop.said());
        stop(&mut daemon);
    }
}

/// A replica that is followed on purpose, and another that lags: nothing of that is lost.
#[test]
fn a_replica_that_lags_is_passed_over_and_loses_nothing() {
    let shop = shop::<MariaDb>();
    shop.reconfigure("\"server_id\"", "\"tail\": \"any\", \"server_id\"");
    let mut daemon = shop.daemon();
    assert_eq!(shop.metric("host"), Some(0), "the replica is named first: {}", shop.said());
    stop(&mut daemon);
    // The primary alone is ahead now, and was followed.
    shop.reconfigure("\"any\"", "\"primary\"");
    let mut daemon = shop.daemon();
    shop.database.replica().ask(MariaDb::CUT);
    goes_on(&shop, 1);
    stop(&mut daemon);
    shop.reconfigure("\"primary\"", "\"replica\"");
    fill(&shop, &["user:1"]);
    let _daemon = shop.begin();
    within(20, "it lags", || shop.said().contains("it lags behind"));
    thread::sleep(Duration::from_millis(500));
    assert_eq!(shop.metric("lost_transactions_total"), Some(0), "{}", shop.said());
    assert_eq!(is_there(&mut shop.clients(), "user:1"), [true; 2], "{}", shop.said());
    shop.database.replica().ask("START SLAVE");
    within(20, "it is read", || shop.metric("reading") == Some(1));
    goes_on(&shop, 2);
    assert_eq!(shop.metric("host"), Some(0), "{}", shop.said());
}
