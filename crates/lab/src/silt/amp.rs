//! SILT's reads per get and bytes written per byte put, compared with the paper's analysis.
//!
//! A store whose keys are all sorted goes through one cycle of updates, up to its next merge. At five points of the
//! cycle, with more and more `HashStore`s and the log half full, keys are asked for: keys that only the `SortedStore`
//! has, keys that were just put, and keys that were never put. Reads and written blocks are counted at the disk
//! (`counted.rs`). A read that finds another key's entry is the cost of a false positive. It is rarer in the paper's
//! tables of 2^15 buckets than at the small scale, with 2^12.

use super::model;
use super::subject::{Subject, SubjectSize};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, most, papers, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::{Result, ensure};
use guira_bench::{Rng, mix};

/// Reads and writes, by the paper's analysis.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "silt-amp",
    paper: Paper::Silt,
    title: "reads per get, and bytes written per byte put",
    claim: "a get reads 1 + (1 + H) 8 / 2^i times with H HashStores and tags of i bits, 1.01 in the example, whether the key \
            is there or not; a byte is written 1 + 1 / 0.93 + N / d times, 5.4 in the example",
    shape: "reads of hits and misses within 2 % of the formula at each age, and those beyond the first within 10 % of what \
            the tables' occupancy gives; one read of the SortedStore per miss, exactly; bytes written within 3 % of the \
            formula, before the merge and by it; each get is answered right",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Lines by the number of `HashStores`.
const HIT: &str = "hits in the SortedStore";
const MISS: &str = "misses";
const YOUNG: &str = "hits of keys put since the merge";
const SORTED_PER_MISS: &str = "reads of the SortedStore, per miss";
const RIGHT: &str = "gets answered right, as a share";
const LOG_SHARE: &str = "share of the log's slots that is taken";
/// Facts: blocks of 4 KiB, in bytes per byte put.
const BEFORE_MERGE: &str = "bytes written to log and HashStores, per byte put";
const BY_MERGE: &str = "bytes written by the merge, per byte put";
const OCCUPANCY: &str = "share of the HashStores' slots that is taken";
const KEYS_PER_MERGED: &str = "keys, to those put in a cycle";
const BUCKETS: &str = "buckets of a table";

fn measure(run: &Run<'_>) -> Result<Data> {
    let buckets = run.scale.pick(1 << 12, 1 << 15);
    let size = SubjectSize { buckets, stores: run.scale.pick(20, 61), entry_bytes: ENTRY_BYTES };
    let keys = run.scale.pick(1 << 20, 25_000_000);
    let mut subject = Subject::new("silt-amp", size, run.seed)?;
    subject.fill(keys, &|share| (run.progress)(0.5 * share, "filling"))?;
    let mut data = Data::default();
    live(run, &mut subject, size, &mut data)?;
    data.aside(BUCKETS, buckets as f64);
    Ok(data)
}

/// The cycle.
fn live(run: &Run<'_>, subject: &mut Subject, size: SubjectSize, data: &mut Data) -> Result<()> {
    let mut ages: Vec<(f64, [f64; LINES.len()])> = Vec::new();
    let mut random = Rng::new(mix(run.seed ^ 1));
    let begun = subject.disk().written_bytes();
    let mut put = 0;
    let mut figures = subject.figures();
    while figures.hash_stores < size.stores {
        ensure!(put < subject.keys() / 2, "the keys don't suffice for a cycle");
        subject.put(put)?;
        put += 1;
        figures = subject.figures();
        let is_due = ages.len() * (size.stores - 1) / (AGES - 1) == figures.hash_stores;
        if ages.len() < AGES && is_due && figures.log.entries == (size.slots() / 2) as u64 {
            (run.progress)(0.5 + 0.1 * ages.len() as f64, "asking");
            ages.push((figures.hash_stores as f64, ask(subject, put, &mut random)?));
        }
    }
    ensure!(ages.len() == AGES, "only {} ages were met", ages.len());
    let merging = subject.disk().written_bytes();
    subject.merge()?;
    let merged = subject.disk().written_bytes();
    for (place, name) in LINES.into_iter().enumerate() {
        let line = Line::of_figures(name, ages.iter().map(|(age, all)| (*age, all[place])));
        data.push(match name {
            HIT | MISS => line,
            LOG_SHARE => line.aside(),
            _ => line.flat(),
        });
    }
    let bytes_put = (put * ENTRY_BYTES) as f64;
    data.fact(BEFORE_MERGE, (merging - begun) as f64 / bytes_put);
    data.fact(BY_MERGE, (merged - merging) as f64 / bytes_put);
    data.fact(OCCUPANCY, figures.hash.entries as f64 / (size.slots() * size.stores) as f64);
    data.fact(KEYS_PER_MERGED, subject.keys() as f64 / put as f64);
    Ok(())
}

/// In the order of what [`ask`] gives.
const LINES: [&str; 6] = [HIT, MISS, YOUNG, SORTED_PER_MISS, RIGHT, LOG_SHARE];

/// Gets of each kind; the first `put` keys were put since the merge.
fn ask(subject: &Subject, put: usize, random: &mut Rng) -> Result<[f64; LINES.len()]> {
    let keys = subject.keys();
    let mut right = 0;
    let mut reads = |from: usize, count: usize| -> Result<[f64; 2]> {
        let before = (subject.disk().reads(), subject.figures().sorted.reads);
        for _ in 0..ASKED {
            let number = from + usize::try_from(random.below(count as u64))?;
            right += usize::from(subject.answers(number)?);
        }
        let after = (subject.disk().reads(), subject.figures().sorted.reads);
        Ok([after.0 - before.0, after.1 - before.1].map(|it| it as f64 / ASKED as f64))
    };
    let [hit, _] = reads(put, keys - put)?;
    let [miss, sorted_per_miss] = reads(keys, ABSENT)?;
    let [young, _] = reads(0, put)?;
    let figures = subject.figures();
    let log = figures.log.memory_bytes as f64 / LOG_SLOT_BYTES;
    let right = right as f64 / (3 * ASKED) as f64;
    Ok([hit, miss, young, sorted_per_miss, right, figures.log.entries as f64 / log])
}

fn judge(data: &Data) -> Findings {
    let plot = Plot {
        title: "Reads per get".into(),
        x: axis("HashStores"),
        y: axis("reads"),
        series: vec![
            drawn(data.line(HIT)),
            drawn(data.line(MISS)),
            drawn(data.line(YOUNG)),
            papers("a key of the SortedStore or of none, the paper's formula", formula(data)),
        ],
    };
    Findings {
        plots: vec![plot],
        tables: vec![reads(data), writes(data)],
        checks: [reading_checks(data), writing_checks(data)].concat(),
        reading: reading(data),
    }
}

/// The paper's reads per get by `HashStores`.
fn formula(data: &Data) -> Vec<(f64, f64)> {
    let buckets = data.figure(BUCKETS);
    let ages = data.line(HIT).points.iter().map(|point| point.x);
    ages.map(|stores| (stores, model::reads(stores, buckets))).collect()
}

/// Reads beyond the first, over all ages, to what the occupancy of log and `HashStores` gives.
fn beyond(data: &Data, name: &str) -> f64 {
    let log = data.line(LOG_SHARE);
    let shares = log.medians().map(|(stores, log)| log + stores * data.figure(OCCUPANCY)).sum();
    let found: f64 = data.line(name).figures().iter().map(|it| it - 1.0).sum();
    found / model::reads_before(shares, data.figure(BUCKETS))
}

/// How far a line is from the formula at most.
fn apart(data: &Data, name: &str) -> f64 {
    let pairs = data.line(name).figures().into_iter().zip(formula(data));
    most(pairs.map(|(here, (_, formula))| (here / formula - 1.0).abs()))
}

fn reads(data: &Data) -> Table {
    let row = |(stores, formula): (f64, f64)| {
        let of = |name: &str| data.line(name).median(stores);
        let figures = [of(HIT), of(MISS), of(YOUNG), formula, of(SORTED_PER_MISS)];
        let cells = figures.map(|it| format!("{it:.4}"));
        std::iter::once(format!("{stores:.0}")).chain(cells).collect()
    };
    let head = ["HashStores", HIT, MISS, YOUNG, "formula", SORTED_PER_MISS];
    table("Reads per get", &head, formula(data).into_iter().map(row).collect())
}

/// Bytes written per byte put: here, by the formula, and in the paper's example.
fn written(data: &Data) -> [(&'static str, f64, f64, &'static str); 3] {
    let (young, merge) = (data.figure(BEFORE_MERGE), data.figure(BY_MERGE));
    let by_formula = model::written_young(data.figure(OCCUPANCY));
    let merging = model::written_merging(data.figure(KEYS_PER_MERGED), 1.0);
    [
        ("log and HashStores", young, by_formula, "2.08"),
        ("merge", merge, merging, "3.33"),
        ("all", young + merge, by_formula + merging, "5.41"),
    ]
}

fn writes(data: &Data) -> Table {
    let row = |(what, here, formula, papers): (&str, f64, f64, &str)| {
        vec![what.to_owned(), format!("{here:.3}"), format!("{formula:.3}"), papers.to_owned()]
    };
    let head = ["", "here", "formula", "the paper's example"];
    table("Bytes written per byte put", &head, written(data).map(row).into())
}

fn reading_checks(data: &Data) -> Vec<Check> {
    let formula_is = "false reads are 4 % at most; the paper takes all slots for taken, which counts 7 % too many of them";
    let wrong = data.line(SORTED_PER_MISS).figures().into_iter().map(|it| (it - 1.0).abs());
    let shares = data.line(YOUNG).figures().into_iter().zip(formula(data));
    vec![
        check("hits: reads, apart from the formula, as a share", apart(data, HIT), Bound::AtMost(0.02), formula_is)
            .paper_exactly("0", Bound::AtMost(0.02)),
        check("misses: reads, apart from the formula, as a share", apart(data, MISS), Bound::AtMost(0.02), formula_is)
            .paper_exactly("0", Bound::AtMost(0.02)),
        check(
            "hits and misses: reads beyond the first, apart from 8 slots' chance at the measured occupancy, as a share",
            most([HIT, MISS].map(|name| (beyond(data, name) - 1.0).abs())),
            Bound::AtMost(0.1),
            "chance: of some 3000 such reads at small scale the standard deviation is 2 %",
        ),
        check(
            "reads of the SortedStore per miss, apart from 1, at the most",
            most(wrong),
            Bound::AtMost(0.0),
            "it has no filter, and its trie gives one place",
        )
        .paper_exactly("0", Bound::AtMost(0.0)),
        check(
            "hits of keys put since the merge: reads, to the formula, at the most",
            most(shares.map(|(here, (_, formula))| here / formula)),
            Bound::Between(0.9, 1.0),
            "they end in log or HashStore, with fewer tags before them; the last 64 KiB of the log are in memory",
        )
        .paper_exactly("at most 1", Bound::AtMost(1.0)),
        check(
            "gets answered right, as a share, apart from 1, at the most",
            most(data.line(RIGHT).figures().into_iter().map(|it| (it - 1.0).abs())),
            Bound::AtMost(0.0),
            "the last value put, or nothing",
        ),
    ]
}

fn writing_checks(data: &Data) -> Vec<Check> {
    let apart = written(data).map(|(_, here, formula, _)| (here / formula - 1.0).abs());
    vec![
        check(
            "written to log and HashStores, apart from 1 + 1 / occupancy, as a share",
            apart[0],
            Bound::AtMost(0.03),
            "tags, headers and lists of stages, which the formula leaves out, are 1 % of entries of 128 bytes",
        ),
        check(
            "written by the merge, apart from N / d, as a share",
            apart[1],
            Bound::AtMost(0.03),
            "the trie, which the formula leaves out, is 0.3 % of entries of 128 bytes",
        ),
        check(
            "all that is written, apart from 1 + 1 / occupancy + N / d, as a share",
            apart[2],
            Bound::AtMost(0.03),
            "as above",
        )
        .paper_exactly("0", Bound::AtMost(0.03)),
        model::occupancy_check(
            "share of the HashStores' slots that is taken",
            data.figure(OCCUPANCY),
        ),
    ]
}

fn reading(data: &Data) -> String {
    let oldest = formula(data).last().copied().unwrap_or((f64::NAN, f64::NAN));
    let [_, _, (_, written, by_formula, _)] = written(data);
    format!(
        "With {:.0} HashStores of {:.0} buckets a hit in the SortedStore reads {:.3} times and a miss {:.3} times; the paper's \
         formula gives {:.3}, and for its example of 31 stores of 32,768 buckets 1.008. A byte that was put is written \
         {written:.2} times; the formula gives {by_formula:.2}.",
        oldest.0,
        data.figure(BUCKETS),
        data.line(HIT).last(),
        data.line(MISS).last(),
        oldest.1,
    )
}

/// Eight fill a fourth of a block; larger ones would be nearer to the formula, and take more of the disk.
const ENTRY_BYTES: usize = 128;
/// Ages of the cycle at which keys are asked for.
const AGES: usize = 5;
/// Gets of each kind at each age.
const ASKED: usize = 1 << 15;
/// Numbers of keys that nobody put.
const ABSENT: usize = 1 << 40;
/// Bytes of memory per slot of the log.
const LOG_SLOT_BYTES: f64 = 6.0;
