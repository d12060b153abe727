//! MemC3, figure 6: the rate against threads, for reads only and for nine reads in ten operations.
//!
//! A write inserts or removes a key, by turns. Rates are by the wall clock.

use super::contest::{BUCKET_LOCKS, Contest, MEMC3, ONE_LOCK, OURS, TABLES};
use super::gains::{Gains, NOTHING_GAINED, measure as measure_rates};
use crate::baseline::pages;
use crate::data::Data;
use crate::figures::{axis, check, drawn, papers};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Series};
use anyhow::Result;
use std::time::Duration;

/// Figure 6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f6",
    paper: Paper::MemC3,
    title: "rate against threads, 100 % and 90 % reads",
    claim: "lookups scale with threads, from 5 million a second on one to 35 on 12; chaining under one lock does not scale at \
            all",
    shape: "a second thread gains the cuckoo tables at least 0.75 of what it gains work that shares nothing for reads, 0.65 \
            for 90 % reads, and chaining under one lock at most 0.75; with two threads the cuckoo tables are ahead of it; \
            with four threads on two processors they lose nothing",
    why: "two processors can't show 12 threads: two threads against one, and four on two processors, do instead",
    is_quick: false,
    measure,
    judge,
};

fn measure(run: &Run<'_>) -> Result<Data> {
    let (contest, huge) =
        pages::grown(|| Contest::new(run.scale, |share, doing| (run.progress)(0.3 * share, doing)));
    let time = Duration::from_millis(run.scale.pick(80, 1000));
    let mut data = Data::default();
    for (kind, writes, done) in [(READS, 0.0, 0.3), (MIXED, 0.1, 0.65)] {
        (run.progress)(done, kind);
        let names: Vec<String> =
            TABLES.iter().copied().chain([CONTROL]).map(|it| name(kind, it)).collect();
        let lines =
            measure_rates(&THREADS, &names, ROUNDS, run.seed, |threads, table, _| match table {
                table if table < TABLES.len() => contest.run(table, threads, writes, time).rate(),
                _ => contest.control(threads, time).rate(),
            })?;
        for line in lines {
            data.push(match () {
                // A table under one lock does not scale.
                () if line.name == name(kind, TABLES[ONE_LOCK]) => line.flat(),
                // Only drawn, as in the paper's figure; the cost of bucket locks is checked by figure 5b.
                () if line.name == name(kind, TABLES[BUCKET_LOCKS]) => line.aside(),
                () => line,
            });
        }
    }
    data.aside(RETRIES, contest.retries() as f64);
    data.aside(pages::SHARE, huge);
    Ok(data)
}

fn name(kind: &str, table: &str) -> String {
    format!("{kind}, {table}")
}

fn judge(data: &Data) -> Findings {
    let mut plots =
        vec![plot("Reads only", READS, data), plot("90 % reads, 10 % writes", MIXED, data)];
    plots[0].series.push(papers("paper: MemC3", [(1.0, 5.0), (12.0, 35.0)]));
    Findings {
        plots,
        tables: Vec::new(),
        checks: pages::judged(checks(data), data),
        reading: reading(data),
    }
}

fn plot(title: &str, kind: &str, data: &Data) -> Plot {
    let line =
        |table: &&str| Series { name: (*table).into(), ..drawn(data.line(&name(kind, table))) };
    Plot {
        title: title.into(),
        x: axis("threads"),
        y: axis("million operations a second"),
        series: TABLES.iter().map(line).collect(),
    }
}

fn checks(data: &Data) -> Vec<Check> {
    let mut all = Vec::new();
    for (kind, least, ahead) in [(READS, 0.75, 1.2), (MIXED, 0.65, 1.1)] {
        let gains = Gains::of(data, &name(kind, CONTROL));
        let one_lock = name(kind, TABLES[ONE_LOCK]);
        for table in [MEMC3, OURS] {
            let table = name(kind, TABLES[table]);
            let scales = gains.scales(&table, least);
            all.push(match kind {
                READS => {
                    scales.paper_or("7 times on 12 threads", Bound::AtLeast(0.75), NOTHING_GAINED)
                }
                _ => scales,
            });
            all.push(check(
                format!("{table}, 2 threads: rate to that of chaining under one lock"),
                gains.ratio(2, &table, &one_lock),
                Bound::AtLeast(ahead),
                "the paper has an order of magnitude, on more threads",
            ));
            all.push(check(
                format!("{table}: rate of four threads on two processors, to two threads"),
                gains.gain(4, &table) / gains.gain(2, &table),
                Bound::AtLeast(0.75),
                "readers that wait for nobody lose nothing when one of them is put aside",
            ));
        }
        let waits = gains.waits(&one_lock, 0.75);
        all.push(waits.paper("does not scale", Bound::AtMost(0.75)));
    }
    all
}

fn reading(data: &Data) -> String {
    let gain = |kind: &str, table: usize| {
        Gains::of(data, &name(kind, CONTROL)).gain(2, &name(kind, TABLES[table]))
    };
    format!(
        "A second thread makes reads {:.2} times as fast with MemC3's table and {:.2} with ours, {:.2} with bucket locks \
         and {:.2} with one lock, where {:.2} was possible; with 10 % writes {:.2}, {:.2}, {:.2} and {:.2}. MemC3's readers \
         looked again {} times in total.",
        gain(READS, MEMC3),
        gain(READS, OURS),
        gain(READS, BUCKET_LOCKS),
        gain(READS, ONE_LOCK),
        Gains::of(data, &name(READS, CONTROL)).possible(2),
        gain(MIXED, MEMC3),
        gain(MIXED, OURS),
        gain(MIXED, BUCKET_LOCKS),
        gain(MIXED, ONE_LOCK),
        data.figure(RETRIES),
    )
}

const READS: &str = "reads";
const MIXED: &str = "90 % reads";
const CONTROL: &str = "work that shares nothing";
const RETRIES: &str = "looks that MemC3's readers repeated";
const THREADS: [usize; 3] = [1, 2, 4];
const ROUNDS: usize = 5;
