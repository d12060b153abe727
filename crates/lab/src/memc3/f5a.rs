//! MemC3, figure 5a: the contribution of each step to a lookup on one thread, for present and absent keys.
//!
//! Processor time of lookups that wait for each other (see [`drive`](crate::drive)).

use super::factors::{Factors, STEPS};
use crate::baseline::items::Key;
use crate::baseline::pages::ENOUGH;
use crate::data::{Data, Line, Point, ratio};
use crate::drive::look_up;
use crate::figures::{axis, categories, check, series, table};
use crate::measure::{cpu_ns, in_turns};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use std::ops::Range;

/// Figure 5a.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f5a",
    paper: Paper::MemC3,
    title: "what each step contributes to a lookup, one thread",
    claim: "huge pages help slightly, comparing keys as integers doubles the rate, cuckoo without tags is slower than \
            chaining, tags make it 2 times as fast for present keys and 8 times for absent ones; all together 5 times \
            chaining's rate for absent keys",
    shape: "the order of the steps: cuckoo without tags not faster than chaining with the same locks; tags not slower \
            for present keys, with at most 0.45 of the items read, and at least 1.8 times as fast for absent ones, with hardly any; MemC3 at \
            least 1.3 times plain chaining for present keys and 2.5 times for absent ones; huge pages not slower; \
            integer keys within a third of memcmp",
    why: "integer keys gain little, because a call of memcmp costs a few nanoseconds today; tags gain less than in the paper, \
          because a processor of today reads all items of a bucket at once",
    is_quick: false,
    measure,
    judge,
};

/// Nanoseconds by step.
const PRESENT: &str = "present keys, ns";
const ABSENT: &str = "absent keys, ns";
/// Items read by step.
const PRESENT_READ: &str = "present keys, items read";
const ABSENT_READ: &str = "absent keys, items read";
/// Shares of memory in huge pages: of the tables and their items.
const SMALL_PAGES: &str = "share in huge pages, plain chaining";
const HUGE_PAGES: &str = "share in huge pages, the others";

fn measure(run: &Run<'_>) -> Result<Data> {
    let tell = |share: f64, doing: &str| (run.progress)(share, doing);
    let factors = Factors::new(run.scale, tell);
    let count = run.scale.pick(120_000, 1_000_000);
    let keys = factors.keys();
    let by_step = |name: &str, numbers: Range<u32>| -> Result<Line> {
        let one = |step: usize, seed: u64| {
            cpu_ns(|| {
                look_up(seed, count, numbers.clone(), |key| factors.get(step, key));
                count
            })
        };
        let rounds = in_turns(STEPS.len(), ROUNDS, run.seed, one)?;
        Ok(Line::of_rounds(name, &rounds, (0..STEPS.len()).map(|step| (step as f64, step))))
    };
    let mut data = Data::default();
    tell(0.4, "present keys");
    data.push(by_step(PRESENT, 0..keys)?);
    tell(0.7, "absent keys");
    data.push(by_step(ABSENT, keys..2 * keys)?);
    for (name, first) in [(PRESENT_READ, 0), (ABSENT_READ, keys)] {
        let mean = |step: usize| {
            let read = |number| f64::from(factors.items_read(step, &Key::new(number)));
            (first..first + COUNTED).map(read).sum::<f64>() / f64::from(COUNTED)
        };
        data.push(Line::of_figures(name, (0..STEPS.len()).map(|step| (step as f64, mean(step)))));
    }
    let [small, huge] = factors.huge;
    data.aside(SMALL_PAGES, small);
    data.aside(HUGE_PAGES, huge);
    Ok(data)
}

/// Returns how many times as fast the step `to` is as the step `from`.
fn gain(data: &Data, keys: &str, from: usize, to: usize) -> f64 {
    let at = |step: usize| -> &Point { data.line(keys).at(step as f64) };
    ratio(at(from), at(to))
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![plot(data)],
        tables: vec![gains(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

fn plot(data: &Data) -> Plot {
    let bars = |name: &str, line: &str| {
        series(name, data.line(line).medians().map(|(step, ns)| (step, 1e3 / ns)))
    };
    Plot {
        title: "Lookups on one thread".into(),
        x: categories("", &STEPS),
        y: axis("million lookups a second"),
        series: vec![bars("present", PRESENT), bars("absent", ABSENT)],
    }
}

fn gains(data: &Data) -> Table {
    let papers = ["", "slightly more", "2", "–", "less", "2 present, 8 absent", "–"];
    let row = |step: usize| {
        let gain = |keys: &str| match step {
            0 => "1".to_owned(),
            step => format!("{:.2}", gain(data, keys, step - 1, step)),
        };
        let ns = |keys: &str| format!("{:.0}", data.line(keys).median(step as f64));
        let all =
            vec![ns(PRESENT), ns(ABSENT), gain(PRESENT), gain(ABSENT), papers[step].to_owned()];
        [vec![STEPS[step].to_owned()], all].concat()
    };
    let header = ["step", "present, ns", "absent, ns", "times as fast, present", "absent", "paper"];
    table("Each step to the one before", &header, (0..STEPS.len()).map(row).collect())
}

fn checks(data: &Data) -> Vec<Check> {
    let present = |from, to| gain(data, PRESENT, from, to);
    let absent = |from, to| gain(data, ABSENT, from, to);
    let all = vec![
        check(
            "present keys: rate of cuckoo without tags, to chaining with bucket locks",
            present(3, 4),
            Bound::AtMost(1.05),
            "it reads two items and more on the way to the one sought, a chain 0.7",
        )
        .paper("less than 1", Bound::AtMost(1.0)),
        check(
            "absent keys: rate of cuckoo without tags, to chaining with bucket locks",
            absent(3, 4),
            Bound::AtMost(1.05),
            "it reads all items of both buckets, a chain 1.5 on average",
        )
        .paper("less than 1", Bound::AtMost(1.0)),
        check(
            "present keys: rate with tags, to without",
            present(4, 5),
            Bound::AtLeast(1.0),
            "loosened from 1.5: with tags two items less are read, but a processor that reads a bucket's items at once hides \
             most of that",
        )
        .paper("2", Bound::AtLeast(1.8)),
        check(
            "absent keys: rate with tags, to without",
            absent(4, 5),
            Bound::AtLeast(1.8),
            "loosened from 3: with tags no item is read instead of seven, which are read at once",
        )
        .paper("8", Bound::AtLeast(7.0)),
        check(
            "present keys: rate of MemC3, to plain chaining",
            present(0, 6),
            Bound::AtLeast(1.3),
            "fewer items are read, and no lock is written",
        ),
        check(
            "absent keys: rate of MemC3, to plain chaining",
            absent(0, 6),
            Bound::AtLeast(2.5),
            "half of the paper's: its other 2 came from the key comparison",
        )
        .paper("5", Bound::AtLeast(4.5)),
        check(
            "present keys: rate with integer keys, to memcmp",
            present(1, 2),
            Bound::Between(0.85, 1.35),
            "a call of memcmp is a few nanoseconds today",
        )
        .paper("2", Bound::AtLeast(1.8)),
    ];
    let huge = data.figure(HUGE_PAGES);
    let why = || format!("{huge:.2} of the tables' memory is in huge pages, of at least {ENOUGH}");
    let judged = all.into_iter().map(|check| check.judged_if(huge >= ENOUGH, why));
    judged.chain([huge_pages(data)]).chain(items_read(data)).collect()
}

/// The checks of what tags are for. They are about counts, which don't depend on how many reads a processor has in
/// flight.
fn items_read(data: &Data) -> [Check; 3] {
    let read = |keys: &str, step: usize| data.line(keys).median(step as f64);
    [
        check(
            "present keys: items read with tags, to without",
            read(PRESENT_READ, 5) / read(PRESENT_READ, 4),
            Bound::AtMost(0.45),
            "the one sought; without tags those before it too, in two buckets",
        ),
        check(
            "absent keys: items read without tags",
            read(ABSENT_READ, 4),
            Bound::Between(7.0, 8.0),
            "all of two buckets of four at a load of 0.92",
        ),
        check(
            "absent keys: items read with tags",
            read(ABSENT_READ, 5),
            Bound::AtMost(0.06),
            "one of 255 tags is another key's as well: 0.03 of seven",
        ),
    ]
}

/// The check of huge pages. It is judged only if the system gave the chains the intended pages: it grants huge pages
/// only if it has some.
fn huge_pages(data: &Data) -> Check {
    let [small, huge] = [SMALL_PAGES, HUGE_PAGES].map(|name| data.figure(name));
    check(
        "present keys: rate with huge pages, to small ones",
        gain(data, PRESENT, 0, 1),
        Bound::AtLeast(0.9),
        "loosened from 1.05: where a hypervisor maps its guest's memory in small pages, the processor holds small ones too",
    )
    // Runs of the same build differ by up to a twentieth. Rates that differ by less than a tenth count as equal.
    .paper_or("slightly more", Bound::AtLeast(1.02), 0.9)
    .judged_if(small < 0.1 && huge >= ENOUGH, || {
        format!("of the chains' memory {small:.2} and {huge:.2} are in huge pages, not 0 and 1")
    })
}

fn reading(data: &Data) -> String {
    let [small, huge] = [SMALL_PAGES, HUGE_PAGES].map(|name| data.figure(name) * 100.0);
    let present = |from, to| gain(data, PRESENT, from, to);
    let absent = |from, to| gain(data, ABSENT, from, to);
    format!(
        "With {huge:.0} % of the items in huge pages instead of {small:.0} % lookups are {:.2} times as fast, with integer \
         keys {:.2} times. Cuckoo without tags has {:.2} of chaining's rate for present keys and {:.2} for absent ones; tags \
         make it {:.1} and {:.1} times as fast, and to leave out the lock {:.1} and {:.1} times. MemC3 is {:.1} and {:.1} \
         times as fast as plain chaining.",
        present(0, 1),
        present(1, 2),
        present(3, 4),
        absent(3, 4),
        present(4, 5),
        absent(4, 5),
        present(5, 6),
        absent(5, 6),
        present(0, 6),
        absent(0, 6),
    )
}

const ROUNDS: usize = 7;
/// The number of keys for which the items read by lookups are counted.
const COUNTED: u32 = 50_000;
