//! Figure 4.5: lookups per second, by the share of items that are present.
//!
//! Full filters of the same size are asked for present and absent items in a random order, by turns. A sample is the
//! least of several turns. Filters of this size are larger than the caches, as the thesis' are: a line that is read costs its way
//! from memory. Where caches hold a Bloom filter, wrong guesses of where to stop outweigh the bits that are read.

use super::contest::{BLOCKED, BLOOM, COUNTING, CUCKOO, D_LEFT, KINDS, QUOTIENT, SORTED, line};
use super::items::Items;
use crate::baseline::filter::Set;
use crate::data::{Data, Line, ratio};
use crate::figures::{axis, check, least, series, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;

/// Figure 4.5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.5",
    paper: Paper::CuckooFilter,
    title: "lookups a second against the share of present items",
    claim: "a cuckoo filter reads two buckets whatever is asked, so that its lookups are as fast for present items as \
            for absent ones, with a dip between; Bloom filters are slower the more items are present; cuckoo filters are \
            faster than Bloom filters",
    shape: "cuckoo lookups of present items take 0.8 to 1.25 times as long as of absent ones, those of the Bloom filters \
            at least 1.1 times, also compared with cuckoo's; with half of the items present a Bloom filter's take longer \
            than a cuckoo filter's, a quotient filter's at least twice as long, d-left's at least 1.2 times",
    why: "our cuckoo filter compares both buckets without a branch, so that there is nothing to guess wrongly where half of \
          the items are present: it has no dip",
    is_quick: false,
    measure,
    judge,
};

/// Measures the nanoseconds of a lookup: a line for each kind, by the percentage of present items.
fn measure(run: &Run<'_>) -> Result<Data> {
    let slots_log2 = run.scale.pick(25, 27);
    let asked = run.scale.pick(1 << 19, 1 << 22);
    let items = Items::new(run.seed);
    let mut full: Vec<(Box<dyn Set>, u64)> = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        (run.progress)(at as f64 / 2.0 / KINDS.len() as f64, kind.name);
        let mut set = kind.make(slots_log2);
        let entered = items.enter(set.as_mut(), 0..kind.items(slots_log2, 1.0)).count;
        full.push((set, entered));
    }
    let mut ns = vec![vec![Vec::new(); SHARES.len()]; KINDS.len()];
    for turn in 0..ROUNDS * TURNS {
        (run.progress)(0.5 + f64::from(turn) / 2.0 / f64::from(ROUNDS * TURNS), "lookups");
        for (share, &present) in SHARES.iter().enumerate() {
            for (ns, (set, entered)) in ns.iter_mut().zip(&full) {
                let done = items.look_up(set.as_ref(), *entered, present / 100.0, asked).ns;
                match ns[share].last_mut() {
                    Some(least) if turn % TURNS > 0 => *least = done.min(*least),
                    _ => ns[share].push(done),
                }
            }
        }
    }
    let mut data = Data::default();
    for (kind, ns) in ns.into_iter().enumerate() {
        let line = Line::new(KINDS[kind].name, SHARES.into_iter().zip(ns));
        // Both buckets are read for any item, and so are d-left's four.
        data.push(if [CUCKOO, SORTED, D_LEFT].contains(&kind) { line.flat() } else { line });
    }
    Ok(data)
}

/// Returns how many times as long lookups of present items take as those of absent ones.
fn rise(data: &Data, kind: usize) -> f64 {
    ratio(line(data, kind).at(ALL), line(data, kind).at(NONE))
}

/// Returns how many times as long a kind's lookups take as another's, with half of the items present.
fn at_half(data: &Data, kind: usize, other: usize) -> f64 {
    ratio(line(data, kind).at(HALF), line(data, other).at(HALF))
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![plot(data)],
        tables: vec![shown(data)],
        checks: [cuckoo(data), others(data)].concat(),
        reading: reading(data),
    }
}

fn plot(data: &Data) -> Plot {
    let rates =
        |line: &Line| series(&line.name, line.medians().map(|(share, ns)| (share, 1e3 / ns)));
    Plot {
        title: "Lookups".into(),
        x: axis("share of present items, %"),
        y: axis("millions a second of processor time"),
        series: data.lines.iter().map(rates).collect(),
    }
}

fn shown(data: &Data) -> Table {
    let shares = SHARES.map(|share| format!("{share:.0} % present"));
    let header: Vec<&str> =
        ["filter"].into_iter().chain(shares.iter().map(String::as_str)).collect();
    let row = |line: &Line| {
        let ns = line.figures().into_iter().map(|ns| format!("{ns:.1}"));
        [line.name.clone()].into_iter().chain(ns).collect()
    };
    table("Nanoseconds of a lookup", &header, data.lines.iter().map(row).collect())
}

/// Returns the dip: how many times as long lookups take with half of the items present as at the ends.
fn dip(data: &Data) -> f64 {
    let to = |share| ratio(line(data, CUCKOO).at(HALF), line(data, CUCKOO).at(share));
    f64::midpoint(to(NONE), to(ALL))
}

fn cuckoo(data: &Data) -> Vec<Check> {
    let even = Bound::Between(0.8, 1.25);
    let why = "two buckets are read whatever is asked; the rest is noise of the machine";
    vec![
        check("cuckoo: time for present items, to absent", rise(data, CUCKOO), even, why)
            .paper_exactly("1", even),
        check("semi-sorted: present to absent", rise(data, SORTED), even, why)
            .paper_exactly("1", even),
        check(
            "cuckoo: half of the items present, to the mean of all and none",
            dip(data),
            Bound::Between(0.85, 1.3),
            "both buckets are compared without a branch; a dip as the thesis has it would do as well",
        )
        .paper("more than 1", Bound::AtLeast(1.02)),
        check(
            "half of the items present: Bloom to cuckoo",
            at_half(data, BLOOM, CUCKOO),
            Bound::AtLeast(1.0),
            "up to nine lines to two",
        )
        .paper("more than 1", Bound::AtLeast(1.02)),
    ]
}

fn others(data: &Data) -> Vec<Check> {
    let blooms = [BLOOM, BLOCKED, COUNTING];
    vec![
        check(
            "Bloom, blocked and counting: present to absent, at the least",
            least(blooms.map(|kind| rise(data, kind))),
            Bound::AtLeast(1.1),
            "nine bits are read of a present item, two on average of an absent one",
        )
        .paper("more than 1", Bound::AtLeast(1.02)),
        check(
            "the same, to cuckoo's",
            least(blooms.map(|kind| rise(data, kind))) / rise(data, CUCKOO),
            Bound::AtLeast(1.1),
            "what is asked for matters to Bloom filters, and not to cuckoo filters",
        ),
        check(
            "quotient: present to absent",
            rise(data, QUOTIENT),
            Bound::AtLeast(1.1),
            "of the absent items two in five have a quotient that nobody has, which one bit shows",
        ),
        check(
            "d-left: present to absent",
            rise(data, D_LEFT),
            Bound::Between(0.5, 1.5),
            "four buckets are read of an absent item, as many or fewer of a present one",
        ),
        check(
            "half of the items present: quotient to cuckoo",
            at_half(data, QUOTIENT, CUCKOO),
            Bound::AtLeast(2.0),
            "clusters of dozens of slots at 90 %, read one after the other",
        ),
        check(
            "half of the items present: d-left to cuckoo",
            at_half(data, D_LEFT, CUCKOO),
            Bound::AtLeast(1.2),
            "up to four lines to two, and sixteen cells to eight",
        ),
    ]
}

fn reading(data: &Data) -> String {
    format!(
        "A lookup of a present item takes {:.2} of one of an absent item in a cuckoo filter, {:.2} semi-sorted, {:.2} in a \
         Bloom filter, {:.2} in a blocked one and {:.2} in a counting one. With half of the items present a cuckoo filter's \
         takes {:.2} of the mean of all and none, and a Bloom filter's {:.2} times as long as a cuckoo filter's.",
        rise(data, CUCKOO),
        rise(data, SORTED),
        rise(data, BLOOM),
        rise(data, BLOCKED),
        rise(data, COUNTING),
        dip(data),
        at_half(data, BLOOM, CUCKOO),
    )
}

const SHARES: [f64; 5] = [NONE, 25.0, HALF, 75.0, ALL];
const NONE: f64 = 0.0;
const HALF: f64 = 50.0;
const ALL: f64 = 100.0;
const ROUNDS: u32 = 5;
/// Turns per round. The least counts.
const TURNS: u32 = 4;
