//! What `guira invalidate` costs, and how late its deletes are, at real databases:
//! `cargo bench -p guira-tests --bench invalidate -- mariadb mysql postgres`
//!
//! | figure | how |
//! |---|---|
//! | processor time for a row | the daemon's, while rows that rules are for, or rows of another table, are inserted in transactions of 10,000 |
//! | commit to delete | from the client's answer to the moment when a get of the key finds nothing; and from when the change was sent |
//! | the same under load | while 50,000 rows a second go into the other table, by transactions of 500 |
//! | deletes in a batch | acknowledged deletes by batches, under the load of matched rows |
//! | peak of memory | the daemon's, after a transaction of two million rows |
//!
//! `GUIRA_BIN` names the binary, else this profile's is built. Medians and 99 % are of 500 changes each.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::postgres::Postgres;
use guira_tests::server::{Running, peak_bytes_of};
use guira_tests::shop::{Database, Shop};
use guira_tests::sql::Sql;

/// How a database makes many rows.
#[derive(Clone, Copy)]
enum Series {
    MariaDb,
    MySql,
    Postgres,
}

impl Series {
    /// A statement that inserts rows with these numbers.
    fn insert(self, table: &str, from: u64, count: u64) -> String {
        let last = from + count - 1;
        let rows = match self {
            Self::MariaDb => format!("SELECT seq, 'name', 0 FROM seq_{from}_to_{last}"),
            Self::Postgres => format!("SELECT n, 'name', 0 FROM generate_series({from}, {last}) n"),
            Self::MySql => format!(
                "WITH RECURSIVE s AS (SELECT {from} AS n UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n, 'name', 0 FROM s"
            ),
        };
        format!("INSERT INTO {table} {rows}")
    }

    /// What a session begins with.
    fn begin(self) -> &'static str {
        match self {
            Self::MariaDb => "USE shop",
            Self::MySql => "USE shop; SET SESSION cte_max_recursion_depth = 1000000000",
            Self::Postgres => "SELECT 1",
        }
    }

    fn table(self, name: &str) -> String {
        let schema = if matches!(self, Self::Postgres) { "public" } else { "shop" };
        format!("{schema}.{name}")
    }
}

const SCHEMA: &str = "CREATE TABLE users (id BIGINT PRIMARY KEY, name VARCHAR(40), v INT); \
                      CREATE TABLE others (id BIGINT PRIMARY KEY, name VARCHAR(40), v INT)";
const MATCHED: u64 = 500_000;
const OTHERS: u64 = 3_000_000;
const IN_ONE: u64 = 2_000_000;
const CHANGES: u64 = 500;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let all = ["mariadb", "mysql", "postgres"].map(str::to_owned);
    for name in if asked.is_empty() { &all[..] } else { &asked[..] } {
        println!("{name}");
        match name.as_str() {
            "mariadb" => measure::<MariaDb>(Series::MariaDb),
            "mysql" if mysql::is_there() => measure::<MySql>(Series::MySql),
            "mysql" => println!("  it isn't there: nothing was measured"),
            "postgres" => measure::<Postgres>(Series::Postgres),
            _ => panic!("{name}: mariadb, mysql or postgres"),
        }
    }
}

fn measure<D: Database>(series: Series) {
    let rule = format!(r#"{{"table": "{}", "keys": ["user:{{id}}"]}}"#, series.table("users"));
    let shop = Shop::<D>::new(1, SCHEMA, &rule, true, "");
    let daemon = shop.daemon();
    let mut sql = session(&shop, series);
    println!("  idle: {} KiB", peak(&daemon) >> 10);
    idle_and_loaded(&shop, &mut sql, series);
    let (batches, deletes) = (shop.metric("batches_total"), shop.metric("deletes_total"));
    let matched = cpu_of_rows(&shop, &daemon, &mut sql, series, "users", MATCHED);
    if let (Some(before), Some(batches)) = (batches, shop.metric("batches_total")) {
        let deletes = shop.metric("deletes_total").unwrap_or(0) - deletes.unwrap_or(0);
        println!(
            "  deletes in a batch, which is one write, under load: {}",
            deletes / (batches - before).max(1)
        );
    }
    let others = cpu_of_rows(&shop, &daemon, &mut sql, series, "others", OTHERS);
    println!(
        "  processor time: {matched:.2} us a matched row, {others:.3} us a row of another table"
    );
    sql.ask(&series.insert("users", 2_000_000_000, IN_ONE));
    shop.catch_up(&mut sql);
    println!("  peak after a transaction of {IN_ONE} matched rows: {} KiB", peak(&daemon) >> 10);
}

fn session<D: Database>(shop: &Shop<D>, series: Series) -> Sql {
    let mut sql = shop.sql();
    sql.ask(series.begin());
    sql
}

fn peak(daemon: &Running) -> u64 {
    peak_bytes_of(daemon.0.id()).expect("it runs")
}

/// Microseconds of the daemon's processor time for each row.
fn cpu_of_rows<D: Database>(
    shop: &Shop<D>,
    daemon: &Running,
    sql: &mut Sql,
    series: Series,
    table: &str,
    rows: u64,
) -> f64 {
    const AT_ONCE: u64 = 10_000;
    let from = 1_000_000_000;
    let before = cpu_seconds(daemon);
    for chunk in 0..rows / AT_ONCE {
        sql.ask(&series.insert(table, from + chunk * AT_ONCE, AT_ONCE));
    }
    shop.catch_up(sql);
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let rows = rows as f64;
    (cpu_seconds(daemon) - before) * 1e6 / rows
}

/// User's and system's time of a process.
fn cpu_seconds(of: &Running) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.0.id())).expect("it runs");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    // Fields 14 and 15 of proc(5), in hundredths of a second on Linux.
    (ticks(11) + ticks(12)) / 100.0
}

fn idle_and_loaded<D: Database>(shop: &Shop<D>, sql: &mut Sql, series: Series) {
    sql.ask(&series.insert("users", 1, CHANGES * 2));
    shop.catch_up(sql);
    late(shop, sql, 1, "idle");
    let (is_over, rows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let loader = {
        let (is_over, rows) = (Arc::clone(&is_over), Arc::clone(&rows));
        let mut sql = session(shop, series);
        thread::spawn(move || {
            let begun = Instant::now();
            for chunk in 0_u32.. {
                if is_over.load(Relaxed) {
                    break;
                }
                let from = 100_000_000 + u64::from(chunk) * 500;
                sql.ask(&series.insert("others", from, 500));
                rows.fetch_add(500, Relaxed);
                // A chunk each 10 ms; what is late catches up.
                let due = begun + Duration::from_millis(10) * chunk;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        })
    };
    let begun = Instant::now();
    late(shop, sql, 1 + CHANGES, "under load");
    let took = begun.elapsed();
    is_over.store(true, Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let rate = rows.load(Relaxed) as f64 / took.as_secs_f64();
    loader.join().expect("it ends");
    println!("  the load was {rate:.0} rows a second");
    shop.catch_up(sql);
}

/// Changes one row after the other, and waits until its key goes.
fn late<D: Database>(shop: &Shop<D>, sql: &mut Sql, from: u64, what: &str) {
    let mut client = shop.clusters[0].client();
    let (mut since_answer, mut since_sent) = (Vec::new(), Vec::new());
    for id in from..from + CHANGES {
        let key = format!("user:{id}");
        client.set(&key, b"v");
        let sent = Instant::now();
        sql.ask(&format!("UPDATE users SET v = v + 1 WHERE id = {id}"));
        let answered = Instant::now();
        while client.get(&key).is_some() {
            assert!(answered.elapsed() < Duration::from_secs(60), "{key} stays: {}", shop.said());
        }
        let gone = Instant::now();
        since_answer.push(gone - answered);
        since_sent.push(gone - sent);
        thread::sleep(Duration::from_millis(2));
    }
    for (name, mut times) in [("the answer", since_answer), ("the change was sent", since_sent)] {
        times.sort();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        println!("  {what}, since {name}: 50 % {:.2} ms, 99 % {:.2} ms", at(50), at(99));
    }
}
