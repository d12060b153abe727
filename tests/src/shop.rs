//! A shop: a real database, clusters in front of it, and `guira invalidate` between them.
//!
//! Whichever database it is: what a test needs to know of it is a [`Database`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::server::{Running, free_port, guira, send_signal, within, within_seldom};
use crate::sql::Sql;

/// A database whose log is followed.
pub trait Database: Sized {
    /// Starts one with a schema, and with all that the user `guira` needs, whose password is `secret`.
    fn with(schema: &str) -> Self;
    /// Its folder, in which files of the test stand, too.
    fn dir(&self) -> &Path;
    /// Fields of the source in the configuration, but for user and password.
    fn source(&self) -> String;
    /// Opens sessions, in other threads as well.
    fn opener(&self) -> impl Fn() -> Sql + Clone + Send + 'static;
    /// Ends it at once.
    fn kill(&mut self);
    /// Starts it again.
    fn restart(&mut self);
    /// The end of its log now.
    fn end(sql: &mut Sql) -> String;
    /// Whether a daemon that has read up to `read` has read all before `end`.
    fn has_read(sql: &mut Sql, read: &str, end: &str) -> bool;
}

/// All of it.
pub struct Shop<D> {
    /// What changes.
    pub database: D,
    /// What is kept.
    pub clusters: Vec<Cluster>,
    config: PathBuf,
    http: u16,
}

impl<D: Database> Shop<D> {
    /// A database with a schema, clusters `c1`, `c2`, …, and a configuration of these rules; `more` stands in the source.
    ///
    /// # Panics
    /// If something of it doesn't start.
    #[must_use]
    pub fn new(clusters: usize, schema: &str, rules: &str, leases: bool, more: &str) -> Self {
        let database = D::with(schema);
        let clusters: Vec<Cluster> = (0..clusters).map(|_| Cluster::start()).collect();
        let (dir, http) = (database.dir(), free_port());
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
            "sources": {{"db": {{{1}, "user": "guira", "password_file": "{0}/password" {more}}}}},
            "rules": [{rules}], "destinations": {{{destinations}}} }}"#,
            dir.display(),
            database.source()
        );
        let config = dir.join("invalidate.json");
        std::fs::write(&config, text).expect("a test can have it");
        Self { database, clusters, config, http }
    }

    /// Replaces a piece of the configuration.
    ///
    /// # Panics
    /// If it isn't there.
    pub fn reconfigure(&self, piece: &str, by: &str) {
        let text = std::fs::read_to_string(&self.config).expect("a test can have it");
        assert!(text.contains(piece), "{piece}");
        std::fs::write(&self.config, text.replace(piece, by)).expect("a test can have it");
    }

    /// The configuration.
    ///
    /// # Panics
    /// If it isn't there.
    #[must_use]
    pub fn config_text(&self) -> String {
        std::fs::read_to_string(&self.config).expect("a test can have it")
    }

    /// A destination as it stands in the configuration, with its name.
    ///
    /// # Panics
    /// If it isn't there.
    #[must_use]
    pub fn config_of(&self, destination: &str) -> String {
        let text = std::fs::read_to_string(&self.config).expect("a test can have it");
        let begin = text.find(&format!("\"{destination}\": {{")).expect("it is there");
        let length = text[begin..].find('}').expect("it has an end") + 1;
        text[begin..begin + length].to_owned()
    }

    /// A session of SQL.
    #[must_use]
    pub fn sql(&self) -> Sql {
        self.database.opener()()
    }

    /// A client of each cluster.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        self.clusters.iter().map(Cluster::client).collect()
    }

    fn command(&self, name: &str) -> Command {
        invalidate(name, &self.config)
    }

    /// Whether a command succeeds, and what it says.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn asks(&self, name: &str) -> (bool, String) {
        let (code, text) = self.asks_with(name, &[]);
        (code == Some(0), text)
    }

    /// A command's exit code with more arguments, and what it says.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn asks_with(&self, name: &str, more: &[&str]) -> (Option<i32>, String) {
        told_by(self.command(name).args(more))
    }

    /// Starts the daemon and waits until it reads.
    ///
    /// # Panics
    /// If it doesn't.
    #[must_use]
    pub fn daemon(&self) -> Running {
        let daemon = self.begin();
        for _ in 0..1500 {
            if self.metric("reading") == Some(1) {
                return daemon;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the daemon doesn't read: {}", self.said());
    }

    /// Starts the daemon.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn begin(&self) -> Running {
        let mut append = std::fs::OpenOptions::new();
        let log = append.create(true).append(true).open(self.database.dir().join("said"));
        let log = log.expect("a test can have it");
        let child: Child = self.command("run").stderr(log).spawn().expect("a test can have it");
        Running(child)
    }

    /// Starts a daemon, which ends by itself with a code and a sentence.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn ends(&self, code: i32, words: &str) {
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
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<u64> {
        self.metric_of(name, &[])
    }

    /// The same, of the series that have these labels.
    #[must_use]
    pub fn metric_of(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        scrape(self.http, name, labels)
    }

    /// Waits until what is committed is delivered everywhere.
    ///
    /// # Panics
    /// If it isn't.
    pub fn catch_up(&self, sql: &mut Sql) {
        let end = D::end(sql);
        let position = self.database.dir().join("state/db/position");
        let read = || std::fs::read_to_string(&position).unwrap_or_default();
        let mut is_done = || {
            let text = read();
            let of = |word| text.lines().find_map(move |line| line.strip_prefix(word));
            let (read, next) = (of("read "), of("next "));
            let cursors = text.lines().filter(|line| line.starts_with("cursor "));
            read.is_some_and(|read| D::has_read(sql, read, &end))
                && cursors.clone().count() == self.clusters.len()
                && cursors.clone().all(|line| line.rsplit(' ').next() == next)
        };
        for _ in 0..90 * 50 {
            if is_done() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("not within 90 seconds: all up to {end} is delivered: {}{}", read(), self.said());
    }

    /// What the daemons wrote into their log.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.database.dir().join("said")).unwrap_or_default()
    }

    /// Readers without leases fill caches, while rows of `table`, of [`ROWS`] and a number `v`, change, and daemon and
    /// database are killed, `GUIRA_KILLS` times or four. In the end no cached value is older than its row.
    ///
    /// # Panics
    /// If one is.
    pub fn stays_fresh_over_kills(&mut self, table: &'static str) {
        let kills: u32 =
            std::env::var("GUIRA_KILLS").map_or(4, |text| text.parse().expect("a number"));
        let mut daemon = Some(self.daemon());
        let [is_over, is_written] = [false; 2].map(|it| Arc::new(AtomicBool::new(it)));
        let written = Arc::new(AtomicU64::new(0));
        let open = self.database.opener();
        let mut threads = Vec::new();
        for (seed, client) in (0..).zip(self.clients()) {
            let (is_over, open) = (Arc::clone(&is_over), open.clone());
            threads.push(thread::spawn(move || read(client, (table, seed), &is_over, &open)));
        }
        let (ending, counting) = (Arc::clone(&is_written), Arc::clone(&written));
        let writer = thread::spawn(move || change(table, &ending, &open, &counting));
        for kill in 0..kills {
            let before = written.load(Relaxed);
            within(60, "rows change", || written.load(Relaxed) > before + 150);
            if kill % 4 == 3 {
                self.database.kill();
                self.database.restart();
            } else {
                drop(daemon.take());
                thread::sleep(Duration::from_millis(u64::from(kill % 3) * 100));
                daemon = Some(self.daemon());
            }
        }
        is_written.store(true, Relaxed);
        writer.join().expect("it ends");
        let mut sql = self.sql();
        // Readers go on filling until all is delivered, and a while longer: what a read that began before the last delete
        // stores is for the second delete.
        self.catch_up(&mut sql);
        thread::sleep(Duration::from_secs(1));
        let rows = sql.ask(&format!("SELECT id, v FROM {table}"));
        let all = self.clusters.len() * usize::from(ROWS);
        // Few values that are fresh show little. How long readers take depends on what else the machine does.
        within_seldom(60, "readers fill", || self.are_fresh(&rows) > all / 2);
        is_over.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        let (cached, changes) = (self.are_fresh(&rows), written.load(Relaxed));
        println!(
            "{changes} changes, {kills} kills, {cached} of {all} values cached in the end, none stale"
        );
        let mut daemon = daemon.expect("it runs");
        send_signal(daemon.0.id(), Signal::TERM);
        within(20, "the daemon ends", || {
            daemon.0.try_wait().is_ok_and(|it| it.is_some_and(|it| it.success()))
        });
    }

    /// How many values are cached, each as its row says.
    fn are_fresh(&self, rows: &[String]) -> usize {
        let rows: BTreeMap<&str, &str> =
            rows.iter().map(|row| row.split_once('\t').expect("two columns")).collect();
        assert_eq!(rows.len(), usize::from(ROWS));
        let mut cached = 0;
        for (number, mut client) in (1..).zip(self.clients()) {
            for (id, v) in &rows {
                if let Some(value) = client.get(&format!("user:{id}")) {
                    let value = String::from_utf8_lossy(&value);
                    assert_eq!(&value, v, "c{number}: user:{id} is stale: {}", self.said());
                    cached += 1;
                }
            }
        }
        cached
    }
}

/// A command of `guira invalidate` with a configuration.
#[must_use]
pub fn invalidate(name: &str, config: &Path) -> Command {
    let mut command = Command::new(guira());
    command.args(["invalidate", name, "-c"]).arg(config).stdin(Stdio::null());
    command
}

/// A command's exit code, and what it says.
///
/// # Panics
/// If it can't be started.
pub fn told_by(command: &mut Command) -> (Option<i32>, String) {
    let told = command.output().expect("a test can have it");
    let text = [told.stdout, told.stderr].concat();
    (told.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// What all series of a metric that have these labels add up to, of the daemon whose `http` is there.
#[must_use]
pub fn scrape(http: u16, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", http)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    let name = format!("guira_invalidate_{name}");
    let is_of = |line: &str| line.strip_prefix(&name).is_some_and(|it| it.starts_with(['{', ' ']));
    let has =
        |line: &str, (label, value): &(&str, &str)| line.contains(&format!("{label}=\"{value}\""));
    let values =
        text.lines().filter(|line| is_of(line) && labels.iter().all(|label| has(line, label)));
    let values: Vec<u64> =
        values.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Rows that change in turn, from 0 on. So many that a row changes again only after the second delete of its last change: else that
/// one would make up for a delete that was lost.
pub const ROWS: u16 = 2000;

/// Ends a daemon as an operator does.
///
/// # Panics
/// If it doesn't end.
pub fn stop(daemon: &mut Running) {
    send_signal(daemon.0.id(), Signal::TERM);
    within(20, "it ends", || daemon.0.try_wait().is_ok_and(|it| it.is_some()));
}

/// Gets keys; on a miss reads the row and sets it, without a lease.
fn read(
    mut client: Client,
    (table, seed): (&str, u64),
    is_over: &AtomicBool,
    open: &impl Fn() -> Sql,
) {
    let mut sql = open();
    let mut random = seed;
    while !is_over.load(Relaxed) {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = (random >> 40) % u64::from(ROWS);
        let key = format!("user:{id}");
        if client.get(&key).is_some() {
            // Else readers of what is cached leave the database no processor.
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        match sql.try_ask(&format!("SELECT v FROM {table} WHERE id = {id}")) {
            Some(rows) if rows.len() == 1 => drop(client.set(&key, rows[0].as_bytes())),
            _ => {
                thread::sleep(Duration::from_millis(50));
                sql = open();
            }
        }
    }
}

/// Counts rows up, in transactions of one to three.
fn change(table: &str, is_over: &AtomicBool, open: &impl Fn() -> Sql, written: &AtomicU64) {
    let mut sql = open();
    let mut number = 0_u64;
    let mut ids = (0..ROWS).cycle();
    while !is_over.load(Relaxed) {
        number += 1;
        let update = |id| format!("UPDATE {table} SET v = v + 1 WHERE id = {id}");
        let count = usize::try_from(number % 3 + 1).expect("a small number");
        let statements: Vec<String> = ids.by_ref().take(count).map(update).collect();
        let end = if number.is_multiple_of(10) { "ROLLBACK" } else { "COMMIT" };
        if sql.try_ask(&format!("BEGIN; {}; {end}", statements.join("; "))).is_none() {
            thread::sleep(Duration::from_millis(50));
            sql = open();
        }
        written.fetch_add(1, Relaxed);
    }
}
