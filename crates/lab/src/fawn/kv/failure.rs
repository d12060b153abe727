//! A node of a cluster is killed under load.

use super::join::{PROMISE, fill};
use super::joined::Joined;
use super::timeline::{BIN, Traffic};
use super::verdicts::{controls, if_idle, judged, without_etcd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use std::time::Duration;

/// FAWN's failure.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-failure",
    paper: Paper::Fawn,
    title: "replies of a cluster over time while a node of it is killed",
    claim: CLAIM,
    shape: "no error, and nothing whose store was answered is lost; the rate of replies falls for no longer than nodes promise \
            each other what they do, and half of that; then it is as before, without the dead node",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "a node that fails loses nothing that was acknowledged, since each change is on all nodes of its chain; the \
                     chain goes on without it";

/// Of the rate before, by the time in seconds.
const RATE: &str = "replies";
const AFTER: &str = "replies at the end, of those before";
const DIP: &str = "time with less than half of the replies, of a promise";
const ERRORS: &str = "errors";
const LOST: &str = "items lost";
const GET: &str = "longest wait of a get, of a promise";
const SET: &str = "longest wait of a set, of a promise";
const SHARE: &str = "slots of the node before, of an equal share";
const LEFT: &str = "slots of the node afterwards, of an equal share";
const BEGUN: &str = "when the node was killed, in seconds";

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    (run.progress)(0.0, "five nodes start");
    let (mut joined, router) = Joined::start(NODES, COPIES)?;
    let keys = run.scale.pick(20_000, 200_000);
    (run.progress)(0.5, &format!("{keys} items are stored"));
    fill(router.port, keys)?;
    let share = joined.share(VICTIM)?;
    let around = run.scale.pick(Duration::from_secs(6), Duration::from_secs(15));
    let traffic = Traffic { seed: run.seed, keys, around };
    (run.progress)(0.6, "a node is killed");
    let seen = traffic.watch(&router, || {
        joined.kill(VICTIM);
        Ok(())
    })?;
    let before = seen.before();
    let length = BIN * u32::try_from(seen.rates.len())?;
    let low = seen.relative().filter(|(_, rate)| *rate < 0.5).count() as f64;
    let mut data = Data::default();
    data.push(Line::of_figures(RATE, seen.relative()).aside());
    data.fact(AFTER, seen.rate(length - around / 3, length - BIN) / before);
    let promises = |time: Duration| time.as_secs_f64() / PROMISE.as_secs_f64();
    data.fact(DIP, low * promises(BIN));
    data.fact(ERRORS, seen.errors as f64);
    data.fact(LOST, seen.lost as f64);
    data.fact(GET, promises(seen.longest_get));
    data.fact(SET, promises(seen.longest_set));
    data.fact(SHARE, share);
    data.fact(LEFT, joined.share(VICTIM)?);
    seen.busy.record(&mut data);
    data.aside(BEGUN, seen.begun.as_secs_f64());
    Ok(data)
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| Findings {
        plots: vec![Plot {
            title: "Replies while a node is killed".into(),
            x: axis("seconds"),
            y: axis("of the rate before"),
            series: vec![drawn(data.line(RATE))],
        }],
        tables: vec![table(
            "A node is killed",
            &["", ""],
            [AFTER, DIP, ERRORS, LOST, GET, SET, SHARE, LEFT, BEGUN]
                .map(|name| vec![name.to_owned(), format!("{:.3}", data.figure(name))])
                .into(),
        )],
        checks: checks(data),
        reading: reading(data),
    })
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
            "the router asks again, and a change has a number",
        ),
        check(
            "items lost",
            data.figure(LOST),
            Bound::AtMost(0.0),
            "each was on three nodes when its store was answered",
        )
        .paper_exactly("none", Bound::AtMost(0.0)),
        check(
            "slots of the node before, of an equal share",
            data.figure(SHARE),
            Bound::Between(0.85, 1.15),
            "the controller levels copies, to a sixteenth",
        ),
        check(
            "slots of the node afterwards, of an equal share",
            data.figure(LEFT),
            Bound::AtMost(0.0),
            "a dead node is in no chain",
        ),
    ]
}

/// What a machine shows that isn't busy with other things.
fn moments(data: &Data) -> Vec<Check> {
    let promise = "whoever asked the dead node waits until two others have told that it is gone, and until what it was \
                   promised is over: a second, and time to notice";
    vec![
        check(
            "the longest wait of a get, of a promise's second",
            data.figure(GET),
            Bound::AtMost(1.5),
            promise,
        ),
        check(
            "the longest wait of a set, of a promise's second",
            data.figure(SET),
            Bound::AtMost(1.5),
            promise,
        ),
        check(
            "time with less than half of the replies, of a promise's second",
            data.figure(DIP),
            Bound::AtMost(1.5),
            "each client soon asks for a slot of the dead node, and waits",
        ),
        check(
            "replies at the end, of those before",
            data.figure(AFTER),
            Bound::Between(0.95, 1.05),
            "four nodes answer what five did: clients ask for less than they can",
        )
        .paper_or("the chain goes on (no figure)", Bound::AtLeast(0.8), 0.0),
    ]
}

fn reading(data: &Data) -> String {
    let ms = |name: &str| 1000.0 * data.figure(name) * PROMISE.as_secs_f64();
    format!(
        "The longest wait was {:.0} ms for a get and {:.0} ms for a set, with {:.0} errors and {:.0} items lost. For {:.0} ms \
         clients got less than half of the replies; in the end they got {:.2} of them. {}",
        ms(GET),
        ms(SET),
        data.figure(ERRORS),
        data.figure(LOST),
        ms(DIP),
        data.figure(AFTER),
        controls(data)
    )
}

const NODES: usize = 5;
const COPIES: u32 = 3;
/// The node that is killed.
const VICTIM: &str = "n2";

#[cfg(test)]
mod tests {
    use super::super::verdicts::Busy;
    use super::*;
    use crate::plants::assert_faultless;

    fn expected() -> Data {
        let mut data = Data::default();
        data.push(Line::of_figures(RATE, [(0.1, 1.0), (0.2, 0.3), (0.3, 1.0)]).aside());
        let facts = [
            (AFTER, 1.0),
            (DIP, 0.6),
            (ERRORS, 0.0),
            (LOST, 0.0),
            (GET, 0.3),
            (SET, 1.1),
            (SHARE, 1.02),
            (LEFT, 0.0),
        ];
        facts.into_iter().for_each(|(name, figure)| data.fact(name, figure));
        data.aside(BEGUN, 6.0);
        Busy { router: 0.1, machine: 0.3 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }
}
