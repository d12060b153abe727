//! Figures 4.7 to 4.9: what look-ups, inserts and removals cost as a filter fills, and as it empties.
//!
//! A filter's occupancy is its items, in percent of those of a full one: 95 % of the slots of a cuckoo filter, 90 % of
//! a quotient filter, 75 % of a d-left counting Bloom filter. Inserts and removals are averages over a tenth.

use super::contest::{BLOOM, CUCKOO, D_LEFT, KINDS, Kind, QUOTIENT};
use super::items::Items;
use crate::figures::{axis, check, series, table};
use crate::measure::Spread;
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Scale, Table, Verdict};
use anyhow::Result;

/// Figure 4.7.
pub(crate) const LOOK_UPS: Experiment = Experiment {
    id: "cf-f4.7",
    paper: Paper::CuckooFilter,
    title: "look-ups by occupancy, half of the items present",
    claim: "a cuckoo filter's look-ups cost the same at any occupancy; a quotient filter's cost much more above 75 %",
    shape: "full, a cuckoo look-up takes at most 2.5 times what it takes at a fifth; a quotient filter's takes at least \
            3 times what it takes at half",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: look_ups,
};

/// Figure 4.8.
pub(crate) const INSERTS: Experiment = Experiment {
    id: "cf-f4.8",
    paper: Paper::CuckooFilter,
    title: "inserts by occupancy",
    claim: "a cuckoo filter's inserts get slower as it fills, since fingerprints must move; a Bloom filter's cost the \
            same at any occupancy",
    shape: "the last tenth of a cuckoo filter takes at least 1.5 times as long as the second, and less than the quotient \
            filter's; a Bloom filter's last tenth at most 1.5 times",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: inserts,
};

/// Figure 4.9.
pub(crate) const REMOVALS: Experiment = Experiment {
    id: "cf-f4.9",
    paper: Paper::CuckooFilter,
    title: "removals by occupancy, until nothing is left",
    claim: "of all filters from which items can be removed the cuckoo filter removes fastest",
    shape: "over all, the quotient filter's removals take longer than the cuckoo filter's, and d-left's at least 0.8 of \
            them; a filter that was emptied finds nothing",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: removals,
};

/// Nanoseconds of an operation by occupancy, then by round.
struct Curve {
    name: &'static str,
    ns: Vec<Vec<f64>>,
}

impl Curve {
    fn median(&self, tenth: usize) -> f64 {
        Spread::of(&self.ns[tenth]).median
    }

    /// How many times as long it takes in a tenth as in another, round by round.
    fn rises(&self, from: usize, to: usize) -> f64 {
        let pairs = self.ns[to].iter().zip(&self.ns[from]);
        Spread::of(&pairs.map(|(to, from)| to / from).collect::<Vec<_>>()).median
    }

    /// How many times as long as another's these operations take in some tenths, round by round.
    fn to(&self, other: &Self, tenths: std::ops::Range<usize>) -> f64 {
        let sum = |curve: &Self, round: usize| {
            tenths.clone().map(|tenth| curve.ns[tenth][round]).sum::<f64>()
        };
        let ratio = |round| sum(self, round) / sum(other, round);
        Spread::of(&(0..self.ns[0].len()).map(ratio).collect::<Vec<_>>()).median
    }
}

fn look_ups(run: &Run<'_>) -> Result<Outcome> {
    let asked = run.scale.pick(1 << 17, 1 << 21);
    let curves = rounds(run, &|kind, items| {
        let mut set = kind.make(slots_log2(run.scale));
        let step = |tenth| {
            let entered = kind.items(slots_log2(run.scale), TENTHS[tenth + 1]);
            items.enter(set.as_mut(), kind.items(slots_log2(run.scale), TENTHS[tenth])..entered);
            items.look_up(set.as_ref(), entered, 0.5, asked).ns
        };
        Some((0..TENTHS.len() - 1).map(step).collect())
    });
    let named = |name: &str| of(&curves, name);
    let (cuckoo, quotient) = (named(KINDS[CUCKOO].name), named(KINDS[QUOTIENT].name));
    let checks = vec![
        check(
            "cuckoo: a look-up in a full filter, to one filled to a fifth",
            cuckoo.rises(1, 9),
            Bound::AtMost(2.5),
            "two buckets are read at any occupancy; the caches' neighbours change between the two",
        ),
        check(
            "quotient: a look-up in a full filter, to a half full one",
            quotient.rises(4, 9),
            Bound::AtLeast(3.0),
            "clusters grow from 1 or 2 slots to dozens",
        ),
    ];
    let reading = format!(
        "From a fifth to full a cuckoo filter's look-ups get {:.2} times as long, a Bloom filter's {:.2}, a quotient \
         filter's {:.2}, most of it above three quarters ({:.2} up to there).",
        cuckoo.rises(1, 9),
        named(KINDS[BLOOM].name).rises(1, 9),
        quotient.rises(1, 9),
        quotient.rises(1, 6),
    );
    Ok(outcome("Look-up", &curves, checks, reading))
}

fn inserts(run: &Run<'_>) -> Result<Outcome> {
    let curves = rounds(run, &|kind, items| {
        let mut set = kind.make(slots_log2(run.scale));
        let of_tenth = |tenth: usize| {
            let [from, to] =
                [tenth, tenth + 1].map(|at| kind.items(slots_log2(run.scale), TENTHS[at]));
            items.enter(set.as_mut(), from..to).ns
        };
        Some((0..TENTHS.len() - 1).map(of_tenth).collect())
    });
    let named = |at: usize| of(&curves, KINDS[at].name);
    let checks = vec![
        check(
            "cuckoo: an insert in the last tenth, to the second",
            named(CUCKOO).rises(1, 9),
            Bound::AtLeast(1.5),
            "a full bucket must be made room in: a search for a path, and its moves",
        ),
        check(
            "Bloom: an insert in the last tenth, to the second",
            named(BLOOM).rises(1, 9),
            Bound::AtMost(1.5),
            "nine bits are set at any occupancy",
        ),
        check(
            "an insert in the last tenth: quotient to cuckoo",
            named(QUOTIENT).to(named(CUCKOO), 9..10),
            Bound::AtLeast(1.0),
            "half a cluster of dozens of slots is moved",
        ),
    ];
    let reading = format!(
        "From the second tenth to the last a cuckoo filter's inserts get {:.2} times as long, a quotient filter's {:.2}, a \
         Bloom filter's {:.2}. Over all tenths an insert takes {:.2} of a Bloom filter's. Ours searches for a path breadth \
         first where the thesis kicks at random.",
        named(CUCKOO).rises(1, 9),
        named(QUOTIENT).rises(1, 9),
        named(BLOOM).rises(1, 9),
        named(CUCKOO).to(named(BLOOM), 0..10),
    );
    Ok(outcome("Insert", &curves, checks, reading))
}

fn removals(run: &Run<'_>) -> Result<Outcome> {
    let left = std::cell::Cell::new(0);
    let curves = rounds(run, &|kind, items| {
        let mut set = kind.make_removing(slots_log2(run.scale))?;
        let full = kind.items(slots_log2(run.scale), 1.0);
        items.enter(set.as_mut(), 0..full);
        let of_tenth = |tenth: usize| {
            let [to, from] =
                [tenth, tenth + 1].map(|at| kind.items(slots_log2(run.scale), TENTHS[at]));
            items.remove(set.as_mut(), to..from).ns
        };
        let mut ns: Vec<f64> = (0..TENTHS.len() - 1).rev().map(of_tenth).collect();
        ns.reverse();
        left.set(left.get() + items.look_up(set.as_ref(), full, 1.0, 1 << 16).count);
        Some(ns)
    });
    let named = |at: usize| of(&curves, KINDS[at].name);
    let ratio = |at: usize| named(at).to(named(CUCKOO), 0..10);
    let checks = vec![
        check(
            "a removal, all tenths: quotient to cuckoo",
            ratio(QUOTIENT),
            Bound::AtLeast(1.2),
            "what is behind in the cluster moves back",
        ),
        check(
            "a removal, all tenths: d-left to cuckoo",
            ratio(D_LEFT),
            Bound::AtLeast(0.8),
            "two lines on average to one and a half; the bound leaves room for noise",
        ),
        check(
            "items found in filters that were emptied",
            left.get() as f64,
            Bound::AtMost(0.0),
            "each item is removed once and leaves nothing",
        ),
    ];
    let reading = format!(
        "A removal takes {:.2} of a cuckoo filter's in a quotient filter, {:.2} in a d-left counting Bloom filter and \
         {:.2} in a counting Bloom filter, which holds a quarter as many items; {:.2} in a semi-sorted filter, which \
         decodes, sorts and encodes.",
        ratio(QUOTIENT),
        ratio(D_LEFT),
        ratio(KINDS.len() - 1),
        ratio(super::contest::SORTED),
    );
    Ok(outcome("Removal", &curves, checks, reading))
}

/// Some rounds of all kinds in turn: `tenths` gives a figure for each tenth of a kind, or none if it can't.
fn rounds(run: &Run<'_>, tenths: &dyn Fn(&Kind, Items) -> Option<Vec<f64>>) -> Vec<Curve> {
    let rounds = run.scale.pick(3, 1);
    let mut curves: Vec<Curve> = Vec::new();
    for round in 0..rounds {
        for (at, kind) in KINDS.iter().enumerate() {
            let done = (round * KINDS.len() + at) as f64 / (rounds * KINDS.len()) as f64;
            (run.progress)(done, kind.name);
            let Some(ns) = tenths(kind, Items::new(run.seed + round as u64)) else { continue };
            match curves.iter_mut().find(|curve| curve.name == kind.name) {
                Some(curve) => curve.ns.iter_mut().zip(ns).for_each(|(all, ns)| all.push(ns)),
                None => curves.push(Curve {
                    name: kind.name,
                    ns: ns.into_iter().map(|ns| vec![ns]).collect(),
                }),
            }
        }
    }
    curves
}

fn of<'a>(curves: &'a [Curve], name: &str) -> &'a Curve {
    curves.iter().find(|curve| curve.name == name).expect("it was measured")
}

fn outcome(what: &str, curves: &[Curve], checks: Vec<Check>, reading: String) -> Outcome {
    Outcome { plots: vec![plot(what, curves)], tables: vec![shown(what, curves)], checks, reading }
}

fn plot(what: &str, curves: &[Curve]) -> Plot {
    let points = |curve: &Curve| {
        let point = |tenth| (TENTHS[tenth + 1] * 100.0, curve.median(tenth));
        (0..TENTHS.len() - 1).map(point).collect::<Vec<_>>()
    };
    Plot {
        title: what.into(),
        x: axis("items, % of a full filter"),
        y: axis("nanoseconds of processor time"),
        series: curves.iter().map(|curve| series(curve.name, points(curve))).collect(),
    }
}

fn shown(what: &str, curves: &[Curve]) -> Table {
    let row = |curve: &Curve| {
        let ns = SHOWN.map(|tenth| format!("{:.0}", curve.median(tenth)));
        [curve.name.to_owned()].into_iter().chain(ns).collect()
    };
    table(
        &format!("{what}, nanoseconds, by items in percent of a full filter"),
        &["filter", "20 %", "50 %", "70 %", "80 %", "90 %", "100 %"],
        curves.iter().map(row).collect(),
    )
}

fn slots_log2(scale: Scale) -> u32 {
    scale.pick(21, 27)
}

const TENTHS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// The tenths that the table shows.
const SHOWN: [usize; 6] = [1, 4, 6, 7, 8, 9];
