//! The state of a cluster as its register shows it, for people and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write as _};

use guira_chain::{Group, NodeId};
use serde::Serialize;

use crate::ask::{Keyless, leader_words};
use crate::controller::Rules;
use crate::counted::counted;
use crate::snapshot::RegisterSnapshot;

/// The state of a cluster.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    cluster: String,
    epoch: u64,
    replicas: u32,
    min_write: u32,
    is_paused: bool,
    /// The name of the leader.
    controller: Option<String>,
    /// What the key says that somebody put there by hand.
    #[serde(skip)]
    stray: Option<String>,
    #[serde(skip)]
    is_new: bool,
    nodes: Vec<Node>,
    slots: Slots,
    /// Keys that can't be read.
    unread: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Node {
    id: NodeId,
    name: String,
    peers: String,
    zone: String,
    weight: u32,
    state: State,
    /// Who else answers at the address of a node that is gone.
    stranger: Option<String>,
    /// Since when a controller has seen that the node is gone, and when its copies are made elsewhere: those of a drained one
    /// are made at once. Unix times in seconds.
    away_since: Option<u64>,
    given_up_at: Option<u64>,
    /// Whether this process leaves its chains, because it is to be restarted.
    is_to_restart: bool,
    is_drained: bool,
    /// The number of slots in which the node serves; of these, those in which it orders writes, and those in which it
    /// answers reads.
    serving: usize,
    head: usize,
    reader: usize,
    joining: usize,
    syncing: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The view names the node's process.
    Member,
    /// The node lives, but the view doesn't name its process.
    Waiting,
    /// The node says that it is a member, and the register has no key of it.
    Keyless,
    /// Nothing shows that the node lives.
    Gone,
}

#[derive(Debug, Default, Serialize)]
struct Slots {
    /// Slots with as many living, serving copies as there should be.
    whole: usize,
    /// Slots with fewer.
    degraded: usize,
    /// Of these, slots with too few for writes.
    read_only: usize,
    /// Slots without a living copy.
    lost: usize,
    /// Slots with a copy that is being filled.
    filling: usize,
}

impl Status {
    /// The state by a snapshot. `keyless`: what is where nodes should be of which the register has no key. `leader`: who
    /// leads.
    pub(crate) fn of(
        snapshot: &RegisterSnapshot,
        keyless: &Keyless,
        leader: Option<String>,
    ) -> Self {
        let view = &snapshot.seen.view;
        let all: BTreeSet<NodeId> =
            view.nodes.keys().chain(snapshot.nodes.keys()).copied().collect();
        let mut nodes: BTreeMap<NodeId, Node> =
            all.into_iter().filter_map(|id| Some((id, node(id, snapshot, keyless)?))).collect();
        let mut slots = Slots::default();
        for group in &view.groups {
            let count = group.slots.len();
            count_roles(&mut nodes, group, count);
            let serves = [State::Member, State::Keyless];
            let lives = |id: &&NodeId| nodes.get(id).is_some_and(|it| serves.contains(&it.state));
            let living = group.serving.iter().filter(lives).count();
            let is_under = |most: u32| u32::try_from(living).is_ok_and(|it| it < most);
            let mut add = |is_so: bool, sum: fn(&mut Slots) -> &mut usize| {
                *sum(&mut slots) += if is_so { count } else { 0 };
            };
            add(!is_under(view.replicas), |it| &mut it.whole);
            add(is_under(view.replicas), |it| &mut it.degraded);
            add(is_under(view.min_write) && living > 0, |it| &mut it.read_only);
            add(living == 0, |it| &mut it.lost);
            let is_filling = !group.joining.is_empty() || !group.syncing.is_empty();
            add(is_filling, |it| &mut it.filling);
        }
        Self {
            cluster: view.cluster.clone(),
            epoch: view.epoch,
            replicas: view.replicas,
            min_write: view.min_write,
            is_paused: snapshot.wish.is_paused,
            controller: leader,
            stray: snapshot.stray_lead(),
            is_new: snapshot.is_new(),
            nodes: nodes.into_values().collect(),
            slots,
            unread: snapshot.unread.clone(),
        }
    }

    /// What is missing until this many nodes are members, and each slot has as many copies as it should, or as there are
    /// nodes.
    pub(crate) fn lacks(&self, nodes: usize) -> Option<String> {
        let members = self.nodes.iter().filter(|it| it.state == State::Member).count();
        if members < nodes {
            let nodes = counted(nodes, "node", "nodes");
            return Some(format!("{members} of {nodes} are members"));
        }
        let is_short = usize::try_from(self.replicas).is_ok_and(|replicas| nodes < replicas);
        let Slots { degraded, lost, filling, read_only, .. } = self.slots;
        let missing = [
            (lost, ["has", "have"], "no living copy"),
            (read_only, ["refuses", "refuse"], "writes"),
            (filling, ["has", "have"], "a copy that is being filled"),
            (if is_short { 0 } else { degraded }, ["has", "have"], "too few copies"),
        ];
        let first = missing.into_iter().find(|it| it.0 > 0);
        first.map(|(slots, [one, several], what)| {
            let slots = counted(slots, &format!("slot {one}"), &format!("slots {several}"));
            format!("{slots} {what}")
        })
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

fn node(id: NodeId, snapshot: &RegisterSnapshot, keyless: &Keyless) -> Option<Node> {
    let (view, alive) = (&snapshot.seen.view, snapshot.nodes.get(&id));
    let state = match alive {
        None if keyless.serving.contains(&id) => State::Keyless,
        None => State::Gone,
        Some(alive) if view.names(id, &alive.run) => State::Member,
        Some(_) => State::Waiting,
    };
    let member = alive.or(view.nodes.get(&id))?;
    let away = snapshot.away.get(&id).filter(|_| state == State::Gone).map(|it| it.since);
    let is_drained = snapshot.wish.drain.contains(&id);
    let awaited = away.filter(|_| !is_drained);
    Some(Node {
        id,
        name: member.name.clone(),
        peers: member.peers.clone(),
        zone: member.zone.clone(),
        weight: member.weight,
        state,
        stranger: keyless.strangers.get(&id).cloned(),
        is_to_restart: snapshot.is_to_restart(id),
        is_drained,
        away_since: away,
        given_up_at: awaited.map(|since| since + Rules::default().replace_after.as_secs()),
        serving: 0,
        head: 0,
        reader: 0,
        joining: 0,
        syncing: 0,
    })
}

fn count_roles(nodes: &mut BTreeMap<NodeId, Node>, group: &Group, count: usize) {
    let mut add = |ids: &[NodeId], sum: fn(&mut Node) -> &mut usize| {
        for id in ids {
            if let Some(node) = nodes.get_mut(id) {
                *sum(node) += count;
            }
        }
    };
    add(&group.serving, |it| &mut it.serving);
    add(group.head().as_slice(), |it| &mut it.head);
    add(group.reader().as_slice(), |it| &mut it.reader);
    add(&group.joining, |it| &mut it.joining);
    add(&group.syncing, |it| &mut it.syncing);
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, epoch, replicas, min_write, slots, .. } = self;
        writeln!(f, "cluster     {cluster}, epoch {epoch}")?;
        writeln!(f, "copies      {replicas} wanted, {min_write} needed for a write")?;
        let leader = leader_words(self.controller.as_deref(), self.stray.as_deref());
        writeln!(f, "controller  {leader}")?;
        if self.is_paused {
            writeln!(f, "paused      no copy is begun")?;
        }
        if !self.is_new {
            let Slots { whole, degraded, read_only, lost, filling } = slots;
            write!(
                f,
                "slots       {whole} whole, {degraded} degraded (of these {read_only} read-only, "
            )?;
            writeln!(f, "{lost} without a living copy), {filling} with a copy being filled")?;
        }
        for key in &self.unread {
            writeln!(f, "unread      the key {key} can't be read")?;
        }
        for node in self.nodes.iter().filter(|it| it.state == State::Keyless) {
            let Node { id, name, .. } = node;
            writeln!(
                f,
                "keyless     node {id} ({name}) serves, but etcd has no key of it: see its log"
            )?;
        }
        for (node, who) in self.nodes.iter().filter_map(|it| Some((it, it.stranger.as_ref()?))) {
            let Node { id, name, .. } = node;
            writeln!(f, "stranger    node {id} ({name}) is gone, and {who}")?;
        }
        for node in &self.nodes {
            if let Some(since) = node.away_since {
                let name = if node.name.is_empty() { "" } else { &format!(" ({})", node.name) };
                let then = match node.given_up_at {
                    Some(until) => format!("given up at {}", Utc(until)),
                    None => "drained, so others get its copies".to_owned(),
                };
                writeln!(f, "away        node {}{name} since {}; {then}", node.id, Utc(since))?;
            }
        }
        writeln!(f)?;
        if self.is_new {
            return writeln!(f, "no node yet: start one with guira store --cluster …");
        }
        f.write_str(&self.table())
    }
}

impl Status {
    fn table(&self) -> String {
        let head = ["id", "name", "peers", "zone", "state", "serving", "head", "reader", "filling"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.nodes.iter().map(|it| {
            let state = match it.state {
                State::Member => "member",
                State::Waiting => "waiting",
                State::Keyless => "keyless",
                State::Gone => "gone",
            };
            let drained = if it.is_drained { ", drained" } else { "" };
            let restarts = if it.is_to_restart { ", to restart" } else { "" };
            let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
            [
                it.id.to_string(),
                or_none(&it.name),
                or_none(&it.peers),
                or_none(&it.zone),
                format!("{state}{drained}{restarts}"),
                it.serving.to_string(),
                it.head.to_string(),
                it.reader.to_string(),
                (it.joining + it.syncing).to_string(),
            ]
        }));
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// A Unix time in seconds, as `2026-01-31 23:59:59 UTC`.
struct Utc(u64);

impl Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        // A year begins in March here, so that a leap day is its last. Eras of 400 years are alike.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let march = (5 * day + 2) / 153;
        let day = day - (153 * march + 2) / 5 + 1;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        write!(f, "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::{RegisterSnapshot, Status, Utc};
    use crate::ask::Keyless;
    use crate::records::AwayRecord;
    use crate::sample::snapshot;

    #[test]
    fn a_node_that_is_gone_is_given_up_later_unless_it_is_drained() {
        let mut seen = snapshot(&[(1, "first"), (2, "first")]);
        seen.away.insert(3, AwayRecord { since: 1_795_894_269 });
        let told =
            |seen: &RegisterSnapshot| Status::of(seen, &Keyless::default(), None).to_string();
        let away = "away        node 3 (store-3) since 2026-11-28 19:31:09 UTC; ";
        let given_up = format!("{away}given up at 2026-11-28 19:41:09 UTC\n");
        assert!(told(&seen).contains(&given_up), "{}", told(&seen));
        seen.wish.drain.insert(3);
        let drained = format!("{away}drained, so others get its copies\n");
        assert!(told(&seen).contains(&drained), "{}", told(&seen));
    }

    #[test]
    fn a_time_is_shown_in_utc() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (1_795_894_269, "2026-11-28 19:31:09 UTC"),
        ] {
            assert_eq!(Utc(unix_s).to_string(), text);
        }
    }
}
