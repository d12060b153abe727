//! Figure 4.5: look-ups a second, by the share of items that are in.
//!
//! Full filters of the same size, asked for present and absent items in a random order, in turns.

use super::contest::{BLOCKED, BLOOM, CUCKOO, D_LEFT, KINDS, QUOTIENT, SORTED};
use super::items::Items;
use crate::baseline::filter::Set;
use crate::figures::{axis, check, series, table};
use crate::measure::Spread;
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;

/// Figure 4.5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.5",
    paper: Paper::CuckooFilter,
    title: "look-ups a second against the share of present items",
    claim: "a cuckoo filter reads two buckets whatever is asked, so that its look-ups are as fast for present items as \
            for absent ones, with a dip between; Bloom filters are slower the more items are present",
    shape: "cuckoo look-ups of present items take 0.6 to 1.4 times as long as of absent ones, a Bloom filter's 0.5 to 2.5 \
            times; a quotient filter's at least twice as long as a cuckoo filter's, d-left's at least 1.2 times",
    verdict: Verdict::NotReproduced(
        "a cuckoo filter's look-ups are as even as claimed, but so are a Bloom filter's while the processor's caches hold \
         it: the nine lines of a present item are asked for at once, and where to stop for an absent one is a branch \
         that nobody can guess; the thesis' filters, of 192 MB, were beyond all caches",
    ),
    is_quick: false,
    run,
};

/// Nanoseconds of a look-up, by share, then by round.
struct Curve {
    name: &'static str,
    ns: Vec<Vec<f64>>,
}

impl Curve {
    fn median(&self, share: usize) -> f64 {
        Spread::of(&self.ns[share]).median
    }

    /// How many times as long as the other's look-ups these take, round by round.
    fn to(&self, share: usize, other: &Self, other_share: usize) -> f64 {
        let pairs = self.ns[share].iter().zip(&other.ns[other_share]);
        Spread::of(&pairs.map(|(own, other)| own / other).collect::<Vec<_>>()).median
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let slots_log2 = run.scale.pick(22, 27);
    let asked = run.scale.pick(1 << 18, 1 << 22);
    let items = Items::new(run.seed);
    let mut full: Vec<(Box<dyn Set>, u64)> = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        (run.progress)(at as f64 / 2.0 / KINDS.len() as f64, kind.name);
        let mut set = kind.make(slots_log2);
        let entered = items.enter(set.as_mut(), 0..kind.items(slots_log2, 1.0)).count;
        full.push((set, entered));
    }
    let curve = |name| Curve { name, ns: vec![Vec::new(); SHARES.len()] };
    let mut curves: Vec<Curve> = KINDS.iter().map(|kind| curve(kind.name)).collect();
    for round in 0..ROUNDS {
        (run.progress)(0.5 + f64::from(round) / 2.0 / f64::from(ROUNDS), "look-ups");
        for (share, &present) in SHARES.iter().enumerate() {
            for (curve, (set, entered)) in curves.iter_mut().zip(&full) {
                let done = items.look_up(set.as_ref(), *entered, present / 100.0, asked);
                curve.ns[share].push(done.ns);
            }
        }
    }
    Ok(Outcome {
        plots: vec![plot(&curves)],
        tables: vec![shown(&curves)],
        checks: checks(&curves),
        reading: reading(&curves),
    })
}

fn plot(curves: &[Curve]) -> Plot {
    let points = |curve: &Curve| {
        let rate = |(share, present)| (present, 1e3 / curve.median(share));
        SHARES.into_iter().enumerate().map(rate).collect::<Vec<_>>()
    };
    Plot {
        title: "Look-ups".into(),
        x: axis("share of present items, %"),
        y: axis("millions a second of processor time"),
        series: curves.iter().map(|curve| series(curve.name, points(curve))).collect(),
    }
}

fn shown(curves: &[Curve]) -> Table {
    let shares = SHARES.map(|share| format!("{share:.0} % present"));
    let header: Vec<&str> =
        ["filter"].into_iter().chain(shares.iter().map(String::as_str)).collect();
    let row = |curve: &Curve| {
        let ns = (0..SHARES.len()).map(|share| format!("{:.1}", curve.median(share)));
        [curve.name.to_owned()].into_iter().chain(ns).collect()
    };
    table("Nanoseconds of a look-up", &header, curves.iter().map(row).collect())
}

fn checks(curves: &[Curve]) -> Vec<Check> {
    let (none, all) = (0, SHARES.len() - 1);
    let rises = |at: usize| curves[at].to(all, &curves[at], none);
    let why = "two buckets are read whatever is asked";
    vec![
        check("cuckoo: present to absent", rises(CUCKOO), Bound::Between(0.6, 1.4), why),
        check("semi-sorted: present to absent", rises(SORTED), Bound::Between(0.6, 1.4), why),
        check(
            "Bloom: present to absent",
            rises(BLOOM),
            Bound::Between(0.5, 2.5),
            "nine bits are read of a present item, two on average of an absent one, which costs a wrong guess",
        ),
        check(
            "half of the items present: quotient to cuckoo",
            curves[QUOTIENT].to(all / 2, &curves[CUCKOO], all / 2),
            Bound::AtLeast(2.0),
            "clusters of dozens of slots at 90 %, read one after the other",
        ),
        check(
            "half of the items present: d-left to cuckoo",
            curves[D_LEFT].to(all / 2, &curves[CUCKOO], all / 2),
            Bound::AtLeast(1.2),
            "up to four lines to two, and sixteen cells to eight",
        ),
    ]
}

fn reading(curves: &[Curve]) -> String {
    let all = SHARES.len() - 1;
    let rises = |at: usize| curves[at].to(all, &curves[at], 0);
    format!(
        "A look-up of a present item takes {:.2} of one of an absent item in a cuckoo filter, {:.2} semi-sorted, {:.2} in a \
         Bloom filter and {:.2} in a blocked one; with half of the items present a cuckoo filter's takes {:.2}. There is \
         no dip: ours compares both buckets without a branch. A Bloom filter reads more lines of present items but \
         always takes the same way.",
        rises(CUCKOO),
        rises(SORTED),
        rises(BLOOM),
        rises(BLOCKED),
        curves[CUCKOO].to(all / 2, &curves[CUCKOO], 0),
    )
}

const SHARES: [f64; 5] = [0.0, 25.0, 50.0, 75.0, 100.0];
const ROUNDS: u32 = 5;
