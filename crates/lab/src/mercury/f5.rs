//! Mercury, figure 5: YCSB with a growing share of puts.
//!
//! The paper has keys of 24 bytes and values of 10; an index sees neither. Puts replace, as YCSB's do.

use crate::baseline::chain::Chain;
use crate::baseline::items::Items;
use crate::baseline::single_writer::{Design, SingleWriter};
use crate::measure::{Rounds, rounds};
use crate::memc3::figures::{axis, check, series, table};
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
    shape: "with 50 % puts Mercury keeps 0.6 of its rate without; it is 1.5 times as fast as MemC3's table, whose writers \
            wait for one lock, and the product's cuckoo table, which has many writers, is within 15 % of it",
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
    Ok(outcome(&measured))
}

fn outcome(measured: &[(f64, Rounds)]) -> Outcome {
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
    let [cuckoo, memc3] = [half.ratio(1, 0).median, half.ratio(0, 3).median];
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
            measured.iter().map(row).collect(),
        )],
        checks: vec![
            check(
                "Mercury: 50 % puts, to none",
                kept,
                Bound::AtLeast(0.6),
                "a put takes the bucket's lock and writes its line, which a get doesn't; hot keys meet on both threads",
            ),
            check(
                "50 % puts: Mercury, to MemC3's single writer",
                memc3,
                Bound::AtLeast(1.5),
                "two threads of which half of the operations wait for one lock",
            ),
            check(
                "50 % puts: the product's cuckoo, to Mercury",
                cuckoo,
                Bound::AtLeast(0.85),
                "it locks one bucket too, if the key is in its first",
            ),
        ],
        reading: format!(
            "With 50 % puts on two threads Mercury's table does {kept:.2} of what it does without puts, {memc3:.2} times \
             MemC3's single writer and {one_lock:.2} times chaining under one lock; the product's cuckoo table does \
             {cuckoo:.2} of Mercury's.",
        ),
    }
}

const TABLES: [&str; 5] =
    ["Mercury", "cuckoo, ours", "hopscotch", "cuckoo, one writer (MemC3)", "chaining, one lock"];
const PUTS: [f64; 4] = [0.0, 0.05, 0.2, 0.5];
