//! MemC3, appendix: what a get may see while its key is displaced, replaced or evicted; all interleavings are tried.
//!
//! This is a model, not a measurement. Reader and writer are short programs of atomic steps on a few words. All states
//! that any interleaving of the steps reaches are visited, and each result that a get can return is judged. Then the
//! protocol is broken in one place at a time, and a wrong result must turn up. In this model all threads see each step
//! at once. That the code's loads and stores are equivalent is shown by the loom models of
//! `crates/index/src/cuckoo/models.rs`, on the real table (`make model`).
//!
//! # The words
//! ```text
//! version    of the sought key, K
//! buckets    0 and 1: K's, looked at in this order; 2: another key's
//! chunks     key, two words of value; a value is whole if its words agree
//! ```

use crate::data::{Data, Line};
use crate::figures::{check, table};
use crate::{Bound, Experiment, Findings, Paper, Run, Table};
use anyhow::Result;
use std::collections::HashSet;

/// The appendix.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-appendix",
    paper: Paper::MemC3,
    title: "gets while their key is displaced, replaced, evicted: every interleaving",
    claim: "with a version incremented before and after each change, and read before and after each lookup, a get gives a \
            right answer in every interleaving with a writer",
    shape: "no wrong answer in any interleaving of the three; each mutation of the protocol gives one: one increment \
            instead of two, displacement forwards, no second look",
    why: "",
    is_quick: true,
    measure,
    judge: conclude,
};

/// A change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mutation {
    /// The version advances only before the change.
    IncrementBefore,
    /// The version advances only after the change.
    IncrementAfter,
    /// A key leaves its bucket in one change, and enters the next one in another change.
    Forward,
    /// The reader does not check the version again.
    NoSecondLook,
}

/// The writer's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// To make room, another key leaves bucket 0, and K goes there from bucket 1.
    Displaced,
    /// K gets a new value in a new chunk; the old chunk is used for another key.
    Replaced,
    /// K is evicted; its chunk is used for another key, in a bucket of K.
    Evicted,
}

/// A step of the writer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Version(u8),
    Bucket(usize, Option<usize>),
    Key(usize, u8),
    Value(usize, usize, u8),
}

/// The complete state at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    version: u8,
    buckets: [Option<usize>; 3],
    keys: [u8; 2],
    values: [[u8; 2]; 2],
    written: usize,
    reader: Reader,
}

/// The state of the reader: its position, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reader {
    at: At,
    version: u8,
    copy: [u8; 2],
    found: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Version,
    Bucket(usize),
    Key(usize, usize),
    Value(usize, usize),
    SecondLook,
    Done,
}

/// Finds the wrong results of a get, by scenario and by protocol: 0 is the unchanged one, the others are [`MUTATIONS`].
fn measure(_: &Run<'_>) -> Result<Data> {
    let mut data = Data::default();
    for scenario in SCENARIOS {
        let (mut faults, mut states) = (Vec::new(), Vec::new());
        for (protocol, mutation) in [None].into_iter().chain(MUTATIONS.map(Some)).enumerate() {
            let (visited, fault) = explore(scenario, mutation);
            let number = fault.and_then(|fault| FAULTS.iter().position(|it| *it == fault));
            faults.push((protocol as f64, number.unwrap_or(0) as f64));
            states.push((protocol as f64, visited as f64));
        }
        data.push(Line::of_figures(&format!("{scenario:?}"), faults));
        // The number of visited states.
        data.push(Line::of_figures(&format!("{scenario:?}: {STATES}"), states).aside());
    }
    Ok(data)
}

fn conclude(data: &Data) -> Findings {
    let faults = |scenario: Scenario| data.line(&format!("{scenario:?}")).figures();
    let wrong = SCENARIOS.into_iter().filter(|&it| faults(it)[0] > 0.0).count();
    let caught = |scenarios: &[Scenario]| {
        let is_caught = |&protocol: &usize| scenarios.iter().any(|&it| faults(it)[protocol] > 0.0);
        (1..=MUTATIONS.len()).filter(is_caught).count() as f64
    };
    let mut checks = vec![
        check(
            "scenarios in which the protocol allows a wrong answer",
            wrong as f64,
            Bound::AtMost(0.0),
            "all interleavings are tried; there is no chance in it",
        )
        .paper_exactly("none", Bound::AtMost(0.0)),
        check(
            "mutations of the protocol that give a wrong answer, of four",
            caught(&SCENARIOS),
            Bound::AtLeast(MUTATIONS.len() as f64),
            "a model that misses a mutation shows nothing",
        ),
    ];
    checks.extend([(Scenario::Displaced, 4.0), (Scenario::Replaced, 2.0), (Scenario::Evicted, 2.0)].map(
        |(scenario, least)| {
            check(
                format!("{scenario:?}: mutations that give a wrong answer"),
                caught(&[scenario]),
                Bound::AtLeast(least),
                "only a displacement has two places, so only that can go forwards or be seen half done by a late version",
            )
        },
    ));
    let states = SCENARIOS.map(|it| data.line(&format!("{it:?}: {STATES}")).figures());
    Findings {
        plots: Vec::new(),
        tables: vec![shown(data)],
        checks,
        reading: format!(
            "In {:.0} states, all that interleavings of reader and writer reach, the protocol gave {wrong} wrong answers, and \
             {} of {} mutations gave one. The model is sequentially consistent; the orders of loads and stores are \
             checked by the loom models in crates/index/src/cuckoo/models.rs, which `make model` runs.",
            states.iter().flatten().sum::<f64>(),
            caught(&SCENARIOS),
            MUTATIONS.len(),
        ),
    }
}

fn shown(data: &Data) -> Table {
    let names = ["as it is".to_owned()].into_iter().chain(MUTATIONS.map(|it| format!("{it:?}")));
    let names: Vec<String> = names.collect();
    let rows = SCENARIOS.into_iter().flat_map(|scenario| {
        let faults = data.line(&format!("{scenario:?}")).figures();
        let states = data.line(&format!("{scenario:?}: {STATES}")).figures();
        let rows = names.iter().zip(faults).zip(states);
        let row = move |((name, fault), states): ((&String, f64), f64)| {
            let answer = FAULTS.iter().zip(0..).find(|(_, number)| f64::from(*number) == fault);
            let answer = answer.map_or("unknown", |(answer, _)| answer);
            vec![format!("{scenario:?}"), name.clone(), states.to_string(), answer.to_owned()]
        };
        rows.map(row).collect::<Vec<_>>()
    });
    table(
        "Answers of a get",
        &["while its key is", "protocol", "states", "wrong answer"],
        rows.collect(),
    )
}

/// Visits every reachable state. Returns the number of states, and a wrong result if there is one.
fn explore(scenario: Scenario, mutation: Option<Mutation>) -> (usize, Option<&'static str>) {
    let steps = writer(scenario, mutation);
    let start = start(scenario);
    let (mut seen, mut open) = (HashSet::from([start]), vec![start]);
    let mut fault = None;
    while let Some(state) = open.pop() {
        if state.reader.at == At::Done {
            fault = fault.or(judge(scenario, &state.reader));
        }
        let wrote = steps.get(state.written).map(|&step| write(state, step));
        for next in [wrote, read(state, mutation)].into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    (seen.len(), fault)
}

fn start(scenario: Scenario) -> State {
    let buckets = match scenario {
        Scenario::Displaced => [Some(OTHER), Some(OURS), None],
        Scenario::Replaced | Scenario::Evicted => [None, Some(OURS), None],
    };
    let reader = Reader { at: At::Version, version: 0, copy: [0; 2], found: false };
    State { version: 0, buckets, keys: [K, M], values: [[OLD; 2], [THEIRS; 2]], written: 0, reader }
}

/// Returns the writer's program. A get for K sees nothing of the other key's version.
fn writer(scenario: Scenario, mutation: Option<Mutation>) -> Vec<Step> {
    use Step::{Bucket, Key, Value};
    let change = |steps: &[Step]| bracket(steps, mutation);
    // The chunk that K has left is reused for the other key.
    let reuse = [
        Key(OURS, 0),
        Value(OURS, 0, THEIRS),
        Value(OURS, 1, THEIRS),
        Key(OURS, M),
        Bucket(0, Some(OURS)),
    ];
    match scenario {
        Scenario::Displaced if mutation == Some(Mutation::Forward) => [
            change(&[Bucket(1, None)]),
            change(&[Bucket(0, Some(OURS))]),
            vec![Bucket(2, Some(OTHER))],
        ]
        .concat(),
        Scenario::Displaced => [
            vec![Bucket(2, Some(OTHER)), Bucket(0, None)],
            change(&[Bucket(0, Some(OURS)), Bucket(1, None)]),
        ]
        .concat(),
        Scenario::Replaced => [
            vec![Value(OTHER, 0, NEW), Value(OTHER, 1, NEW), Key(OTHER, K)],
            change(&[Bucket(1, Some(OTHER))]),
            reuse.to_vec(),
        ]
        .concat(),
        Scenario::Evicted => [change(&[Bucket(1, None)]), reuse.to_vec()].concat(),
    }
}

/// Encloses a change of K's slots in its increments.
fn bracket(steps: &[Step], mutation: Option<Mutation>) -> Vec<Step> {
    let [before, after] = match mutation {
        Some(Mutation::IncrementBefore) => [2, 0],
        Some(Mutation::IncrementAfter) => [0, 2],
        _ => [1, 1],
    };
    [&[Step::Version(before)], steps, &[Step::Version(after)]].concat()
}

fn write(mut state: State, step: Step) -> State {
    match step {
        Step::Version(by) => state.version += by,
        Step::Bucket(bucket, chunk) => state.buckets[bucket] = chunk,
        Step::Key(chunk, key) => state.keys[chunk] = key,
        Step::Value(chunk, word, value) => state.values[chunk][word] = value,
    }
    state.written += 1;
    state
}

/// Does one step of the reader; `None` if it has ended or waits for an even version.
fn read(state: State, mutation: Option<Mutation>) -> Option<State> {
    let mut reader = state.reader;
    reader.at = match reader.at {
        At::Done => return None,
        At::Version if state.version % 2 == 1 => return None,
        At::Version => {
            reader = Reader { version: state.version, copy: [0; 2], found: false, ..reader };
            At::Bucket(0)
        }
        At::Bucket(2) => At::SecondLook,
        At::Bucket(bucket) => match state.buckets[bucket] {
            Some(chunk) => At::Key(bucket, chunk),
            None => At::Bucket(bucket + 1),
        },
        At::Key(_, chunk) if state.keys[chunk] == K => At::Value(chunk, 0),
        At::Key(bucket, _) => At::Bucket(bucket + 1),
        At::Value(chunk, word) => {
            reader.copy[word] = state.values[chunk][word];
            reader.found = true;
            if word == 0 { At::Value(chunk, 1) } else { At::SecondLook }
        }
        At::SecondLook if mutation == Some(Mutation::NoSecondLook) => At::Done,
        At::SecondLook if state.version == reader.version => At::Done,
        At::SecondLook => At::Version,
    };
    Some(State { reader, ..state })
}

/// Returns what is wrong with a result.
fn judge(scenario: Scenario, reader: &Reader) -> Option<&'static str> {
    let may_miss = scenario == Scenario::Evicted;
    let may_be_new = scenario == Scenario::Replaced;
    match reader.copy {
        _ if !reader.found => (!may_miss).then_some(FAULTS[1]),
        [one, other] if one != other => Some(FAULTS[2]),
        [OLD, _] => None,
        [NEW, _] if may_be_new => None,
        _ => Some(FAULTS[3]),
    }
}

/// The possible faults of a result.
const FAULTS: [&str; 4] =
    ["none", "a present key is missed", "a value is torn", "another key's value"];
const STATES: &str = "states";
const SCENARIOS: [Scenario; 3] = [Scenario::Displaced, Scenario::Replaced, Scenario::Evicted];
const MUTATIONS: [Mutation; 4] = [
    Mutation::IncrementBefore,
    Mutation::IncrementAfter,
    Mutation::Forward,
    Mutation::NoSecondLook,
];
/// Chunks: that of the wanted key, and the other one.
const OURS: usize = 0;
const OTHER: usize = 1;
/// Keys: the wanted one, and another. 0 is none.
const K: u8 = 1;
const M: u8 = 2;
/// Words of values: the wanted key's, its new one, and the other key's.
const OLD: u8 = 1;
const NEW: u8 = 2;
const THEIRS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_holds_and_every_mutation_is_caught() {
        for scenario in SCENARIOS {
            assert_eq!(explore(scenario, None).1, None, "{scenario:?}");
        }
        for mutation in MUTATIONS {
            let is_caught = |scenario| explore(scenario, Some(mutation)).1.is_some();
            assert!(SCENARIOS.into_iter().any(is_caught), "{mutation:?}");
        }
    }
}
