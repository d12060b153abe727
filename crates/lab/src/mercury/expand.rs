//! Mercury's expansion: what a table's users notice while it doubles.
//!
//! Two tables get the same requests, slice by slice in turns: nine gets of keys that stay, one insert of a new key. One
//! has grown before (its keys were entered once and removed again), the other doubles meanwhile, with a thread in the
//! background as the server has it. What lies between them is what growth costs whoever waits for answers.

use crate::baseline::items::{Items, Key};
use crate::drive::pick;
use crate::figures::{axis, check, papers, series, table};
use crate::measure::{Spread, thread_cpu};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_index::{Chained, Cuckoo, Entry as _, Hopscotch, Index, Location};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The expansion of section 3.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "merc-expand",
    paper: Paper::Mercury,
    title: "throughput while the table doubles",
    claim: "expansion in the background costs 9 % of the throughput, and its changes of state take less than a \
            microsecond",
    shape: "requests cost at most a ninth more while the table doubles; no insert takes a millisecond of the processor",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// What was measured of one index.
struct Doubled {
    name: &'static str,
    /// By slice: nanoseconds of processor time a request, with room and while doubling.
    slices: Vec<[f64; 2]>,
    /// Processor time of each insert of another doubling, seconds, longest first.
    longest: Vec<f64>,
}

impl Doubled {
    /// The throughput left, as the median of slices.
    fn kept(&self) -> f64 {
        Spread::of(
            &self
                .slices
                .iter()
                .map(|[with_room, doubling]| with_room / doubling)
                .collect::<Vec<_>>(),
        )
        .median
    }

    fn over_a_millisecond(&self) -> usize {
        self.longest.iter().take_while(|&&s| s > 1e-3).count()
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let items = Items::new(run.scale.pick(1 << 22, 1 << 25));
    (run.progress)(0.0, "Mercury");
    let mut all = vec![double("Mercury", Chained::with_max, &items, run.seed)];
    (run.progress)(0.4, "cuckoo");
    all.push(double("cuckoo, ours", Cuckoo::with_max, &items, run.seed));
    (run.progress)(0.7, "hopscotch");
    all.push(double("hopscotch", Hopscotch::with_max, &items, run.seed));
    Ok(outcome(&all, items.count()))
}

fn double<I: Index>(
    name: &'static str,
    new: impl Fn(usize) -> I,
    items: &Items,
    seed: u64,
) -> Doubled {
    let (count, half) = (items.count(), items.count() / 2);
    let fresh = || {
        let index = new(count as usize);
        (0..half).for_each(|number| put(&index, items, number));
        while index.maintain(items, STEPS) {}
        index
    };
    let with_room = new(count as usize);
    (0..count).for_each(|number| put(&with_room, items, number));
    while with_room.maintain(items, STEPS) {}
    (half..count).for_each(|number| remove(&with_room, items, number));
    let doubling = fresh();
    let slices = in_the_background(&doubling, items, || {
        let one = |slice| {
            let numbers = half + slice * (half / SLICES)..half + (slice + 1) * (half / SLICES);
            [&with_room, &doubling].map(|index| requests(index, items, numbers.clone(), seed))
        };
        (0..SLICES).map(one).collect()
    });
    drop((with_room, doubling));
    let timed = fresh();
    let mut longest: Vec<f64> = in_the_background(&timed, items, || {
        (half..count).map(|number| seconds(|| put(&timed, items, number))).collect()
    });
    longest.sort_by(|a, b| b.total_cmp(a));
    Doubled { name, slices, longest }
}

/// Does `work` while another thread tends the index, as the server's sweeper does.
fn in_the_background<T>(index: &impl Index, items: &Items, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                index.touch_ahead(AHEAD);
                if !index.maintain(items, STEPS) {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            }
        });
        let done = work();
        is_done.store(true, Relaxed);
        done
    })
}

/// Nanoseconds of processor time a request: new keys of these numbers, each with nine gets of keys that stay.
fn requests(index: &impl Index, items: &Items, new: std::ops::Range<u32>, seed: u64) -> f64 {
    let mut rng = Rng::new(mix(seed ^ u64::from(new.start)));
    let nothing = black_box(0);
    let stable = 0..items.count() / 2;
    let mut last = 0;
    let count = new.len() as u64 * 10;
    crate::measure::cpu_ns(|| {
        for number in new {
            put(index, items, number + (last & nothing));
            for _ in 0..9 {
                let key = Key::new(pick(&mut rng, &stable) + (last & nothing));
                let at = index.get(key.hash(), |at| items.is_key(at, &key));
                last = at.expect("a key that stays is found").0;
            }
        }
        count
    })
}

fn put(index: &impl Index, items: &Items, number: u32) {
    let key = Key::new(number);
    let entry = index.entry(key.hash(), items, |at| items.is_key(at, &key));
    entry.expect("room").put(Location(number));
}

fn remove(index: &impl Index, items: &Items, number: u32) {
    let key = Key::new(number);
    if let Some(mut entry) = index.find_entry(key.hash(), |at| items.is_key(at, &key)) {
        entry.remove();
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = thread_cpu();
    work();
    (thread_cpu() - begun).as_secs_f64()
}

fn outcome(all: &[Doubled], items: u32) -> Outcome {
    let half = f64::from(items) / 2.0;
    let place = |slice: usize| (half + half * slice as f64 / f64::from(SLICES)) / 1e6;
    let line = |doubled: &Doubled| {
        let share =
            |(at, [with_room, doubling]): (usize, &[f64; 2])| (place(at), with_room / doubling);
        series(doubled.name, doubled.slices.iter().enumerate().map(share))
    };
    let mut lines: Vec<_> = all.iter().map(line).collect();
    lines.push(papers("paper: 9 % less", [(place(0), 0.91), (place(SLICES as usize), 0.91)]));
    let row = |doubled: &Doubled| {
        let middle = |which: usize| {
            Spread::of(&doubled.slices.iter().map(|slice| slice[which]).collect::<Vec<_>>()).median
        };
        let us = |place: usize| format!("{:.0}", doubled.longest[place] * 1e6);
        vec![
            doubled.name.to_owned(),
            format!("{:.0}", middle(0)),
            format!("{:.0}", middle(1)),
            format!("{:.2}", doubled.kept()),
            us(0),
            us(9),
            us(doubled.longest.len() / 10_000),
            doubled.over_a_millisecond().to_string(),
        ]
    };
    Outcome {
        plots: vec![Plot {
            title: "Throughput while the table doubles, to that with room".into(),
            x: axis("million keys"),
            y: axis("share"),
            series: lines,
        }],
        tables: vec![table(
            &format!("From {:.0} to {:.0} million keys; processor time", half / 1e6, half / 5e5),
            &[
                "index",
                "ns a request, with room",
                "while doubling",
                "throughput kept",
                "longest insert, µs",
                "10th longest",
                "99.99 %",
                "over 1 ms",
            ],
            all.iter().map(row).collect(),
        )],
        checks: checks(all),
        reading: format!(
            "While it doubles from {:.0} million keys, Mercury's table keeps {:.2} of its throughput (paper: 0.91), and its \
             longest insert of {:.1} million took {:.0} µs of the processor. Of the other tables the inserts themselves \
             make the growth: cuckoo keeps {:.2}, hopscotch {:.2}.",
            half / 1e6,
            all[0].kept(),
            half / 1e6,
            all[0].longest[0] * 1e6,
            all[1].kept(),
            all[2].kept(),
        ),
    }
}

fn checks(all: &[Doubled]) -> Vec<Check> {
    vec![
        check(
            "Mercury: throughput while doubling, to that with room",
            all[0].kept(),
            Bound::AtLeast(0.9),
            "the paper has 0.91; the work itself is done by the thread in the background",
        ),
        check(
            "Mercury: inserts that took over a millisecond of the processor",
            all[0].over_a_millisecond() as f64,
            Bound::AtMost(0.0),
            "a bucket is split in a tenth of a microsecond, and fresh pages are touched ahead",
        ),
    ]
}

const SLICES: u32 = 32;
/// Steps of growth that the thread in the background takes before it looks whether it shall end.
const STEPS: usize = 4096;
/// Keys for which pages are touched ahead.
const AHEAD: usize = 2_000_000;
