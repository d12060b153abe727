//! `guira invalidate` in a region that isn't the master: it follows the replica, and takes the tokens of writes out of their markers once
//! the replica has the writes. The application's part is in `crates/client/tests/regions.rs`.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use guira_tests::client::Client;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::pair::{Pair, Replicating, region};
use guira_tests::server::{eventually, send_signal, within};
use guira_tests::shop::Shop;
use rustix::process::Signal;

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                      CREATE TABLE mcinv (k VARCHAR(250) NOT NULL, opts VARCHAR(250)) ENGINE = InnoDB; \
                      INSERT INTO users VALUES (1, 1), (2, 1), (3, 1)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

/// A token whose deadline is so many seconds off.
fn token(left_s: u64, number: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    format!("{:08x}{number:08x}", since.as_secs() + left_s)
}

/// Marks a user with tokens, as writers do.
fn mark(client: &mut Client, user: u32, tokens: &[&str]) {
    let value: Vec<String> = tokens.iter().map(|token| format!("{token} ")).collect();
    client.set(&format!("r:user:{user}"), value.concat().as_bytes());
}

fn marker(client: &mut Client, user: u32) -> Option<String> {
    let value = client.get(&format!("r:user:{user}"))?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn write(user: u32, region: &str, token: &str) -> String {
    format!(
        "UPDATE shop.users SET v = v + 1 WHERE id = {user} /* mcinv:user:{user};mark={region}.{token} */"
    )
}

/// A region whose markers are cleared of an outbox's marks, too.
fn shop<D: Replicating>() -> Shop<Pair<D>> {
    let shop = region::<D>(SCHEMA, RULES);
    shop.reconfigure("\"comments\"", "\"outbox\": \"shop.mcinv\", \"comments\"");
    shop
}

fn catch_up<D: Replicating>(shop: &Shop<Pair<D>>) {
    shop.database.wait_for_replica();
    shop.catch_up(&mut shop.database.replica());
}

fn unmarked<D: Replicating>(shop: &Shop<Pair<D>>, result: &str) -> Option<u64> {
    shop.metric_of("unmarks_total", &[("result", result)])
}

#[test]
fn marks_of_this_region_go_once_mariadbs_replica_has_their_writes() {
    marks_go_with_their_writes::<MariaDb>();
}

#[test]
fn marks_of_this_region_go_once_mysqls_replica_has_their_writes() {
    if mysql::is_there() {
        marks_go_with_their_writes::<MySql>();
    }
}

fn marks_go_with_their_writes<D: Replicating>() {
    let shop = shop::<D>();
    let (is_good, words) = shop.asks("check");
    assert!(is_good, "{words}");
    let [first, second, third, other] = [1, 2, 3, 4].map(|number| token(600, number));
    let statement = write(1, "eu", &first);
    let (_, words) = shop.asks_with("explain", &["--statement", &statement]);
    assert!(words.contains("user:1: c1 delete (a comment"), "{words}");
    assert!(words.contains(&format!("r:user:1: c2 loses the mark {first} (a comment")), "{words}");
    let (code, words) = shop.asks_with("clear", &["--flush", "c2"]);
    assert!(code == Some(1) && words.contains("must not be flushed"), "{code:?} {words}");

    let mut daemon = shop.daemon();
    let (mut cache, mut pool) = (shop.clusters[0].client(), shop.clusters[1].client());
    let (mut sql, mut replica) = (shop.sql(), shop.database.replica());
    replica.ask(D::HOLD);
    mark(&mut pool, 1, &[&first, &other]);
    mark(&mut pool, 2, &[&second]);
    mark(&mut pool, 3, &[&third]);
    for user in 1..=3 {
        cache.set(&format!("user:{user}"), b"v");
        pool.set(&format!("user:{user}"), b"not a destination's of deletes");
    }
    sql.ask(&statement);
    sql.ask(&write(2, "us", &second));
    sql.ask(&format!("INSERT INTO shop.mcinv VALUES ('user:3', 'mark=eu.{third}')"));
    thread::sleep(Duration::from_secs(1));
    assert_eq!(marker(&mut pool, 1), Some(format!("{first} {other} ")), "the replica lacks it");
    assert!(cache.get("user:1").is_some() && shop.metric("marks_total") == Some(0));
    // A daemon that is killed clears them when it is there again.
    send_signal(daemon.0.id(), Signal::KILL);
    replica.ask(D::GO_ON);
    shop.database.wait_for_replica();
    assert_eq!(marker(&mut pool, 3), Some(format!("{third} ")));
    daemon = shop.daemon();
    catch_up(&shop);
    assert_eq!(marker(&mut pool, 1), Some(format!("{other} ")), "{}", shop.said());
    assert_eq!(marker(&mut pool, 2), Some(format!("{second} ")), "another region's");
    assert_eq!(marker(&mut pool, 3), None, "{}", shop.said());
    for user in 1..=3 {
        assert!(cache.get(&format!("user:{user}")).is_none(), "{user}");
        assert!(pool.get(&format!("user:{user}")).is_some(), "{user}");
    }
    assert_eq!((shop.metric("marks_total"), unmarked(&shop, "cleared")), (Some(2), Some(2)));
    // What is over is told.
    sql.ask(&write(1, "eu", &other.replace(&other[..8], "00000001")));
    sql.ask(&write(2, "eu", &token(600, 9)));
    catch_up(&shop);
    assert_eq!((unmarked(&shop, "late"), unmarked(&shop, "missing")), (Some(1), Some(1)));
    assert_eq!(shop.metric("options_total"), Some(0));
    drop(daemon);
}

/// The markers' pool is away: deletes go on, and marks go when it is back. A flush takes no markers.
#[test]
fn a_pool_of_markers_that_is_away_or_must_not_be_flushed_holds_up_no_delete() {
    let mut shop = shop::<MariaDb>();
    shop.reconfigure("\"server_id\"", "\"on_unknown\": \"flush\", \"server_id\"");
    let _daemon = shop.daemon();
    let (mut cache, mut pool) = (shop.clusters[0].client(), shop.clusters[1].client());
    let mut sql = shop.sql();
    let [first, second] = [1, 2].map(|number| token(600, number));
    mark(&mut pool, 1, &[&first, &second]);
    cache.set("user:1", b"v");
    shop.clusters[1].stop_router();
    sql.ask(&write(1, "eu", &first));
    eventually("the key goes", || cache.get("user:1").is_none());
    thread::sleep(Duration::from_secs(1));
    assert_eq!(marker(&mut pool, 1), Some(format!("{first} {second} ")));
    shop.clusters[1].refuse_flushes(false);
    within(30, "the mark goes", || marker(&mut pool, 1) == Some(format!("{second} ")));
    cache.set("other", b"v");
    sql.ask("TRUNCATE TABLE shop.users");
    catch_up(&shop);
    eventually("the cache is flushed", || cache.get("other").is_none());
    assert_eq!(marker(&mut pool, 1), Some(format!("{second} ")), "{}", shop.said());
    assert_eq!(shop.metric_of("flushes_total", &[("destination", "c2")]), Some(0));
}
