//! A node joins a cluster under load.

use super::super::load::key;
use super::joined::Joined;
use super::timeline::{BIN, Traffic};
use super::verdicts::{controls, if_idle, judged, without_etcd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::live::Client;
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use std::time::Duration;

/// FAWN's join.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-join",
    paper: Paper::Fawn,
    title: "replies of a cluster over time while a node joins it and is filled",
    claim: CLAIM,
    shape: "no error, and nothing that was stored is lost; the rate of replies stays, and no client waits for a quarter of the \
            time for which nodes promise each other what they do; the new node has its share of the slots",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "queries are answered while a node joins: it copies its share of the items before it serves them";

/// Of the rate before, by the time in seconds.
const RATE: &str = "replies";
const DURING: &str = "replies during the join, of those before";
const ERRORS: &str = "errors";
const LOST: &str = "items lost";
const WAIT: &str = "longest wait, of a promise";
const SHARE: &str = "slots of the new node, of an equal share";
const BEGUN: &str = "when the node started, in seconds";
const ENDED: &str = "when it had its share, in seconds";

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    (run.progress)(0.0, "four nodes start");
    let (mut joined, router) = Joined::start(NODES, COPIES)?;
    let keys = run.scale.pick(20_000, 1_000_000);
    (run.progress)(0.4, &format!("{keys} items are stored"));
    fill(router.port, keys)?;
    let around = run.scale.pick(Duration::from_secs(3), Duration::from_secs(10));
    let traffic = Traffic { seed: run.seed, keys, around };
    (run.progress)(0.5, "a node joins");
    let mut name = String::new();
    let seen = traffic.watch(&router, || {
        name = joined.add()?;
        joined.has_share(&name, ENOUGH)
    })?;
    let mut data = Data::default();
    data.push(Line::of_figures(RATE, seen.relative()).flat());
    data.fact(DURING, seen.rate(seen.begun, seen.ended) / seen.before());
    data.fact(ERRORS, seen.errors as f64);
    data.fact(LOST, seen.lost as f64);
    let longest = seen.longest_get.max(seen.longest_set);
    data.fact(WAIT, longest.as_secs_f64() / PROMISE.as_secs_f64());
    data.fact(SHARE, joined.share(&name)?);
    seen.busy.record(&mut data);
    data.aside(BEGUN, seen.begun.as_secs_f64());
    data.aside(ENDED, seen.ended.as_secs_f64());
    Ok(data)
}

/// Stores keys of 100 bytes each.
pub(super) fn fill(port: u16, keys: u64) -> Result<()> {
    let value = format!("{:0100}", 1);
    let mut client = Client::connect(port)?;
    let mut from = 0;
    while from < keys {
        let to = (from + AT_ONCE).min(keys);
        client.fill_with((from..to).map(key), &value)?;
        from = to;
    }
    Ok(())
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| Findings {
        plots: vec![Plot {
            title: "Replies while a node joins".into(),
            x: axis("seconds"),
            y: axis("of the rate before"),
            series: vec![drawn(data.line(RATE))],
        }],
        tables: vec![table(
            "A node joins",
            &["", ""],
            [DURING, ERRORS, LOST, WAIT, SHARE, BEGUN, ENDED]
                .map(|name| vec![name.to_owned(), format!("{:.3}", data.figure(name))])
                .into(),
        )],
        checks: checks(data),
        reading: reading(data),
    })
}

/// The rates of half a second each.
fn halves(data: &Data) -> Vec<f64> {
    let rates = data.line(RATE).figures();
    rates.chunks_exact(HALF).map(|chunk| chunk.iter().sum::<f64>() / HALF as f64).collect()
}

fn checks(data: &Data) -> Vec<Check> {
    [counts(data), if_idle(moments(data), data)].concat()
}

/// What must hold on any machine.
fn counts(data: &Data) -> Vec<Check> {
    vec![
        check(
            "errors",
            data.figure(ERRORS),
            Bound::AtMost(0.0),
            "a slot is served by its old nodes until its new one has all",
        ),
        check(
            "items lost",
            data.figure(LOST),
            Bound::AtMost(0.0),
            "the same, and what is stored meanwhile goes to both",
        )
        .paper_exactly("none", Bound::AtMost(0.0)),
        check(
            "slots of the new node, of an equal share",
            data.figure(SHARE),
            Bound::Between(ENOUGH, 1.1),
            "the controller levels copies, to a sixteenth",
        ),
    ]
}

/// What a machine shows that isn't busy with other things.
fn moments(data: &Data) -> Vec<Check> {
    let paced = "clients ask for less than the nodes can answer; half a second in which a client in twenty waits is 5 %";
    vec![
        check(
            "replies during the join, of those before",
            data.figure(DURING),
            Bound::Between(0.95, 1.05),
            paced,
        )
        .paper_or("above 0 (no figure)", Bound::AtLeast(0.5), 0.0),
        check(
            "the worst half second, of the rate before",
            least(halves(data)),
            Bound::AtLeast(0.7),
            paced,
        ),
        check(
            "the best half second, of the rate before",
            most(halves(data)),
            Bound::AtMost(1.3),
            "clients don't catch up",
        ),
        check(
            "the longest wait, of a promise's second",
            data.figure(WAIT),
            Bound::AtMost(0.25),
            "a reader is replaced without a pause for reads; a change waits for one view, not for a promise to end",
        ),
    ]
}

fn reading(data: &Data) -> String {
    format!(
        "The node had its share {:.1} s after its start. Meanwhile clients got {:.2} of the replies of before, {:.0} errors, and \
         the longest wait was {:.0} ms. {}",
        data.figure(ENDED) - data.figure(BEGUN),
        data.figure(DURING),
        data.figure(ERRORS),
        1000.0 * data.figure(WAIT) * PROMISE.as_secs_f64(),
        controls(data)
    )
}

const NODES: usize = 4;
const COPIES: u32 = 3;
/// Of an equal share: then the join is over.
const ENOUGH: f64 = 0.9;
/// How long a node promises another one to do nothing without it.
pub(super) const PROMISE: Duration = Duration::from_secs(1);
/// Bins in half a second.
const HALF: usize = (500 / BIN.as_millis()) as usize;
/// Sets that are sent at once.
const AT_ONCE: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::super::verdicts::Busy;
    use super::*;
    use crate::plants::assert_faultless;

    fn expected() -> Data {
        let mut data = Data::default();
        let rates = (1..80).map(|bin| (f64::from(bin) / 10.0, 1.0 + f64::from(bin % 3 - 1) / 20.0));
        data.push(Line::of_figures(RATE, rates).flat());
        let facts = [(DURING, 0.99), (ERRORS, 0.0), (LOST, 0.0), (WAIT, 0.08), (SHARE, 0.98)];
        facts.into_iter().for_each(|(name, figure)| data.fact(name, figure));
        data.aside(BEGUN, 3.0);
        data.aside(ENDED, 6.0);
        Busy { router: 0.1, machine: 0.3 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }
}
