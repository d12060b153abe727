//! What look-ups and inserts cost as tables fill, and when the first insert fails.
//!
//! Keys enter in a random order, so that at any load those present are spread over all item memory, and a look-up's item
//! costs the same whatever the load: what rises is the table's own share.

use crate::baseline::chain::Chain;
use crate::baseline::items::{Items, Key};
use crate::baseline::linear::Linear;
use crate::baseline::single_writer::{Design, Paths, SingleWriter};
use crate::figures::{axis, check, series, table};
use crate::measure::{Spread, cpu_ns};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_index::{Entry as _, Full, Hash, Hopscotch, Hopscotch64, Index, Items as _, Location};
use std::hint::black_box;
use std::sync::Arc;

/// Ours: the paper has no such figure, only the sentence.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "hop-load",
    paper: Paper::Hopscotch,
    title: "look-ups and inserts as tables fill, and the load at the first failure",
    claim: "with neighbourhoods of 32 the table is over 90 % full before it must be resized, and look-ups cost the same \
            however full it is",
    shape: "hopscotch look-ups at the highest load within 10 % of those at half load; the first insert fails at 0.80 to 0.89 \
            of the slots with H = 32, above 0.90 only with H = 64",
    verdict: Verdict::NotReproduced(
        "the look-ups are as flat as claimed, but with H = 32 the first insert fails between 0.80 and 0.89 of the slots, \
         earlier the larger the table; over 0.90 takes H = 64",
    ),
    is_quick: false,
    run,
};

/// A table that is filled bit by bit.
trait Filling {
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location>;
    fn enter(&mut self, hash: Hash, items: &Items, at: Location) -> Result<(), Full>;
}

impl<I: Index> Filling for I {
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        Index::get(self, hash, is_key)
    }

    fn enter(&mut self, hash: Hash, items: &Items, at: Location) -> Result<(), Full> {
        self.entry(hash, items, |found| found == at).map(|mut entry| {
            entry.put(at);
        })
    }
}

impl Filling for Linear {
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        Linear::get(self, hash, is_key)
    }

    fn enter(&mut self, hash: Hash, _: &Items, at: Location) -> Result<(), Full> {
        Linear::enter(self, hash, at)
    }
}

/// What was measured of one table: by load, in percent, and the load it reached.
struct Line {
    name: &'static str,
    hits: Vec<(f64, f64)>,
    inserts: Vec<(f64, f64)>,
    reached: f64,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let slots = 1_usize << run.scale.pick(21, 24);
    let items = Arc::new(Items::new(u32::try_from(slots).expect("32 bits")));
    let paths = Design { paths: Paths::BreadthFirst, ..Design::MEMC3 };
    let step = |done: f64, name| (run.progress)(done, name);
    step(0.0, "hopscotch");
    let mut lines = vec![
        fill("hopscotch, H = 32", Hopscotch::with_slots(slots), &items, run.seed),
        fill("hopscotch, H = 64", Hopscotch64::with_slots(slots), &items, run.seed),
    ];
    step(0.4, "cuckoo");
    let cuckoo = SingleWriter::new(slots / 4, paths);
    lines.push(fill("cuckoo, 2 × 4 slots", cuckoo, &items, run.seed));
    step(0.55, "linear probing");
    lines.push(fill("linear probing", Linear::new(slots), &items, run.seed));
    step(0.7, "chaining");
    let chain = Chain::new(slots * 3 / 2, 1, Arc::clone(&items));
    lines.push(fill("chaining, a head a slot", chain, &items, run.seed));
    step(0.85, "first failures");
    let bits = run.scale.pick([16, 18, 19, 20], [16, 18, 20, 22]);
    let failures = bits.map(|bits| Failure::of(bits, run.seed));
    Ok(Outcome {
        plots: plots(&lines, &failures),
        tables: vec![costs(&lines), Failure::table(&failures)],
        checks: checks(&lines, &failures),
        reading: reading(&lines, &failures),
    })
}

/// Fills the table, and measures at each load.
fn fill(name: &'static str, mut filling: impl Filling, items: &Items, seed: u64) -> Line {
    let slots = items.count();
    let mut line = Line { name, hits: Vec::new(), inserts: Vec::new(), reached: 0.0 };
    let mut entered = 0;
    for percent in LOADS {
        let until = u32::try_from(u64::from(slots) * percent / 100).expect("below the slots");
        let (from, load) = (entered, percent as f64);
        let insert_ns = cpu_ns(|| {
            while entered < until {
                let number = shuffled(entered, slots);
                if filling.enter(items.hash(Location(number)), items, Location(number)).is_err() {
                    break;
                }
                entered += 1;
            }
            u64::from(entered - from).max(1)
        });
        line.reached = f64::from(entered) / f64::from(slots);
        let last = entered < until;
        let load = if last { line.reached * 100.0 } else { load };
        if entered > from {
            line.inserts.push((load, insert_ns));
            let look = |round| hits_ns(&filling, items, entered, seed + round);
            line.hits.push((load, Spread::of(&[0, 1, 2].map(look)).median));
        }
        if last {
            break;
        }
    }
    line
}

/// Nanoseconds of a look-up that waits for the one before it, of keys that are present.
fn hits_ns(filling: &impl Filling, items: &Items, entered: u32, seed: u64) -> f64 {
    let mut rng = Rng::new(mix(seed));
    let nothing = black_box(0);
    let mut last = 0;
    cpu_ns(|| {
        for _ in 0..LOOKUPS {
            let place = u32::try_from(rng.below(u64::from(entered))).expect("32 bits");
            let key = Key::new(shuffled(place + (last & nothing), items.count()));
            let at = filling.get(key.hash(), |at| items.is_key(at, &key));
            last = at.expect("it was entered").0;
        }
        LOOKUPS
    })
}

/// The number that is entered in this place: an order that visits each of `count`, a power of two, once.
fn shuffled(place: u32, count: u32) -> u32 {
    place.wrapping_mul(0x9e37_79b1) & (count - 1)
}

/// How full tables of so many slots are when the first insert fails.
struct Failure {
    slots_log2: u32,
    h32: f64,
    h64: f64,
}

impl Failure {
    fn of(slots_log2: u32, seed: u64) -> Self {
        let slots = 1 << slots_log2;
        // One unlucky neighbourhood decides, so that single tables differ by several hundredths.
        let middle = |fill: fn(usize, u64) -> f64| {
            Spread::of(&[0, 1, 2, 3, 4].map(|table| fill(slots, seed + table))).median
        };
        let h32 = middle(|slots, seed| first_failure(&Hopscotch::with_slots(slots), slots, seed));
        let h64 = middle(|slots, seed| first_failure(&Hopscotch64::with_slots(slots), slots, seed));
        Self { slots_log2, h32, h64 }
    }

    fn table(failures: &[Self]) -> Table {
        let row = |f: &Self| {
            let papers = if f.slots_log2 == 20 { "above 0.90" } else { "–" };
            let cells = [format!("2^{}", f.slots_log2), format!("{:.3}", f.h32), papers.into()];
            cells.into_iter().chain([format!("{:.3}", f.h64)]).collect()
        };
        table(
            "Load at the first failed insert, medians of five tables",
            &["slots", "H = 32", "paper, H = 32", "H = 64"],
            failures.iter().map(row).collect(),
        )
    }
}

fn first_failure(filling: &impl Index, slots: usize, seed: u64) -> f64 {
    let numbers = Numbers(mix(seed));
    let enters = |&number: &u32| {
        let entry = filling.entry(numbers.hash(Location(number)), &numbers, |at| at.0 == number);
        entry.map(|mut entry| entry.put(Location(number))).is_ok()
    };
    (0..u32::MAX).take_while(enters).count() as f64 / slots as f64
}

/// Keys that are their own locations.
struct Numbers(u64);

impl guira_index::Items for Numbers {
    fn hash(&self, at: Location) -> Hash {
        Hash(mix(u64::from(at.0) ^ self.0))
    }
}

fn plots(lines: &[Line], failures: &[Failure]) -> Vec<Plot> {
    let plot = |title: &str, points: fn(&Line) -> &[(f64, f64)]| Plot {
        title: title.into(),
        x: axis("load, %"),
        y: axis("nanoseconds of processor time"),
        series: lines.iter().map(|line| series(line.name, points(line).iter().copied())).collect(),
    };
    let places = |load: fn(&Failure) -> f64| {
        failures.iter().map(move |f| (f64::from(f.slots_log2), load(f))).collect::<Vec<_>>()
    };
    let paper = failures.iter().map(|f| (f64::from(f.slots_log2), 0.9));
    vec![
        plot("Look-up of a present key", |line| &line.hits),
        plot("Insert", |line| &line.inserts),
        Plot {
            title: "Load at the first failed insert".into(),
            x: axis("slots, log2"),
            y: axis("share of the slots filled"),
            series: vec![
                series("H = 32", places(|f| f.h32)),
                series("H = 64", places(|f| f.h64)),
                crate::figures::papers("paper, H = 32: above", paper),
            ],
        },
    ]
}

fn costs(lines: &[Line]) -> Table {
    let half =
        |points: &[(f64, f64)]| points.iter().find(|p| p.0 >= 50.0).map_or(f64::NAN, |p| p.1);
    let most = |points: &[(f64, f64)]| points.last().map_or(f64::NAN, |p| p.1);
    let row = |line: &Line| {
        let figures =
            [half(&line.hits), most(&line.hits), half(&line.inserts), most(&line.inserts)];
        let cells = figures.map(|ns| format!("{ns:.0}"));
        [line.name.to_owned(), format!("{:.3}", line.reached)].into_iter().chain(cells).collect()
    };
    table(
        "Nanoseconds at half load and at the highest",
        &[
            "table",
            "load reached",
            "hit at 50 %",
            "hit at most",
            "insert to 50 %",
            "insert at most",
        ],
        lines.iter().map(row).collect(),
    )
}

/// Look-ups at the highest load reached, to those at half.
fn flatness(line: &Line) -> f64 {
    let half = line.hits.iter().find(|point| point.0 >= 50.0).map_or(f64::NAN, |point| point.1);
    line.hits.last().map_or(f64::NAN, |point| point.1 / half)
}

fn checks(lines: &[Line], failures: &[Failure]) -> Vec<Check> {
    let least = |load: fn(&Failure) -> f64| failures.iter().map(load).fold(1.0, f64::min);
    let most = failures.iter().map(|f| f.h32).fold(0.0, f64::max);
    let why = "a look-up reads one hop word and the slots it names, at most two lines at any load";
    vec![
        check(
            "hopscotch, H = 32: a look-up at the highest load, to half load",
            flatness(&lines[0]),
            Bound::AtMost(1.1),
            why,
        ),
        check(
            "hopscotch, H = 64: a look-up at the highest load, to half load",
            flatness(&lines[1]),
            Bound::AtMost(1.2),
            "four homes a line instead of six, so a look-up's two lines are both read more often",
        ),
        check(
            "H = 32: load at the first failure, the earliest",
            least(|f| f.h32),
            Bound::AtLeast(0.79),
            "simulations have 0.89 at 2^16 slots, 0.83 at 2^20, 0.80 at 2^22",
        ),
        check(
            "H = 32: load at the first failure, the latest",
            most,
            Bound::AtMost(0.9),
            "the paper has it above 0.90: not with H = 32",
        ),
        check(
            "H = 64: load at the first failure, the earliest",
            least(|f| f.h64),
            Bound::AtLeast(0.9),
            "simulations have 0.92 at 2^22 slots with H = 62",
        ),
    ]
}

fn reading(lines: &[Line], failures: &[Failure]) -> String {
    let [small, .., large] = failures else { unreachable!("several") };
    format!(
        "A hopscotch look-up at {:.0} % costs {:.2} of one at half load, linear probing's {:.2} at {:.0} %. With H = 32 the \
         first insert failed at {:.3} of 2^{} slots and at {:.3} of 2^{}: below the 0.90 that the paper states. H = 64 \
         reaches {:.3} and {:.3}.",
        lines[0].reached * 100.0,
        flatness(&lines[0]),
        flatness(&lines[3]),
        lines[3].reached * 100.0,
        small.h32,
        small.slots_log2,
        large.h32,
        large.slots_log2,
        small.h64,
        large.h64,
    )
}

/// Where it is measured, percent of the slots; a table that fails earlier is measured there.
const LOADS: [u64; 11] = [10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90];
const LOOKUPS: u64 = 1 << 18;
