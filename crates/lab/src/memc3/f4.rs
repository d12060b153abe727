//! MemC3, figure 4: what an insert costs as a cuckoo table fills, with one, two and three search paths.
//!
//! Keys are numbers without bytes, as for table 2. Beside the time, the keys moved an insert: that follows from the
//! algorithm alone, and is the same on any machine.

use super::t2::Numbers;
use crate::baseline::single_writer::{Design, Paths, SingleWriter};
use crate::figures::{axis, check, papers, series};
use crate::measure::{Spread, cpu_ns};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_index::Index as _;

/// Figure 4.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f4",
    paper: Paper::MemC3,
    title: "what an insert costs at each load, with 1, 2 and 3 search paths",
    claim: "inserts take at most 100 ns up to a load of 70 % and rise sharply towards 95 %, where one path takes 1.3 µs \
            and two take 0.84",
    shape: "at 70 % at most three times what an empty table takes, at 95 % at least three times that; two paths \
            faster than one from 93 to 95 %, breadth-first faster still and with a quarter of the moves",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// One way to search, by interval of load.
struct Line {
    name: &'static str,
    ns: Vec<f64>,
    moves: Vec<f64>,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let buckets = run.scale.pick(1 << 19, 1 << 24);
    let rounds = run.scale.pick(3, 1);
    let mut lines = Vec::new();
    for (done, (name, paths)) in SEARCHES.into_iter().enumerate() {
        (run.progress)(done as f64 / SEARCHES.len() as f64, name);
        let filled: Vec<Line> =
            (0..rounds).map(|round| fill(name, paths, buckets, run.seed + round)).collect();
        let middle = |figure: fn(&Line) -> &[f64]| {
            let of = |place| filled.iter().map(|line| figure(line)[place]).collect::<Vec<_>>();
            (0..LOADS.len() - 1).map(|place| Spread::of(&of(place)).median).collect()
        };
        lines.push(Line { name, ns: middle(|line| &line.ns), moves: middle(|line| &line.moves) });
    }
    Ok(Outcome {
        plots: vec![
            plot("Time of an insert", "nanoseconds", &lines, |line| &line.ns, true),
            plot("Keys moved an insert", "keys", &lines, |line| &line.moves, false),
        ],
        tables: Vec::new(),
        checks: checks(&lines),
        reading: reading(&lines),
    })
}

/// Fills a table interval by interval.
fn fill(name: &'static str, paths: Paths, buckets: usize, seed: u64) -> Line {
    let table = SingleWriter::new(buckets, Design { paths, ..Design::MEMC3 });
    let numbers = Numbers::new(seed);
    let mut line = Line { name, ns: Vec::new(), moves: Vec::new() };
    let place = |load: u32| {
        let keys = table.capacity() as u64 * u64::from(load) / 100;
        u32::try_from(keys).expect("32 bits")
    };
    for ends in LOADS.windows(2) {
        let range = place(ends[0])..place(ends[1]);
        let keys = f64::from(range.end - range.start);
        let before = table.moves();
        line.ns.push(cpu_ns(|| range.filter(|&n| numbers.enter(&table, n)).count() as u64));
        line.moves.push((table.moves() - before) as f64 / keys);
    }
    line
}

fn plot(
    title: &str,
    unit: &str,
    lines: &[Line],
    figure: fn(&Line) -> &[f64],
    has_papers: bool,
) -> Plot {
    let line = |line: &Line| {
        let points = LOADS[1..].iter().zip(figure(line)).map(|(&load, &y)| (f64::from(load), y));
        series(line.name, points)
    };
    let mut all: Vec<_> = lines.iter().map(line).collect();
    if has_papers {
        all.push(papers("paper: 1 path", [(70.0, 100.0), (95.0, 1300.0)]));
        all.push(papers("paper: 2 paths", [(70.0, 100.0), (95.0, 840.0)]));
    }
    Plot { title: title.into(), x: axis("load, %"), y: axis(unit), series: all }
}

fn checks(lines: &[Line]) -> Vec<Check> {
    let [one, two, _, breadth] = lines else { unreachable!("four searches") };
    let last = one.ns.len() - 1;
    let seventy = LOADS.iter().position(|&load| load == 70).expect("a place") - 1;
    // The first interval touches memory for the first time.
    let (early, middle, late) = (two.ns[1], two.ns[seventy], two.ns[last]);
    vec![
        check(
            "two paths: an insert at 70 %, to one at 10 %",
            middle / early,
            Bound::AtMost(3.0),
            "up to 70 % hardly a key moves; what rises is the chance that the first bucket is full",
        ),
        check(
            "two paths: an insert at 95 %, to one at 70 %",
            late / middle,
            Bound::AtLeast(3.0),
            "the paper has 8 at 95 %; less here, where the interval from 93 % on is averaged",
        ),
        check(
            "an insert from 93 to 95 %: two paths, to one",
            two.ns[last] / one.ns[last],
            Bound::AtMost(0.95),
            "the paper has 0.65: the buckets of two paths are fetched together, and the walk is shorter",
        ),
        check(
            "an insert from 93 to 95 %: breadth-first, to two paths",
            breadth.ns[last] / two.ns[last],
            Bound::AtMost(0.9),
            "fewer moves, though it looks at more buckets",
        ),
        check(
            "keys moved an insert from 93 to 95 %: two paths, to one",
            two.moves[last] / one.moves[last],
            Bound::AtMost(0.75),
            "simulations have 8.2 to 16.4; it follows from the algorithm and has no noise",
        ),
        check(
            "keys moved an insert from 93 to 95 %: breadth-first, to two paths",
            breadth.moves[last] / two.moves[last],
            Bound::AtMost(0.4),
            "simulations have 1.3 to 8.2",
        ),
    ]
}

fn reading(lines: &[Line]) -> String {
    let [one, two, three, breadth] = lines else { unreachable!("four searches") };
    let last = one.ns.len() - 1;
    let seventy = LOADS.iter().position(|&load| load == 70).expect("a place") - 1;
    format!(
        "At 70 % an insert takes {:.0} ns with two paths; from 93 to 95 % it takes {:.0}, {:.0} and {:.0} ns with one, two \
         and three, and {:.0} ns breadth-first, with {:.1}, {:.1}, {:.1} and {:.1} keys moved.",
        two.ns[seventy],
        one.ns[last],
        two.ns[last],
        three.ns[last],
        breadth.ns[last],
        one.moves[last],
        two.moves[last],
        three.moves[last],
        breadth.moves[last],
    )
}

const SEARCHES: [(&str, Paths); 4] = [
    ("1 path", Paths::Parallel(1)),
    ("2 paths", Paths::Parallel(2)),
    ("3 paths", Paths::Parallel(3)),
    ("breadth-first", Paths::BreadthFirst),
];
/// Ends of the intervals of load, percent.
const LOADS: [u32; 15] = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 88, 91, 93, 95];
