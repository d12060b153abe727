//! Lookups and writes, compared with other concurrent tables, at sizes beyond the processor's caches.
//!
//! `cargo bench -p guira-index` (options: `-- --keys 20000000 --rounds 5 --operations 2000000`). All tables are built
//! in one process and measured in turn, round by round; the medians are printed with minimum and maximum. Rates are
//! operations per second of **CPU time** (user + system), summed over threads, so that a busy machine gives the same
//! result. Every operation includes making a key from its number and hashing it.
//!
//! All tables use huge pages: the program restarts itself with glibc's allocator set to advise them.

mod tables;

use guira_index::{Chained, Cuckoo, Hopscotch, Hopscotch64};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::process::CommandExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tables::{BATCH_MAX, Dash, Named, Ours, Papaya, Scc, Table};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let option = |name: &str, default: u32| {
        let at = args.iter().position(|arg| arg == name);
        at.map_or(default, |at| args[at + 1].parse().expect("a number"))
    };
    if std::env::var_os(TUNABLES).is_none() {
        let program = std::env::current_exe().expect("own path");
        let failed = std::process::Command::new(program)
            .args(&args[1..])
            .env(TUNABLES, "glibc.malloc.hugetlb=1")
            .exec();
        panic!("cannot start again: {failed}");
    }
    let plan = Plan {
        keys: option("--keys", 20_000_000),
        rounds: option("--rounds", 5),
        operations: option("--operations", 2_000_000),
        works: option("--works", 7),
    };
    let only = args.iter().position(|arg| arg == "--only").map(|at| args[at + 1].as_str());
    let keys = option("--growth", plan.keys / 2);
    growth::<Cuckoo>(keys);
    growth::<Hopscotch>(keys);
    growth::<Hopscotch64>(keys);
    growth::<Chained>(keys);
    compare(plan, only);
}

#[derive(Clone, Copy)]
struct Plan {
    keys: u32,
    rounds: u32,
    /// Operations per thread and measurement.
    operations: u32,
    /// How many kinds of work to measure, from the first on.
    works: u32,
}

/// Measures the longest single inserts while a table grows from nothing: alone, and with a thread that touches memory
/// ahead.
fn growth<I: Named>(keys: u32) {
    for ahead in [0, 2_000_000] {
        let ours = Ours::<I>::new(keys);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    ours.index.touch_ahead(ahead);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            grow(&ours, keys, ahead);
            is_done.store(true, Relaxed);
        });
    }
}

fn grow<I: Named>(ours: &Ours<I>, keys: u32, ahead: usize) {
    println!("{}: growth to {keys} keys, {ahead} keys touched ahead:", I::NAME);
    longest("insert", keys, |number| ours.put(number));
    // Lookups show what the machine itself adds, since they have nothing to wait for.
    longest("look-up", keys, |number| assert!(ours.contains(number)));
}

fn longest(what: &str, times: u32, work: impl Fn(u32)) {
    let mut pauses = Vec::with_capacity(times as usize);
    let start = now(ClockId::ThreadCPUTime);
    for number in 0..times {
        let before = now(ClockId::ThreadCPUTime);
        work(number);
        pauses.push(now(ClockId::ThreadCPUTime) - before);
    }
    let seconds = now(ClockId::ThreadCPUTime) - start;
    pauses.sort_by(f64::total_cmp);
    let us = |place: usize| pauses[pauses.len() - 1 - place.min(pauses.len() - 1)] * 1e6;
    println!(
        "  {what}: longest {:.0} us, 10th {:.0} us, 100th {:.0} us, 99.9 % {:.1} us ({seconds:.1} s of CPU)",
        us(0),
        us(9),
        us(99),
        us(pauses.len() / 1000),
    );
}

fn compare(plan: Plan, only: Option<&str>) {
    let mut rows: Vec<Row> = Vec::new();
    let contenders: Vec<Contender> = [
        contender::<Ours<Cuckoo>>,
        contender::<Ours<Hopscotch>>,
        contender::<Ours<Hopscotch64>>,
        contender::<Ours<Chained>>,
        contender::<Dash>,
        contender::<Papaya>,
        contender::<Scc>,
    ]
    .into_iter()
    .filter_map(|built| built(plan, only))
    .collect();
    for _ in 0..plan.rounds {
        for threads in [1, 2] {
            for work in WORKS.into_iter().take(plan.works as usize) {
                contenders.iter().for_each(|measure| measure(work, threads, &mut rows));
            }
        }
    }
    for row in &mut rows {
        row.rates.sort_by(f64::total_cmp);
        let rates = &row.rates;
        println!(
            "{:<18} {:<16} {} thread(s): {:>6.2} M/s  ({:.2} to {:.2})",
            row.table,
            row.work.name(),
            row.threads,
            rates[rates.len() / 2],
            rates[0],
            rates[rates.len() - 1],
        );
    }
}

/// Measures one kind of work on a filled table.
type Contender = Box<dyn Fn(Work, u32, &mut Vec<Row>)>;

/// Fills a table. Returns `None` if `only` is given and the table's name doesn't begin with it.
fn contender<T: Table + 'static>(plan: Plan, only: Option<&str>) -> Option<Contender> {
    if only.is_some_and(|only| !T::NAME.starts_with(only)) {
        return None;
    }
    let table = built::<T>(plan);
    Some(Box::new(move |work, threads, rows| measure(&table, work, threads, plan, rows)))
}

fn built<T: Table>(plan: Plan) -> T {
    let table = T::new(plan.keys);
    let before = resident_bytes();
    let start = now(ClockId::ThreadCPUTime);
    (0..plan.keys).for_each(|number| table.put(number));
    println!(
        "{}: filled at {:.2} M/s, {:.1} resident B/key{}",
        T::NAME,
        f64::from(plan.keys) / (now(ClockId::ThreadCPUTime) - start) / 1e6,
        (resident_bytes() - before) / f64::from(plan.keys),
        table.summary(),
    );
    table
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Hit,
    Miss,
    HitBatch,
    MissBatch,
    /// One operation in this many puts a present key again; the others are hits.
    Put(u32),
    /// Like `Put(2)`, but each pair of writes removes a key and enters another.
    Churn,
}

impl Work {
    fn name(self) -> String {
        match self {
            Self::Hit => "hit".into(),
            Self::Miss => "miss".into(),
            Self::HitBatch => "hit, batch 64".into(),
            Self::MissBatch => "miss, batch 64".into(),
            Self::Put(every) => format!("{} % writes", 100 / every),
            Self::Churn => "25+25 % churn".into(),
        }
    }
}

const WORKS: [Work; 7] = [
    Work::Hit,
    Work::Miss,
    Work::HitBatch,
    Work::MissBatch,
    Work::Put(10),
    Work::Put(2),
    Work::Churn,
];

struct Row {
    table: &'static str,
    work: Work,
    threads: u32,
    rates: Vec<f64>,
}

fn measure<T: Table>(table: &T, work: Work, threads: u32, plan: Plan, rows: &mut Vec<Row>) {
    let rate = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|id| scope.spawn(move || run(table, work, (id, threads), plan)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("measured")).sum::<f64>()
    });
    let same = |row: &&mut Row| (row.table, row.work, row.threads) == (T::NAME, work, threads);
    match rows.iter_mut().find(same) {
        Some(row) => row.rates.push(rate),
        None => rows.push(Row { table: T::NAME, work, threads, rates: vec![rate] }),
    }
}

/// Does one thread's work. Returns millions of operations per second of the thread's CPU time.
fn run<T: Table>(table: &T, work: Work, (id, threads): (u32, u32), plan: Plan) -> f64 {
    let mut random = Random(u64::from(id + 1) * 0x1234_5678_9abc_def1);
    let mut found = 0;
    let start = now(ClockId::ThreadCPUTime);
    match work {
        Work::Hit => (0..plan.operations)
            .for_each(|_| found += usize::from(table.contains(random.below(plan.keys)))),
        Work::Miss => (0..plan.operations).for_each(|_| {
            found += usize::from(!table.contains(plan.keys + random.below(plan.keys)));
        }),
        Work::HitBatch | Work::MissBatch => {
            let offset = if work == Work::HitBatch { 0 } else { plan.keys };
            for _ in 0..plan.operations as usize / BATCH_MAX {
                let numbers: [u32; BATCH_MAX] =
                    std::array::from_fn(|_| offset + random.below(plan.keys));
                let present = table.contains_all(&numbers);
                found += if offset == 0 { present } else { BATCH_MAX - present };
            }
            found += plan.operations as usize % BATCH_MAX;
        }
        Work::Put(every) => (0..plan.operations).for_each(|_| {
            let number = random.below(plan.keys);
            if random.below(every) == 0 {
                table.put(number);
                found += 1;
            } else {
                found += usize::from(table.contains(number));
            }
        }),
        Work::Churn => churn(table, id, threads, plan, &mut random, &mut found),
    }
    let seconds = now(ClockId::ThreadCPUTime) - start;
    assert_eq!(found, plan.operations as usize, "{} {}", T::NAME, work.name());
    f64::from(plan.operations) / seconds / 1e6
}

/// Of four operations, two read, one removes a key and one enters another. Afterwards the table has the same keys as
/// before.
fn churn<T: Table>(
    table: &T,
    id: u32,
    threads: u32,
    plan: Plan,
    random: &mut Random,
    found: &mut usize,
) {
    let share = plan.keys / threads;
    for round in 0..plan.operations / 4 {
        // Each thread removes keys of its own share, and puts back the key that it removed before.
        let number = |round: u32| id * share + round.wrapping_mul(2_654_435_761) % share;
        for _ in 0..2 {
            std::hint::black_box(table.contains(random.below(plan.keys)));
        }
        table.remove(number(round));
        if round > 0 {
            table.put(number(round - 1));
        }
        *found += 4;
    }
    (0..plan.operations / 4)
        .last()
        .into_iter()
        .for_each(|round| table.put(id * share + round.wrapping_mul(2_654_435_761) % share));
    *found += plan.operations as usize % 4;
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = self.0 >> 32;
        u32::try_from((high * u64::from(end)) >> 32).expect("below a 32-bit number")
    }
}

fn now(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.expect("resident pages") * 4096.0
}

const TUNABLES: &str = "GLIBC_TUNABLES";
