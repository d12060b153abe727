//! Mercury, figure 5: YCSB with a growing share of puts.
//!
//! The paper has keys of 24 bytes and values of 10; an index sees neither. Puts replace, as YCSB's do. Beside them, writes
//! that enter and remove keys, as a cache's do that misses and evicts: only these move keys in a cuckoo table.

use crate::baseline::chain::Chain;
use crate::baseline::items::Items;
use crate::baseline::single_writer::{Design, SingleWriter};
use crate::drive::Mix;
use crate::figures::{axis, check, series, table};
use crate::measure::{Rounds, rounds};
use crate::ycsb::Ycsb;
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_index::{Chained, Cuckoo, Hopscotch};
use std::sync::Arc;
use std::time::Duration;

/// Figure 5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "merc-f5",
    paper: Paper::Mercury,
    title: "throughput with 0 to 50 % puts, two threads",
    claim: "Mercury keeps its rate as the share of puts grows to 50 %, and is 9.2 to 14 times as fast as memcached on \
            twelve threads",
    shape: "with 50 % puts Mercury keeps 0.6 of its rate without; with 50 % of writes that enter and remove keys it is 1.5 \
            times as fast as MemC3's table, whose writers wait for one lock, and the product's cuckoo table, which has \
            many writers, is within 15 % of it where puts replace, and within 20 % where keys come and go",
    verdict: Verdict::NotTestable(
        "on twelve threads; on two, what shows is that one lock for all writers costs what the paper says it does",
    ),
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 24_000_000)));
    let keys = items.count() as usize;
    let ycsb = Ycsb::new(&items, 2, run.seed);
    (run.progress)(0.0, "filling the tables");
    let chained = Chained::with_max(keys);
    let cuckoo = Cuckoo::with_max(keys);
    let hopscotch = Hopscotch::with_max(keys);
    let memc3 = SingleWriter::with_room(keys, Design::MEMC3);
    let chain = Chain::new(keys, 1, Arc::clone(&items));
    ycsb.fill(&chained);
    ycsb.fill(&cuckoo);
    ycsb.fill(&hopscotch);
    ycsb.fill(&memc3);
    ycsb.fill(&chain);
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    let mut measured = Vec::new();
    for (done, &puts) in PUTS.iter().enumerate() {
        (run.progress)(0.3 + 0.7 * done as f64 / PUTS.len() as f64, &format!("{puts} of puts"));
        let rates = rounds(
            run.scale.pick(7, 9),
            &mut [
                &mut || ycsb.rate(&chained, 2, puts, time),
                &mut || ycsb.rate(&cuckoo, 2, puts, time),
                &mut || ycsb.rate(&hopscotch, 2, puts, time),
                &mut || ycsb.rate(&memc3, 2, puts, time),
                &mut || ycsb.rate(&chain, 2, puts, time),
            ],
        )?;
        measured.push((puts * 100.0, rates));
    }
    drop((chained, cuckoo, hopscotch, memc3, chain));
    (run.progress)(0.9, "keys that come and go");
    Ok(outcome(&measured, &churned(run, &items)?))
}

/// Half of the operations enter or remove a key: Mercury, ours, MemC3.
fn churned(run: &Run<'_>, items: &Items) -> Result<Rounds> {
    let keys = items.count() as usize;
    let (chained, cuckoo) = (Chained::with_max(keys), Cuckoo::with_max(keys));
    let memc3 = SingleWriter::with_room(keys, Design::MEMC3);
    let stable = items.count() / 2;
    let chained = Mix { table: &chained, items, stable };
    let cuckoo = Mix { table: &cuckoo, items, stable };
    let memc3 = Mix { table: &memc3, items, stable };
    chained.fill();
    cuckoo.fill();
    memc3.fill();
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    rounds(
        run.scale.pick(7, 9),
        &mut [
            &mut || Ok(chained.run(2, 0.5, time).rate()),
            &mut || Ok(cuckoo.run(2, 0.5, time).rate()),
            &mut || Ok(memc3.run(2, 0.5, time).rate()),
        ],
    )
}

fn outcome(measured: &[(f64, Rounds)], churned: &Rounds) -> Outcome {
    let line = |(variant, name): (usize, &&str)| {
        let point = |(puts, rates): &(f64, Rounds)| (*puts, rates.median(variant) / 1e6);
        series(name, measured.iter().map(point))
    };
    let row = |(puts, rates): &(f64, Rounds)| {
        let cell = |variant| format!("{:.2}", rates.median(variant) / 1e6);
        std::iter::once(format!("{puts:.0}")).chain((0..TABLES.len()).map(cell)).collect()
    };
    let mut header = vec!["puts, %"];
    header.extend(TABLES);
    let (_, none) = &measured[0];
    let (_, half) = measured.last().expect("several");
    let kept = half.median(0) / none.median(0);
    let [cuckoo, memc3] = [churned.ratio(1, 0).median, churned.ratio(0, 2).median];
    let replaced = half.ratio(0, 3).median;
    let one_lock = half.ratio(0, 4).median;
    Outcome {
        plots: vec![Plot {
            title: "Two threads".into(),
            x: axis("puts, %"),
            y: axis("million operations a second"),
            series: TABLES.iter().enumerate().map(line).collect(),
        }],
        tables: vec![table(
            "Million operations a second, medians",
            &header,
            measured.iter().map(row).chain([churn_row(churned)]).collect(),
        )],
        checks: vec![
            check(
                "Mercury: 50 % puts, to none",
                kept,
                Bound::AtLeast(0.6),
                "a put takes the bucket's lock and writes its line, which a get doesn't; hot keys meet on both threads",
            ),
            check(
                "50 % enter or remove keys: Mercury, to MemC3's single writer",
                memc3,
                Bound::AtLeast(1.5),
                "two threads of which half of the operations wait for one lock",
            ),
            check(
                "50 % enter or remove keys: the product's cuckoo, to Mercury",
                cuckoo,
                Bound::AtLeast(0.8),
                "it locks one bucket as well, unless a key's first is full; it moves one now and then, and noise takes 0.05",
            ),
            check(
                "50 % puts that replace: the product's cuckoo, to Mercury",
                half.ratio(1, 0).median,
                Bound::AtLeast(0.85),
                "it locks one bucket too, if the key is in its first",
            ),
        ],
        reading: format!(
            "With 50 % puts that replace, on two threads, Mercury's table does {kept:.2} of what it does without puts, \
             {replaced:.2} times MemC3's single writer and {one_lock:.2} times chaining under one lock. Where half of the \
             operations enter or remove keys it does {memc3:.2} times MemC3's, and the product's cuckoo table {cuckoo:.2} of \
             Mercury's.",
        ),
    }
}

fn churn_row(churned: &Rounds) -> Vec<String> {
    let cell = |variant: Option<usize>| {
        variant.map_or("–".into(), |at| format!("{:.2}", churned.median(at) / 1e6))
    };
    let cells = [Some(0), Some(1), None, Some(2), None].map(cell);
    std::iter::once("50, entering and removing".to_owned()).chain(cells).collect()
}

const TABLES: [&str; 5] =
    ["Mercury", "cuckoo, ours", "hopscotch", "cuckoo, one writer (MemC3)", "chaining, one lock"];
const PUTS: [f64; 4] = [0.0, 0.05, 0.2, 0.5];
