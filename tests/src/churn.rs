//! Random transactions of many kinds while everything is killed, beside a model that knows which keys must go.
//!
//! Each transaction changes rows of its own, whose keys nobody else fills or deletes: a delete that is lost leaves its key there for
//! the end. `GUIRA_TRANSACTIONS`, `GUIRA_KILLS` and `GUIRA_SEED` say how many, and which; `GUIRA_KILLED` one part that alone is killed: 0 the
//! daemon, 1 the database, 2 routers, 3 caches.

mod filler;
mod kinds;
mod chance;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::server::{Running, send_signal, within};
use crate::shop::{Database, Shop};
use crate::sql::Sql;
use chance::Chance;
use filler::{Fills, Place};
pub use kinds::Dialect;
use kinds::{Step, step};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    transactions: u64,
    kills: u64,
    seed: u64,
    only: Option<u64>,
}

impl Churn {
    /// What the environment says, or these.
    #[must_use]
    pub fn of_environment(transactions: u64, kills: u64) -> Self {
        let number = |name: &str, default| {
            std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
        };
        Self {
            transactions: number("GUIRA_TRANSACTIONS", transactions),
            kills: number("GUIRA_KILLS", kills),
            seed: number("GUIRA_SEED", 1),
            only: Some(number("GUIRA_KILLED", 4)).filter(|part| *part < 4),
        }
    }
}

/// What is to be true in the end.
#[derive(Default)]
struct Model {
    gone: HashMap<String, Fills>,
    kept: HashMap<String, Fills>,
    /// How many transactions there were, by kind, and how many of them were committed.
    kinds: HashMap<&'static str, (u64, u64)>,
    /// What became of them was asked for after the database was killed.
    interrupted: u64,
    /// Keys that were looked for before now, in each cluster: gone and kept.
    judged: (u64, u64),
}

/// Changes a database of that dialect while daemon, database, routers and caches are killed. In the end each key that a committed
/// transaction names is gone from each cluster that had it, and others are there.
///
/// # Panics
/// If one isn't.
pub fn loses_no_delete<D: Database>(dialect: Dialect, size: Churn) {
    let schema = dialect.schema(size.transactions);
    let rules = dialect.rules();
    let mut shop = Shop::<D>::new(2, &schema, &rules, true, dialect.source());
    let daemon = shop.daemon();
    let places: Vec<Place> = shop.clusters.iter().map(Place::of).collect();
    let epoch = Arc::new(AtomicU64::new(0));
    let written = Arc::new(AtomicU64::new(0));
    let model = Arc::new(Mutex::new(Model::default()));
    let is_held = Arc::new(AtomicBool::new(false));
    let writer = Writer {
        dialect,
        size,
        places: places.clone(),
        epoch: Arc::clone(&epoch),
        written: Arc::clone(&written),
        is_held: Arc::clone(&is_held),
    };
    let (open, writers) = (shop.database.opener(), Arc::clone(&model));
    let writer = thread::spawn(move || writer.run(&open, &writers));
    let mut killer = Killer {
        chance: Chance::new(size.seed ^ 0x5eed),
        only: size.only,
        daemon: Some(daemon),
        killed: [0; 4],
        model: Arc::clone(&model),
        is_held,
    };
    for kill in 0..size.kills {
        // Spread over the run, at no foreseeable time.
        let from = size.transactions * kill / size.kills.max(1);
        while written.load(Relaxed) < from && !writer.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(killer.chance.below(300)));
        killer.kill(&mut shop, &places, &epoch);
    }
    writer.join().expect("it ends");
    let Killer { daemon, killed, .. } = killer;
    let mut model = model.lock().expect("nobody panicked");
    judge(&shop, &mut model, &places);
    let (gone, kept) = model.judged;
    println!("{gone} keys gone and {kept} there, as they must be");
    assert!(gone > 0 && kept > 0, "{gone}, {kept}");
    let [daemons, databases, routers, caches] = killed;
    println!(
        "{} transactions (seed {}): {} interrupted; killed: {daemons} daemons, {databases} databases, {routers} routers, {caches} caches. {:?}",
        size.transactions, size.seed, model.interrupted, model.kinds
    );
    assert_eq!(shop.metric("unknown_total"), Some(0), "{}", shop.said());
    drop(daemon);
}

/// Waits until all changes are delivered, and looks for each key in each cluster that has had it ever since it was filled. Nothing may
/// change meanwhile. What was looked for is forgotten.
fn judge<D: Database>(shop: &Shop<D>, model: &mut Model, places: &[Place]) {
    shop.catch_up(&mut shop.sql());
    let Model { gone, kept, judged, .. } = model;
    for (number, place) in places.iter().enumerate() {
        let mut client = shop.clusters[number].client();
        let mut look = |keys: &HashMap<String, Fills>, is_there: bool, count: &mut u64| {
            let wrong: Vec<&String> = keys
                .iter()
                .filter(|(_, fills)| place.has_since(fills[number]))
                .inspect(|_| *count += 1)
                .filter(|(key, _)| client.get(key).is_some() != is_there)
                .map(|(key, _)| key)
                .collect();
            let words = if is_there { "deleted without a reason" } else { "still cached" };
            let some = &wrong[..wrong.len().min(20)];
            assert!(
                wrong.is_empty(),
                "c{}: {words}: {} keys: {some:?}: {}",
                number + 1,
                wrong.len(),
                shop.said()
            );
        };
        look(gone, false, &mut judged.0);
        look(kept, true, &mut judged.1);
    }
    gone.clear();
    kept.clear();
}

/// What kills, and what it killed: daemons, databases, routers, caches.
struct Killer {
    chance: Chance,
    only: Option<u64>,
    daemon: Option<Running>,
    killed: [u64; 4],
    model: Arc<Mutex<Model>>,
    /// Set while the writer is to wait.
    is_held: Arc<AtomicBool>,
}

impl Killer {
    fn kill<D: Database>(&mut self, shop: &mut Shop<D>, places: &[Place], epoch: &AtomicU64) {
        let (what, rest) = (self.chance.below(4), self.chance.below(400));
        let what = self.only.unwrap_or(what);
        let which = usize::try_from(self.chance.below(2)).expect("two clusters");
        self.killed[usize::try_from(what).expect("four kinds")] += 1;
        let pause = || thread::sleep(Duration::from_millis(rest));
        match what {
            0 => {
                let mut daemon = self.daemon.take().expect("it runs");
                assert!(daemon.0.try_wait().is_ok_and(|it| it.is_none()), "{}", shop.said());
                send_signal(daemon.0.id(), Signal::KILL);
                drop(daemon);
                pause();
                self.daemon = Some(shop.begin());
            }
            1 => {
                epoch.fetch_add(1, Relaxed);
                shop.database.kill();
                pause();
                shop.database.restart();
                // Whoever found it dead before the kill was counted sees that it was one.
                epoch.fetch_add(1, Relaxed);
            }
            2 => {
                shop.clusters[which].stop_router();
                pause();
                shop.clusters[which].refuse_flushes(false);
            }
            _ => {
                // What it holds can't be looked at later.
                self.is_held.store(true, Relaxed);
                judge(shop, &mut self.model.lock().expect("nobody panicked"), places);
                self.is_held.store(false, Relaxed);
                places[which].note_killed();
                shop.clusters[which].kill_server();
                pause();
                places[which].note_killed();
                shop.clusters[which].restart_server();
            }
        }
    }
}

/// What changes rows.
struct Writer {
    dialect: Dialect,
    size: Churn,
    places: Vec<Place>,
    /// How often the database was killed.
    epoch: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    is_held: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self, open: &impl Fn() -> Sql, model: &Mutex<Model>) {
        let mut chance = Chance::new(self.size.seed);
        let mut sql = open();
        sql.ask(self.dialect.begin());
        for number in 0..self.size.transactions {
            while self.is_held.load(Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            let mut model = model.lock().expect("nobody panicked");
            let step = step(self.dialect, number, &mut chance);
            let keys: Vec<&String> = step.gone.iter().chain(&step.kept).collect();
            let fills: Vec<Fills> = self.fill(&keys);
            let is_committed = self.execute(&mut sql, open, number, &step, &mut model);
            let counts = model.kinds.entry(step.kind).or_default();
            *counts = (counts.0 + 1, counts.1 + u64::from(is_committed == Some(true)));
            for (at, key) in keys.into_iter().enumerate() {
                // A transaction that another one's key is of: what is true of it now is what counts.
                model.gone.remove(key);
                model.kept.remove(key);
                let is_named = at < step.gone.len();
                match is_committed {
                    Some(true) if is_named => model.gone.insert(key.clone(), fills[at]),
                    Some(_) => model.kept.insert(key.clone(), fills[at]),
                    None => None,
                };
            }
            self.written.store(number + 1, Relaxed);
        }
    }

    /// Puts each key into each cluster that is there.
    fn fill(&mut self, keys: &[&String]) -> Vec<Fills> {
        let mut fills = vec![[None; 2]; keys.len()];
        for (number, place) in self.places.iter_mut().enumerate() {
            let filled = place.fill(keys);
            fills.iter_mut().for_each(|fill| fill[number] = filled);
        }
        fills
    }

    /// Whether it was committed; `None`: that isn't known, or means nothing.
    fn execute(
        &self,
        sql: &mut Sql,
        open: &impl Fn() -> Sql,
        number: u64,
        step: &Step,
        model: &mut Model,
    ) -> Option<bool> {
        let is_done = format!("SELECT 'is done' FROM done WHERE id = {number}");
        let is_there = |rows: Vec<String>| rows.iter().any(|row| row == "is done");
        let before = self.epoch.load(Relaxed);
        let told = sql.try_ask(&format!("{}; {is_done}", step.sql)).map(is_there);
        if told == Some(step.commits) {
            return told;
        }
        let is_killed = || self.epoch.load(Relaxed) != before;
        within(
            60,
            &format!("the database was killed, or {} {} failed", step.kind, step.sql),
            is_killed,
        );
        model.interrupted += 1;
        let mut done = None;
        within(60, "the database answers", || {
            *sql = open();
            // What was prepared waits for somebody who knows of it.
            let is_back = sql.try_ask(self.dialect.begin()).is_some()
                && self.dialect.commit_prepared(sql).is_some();
            done = if is_back { sql.try_ask(&is_done).map(is_there) } else { None };
            done.is_some()
        });
        done.filter(|_| !step.is_prepared)
    }
}
