//! `guira invalidate` with etcd: of two daemons one is active, and the other one goes on where that is done when it dies, hangs or loses
//! etcd.

#![expect(clippy::disallowed_methods, reason = "a take-over is timed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use guira_tests::etcd::Etcd;
use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::postgres::Postgres;
use guira_tests::server::{eventually, within};
use guira_tests::shop::{Database, Shop};
use guira_tests::twins::Twin;
use rustix::process::Signal;

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY, v INT); \
                      INSERT INTO users VALUES (1, 0), (2, 0), (3, 0)";

/// Two of them, the first one active.
fn twins<D: Database>(etcd: &Etcd, lease: &str, table: &str) -> (Shop<D>, Twin, Twin) {
    let rules = format!(r#"{{"table": "{table}", "keys": ["user:{{id}}"]}}"#);
    let shop = Shop::<D>::new(1, SCHEMA, &rules, true, "");
    let mut first = Twin::of(&shop, etcd, lease, "first");
    let mut second = Twin::of(&shop, etcd, lease, "second");
    first.begin();
    first.reads();
    second.begin();
    second.waits();
    within(20, "a position is in etcd", || first.position().is_some());
    (shop, first, second)
}

#[test]
fn the_other_daemon_takes_over_when_the_active_one_is_killed_and_no_delete_is_lost() {
    another_takes_over_after_a_kill::<MariaDb>("shop.users");
}

#[test]
fn postgresqls_log_is_taken_over_when_the_active_daemon_is_killed_and_no_delete_is_lost() {
    another_takes_over_after_a_kill::<Postgres>("public.users");
}

#[test]
fn mysqls_log_is_taken_over_when_the_active_daemon_is_killed_and_no_delete_is_lost() {
    if mysql::is_there() {
        another_takes_over_after_a_kill::<MySql>("shop.users");
    }
}

fn another_takes_over_after_a_kill<D: Database>(table: &'static str) {
    let etcd = Etcd::start();
    let (shop, first, second) = twins::<D>(&etcd, "10s", table);
    let mut clients = shop.clients();
    let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(10)));
    let writer = {
        let (mut sql, is_over, written) = (shop.sql(), Arc::clone(&is_over), Arc::clone(&written));
        let mut client = shop.clients().remove(0);
        thread::spawn(move || {
            while !is_over.load(Relaxed) {
                let id = written.load(Relaxed);
                client.set(&format!("user:{id}"), b"old");
                sql.ask(&format!("INSERT INTO {table} VALUES ({id}, 0)"));
                written.store(id + 1, Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        })
    };
    within(30, "rows change", || written.load(Relaxed) > 300);
    let killed = Instant::now();
    first.signal(Signal::KILL);
    second.reads();
    let took = killed.elapsed();
    let before = written.load(Relaxed);
    within(30, "rows change", || written.load(Relaxed) > before + 100);
    is_over.store(true, Relaxed);
    writer.join().expect("it ends");
    let last = written.load(Relaxed);
    eventually("the last key goes", || {
        is_there(&mut clients, &format!("user:{}", last - 1)) == [false]
    });
    thread::sleep(Duration::from_millis(500));
    let left: Vec<u64> =
        (10..last).filter(|id| clients[0].get(&format!("user:{id}")).is_some()).collect();
    assert_eq!(left, [0; 0], "they are cached: {}", second.said());
    println!("the take-over took {took:?}, {} rows changed", last - 10);
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// The position that it began with isn't followed before etcd has it: what is changed from then on goes, whichever daemon reads it.
#[test]
fn a_daemon_that_is_killed_as_soon_as_it_reads_has_left_its_first_position() {
    let etcd = Etcd::start();
    let rules = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::<MariaDb>::new(1, SCHEMA, rules, true, "");
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let mut first = Twin::of(&shop, &etcd, "4s", "first");
    let mut second = Twin::of(&shop, &etcd, "4s", "second");
    first.begin();
    first.reads();
    first.signal(Signal::KILL);
    clients[0].set("user:1", b"old");
    sql.ask("UPDATE shop.users SET v = 1 WHERE id = 1");
    second.begin();
    second.reads();
    eventually("it goes", || is_there(&mut clients, "user:1") == [false]);
}

/// Its slot stays with the daemon that hangs, until the database gives that up.
#[test]
fn postgresqls_slot_is_taken_over_from_a_daemon_that_hangs() {
    let etcd = Etcd::start();
    let (shop, first, second) = twins::<Postgres>(&etcd, "4s", "public.users");
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let stopped = Instant::now();
    first.signal(Signal::STOP);
    clients[0].set("user:1", b"old");
    sql.ask("UPDATE users SET v = 1 WHERE id = 1");
    second.reads();
    println!("the take-over of the slot took {:?}", stopped.elapsed());
    eventually("it goes", || is_there(&mut clients, "user:1") == [false]);
    first.signal(Signal::CONT);
    first.says("steps down: its lease in etcd");
    first.waits();
    clients[0].set("user:2", b"old");
    sql.ask("UPDATE users SET v = 1 WHERE id = 2");
    eventually("it goes", || is_there(&mut clients, "user:2") == [false]);
    assert_eq!(second.metric("active"), Some(1), "{}", second.said());
}

#[test]
fn a_daemon_that_hung_steps_down_and_one_that_lost_etcd_sends_nothing() {
    let mut etcd = Etcd::start();
    let (shop, first, second) = twins::<MariaDb>(&etcd, "4s", "shop.users");
    let (mut sql, mut clients) = (shop.sql(), shop.clients());
    let stopped = Instant::now();
    first.signal(Signal::STOP);
    second.reads();
    println!("the take-over from a stopped one took {:?}", stopped.elapsed());
    clients[0].set("user:1", b"old");
    sql.ask("UPDATE shop.users SET v = 1 WHERE id = 1");
    eventually("it goes", || is_there(&mut clients, "user:1") == [false]);
    let end = sql.ask("SELECT @@gtid_binlog_pos").concat();
    within(20, "it is done with", || second.position().as_ref() == Some(&end));
    first.signal(Signal::CONT);
    first.says("steps down: its lease in etcd");
    first.waits();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(second.position().as_ref(), Some(&end), "{}", first.said());
    assert_eq!(second.metric("active"), Some(1), "{}", second.said());
    assert_eq!(second.metric("connects_total"), Some(1), "{}", second.said());
    // etcd hangs: nobody is active before long.
    etcd.signal(Signal::STOP);
    within(20, "it stops by itself", || second.metric("active") != Some(1));
    clients[0].set("user:2", b"old");
    sql.ask("UPDATE shop.users SET v = 2 WHERE id = 2");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(is_there(&mut clients, "user:2"), [true], "{}", second.said());
    second.says("steps down: its lease in etcd may have ended");
    etcd.signal(Signal::CONT);
    eventually("it goes", || is_there(&mut clients, "user:2") == [false]);
    etcd.end();
}
