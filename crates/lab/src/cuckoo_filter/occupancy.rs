//! Figures 4.7 to 4.9: the cost of lookups, inserts and removals as a filter fills, and as it empties.
//!
//! A filter's occupancy is its number of items, in percent of that of a full filter: 95 % of the slots of a cuckoo
//! filter, 90 % of a quotient filter, 75 % of a d-left counting Bloom filter. Inserts and removals are averaged over a
//! tenth. The first tenth isn't checked, because memory is touched for the first time in it.

use super::contest::{
    BLOCKED, BLOOM, COUNTING, CUCKOO, D_LEFT, KINDS, Kind, QUOTIENT, SORTED, line,
};
use super::items::Items;
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Scale, Table};
use anyhow::Result;

/// Figure 4.7.
pub(crate) const LOOKUPS: Experiment = Experiment {
    id: "cf-f4.7",
    paper: Paper::CuckooFilter,
    title: "lookups by occupancy, half of the items present",
    claim: "a cuckoo filter's lookups cost the same at any occupancy; a quotient filter's cost much more above 75 %",
    shape: "full, a cuckoo lookup takes 0.67 to 1.5 times what it takes at a fifth; a quotient filter's takes at least \
            3 times what it takes at half, most of it above 70 %; none of the others more than 2 times",
    why: "",
    is_quick: false,
    measure: measure_lookups,
    judge: judge_lookups,
};

/// Figure 4.8.
pub(crate) const INSERTS: Experiment = Experiment {
    id: "cf-f4.8",
    paper: Paper::CuckooFilter,
    title: "inserts by occupancy",
    claim: "a cuckoo filter's inserts get slower as it fills, since fingerprints must move; a Bloom filter's cost the \
            same at any occupancy",
    shape: "the last tenth of a cuckoo filter takes at least 1.5 times as long as the second, and less than the quotient \
            filter's; a Bloom filter's second half 0.67 to 1.5 times as long as its first",
    why: "",
    is_quick: false,
    measure: measure_inserts,
    judge: judge_inserts,
};

/// Figure 4.9.
pub(crate) const REMOVALS: Experiment = Experiment {
    id: "cf-f4.9",
    paper: Paper::CuckooFilter,
    title: "removals by occupancy, until nothing is left",
    claim: "of all filters from which items can be removed the cuckoo filter removes fastest",
    shape: "over all, the removals of quotient, d-left and counting Bloom filters take longer than the cuckoo filter's; a \
            filter that was emptied finds nothing",
    why: "",
    is_quick: false,
    measure: measure_removals,
    judge: judge_removals,
};

fn measure_lookups(run: &Run<'_>) -> Result<Data> {
    let asked = run.scale.pick(1 << 17, 1 << 21);
    let rises = [QUOTIENT];
    Ok(rounds(run, &rises, &|kind, items| {
        let mut set = kind.make(slots_log2(run.scale));
        let step = |tenth| {
            let entered = kind.items(slots_log2(run.scale), share(tenth + 1));
            items.enter(set.as_mut(), kind.items(slots_log2(run.scale), share(tenth))..entered);
            items.look_up(set.as_ref(), entered, 0.5, asked).ns
        };
        Some((0..TENTHS).map(step).collect())
    }))
}

fn judge_lookups(data: &Data) -> Findings {
    let even = Bound::Between(0.67, 1.5);
    let others = [BLOOM, BLOCKED, D_LEFT, COUNTING];
    let checks = vec![
        check(
            "cuckoo: a lookup in a full filter, to one filled to a fifth",
            rise(data, CUCKOO, 20.0, 100.0),
            even,
            "two buckets are read at any occupancy; the rest is noise of the machine",
        )
        .paper_exactly("1", even),
        check(
            "semi-sorted: full, to a fifth",
            rise(data, SORTED, 20.0, 100.0),
            even,
            "two buckets are read at any occupancy; the rest is noise of the machine",
        )
        .paper_exactly("1", even),
        check(
            "quotient: a lookup in a full filter, to a half full one",
            rise(data, QUOTIENT, 50.0, 100.0),
            Bound::AtLeast(3.0),
            "clusters grow from 1 or 2 slots to dozens",
        )
        .paper("much more than 1", Bound::AtLeast(2.0)),
        check(
            "quotient: full, to 70 %",
            rise(data, QUOTIENT, 70.0, 100.0),
            Bound::AtLeast(2.0),
            "clusters grow with the square of what is free",
        )
        .paper("much more than 1", Bound::AtLeast(2.0)),
        check(
            "any of the others: full, to a fifth, at the most",
            most(others.map(|kind| rise(data, kind, 20.0, 100.0))),
            Bound::AtMost(2.0),
            "up to two bits instead of one are read of an item that is absent; the rest is noise",
        ),
    ];
    let of = |kind| rise(data, kind, 20.0, 100.0);
    let reading = format!(
        "From a fifth to full a cuckoo filter's lookups get {:.2} times as long, a Bloom filter's {:.2}, a quotient \
         filter's {:.2}, most of it above 70 % ({:.2} up to there).",
        of(CUCKOO),
        of(BLOOM),
        of(QUOTIENT),
        rise(data, QUOTIENT, 20.0, 70.0),
    );
    outcome("Lookup", data, checks, reading)
}

fn measure_inserts(run: &Run<'_>) -> Result<Data> {
    let rises = [CUCKOO, SORTED, QUOTIENT];
    Ok(rounds(run, &rises, &|kind, items| {
        let mut set = kind.make(slots_log2(run.scale));
        let of_tenth = |tenth: usize| {
            let [from, to] =
                [tenth, tenth + 1].map(|at| kind.items(slots_log2(run.scale), share(at)));
            items.enter(set.as_mut(), from..to).ns
        };
        Some((0..TENTHS).map(of_tenth).collect())
    }))
}

fn judge_inserts(data: &Data) -> Findings {
    let last_half = |kind| {
        let own = line(data, kind);
        sums_ratio((own, &SECOND_HALF), (own, &FIRST_HALF))
    };
    let even = Bound::Between(0.67, 1.5);
    let moves = "a full bucket must be made room in: a search for a path, and its moves";
    let checks = vec![
        check(
            "cuckoo: an insert in the last tenth, to the second",
            rise(data, CUCKOO, 20.0, 100.0),
            Bound::AtLeast(1.5),
            moves,
        )
        .paper("more than 1", Bound::AtLeast(1.2)),
        check(
            "semi-sorted: an insert in the last tenth, to the second",
            rise(data, SORTED, 20.0, 100.0),
            Bound::AtLeast(1.5),
            moves,
        )
        .paper("more than 1", Bound::AtLeast(1.2)),
        check(
            "Bloom: an insert in the last five tenths, to the four before",
            last_half(BLOOM),
            even,
            "nine bits are set at any occupancy; the rest is noise of the machine",
        )
        .paper_exactly("1", even),
        check(
            "blocked, counting, d-left: the last five tenths, to the four before, at the most",
            most([BLOCKED, COUNTING, D_LEFT].map(last_half)),
            Bound::AtMost(2.0),
            "none of them moves anything; loosened from 1.5: d-left compares more cells, the fuller they are",
        ),
        check(
            "quotient: an insert in the last tenth, to the second",
            rise(data, QUOTIENT, 20.0, 100.0),
            Bound::AtLeast(2.0),
            "half a cluster is moved, and clusters grow to dozens of slots",
        ),
        check(
            "an insert in the last tenth: quotient to cuckoo",
            quickest(line(data, QUOTIENT), 100.0) / quickest(line(data, CUCKOO), 100.0),
            Bound::AtLeast(1.0),
            "half a cluster of dozens of slots is moved",
        ),
    ];
    let of = |kind| rise(data, kind, 20.0, 100.0);
    let reading = format!(
        "From the second tenth to the last a cuckoo filter's inserts get {:.2} times as long, a quotient filter's {:.2}; a \
         Bloom filter's last five tenths take {:.2} of the four before. Over all tenths an insert takes {:.2} of a Bloom \
         filter's. Ours searches for a path breadth first where the thesis kicks at random.",
        of(CUCKOO),
        of(QUOTIENT),
        last_half(BLOOM),
        in_total(data, CUCKOO, BLOOM),
    );
    outcome("Insert", data, checks, reading)
}

fn measure_removals(run: &Run<'_>) -> Result<Data> {
    let left = std::cell::Cell::new(0);
    let rises = [QUOTIENT];
    let mut data = rounds(run, &rises, &|kind, items| {
        let mut set = kind.make_removing(slots_log2(run.scale))?;
        let full = kind.items(slots_log2(run.scale), 1.0);
        items.enter(set.as_mut(), 0..full);
        let of_tenth = |tenth: usize| {
            let [to, from] =
                [tenth, tenth + 1].map(|at| kind.items(slots_log2(run.scale), share(at)));
            items.remove(set.as_mut(), to..from).ns
        };
        let mut ns: Vec<f64> = (0..TENTHS).rev().map(of_tenth).collect();
        ns.reverse();
        left.set(left.get() + items.look_up(set.as_ref(), full, 1.0, 1 << 16).count);
        Some(ns)
    });
    data.fact(LEFT, left.get() as f64);
    Ok(data)
}

fn judge_removals(data: &Data) -> Findings {
    let longer = |kind: usize, reason| {
        let claim = format!("a removal, all tenths: {} to cuckoo", KINDS[kind].name);
        check(claim, in_total(data, kind, CUCKOO), Bound::AtLeast(1.0), reason)
            .paper("more than 1", Bound::AtLeast(1.05))
    };
    let even = [CUCKOO, SORTED, D_LEFT, COUNTING];
    let checks = vec![
        longer(QUOTIENT, "what is behind in the cluster moves back"),
        longer(D_LEFT, "up to four buckets are read, to two"),
        longer(COUNTING, "nine counters are written, to one slot"),
        check(
            "a removal, all tenths: semi-sorted to cuckoo",
            in_total(data, SORTED, CUCKOO),
            Bound::AtLeast(1.0),
            "a bucket is decoded, sorted and encoded",
        ),
        check(
            "quotient: a removal from a full filter, to one filled to a fifth",
            rise(data, QUOTIENT, 20.0, 100.0),
            Bound::AtLeast(2.0),
            "clusters grow from 1 or 2 slots to dozens",
        ),
        check(
            "any of the others: full, to a fifth, at the most",
            most(even.map(|kind| rise(data, kind, 20.0, 100.0))),
            Bound::AtMost(4.0),
            "none of them moves anything; but what is read differs in d-left, and a tenth is short",
        ),
        check(
            "items found in filters that were emptied",
            data.figure(LEFT),
            Bound::AtMost(0.0),
            "each item is removed once and leaves nothing",
        ),
    ];
    let reading = format!(
        "A removal takes {:.2} of a cuckoo filter's in a quotient filter, {:.2} in a d-left counting Bloom filter and \
         {:.2} in a counting Bloom filter, which holds a quarter as many items; {:.2} in a semi-sorted filter, which \
         decodes, sorts and encodes.",
        in_total(data, QUOTIENT, CUCKOO),
        in_total(data, D_LEFT, CUCKOO),
        in_total(data, COUNTING, CUCKOO),
        in_total(data, SORTED, CUCKOO),
    );
    outcome("Removal", data, checks, reading)
}

/// Measures all kinds in turn for some rounds, with a line for each kind. `tenths` returns a figure for each tenth of a
/// kind, or `None` if the kind can't do the operation. Kinds that aren't in `rises` must cost the same at any
/// occupancy.
fn rounds(
    run: &Run<'_>,
    rises: &[usize],
    tenths: &dyn Fn(&Kind, Items) -> Option<Vec<f64>>,
) -> Data {
    let rounds = run.scale.pick(7, 1);
    let mut ns = vec![vec![Vec::new(); TENTHS]; KINDS.len()];
    for round in 0..rounds {
        for (at, kind) in KINDS.iter().enumerate() {
            let done = (round * KINDS.len() + at) as f64 / (rounds * KINDS.len()) as f64;
            (run.progress)(done, kind.name);
            let of_kind = tenths(kind, Items::new(run.seed + round as u64)).into_iter().flatten();
            ns[at].iter_mut().zip(of_kind).for_each(|(all, ns)| all.push(ns));
        }
    }
    let mut data = Data::default();
    for (kind, ns) in ns.into_iter().enumerate().filter(|(_, ns)| !ns[0].is_empty()) {
        let places = (1..=TENTHS).map(|tenth| 100.0 * share(tenth));
        let line = Line::new(KINDS[kind].name, places.zip(ns));
        data.push(if rises.contains(&kind) { line } else { line.flat() });
    }
    data
}

/// Returns how many times as long operations of a kind take at the occupancy `to` as at `from`.
fn rise(data: &Data, kind: usize, from: f64, to: f64) -> f64 {
    quickest(line(data, kind), to) / quickest(line(data, kind), from)
}

/// Returns the shortest time of all rounds: a neighbour on the machine makes some rounds longer, and none shorter.
fn quickest(line: &Line, occupancy: f64) -> f64 {
    least(line.at(occupancy).samples.iter().copied())
}

/// Returns how many times as long a kind's operations take as another's, over all tenths.
fn in_total(data: &Data, kind: usize, other: usize) -> f64 {
    let all: Vec<f64> = line(data, kind).points.iter().map(|point| point.x).collect();
    sums_ratio((line(data, kind), &all), (line(data, other), &all))
}

/// Returns the ratio of the means of some points.
fn sums_ratio(over: (&Line, &[f64]), under: (&Line, &[f64])) -> f64 {
    let mean = |(line, places): (&Line, &[f64])| {
        places.iter().map(|&place| quickest(line, place)).sum::<f64>() / places.len() as f64
    };
    mean(over) / mean(under)
}

fn outcome(what: &str, data: &Data, checks: Vec<Check>, reading: String) -> Findings {
    let kinds = || KINDS.iter().filter_map(|kind| data.find(kind.name));
    let plot = Plot {
        title: what.into(),
        x: axis("items, % of a full filter"),
        y: axis("nanoseconds of processor time"),
        series: kinds().map(drawn).collect(),
    };
    Findings { plots: vec![plot], tables: vec![shown(what, kinds())], checks, reading }
}

fn shown<'d>(what: &str, kinds: impl Iterator<Item = &'d Line>) -> Table {
    let row = |line: &Line| {
        let ns = SHOWN.map(|percent| format!("{:.0}", line.median(percent)));
        [line.name.clone()].into_iter().chain(ns).collect()
    };
    table(
        &format!("{what}, nanoseconds, by items in percent of a full filter"),
        &["filter", "20 %", "50 %", "70 %", "80 %", "90 %", "100 %"],
        kinds.map(row).collect(),
    )
}

/// The share of a full filter's items after `tenth` tenths.
fn share(tenth: usize) -> f64 {
    tenth as f64 / TENTHS as f64
}

fn slots_log2(scale: Scale) -> u32 {
    scale.pick(21, 27)
}

const TENTHS: usize = 10;
/// The tenths that the table shows.
const SHOWN: [f64; 6] = [20.0, 50.0, 70.0, 80.0, 90.0, 100.0];
const FIRST_HALF: [f64; 4] = [20.0, 30.0, 40.0, 50.0];
const SECOND_HALF: [f64; 5] = [60.0, 70.0, 80.0, 90.0, 100.0];
const LEFT: &str = "items found in filters that were emptied";
