//! SILT's memory per key: of each stage, and of the whole against the number of keys.
//!
//! A store grows. At each size it goes through one cycle of updates, from one merge to the next, in which `HashStore`s
//! are added and its log fills repeatedly. The memory of the whole is the mean over that cycle. Memory is what the
//! stages report for their indexes. For the trie, the largest of them, it is compared with the index in the file.

use super::model;
use super::subject::{Subject, SubjectSize};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, papers, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_store::silt::SiltFigures;

/// Memory, by the paper's analysis.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "silt-mem",
    paper: Paper::Silt,
    title: "memory per key, by stage and number of keys",
    claim: "a key takes 0.4 bytes of memory in the SortedStore, 2.15 in a HashStore and 6.45 in a full LogStore, and 0.7 over \
            all of them where most keys are sorted",
    shape: "the trie takes 0.34 to 0.41 bytes per key, in memory and in its file, a HashStore 2 to 2.2, a full LogStore 6 to \
            6.6; the whole is within 5 % of the paper's formula at each number of keys, and below 0.8 bytes at the largest; \
            no key is lost or counted twice",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Lines by the number of keys.
const WHOLE: &str = "all stages, the mean of a cycle";
const SORTED: &str = "SortedStore";
const IN_FILE: &str = "the SortedStore's index in its file";
const HASH: &str = "HashStores, by their keys";
const LOG: &str = "LogStore when full, by its keys";
const COUNTED: &str = "keys in the SortedStore, to those put";
const PER_MERGE: &str = "keys merged at a time, thousands";
/// Facts.
const SLOTS: &str = "slots of a table";
const STORES: &str = "HashStores merged at a time";

fn measure(run: &Run<'_>) -> Result<Data> {
    // The paper's tables have 2^15 buckets, and 61 of them are merged. Small, the log's share is as the paper's.
    let buckets = run.scale.pick(1 << 11, 1 << 15);
    let size = SubjectSize { buckets, stores: run.scale.pick(32, 61), entry_bytes: ENTRY_BYTES };
    let keys = run.scale.pick([1 << 18, 1 << 19, 1 << 20], [8_000_000, 14_000_000, 25_000_000]);
    let mut subject = Subject::new("silt-mem", size, run.seed)?;
    let mut points: Vec<(f64, [f64; LINES.len()])> = Vec::new();
    for (at, &keys) in keys.iter().enumerate() {
        let told = |share: f64| {
            (run.progress)((at as f64 + share) / 3.0, &format!("{keys} keys"));
        };
        subject.fill(keys, &told)?;
        points.push((keys as f64, cycle(&mut subject, size)?));
    }
    let mut data = Data::default();
    for (place, name) in LINES.into_iter().enumerate() {
        let line = Line::of_figures(name, points.iter().map(|(keys, all)| (*keys, all[place])));
        let is_flat = name != WHOLE;
        data.push(if is_flat { line.flat() } else { line });
    }
    data.aside(SLOTS, size.slots() as f64);
    data.aside(STORES, size.stores as f64);
    Ok(data)
}

/// In the order of what [`cycle`] gives.
const LINES: [&str; 7] = [WHOLE, SORTED, IN_FILE, HASH, LOG, COUNTED, PER_MERGE];

/// Puts keys that are there, from the first on, until as many `HashStores` as are merged, and merges.
fn cycle(subject: &mut Subject, size: SubjectSize) -> Result<[f64; LINES.len()]> {
    let keys = subject.keys() as f64;
    let mut samples = Vec::new();
    let mut fullest = Vec::new();
    let mut before = subject.figures();
    let mut number = 0;
    while before.hash_stores < size.stores {
        anyhow::ensure!(number < subject.keys(), "the keys don't suffice for a cycle");
        subject.put(number)?;
        number += 1;
        let now = subject.figures();
        if now.hash_stores > before.hash_stores {
            fullest.push(before.log.memory_bytes as f64 / before.log.entries as f64);
        }
        if number % SAMPLED_EACH == 0 {
            samples.push(memory(&now));
        }
        before = now;
    }
    let hash = before.hash.memory_bytes as f64 / before.hash.entries as f64;
    let per_merge = before.hash.entries as f64;
    subject.merge()?;
    let sorted = subject.figures().sorted;
    // The log's one record goes there too.
    subject.settle()?;
    let entries = subject.figures().sorted.entries as f64;
    Ok([
        mean(&samples) / keys,
        sorted.memory_bytes as f64 / sorted.entries as f64,
        index_in_file(subject)? / keys,
        hash,
        mean(&fullest),
        entries / keys,
        per_merge / 1e3,
    ])
}

/// Bytes of the index in the `SortedStore`'s file, which has a header of a block, all records, the index, and a footer of a
/// block, each in whole blocks.
fn index_in_file(subject: &Subject) -> Result<f64> {
    let records = (subject.keys() * ENTRY_BYTES).next_multiple_of(guira_disk::BLOCK);
    let rest = records + 2 * guira_disk::BLOCK;
    Ok(subject.longest_file_bytes()? as f64 - rest as f64)
}

fn memory(figures: &SiltFigures) -> f64 {
    let bytes = [figures.log, figures.hash, figures.sorted].map(|it| it.memory_bytes);
    bytes.iter().sum::<u64>() as f64
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn judge(data: &Data) -> Findings {
    let [whole, sorted] = [WHOLE, SORTED].map(|name| data.line(name));
    let plot = Plot {
        title: "Memory per key".into(),
        x: axis("keys"),
        y: axis("bytes per key"),
        series: vec![
            drawn(whole),
            papers("all stages, the paper's formula", formula(data)),
            drawn(sorted),
        ],
    };
    Findings {
        plots: vec![plot],
        tables: vec![shown(data)],
        checks: [stages(data), all_stages(data)].concat(),
        reading: reading(data),
    }
}

/// Share of a `HashStore`'s slots that is taken.
fn occupancy(data: &Data, keys: f64) -> f64 {
    data.line(PER_MERGE).median(keys) * 1e3 / (data.figure(SLOTS) * data.figure(STORES))
}

/// What the paper's formula gives for each number of keys.
fn formula(data: &Data) -> Vec<(f64, f64)> {
    let slots = data.figure(SLOTS);
    let of = |(keys, thousands): (f64, f64)| {
        let stores = model::mean_stores(thousands * 1e3, slots, occupancy(data, keys));
        (keys, model::memory(keys, slots, stores))
    };
    data.line(PER_MERGE).medians().map(of).collect()
}

fn shown(data: &Data) -> Table {
    let row = |(keys, formula): (f64, f64)| {
        let of = |name: &str| data.line(name).median(keys);
        vec![
            format!("{keys:.0}"),
            format!("{:.3}", of(SORTED)),
            format!("{:.3}", of(HASH)),
            format!("{:.3}", of(LOG)),
            format!("{:.3}", of(WHOLE)),
            format!("{formula:.3}"),
            format!("{:.1}", 100.0 * (1.0 - of(PER_MERGE) * 500.0 / keys)),
        ]
    };
    let papers = ["paper", "0.4", "2.15", "6.45", "0.7", "–", "–"].map(str::to_owned).to_vec();
    let rows = formula(data).into_iter().map(row).chain([papers]).collect();
    let head = ["keys", SORTED, "HashStore", "LogStore", "all", "formula", "sorted, % of the keys"];
    table("Bytes of memory per key", &head, rows)
}

fn stages(data: &Data) -> Vec<Check> {
    let of = |name: &str| data.line(name).figures();
    let (trie, in_file) = (data.line(SORTED), data.line(IN_FILE));
    vec![
        check(
            "SortedStore: bytes per key, at the most",
            most(of(SORTED)),
            Bound::AtMost(0.41),
            "2.87 bits by the code's weights, and 33 bits for each bucket of 128 to 256 keys: 0.374 to 0.39",
        )
        .paper_or("0.4", Bound::AtMost(0.42), 2.15),
        check(
            "SortedStore: bytes per key, at the least",
            least(of(SORTED)),
            Bound::AtLeast(0.34),
            "entropy: what is known of 128 random keys' order takes 2.73 bits per key",
        ),
        check(
            "the SortedStore's memory, to the index in its file",
            trie.last() / in_file.last(),
            Bound::Between(0.98, 1.02),
            "they are the same bits; the file's are in whole blocks",
        ),
        check(
            "HashStores: bytes per key, at the most",
            most(of(HASH)),
            Bound::Between(2.0, 2.2),
            "a slot of two bytes, and 0.91 of the slots are taken at the least",
        )
        .paper_or("2.15", Bound::AtMost(2.2), 6.45),
        check(
            "a full LogStore: bytes per key, at the most",
            most(of(LOG)),
            Bound::Between(6.0, 6.6),
            "a slot of six bytes, and 0.91 of the slots are taken at the least",
        )
        .paper_exactly("6.45", Bound::Between(6.0, 6.6)),
    ]
}

fn all_stages(data: &Data) -> Vec<Check> {
    let formula = formula(data);
    let pairs = data.line(WHOLE).figures().into_iter().zip(&formula);
    let apart = pairs.map(|(here, (_, formula))| (here / formula - 1.0).abs());
    let shares = formula.iter().map(|(keys, _)| occupancy(data, *keys));
    let lost = data.line(COUNTED).figures().into_iter().map(|it| (it - 1.0).abs());
    vec![
        check(
            "all stages: the mean of a cycle, apart from the formula, at the most, as a share",
            most(apart),
            Bound::AtMost(0.05),
            "the formula has 15 bits for a HashStore's tag, of 16, and counts the last HashStore, which is merged at once",
        )
        .paper_exactly("0", Bound::AtMost(0.1)),
        check(
            "all stages, at the largest number of keys: bytes per key",
            data.line(WHOLE).last(),
            Bound::AtMost(0.8),
            "over 80 % of the keys are sorted, as in the paper's example, for which its formula gives 0.73",
        )
        .paper_or("0.7", Bound::AtMost(0.8), 2.15),
        model::occupancy_check("share of the HashStores' slots that is taken, at the most", most(shares)),
        check(
            "keys in the SortedStore after all merges, apart from those put, as a share",
            most(lost),
            Bound::AtMost(0.0),
            "updates replace, and nothing is deleted",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let formula = formula(data).last().map_or(f64::NAN, |(_, bytes)| *bytes);
    let keys = data.line(WHOLE).points.last().map_or(f64::NAN, |point| point.x);
    format!(
        "Of {:.2} M keys one takes {:.3} bytes in the SortedStore, {:.2} in a HashStore, and {:.2} in a LogStore when it is \
         full. All stages take {:.3} bytes per key over a cycle; the paper's formula gives {formula:.3} for tables of {:.0} \
         slots of which {:.0} are merged at a time.",
        keys / 1e6,
        data.line(SORTED).last(),
        data.line(HASH).last(),
        data.line(LOG).last(),
        data.line(WHOLE).last(),
        data.figure(SLOTS),
        data.figure(STORES),
    )
}

/// What an entry holds doesn't count here.
const ENTRY_BYTES: usize = 32;
/// Puts between two samples of a cycle: not in step with anything.
const SAMPLED_EACH: usize = 509;
