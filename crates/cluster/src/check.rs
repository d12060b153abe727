//! What is wrong with a cluster, and what helps: `guira cluster check`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::time::Duration;

use guira_chain::{Member, NodeId};
use guira_etcd::{Error, EtcdMember};
use serde::Serialize;

use crate::ask::{Answers, Keyless, Said, Unheard, leader};
use crate::counted::counted;
use crate::fault::Fault;
use crate::register::Register;
use crate::snapshot::RegisterSnapshot;
use crate::trouble::{Trouble, WITHOUT_ETCD};
use crate::wishes::{lives, name_of, only_copies};

mod moving;

use moving::{Moving, PROMISES_MISSING, ask_twice, behind};

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    cluster: String,
    /// The view's epoch; `None`: etcd didn't say.
    epoch: Option<u64>,
    /// The nodes that were asked themselves, and answered.
    nodes: usize,
    findings: Vec<Finding>,
}

#[derive(Debug, Clone, Serialize)]
struct Finding {
    grade: Grade,
    what: String,
    /// What the operator may do.
    fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    /// Requests fail, or the next loss does harm.
    Problem,
    /// It may become a problem.
    Warning,
}

impl Check {
    /// Looks at etcd, the register and the nodes.
    pub(crate) fn of(register: &Register) -> Result<Self, Trouble> {
        let mut found = Findings::default();
        found.etcd(&register.etcd.health());
        let snapshot = match register.snapshot() {
            Err(fault) if fault.is_of_etcd_away() => return Ok(found.blind(register, &fault)),
            snapshot => snapshot?,
        };
        if snapshot.is_new() {
            found.problem("no node has ever entered this cluster", NO_NODE);
            return Ok(found.of(&snapshot, 0));
        }
        let (said, moving) = ask_twice(&snapshot);
        found.register(&snapshot);
        found.leader(register, &snapshot, &behind(&said, &moving));
        let keyless = Keyless::of(&snapshot);
        found.nodes(&snapshot, &keyless);
        found.slots(&snapshot, &keyless.serving);
        found.answers(&snapshot, &said, &moving);
        // Read now, since a node may have heard of it before the snapshot's end.
        found.ahead(&snapshot, &said, register.view()?.view.epoch);
        Ok(found.of(&snapshot, said.values().filter(|it| it.is_ok()).count()))
    }

    /// Whether nothing was found out but about etcd.
    pub(crate) fn is_blind(&self) -> bool {
        self.epoch.is_none()
    }

    pub(crate) fn is_well(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.findings.len()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// What can be said without what stands in etcd.
    fn blind(mut self, register: &Register, fault: &Fault) -> Check {
        if !self.0.iter().any(|it| it.grade == Grade::Problem) {
            self.problem(fault.to_string(), WITHOUT_ETCD);
        }
        Check { cluster: register.name().to_owned(), epoch: None, nodes: 0, findings: self.0 }
    }

    /// All that was found, worst first.
    fn of(mut self, snapshot: &RegisterSnapshot, nodes: usize) -> Check {
        self.0.sort_by_key(|it| it.grade);
        let view = &snapshot.seen.view;
        Check { cluster: view.cluster.clone(), epoch: Some(view.epoch), nodes, findings: self.0 }
    }

    fn problem(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Problem, what: what.into(), fix: fix.into() });
    }

    fn warning(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Warning, what: what.into(), fix: fix.into() });
    }

    fn etcd(&mut self, members: &[(String, Result<EtcdMember, Error>)]) {
        let mut versions = BTreeSet::new();
        for (url, member) in members {
            let member = match member {
                Ok(member) => member,
                Err(error) => {
                    self.problem(
                        error.to_string(),
                        "start that etcd: while too few answer, no view changes",
                    );
                    continue;
                }
            };
            versions.insert(&*member.version);
            for words in &member.errors {
                self.problem(
                    format!("etcd at {url} complains: {words}"),
                    "for NOSPACE: etcdctl compact, then defrag, then alarm disarm; otherwise see its log",
                );
            }
            if member.took > SLOW {
                self.warning(
                    format!("etcd at {url} took {} ms", member.took.as_millis()),
                    "give it a faster disk or a processor of its own: leases of nodes end after 3 s",
                );
            }
            if member.db_bytes > DB_BYTES {
                self.warning(
                    format!("etcd's database at {url} has {} MiB", member.db_bytes >> 20),
                    "let etcd compact it (--auto-compaction-retention=1h), and run etcdctl defrag: at 2 GiB it takes no more",
                );
            }
        }
        if versions.len() > 1 {
            self.warning(
                format!("members of etcd have different versions: {}", list(&versions)),
                "finish the upgrade",
            );
        }
    }

    fn register(&mut self, snapshot: &RegisterSnapshot) {
        let view = &snapshot.seen.view;
        for key in &snapshot.unread {
            self.warning(
                format!("the key {key} can't be read"),
                "delete it by etcdctl, or update this program",
            );
        }
        if snapshot.wish.is_paused {
            self.warning("no copy is begun: it is paused", "guira cluster set --resume");
        }
        if view.min_write >= view.replicas && view.replicas > 1 {
            self.warning(
                format!("a write needs all {} copies: one node's loss stops writes", view.replicas),
                "want more copies (guira cluster set --replicas)",
            );
        }
    }

    /// No node leads. `behind`: the nodes that follow an older view than etcd has, by its epoch.
    fn unled(&mut self, snapshot: &RegisterSnapshot, behind: &BTreeMap<u64, Vec<NodeId>>) {
        for (own, nodes) in behind {
            let names: Vec<String> = nodes.iter().map(|id| name_of(snapshot, *id)).collect();
            let follow = if names.len() == 1 { "follows" } else { "follow" };
            let (names, epoch) = (names.join(", "), snapshot.seen.view.epoch);
            self.problem(
                format!("no node leads: {names} {follow} the view of epoch {own}, and not the one of epoch {epoch} that etcd has"),
                format!("their logs say why they refuse it: put the one of epoch {own} back, or a right one of a higher epoch (docs/how-to/lost-etcd.md)"),
            );
        }
        if behind.is_empty() {
            self.problem(
                "no node leads: no view changes, whatever fails",
                "start a node; if some live, their logs say why: they don't reach etcd, or refuse the view there",
            );
        }
    }

    fn leader(
        &mut self,
        register: &Register,
        snapshot: &RegisterSnapshot,
        behind: &BTreeMap<u64, Vec<NodeId>>,
    ) {
        let Some((_, who)) = &snapshot.controller else {
            self.unled(snapshot, behind);
            return;
        };
        let (urls, key) = (register.etcd.urls().join(","), register.key("controller"));
        let delete = format!("etcdctl --endpoints {urls} del {key}: then the nodes elect a leader");
        if let Some(stray) = snapshot.stray_lead() {
            let what = match leader(snapshot) {
                None => format!(
                    "no node leads: the key controller {stray}, and has no lease; no view changes until it is deleted"
                ),
                Some(who) => format!(
                    "the key controller {stray}, and has no lease: once {who} doesn't lead, nobody does"
                ),
            };
            self.problem(what, delete);
        } else if !snapshot.is_lead_leased {
            self.problem(
                format!("the key controller, of {who}, has no lease: once {who} doesn't lead, nobody does"),
                delete,
            );
        } else if !snapshot.nodes.values().any(|it| it.name == *who) {
            self.problem(
                format!("{who} leads, and etcd has no key of a node of that name"),
                format!("wait some seconds, in case it has just died; if it leads on, {delete}"),
            );
        }
    }

    fn nodes(&mut self, snapshot: &RegisterSnapshot, found: &Keyless) {
        let keyless = &found.serving;
        let (view, wish) = (&snapshot.seen.view, &snapshot.wish);
        let has_copies = |id: NodeId| view.groups.iter().any(|it| it.members().any(|it| it == id));
        for id in keyless {
            let (so, then) = match has_copies(*id) {
                true => ("serves", "don't stop it before that is put right"),
                false => ("has left all slots", "it may be stopped and started again"),
            };
            self.problem(
                format!("{} {so}, but etcd has no key of it", name_of(snapshot, *id)),
                format!("see its log: it doesn't reach etcd, or refuses the view there; {then}"),
            );
        }
        let has_key = |id: &NodeId| snapshot.nodes.contains_key(id) || keyless.contains(id);
        for id in view.nodes.keys().filter(|id| !has_key(id)) {
            let replaced = found.replaced.get(id);
            let is_drained = wish.drain.contains(id);
            if replaced.is_some() && is_drained && !has_copies(*id) {
                continue;
            }
            let is = replaced.map(|by| format!(", and {} has its address", name_of(snapshot, *by)));
            let what = format!("{} is gone{}", name_of(snapshot, *id), is.unwrap_or_default());
            let fix = match only_copies(snapshot, keyless, *id) {
                0 if is_drained => format!(
                    "other nodes get its copies, as it is drained; if it is to be back: guira cluster drain PLACE {id} --undo"
                ),
                0 => format!(
                    "start it again on its directory; after 10 minutes other nodes get its copies, or at once if it won't be back: guira cluster drain PLACE {id}"
                ),
                _ => "start it again on its directory: no node lives that has all that it has"
                    .to_owned(),
            };
            match has_copies(*id) {
                true => self.problem(what + ", and the view counts on it", fix),
                false => self.warning(what, fix),
            }
        }
        for (id, who) in &found.strangers {
            self.stranger(&name_of(snapshot, *id), "is gone", who);
        }
        for id in snapshot.nodes.keys().filter(|id| snapshot.is_to_restart(**id)) {
            self.warning(
                format!("{} is to be restarted, and hasn't been", name_of(snapshot, *id)),
                format!("stop it and start it again, or take that back: guira cluster restart PLACE {id} --undo"),
            );
        }
        self.suspects(snapshot);
        let count = may_have(snapshot, keyless);
        if usize::try_from(wish.replicas).is_ok_and(|wanted| count < wanted) {
            self.problem(
                format!(
                    "{} may have copies, and {} are wanted",
                    counted(count, "node", "nodes"),
                    counted(wish.replicas, "copy", "copies")
                ),
                "start more nodes, or want fewer copies (guira cluster set --replicas)",
            );
        }
    }

    /// Nodes whose keys last, and at whose addresses others found nobody.
    fn suspects(&mut self, snapshot: &RegisterSnapshot) {
        for (id, by) in &snapshot.suspects {
            let Some(now) = snapshot.nodes.get(id) else { continue };
            let by: Vec<String> = by
                .iter()
                .filter(|(meant, by)| *meant == now.run && snapshot.nodes.contains_key(by))
                .map(|it| name_of(snapshot, it.1))
                .collect();
            if !by.is_empty() {
                let (name, by) = (name_of(snapshot, *id), by.join(", "));
                self.problem(
                    format!("nobody listens at {}, where {by} looked for {name}: its process has ended", now.peers),
                    "start it again on its directory; if it runs, its --peers names another address than it has",
                );
            }
        }
    }

    fn slots(&mut self, snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) {
        let view = &snapshot.seen.view;
        let lives = |id: &&NodeId| lives(snapshot, keyless, **id);
        let is_gone = |id: &NodeId| !snapshot.nodes.contains_key(id) && !keyless.contains(id);
        let (mut lost, mut read_only, mut degraded) = (0, 0, 0);
        for group in &view.groups {
            let living = group.serving.iter().filter(lives).count();
            let is_under = |most: u32| u32::try_from(living).is_ok_and(|it| it < most);
            let sum = match living {
                0 => &mut lost,
                _ if is_under(view.min_write) => &mut read_only,
                _ if is_under(view.replicas) => &mut degraded,
                _ => continue,
            };
            *sum += group.slots.len();
        }
        let needed = view.min_write;
        if lost > 0 {
            let what = counted(
                lost,
                "slot has no living copy: its requests fail",
                "slots have no living copy: their requests fail",
            );
            self.problem(what, lost_fix(snapshot, keyless));
        }
        if read_only > 0 {
            let what = format!(
                "{} writes: a write needs {}",
                counted(read_only, "slot refuses", "slots refuse"),
                counted(needed, "copy", "copies")
            );
            let is_short = view.groups.iter().flat_map(|it| &it.serving).any(is_gone);
            let has_few = usize::try_from(needed).is_ok_and(|it| may_have(snapshot, keyless) < it);
            let fix = match is_short || has_few {
                true => {
                    "start the nodes that are gone, or others; guira cluster plan shows what is waited for"
                }
                false => {
                    "wait while nodes are being filled: guira cluster plan shows how far that is"
                }
            };
            self.problem(what, fix);
        }
        if degraded > 0 {
            let what = format!(
                "{} fewer than {} living copies",
                counted(degraded, "slot has", "slots have"),
                view.replicas
            );
            self.problem(
                what,
                "wait if nodes are being filled (guira cluster plan), else start nodes",
            );
        }
    }

    /// Findings about what nodes say. `moving`: see [`ask_twice`].
    fn answers(
        &mut self,
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
                    self.answer(&name, said);
                    // Those that lag while no node leads are told of together.
                    let is_told = |it: &Moving| *it == Moving::Behind && !is_led;
                    for what in moving.iter().filter(|it| it.0 == *id && !is_told(&it.1)) {
                        self.moving(&name, said, (what.1, snapshot.seen.view.epoch));
                    }
                }
                Err(Unheard::Else(who, _)) => self.stranger(&name, "has a key in etcd", who),
                Err(Unheard::Unasked(why)) => self.warning(
                    format!("{name} couldn't be asked as a client: {why}"),
                    "see whether clients reach that address; behind TLS or logins, its metrics say the same",
                ),
            }
        }
        if versions.len() > 1 {
            self.warning(
                format!("nodes have different versions: {}", list(&versions)),
                "finish the upgrade, one node at a time",
            );
        }
    }

    /// Somebody else answers where clients are to find a node.
    fn stranger(&mut self, name: &str, but: &str, who: &str) {
        self.problem(
            format!("{name} {but}, and {who}"),
            "routers may ask there for the node: end that program, or start the node where it has a port of its own",
        );
    }

    /// Finds nodes that follow a newer view than etcd has, which then was put back to an older one.
    fn ahead(&mut self, snapshot: &RegisterSnapshot, answers: &Answers, epoch: u64) {
        let said = answers.iter().filter_map(|(id, said)| Some((*id, said.as_ref().ok()?)));
        for (id, own) in said.filter_map(|(id, said)| Some((id, said.epoch()?))) {
            if own > epoch {
                self.problem(
                    format!("{} follows the view of epoch {own}, and etcd has an older one, of epoch {epoch}", name_of(snapshot, id)),
                    "put the newest view back, or a right one of a higher epoch: docs/how-to/lost-etcd.md; until then no node leads",
                );
            }
        }
    }

    fn answer(&mut self, name: &str, said: &Said) {
        if said.ahead_s.abs() > SKEW_S {
            let way = if said.ahead_s > 0.0 { "ahead of" } else { "behind" };
            self.warning(
                format!("{name}'s clock is {:.1} s {way} this machine's", said.ahead_s.abs()),
                "let both follow one time server: expiry is by the nodes' clocks",
            );
        }
        let number = |it: &str| said.number(it).unwrap_or(0.0);
        if number("cluster_lag_seconds") > LAG_S {
            self.problem(
                format!("{name} has updates that wait for {} s: {} of them", number("cluster_lag_seconds"), number("cluster_lag_updates")),
                "a node behind it in the chain is slow or can't be reached: see its device and its links",
            );
        }
        if number("is_out_of_disk") > 0.0 {
            self.problem(
                format!(
                    "{name} has no room for values: changes of its slots fail, or its process ends"
                ),
                "make room on its disk, or raise --disk-max; if it has ended, start it again",
            );
        } else if let Some((left, reserve)) = said.room().filter(|it| it.0 < NEAR * it.1) {
            self.warning(
                format!("{name} has {:.0} MiB of disk left, and takes no values with less than {:.0}", left / MIB, reserve / MIB),
                "make room on its disk, or raise --disk-max: while it is full, changes of its slots fail",
            );
        }
    }

    /// A finding that stays though the view of `epoch` has had time to arrive.
    fn moving(&mut self, name: &str, said: &Said, (what, epoch): (Moving, u64)) {
        match what {
            Moving::Behind => self.problem(
                format!(
                    "{name} follows the view of epoch {}, not {epoch}",
                    said.epoch().unwrap_or(0)
                ),
                "its log says why: it doesn't reach etcd, or refuses a view",
            ),
            Moving::Unpromised => self.problem(
                format!(
                    "{name} can't answer reads of {}: it lacks promises of {}",
                    counted(
                        said.number("cluster_slots_unreadable").unwrap_or(0.0),
                        "slot",
                        "slots"
                    ),
                    counted(said.number(PROMISES_MISSING).unwrap_or(0.0), "node", "nodes")
                ),
                "see whether those nodes live, and reach each other's --peers addresses both ways",
            ),
        }
    }
}

/// What helps where slots have no living copy.
fn lost_fix(snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) -> String {
    let is_gone = |id: &&NodeId| !snapshot.nodes.contains_key(*id);
    let is_needed = |id: &&NodeId| only_copies(snapshot, keyless, **id) > 0;
    let needed = snapshot.seen.view.nodes.keys().filter(is_gone).filter(is_needed);
    let names: Vec<String> = needed.map(|id| name_of(snapshot, *id)).collect();
    match names.is_empty() {
        true => "wait half a minute: the nodes are back, and begin with what their disks have (guira cluster plan)".to_owned(),
        false => format!("start on their directories: {}", names.join(", ")),
    }
}

/// How many nodes may have copies.
fn may_have(snapshot: &RegisterSnapshot, keyless: &BTreeSet<NodeId>) -> usize {
    let view = &snapshot.seen.view;
    let may = |it: &(&NodeId, &Member)| it.1.weight > 0 && !snapshot.wish.drain.contains(it.0);
    let without_key = view.nodes.iter().filter(|it| keyless.contains(it.0));
    snapshot.nodes.iter().chain(without_key).filter(may).count()
}

fn list(texts: &BTreeSet<&str>) -> String {
    texts.iter().copied().collect::<Vec<_>>().join(", ")
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, epoch, nodes, findings } = self;
        match epoch {
            Some(epoch) => {
                let nodes = counted(nodes, "node", "nodes");
                writeln!(f, "cluster     {cluster}, epoch {epoch}; {nodes} answered")?;
            }
            None => writeln!(f, "cluster     {cluster}; only etcd was asked")?,
        }
        if findings.is_empty() {
            return writeln!(f, "nothing was found");
        }
        for Finding { grade, what, fix } in findings {
            let grade = if *grade == Grade::Problem { "problem" } else { "warning" };
            writeln!(f, "\n{grade}     {what}\n            {fix}")?;
        }
        Ok(())
    }
}

const NO_NODE: &str = "start one: guira store --cluster …; if there was a cluster of this name before, start none: its keys are lost (docs/how-to/lost-etcd.md)";
const SLOW: Duration = Duration::from_millis(500);
const DB_BYTES: u64 = 3 << 29;
/// Seconds by which a clock may differ. The node's time is in whole seconds.
const SKEW_S: f64 = 2.0;
const LAG_S: f64 = 2.0;
/// So many times its reserve is near: as the alert `GuiraStoreDiskNearReserve` has it.
const NEAR: f64 = 2.0;
const MIB: f64 = 1024.0 * 1024.0;

#[cfg(test)]
mod tests;
