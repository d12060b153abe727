//! MemC3, figure 6: rate against threads, of reads alone and of nine reads in ten operations.
//!
//! A write enters or removes a key, by turns. Rates are by the wall clock.

use super::contest::{BUCKET_LOCKS, Contest, MEMC3, ONE_LOCK, OURS, TABLES};
use super::gains::Gains;
use crate::figures::{axis, check, papers};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use std::time::Duration;

/// Figure 6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f6",
    paper: Paper::MemC3,
    title: "rate against threads, 100 % and 90 % reads",
    claim: "look-ups scale with threads, to 35 million a second on 12; chaining under one lock does not scale at all",
    shape: "a second thread gains the cuckoo tables at least 0.75 of what it gains work that shares nothing, for reads, and \
            chaining under one lock at most 0.75 of it; with two threads the cuckoo tables are ahead of it, for \
            reads and for 90 % reads; with four threads on two processors they lose nothing",
    verdict: Verdict::NotTestable(
        "two processors can't show 12 threads; two threads against one, four on two processors, and that a read \
         writes no shared memory do instead",
    ),
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let contest = Contest::new(run.scale, |share, doing| (run.progress)(0.3 * share, doing));
    let time = Duration::from_millis(run.scale.pick(80, 1000));
    let measure = |writes: f64| {
        Gains::measure(&THREADS, TABLES.len() + 1, run.seed, |threads, table, _| {
            if table < TABLES.len() {
                contest.run(table, threads, writes, time).rate()
            } else {
                contest.control(threads, time).rate()
            }
        })
    };
    (run.progress)(0.3, "reads");
    let reads = measure(0.0)?;
    (run.progress)(0.65, "90 % reads");
    let mixed = measure(0.1)?;
    let mut plots = vec![plot("Reads only", &reads), plot("90 % reads, 10 % writes", &mixed)];
    plots[0].series.push(papers("paper: MemC3, 12 threads", [(12.0, 35.0)]));
    Ok(Outcome {
        plots,
        tables: Vec::new(),
        checks: checks(&reads, &mixed),
        reading: reading(&reads, &mixed, contest.retries()),
    })
}

fn plot(title: &str, gains: &Gains) -> Plot {
    Plot {
        title: title.into(),
        x: axis("threads"),
        y: axis("million operations a second"),
        series: TABLES.iter().enumerate().map(|(table, name)| gains.line(name, table)).collect(),
    }
}

fn checks(reads: &Gains, mixed: &Gains) -> Vec<Check> {
    let mut all = Vec::new();
    for (kind, gains, least, ahead) in
        [("reads", reads, 0.75, 1.2), ("90 % reads", mixed, 0.6, 1.1)]
    {
        for table in [MEMC3, OURS] {
            let name = TABLES[table];
            all.extend(gains.scales(&format!("{kind}, {name}"), table, least));
            all.push(check(
                format!("{kind}, 2 threads: {name}, to chaining under one lock"),
                gains.ratio(1, table, ONE_LOCK),
                Bound::AtLeast(ahead),
                "the paper has an order of magnitude on more threads",
            ));
            all.push(check(
                format!("{kind}: {name} with four threads on two processors, to two"),
                gains.gain(2, table) / gains.gain(1, table),
                Bound::AtLeast(0.75),
                "readers that wait for nobody lose nothing when one of them is put aside",
            ));
        }
        let name = format!("{kind}, {}", TABLES[ONE_LOCK]);
        all.extend(gains.waits(&name, ONE_LOCK, 0.75));
    }
    all
}

fn reading(reads: &Gains, mixed: &Gains, retries: u64) -> String {
    let of = |gains: &Gains, table: usize| gains.gain(1, table);
    format!(
        "A second thread makes reads {:.2} times as fast with MemC3's table and {:.2} with ours, {:.2} with bucket locks \
         and {:.2} with one lock, where {:.2} was possible; with 10 % writes {:.2}, {:.2}, {:.2} and {:.2}. MemC3's readers \
         looked again {retries} times in all.",
        of(reads, MEMC3),
        of(reads, OURS),
        of(reads, BUCKET_LOCKS),
        of(reads, ONE_LOCK),
        reads.possible(1),
        of(mixed, MEMC3),
        of(mixed, OURS),
        of(mixed, BUCKET_LOCKS),
        of(mixed, ONE_LOCK),
    )
}

const THREADS: [usize; 3] = [1, 2, 4];
