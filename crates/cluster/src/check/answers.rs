//! What is found in the answers of nodes that were asked themselves.

use std::collections::BTreeSet;

use guira_chain::NodeId;

use super::findings::{Findings, list};
use super::moving::{LINKS_DOWN, Moving, PROMISES_MISSING, gone};
use super::nodes::stranger;
use crate::ask::{Answers, Said, Unheard};
use crate::counted::counted;
use crate::snapshot::RegisterSnapshot;
use crate::wishes::name_of;

/// Findings about what nodes say. `moving`: see `ask_twice`.
pub(super) fn find(
    found: &mut Findings,
    snapshot: &RegisterSnapshot,
    answers: &Answers,
    moving: &BTreeSet<(NodeId, Moving)>,
) {
    let mut versions = BTreeSet::new();
    let is_led = snapshot.controller.is_some();
    for (id, said) in answers {
        let name = name_of(snapshot, *id);
        match said {
            Ok(said) => {
                versions.extend(said.text("version"));
                answer(found, &name, said);
                // Those that lag while no node leads are told of together.
                let is_told = |it: &Moving| *it == Moving::Behind && !is_led;
                for what in moving.iter().filter(|it| it.0 == *id && !is_told(&it.1)) {
                    lasting(found, &name, said, (what.1, snapshot));
                }
            }
            Err(Unheard::Else(who, _)) => stranger(found, &name, "has a key in etcd", who),
            Err(Unheard::Unasked(why)) => found.warning(
                format!("{name} couldn't be asked as a client: {why}"),
                "see whether clients reach that address; behind TLS or logins, its metrics say the same",
            ),
        }
    }
    if versions.len() > 1 {
        found.warning(
            format!("nodes have different versions: {}", list(&versions)),
            "finish the upgrade, one node at a time",
        );
    }
}

pub(super) fn answer(found: &mut Findings, name: &str, said: &Said) {
    if said.ahead_s.abs() > SKEW_S {
        let way = if said.ahead_s > 0.0 { "ahead of" } else { "behind" };
        found.warning(
            format!("{name}'s clock is {:.1} s {way} this machine's", said.ahead_s.abs()),
            "let both follow one time server: expiry is by the nodes' clocks",
        );
    }
    let number = |it: &str| said.number(it).unwrap_or(0.0);
    if number("cluster_lag_seconds") > LAG_S {
        found.problem(
            format!("{name} has updates that wait for {} s: {} of them", number("cluster_lag_seconds"), number("cluster_lag_updates")),
            "a node behind it in the chain is slow or can't be reached: see its device and its links",
        );
    }
    if number("is_out_of_disk") > 0.0 {
        found.problem(
            format!(
                "{name} has no room for values: changes of its slots fail, or its process ends"
            ),
            "make room on its disk, or raise --disk-max; if it has ended, start it again",
        );
    } else if let Some((left, reserve)) = said.room().filter(|it| it.0 < NEAR * it.1) {
        found.warning(
            format!("{name} has {:.0} MiB of disk left, and takes no values with less than {:.0}", left / MIB, reserve / MIB),
            "make room on its disk, or raise --disk-max: with less than that, changes of its slots fail once its log file is full",
        );
    }
}

/// A finding that stays though the view of `epoch` has had time to arrive.
fn lasting(
    found: &mut Findings,
    name: &str,
    said: &Said,
    (what, snapshot): (Moving, &RegisterSnapshot),
) {
    let epoch = snapshot.seen.view.epoch;
    match what {
        Moving::Unlinked => found.problem(
            format!(
                "{name} has no link to {}",
                counted(
                    said.number(LINKS_DOWN).unwrap_or(0.0) - gone(snapshot),
                    "node that lives",
                    "nodes that live"
                )
            ),
            "its log says why: that node's --peers names another address, the network is cut, or one refuses the other's certificate (docs/how-to/cluster-tls.md)",
        ),
        Moving::Behind => found.problem(
            format!("{name} follows the view of epoch {}, not {epoch}", said.epoch().unwrap_or(0)),
            "its log says why: it doesn't reach etcd, or refuses a view",
        ),
        Moving::Unpromised => found.problem(
            format!(
                "{name} can't answer reads of {}: it lacks promises of {}",
                counted(said.number("cluster_slots_unreadable").unwrap_or(0.0), "slot", "slots"),
                counted(said.number(PROMISES_MISSING).unwrap_or(0.0), "node", "nodes")
            ),
            "see whether those nodes live, and reach each other's --peers addresses both ways",
        ),
    }
}

/// Finds nodes that follow a newer view than etcd has, which then was put back to an older one.
pub(super) fn find_ahead(
    found: &mut Findings,
    snapshot: &RegisterSnapshot,
    answers: &Answers,
    epoch: u64,
) {
    let said = answers.iter().filter_map(|(id, said)| Some((*id, said.as_ref().ok()?)));
    for (id, own) in said.filter_map(|(id, said)| Some((id, said.epoch()?))) {
        if own > epoch {
            found.problem(
                format!("{} follows the view of epoch {own}, and etcd has an older one, of epoch {epoch}", name_of(snapshot, id)),
                "put the newest view back, or a right one of a higher epoch: docs/how-to/lost-etcd.md; until then no node leads",
            );
        }
    }
}

/// Seconds by which a clock may differ. The node's time is in whole seconds.
const SKEW_S: f64 = 2.0;
const LAG_S: f64 = 2.0;
/// So many times its reserve is near: as the alert `GuiraStoreDiskNearReserve` has it.
const NEAR: f64 = 2.0;
const MIB: f64 = 1024.0 * 1024.0;
