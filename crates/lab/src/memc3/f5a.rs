//! MemC3, figure 5a: what each step contributes to a look-up on one thread, for keys present and absent.
//!
//! Processor time of look-ups that wait for each other (see [`drive`](super::drive)).

use super::drive::look_up;
use super::factors::{Factors, STEPS};
use super::figures::{axis, categories, check, series, table};
use crate::measure::{Rounds, cpu_ns, rounds};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;

/// Figure 5a.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f5a",
    paper: Paper::MemC3,
    title: "what each step contributes to a look-up, one thread",
    claim: "huge pages help slightly, comparing keys as integers doubles the rate, cuckoo without tags is slower than \
            chaining, tags make it 2 times as fast for present keys and 8 times for absent ones; all together 5 times \
            chaining's rate for absent keys",
    shape: "cuckoo without tags slower than chaining with the same locks; tags at least 1.5 times as fast for present \
            keys and 3 times for absent ones; MemC3 at least 1.3 and 2 times plain chaining; huge pages at least 1.1 \
            times; integer keys within a tenth of memcmp",
    verdict: Verdict::NotReproduced(
        "all steps are but one: comparing keys as integers gains next to nothing, because today's memcmp of 16 bytes \
         costs a few nanoseconds of a look-up that waits for memory",
    ),
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let tell = |share: f64, doing: &str| (run.progress)(share, doing);
    let factors = Factors::new(run.scale, tell);
    let count = run.scale.pick(150_000, 1_000_000);
    let keys = factors.keys();
    let ranges = [0..keys, keys..2 * keys];
    let mut measured = Vec::new();
    for (kind, range) in ranges.into_iter().enumerate() {
        tell(0.3 + 0.35 * kind as f64, ["present keys", "absent keys"][kind]);
        let one = |step: usize, seed: u64| {
            cpu_ns(|| {
                look_up(seed, count, range.clone(), |key| factors.get(step, key));
                count
            })
        };
        measured.push(in_turns(STEPS.len(), ROUNDS, run.seed, one)?);
    }
    let [hits, misses] = [measured.remove(0), measured.remove(0)];
    let rate = |rounds: &Rounds, step| 1e3 / rounds.median(step);
    let bars = |rounds: &Rounds| -> Vec<(f64, f64)> {
        (0..STEPS.len()).map(|step| (step as f64, rate(rounds, step))).collect()
    };
    Ok(Outcome {
        plots: vec![Plot {
            title: "Look-ups on one thread".into(),
            x: categories("", &STEPS),
            y: axis("million look-ups a second"),
            series: vec![series("present", bars(&hits)), series("absent", bars(&misses))],
        }],
        tables: vec![gains(&hits, &misses)],
        checks: checks(&hits, &misses, factors.has_huge_pages()),
        reading: reading(&hits, &misses, factors.has_huge_pages()),
    })
}

/// Rounds of a figure by variant; each turn has another seed.
pub(super) fn in_turns(
    variants: usize,
    n: usize,
    seed: u64,
    one: impl Fn(usize, u64) -> f64,
) -> Result<Rounds> {
    let turns = std::cell::Cell::new(seed);
    let one = &one;
    let turns = &turns;
    let mut all: Vec<_> = (0..variants)
        .map(|variant| {
            move || {
                turns.set(turns.get() + 1);
                Ok(one(variant, turns.get()))
            }
        })
        .collect();
    let mut all: Vec<&mut dyn FnMut() -> Result<f64>> = all.iter_mut().map(|it| it as _).collect();
    rounds(n, &mut all)
}

fn gains(hits: &Rounds, misses: &Rounds) -> Table {
    let papers = ["", "slightly more", "2", "–", "less", "2 present, 8 absent", "–"];
    let row = |step: usize| {
        let gain = |rounds: &Rounds| match step {
            0 => "1".to_owned(),
            step => format!("{:.2}", rounds.ratio(step - 1, step).median),
        };
        let ns = |rounds: &Rounds| format!("{:.0}", rounds.median(step));
        let all = vec![ns(hits), ns(misses), gain(hits), gain(misses), papers[step].to_owned()];
        [vec![STEPS[step].to_owned()], all].concat()
    };
    let header = ["step", "present, ns", "absent, ns", "times as fast, present", "absent", "paper"];
    table("Each step to the one before", &header, (0..STEPS.len()).map(row).collect())
}

fn checks(hits: &Rounds, misses: &Rounds, is_huge: bool) -> Vec<Check> {
    // By how much the second is faster than the first.
    let gain = |rounds: &Rounds, from: usize, to: usize| rounds.ratio(from, to).median;
    let mut all = vec![
        check(
            "present keys: rate of cuckoo without tags, to chaining with bucket locks",
            gain(hits, 3, 4),
            Bound::AtMost(1.0),
            "it reads 3.6 items on the way to the one sought, a chain 0.7",
        ),
        check(
            "absent keys: rate of cuckoo without tags, to chaining with bucket locks",
            gain(misses, 3, 4),
            Bound::AtMost(0.7),
            "it reads all items of both buckets, a chain 1.5 on the average",
        ),
        check(
            "present keys: rate with tags, to without",
            gain(hits, 4, 5),
            Bound::AtLeast(1.5),
            "the paper has 2",
        ),
        check(
            "absent keys: rate with tags, to without",
            gain(misses, 4, 5),
            Bound::AtLeast(3.0),
            "the paper has 8, at a fuller table",
        ),
        check(
            "present keys: rate of MemC3, to plain chaining",
            gain(hits, 0, 6),
            Bound::AtLeast(1.2),
            "fewer items are read; the paper gains by its key comparison too, which we can't",
        ),
        check(
            "absent keys: rate of MemC3, to plain chaining",
            gain(misses, 0, 6),
            Bound::AtLeast(2.0),
            "the paper has 5, of which 2 by its key comparison",
        ),
        check(
            "present keys: rate with integer keys, to memcmp",
            gain(hits, 1, 2),
            Bound::Between(0.9, 1.25),
            "the paper has 2; a call of memcmp is a few nanoseconds today",
        ),
    ];
    if is_huge {
        all.push(check(
            "present keys: rate with huge pages, to small ones",
            gain(hits, 0, 1),
            Bound::AtLeast(1.1),
            "under a hypervisor a TLB miss walks two page tables",
        ));
    }
    all
}

fn reading(hits: &Rounds, misses: &Rounds, is_huge: bool) -> String {
    let gain = |rounds: &Rounds, from: usize, to: usize| rounds.ratio(from, to).median;
    let pages = if is_huge {
        format!("Huge pages make look-ups {:.2} times as fast", gain(hits, 0, 1))
    } else {
        "Huge pages could not be had".into()
    };
    format!(
        "{pages}, integer keys {:.2} times. Cuckoo without tags has {:.2} of chaining's rate for present keys and {:.2} for \
         absent ones; tags make that {:.1} and {:.1} times as fast, leaving out the lock {:.2} times. MemC3 is {:.1} and \
         {:.1} times as fast as plain chaining.",
        gain(hits, 1, 2),
        gain(hits, 3, 4),
        gain(misses, 3, 4),
        gain(hits, 4, 5),
        gain(misses, 4, 5),
        gain(hits, 5, 6),
        gain(hits, 0, 6),
        gain(misses, 0, 6),
    )
}

const ROUNDS: usize = 7;
