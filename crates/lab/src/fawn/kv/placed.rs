//! A cluster whose nodes get their slots from a view in a file, each behind a link of a fixed rate.
//!
//! ```text
//! clients ─▶ guira route ─▶ link: so many keys a second ─▶ guira store --view FILE   (as many as there are shares)
//!               └ etcd: the same view, with the links as the nodes' addresses for clients
//! ```
//! # Invariants
//! 1. Reads are dealt to the nodes by their weights, to a slot.
//! 2. The router knows no other address of a node for clients than its link's. It asks the reader of a key, and no node
//!    passes on what it has itself, so each get of the router takes one place in one link.

use super::super::load::key;
use super::super::relay::{self, Relay};
use crate::live::{Client, free_ports, pause};
use crate::measure::now;
use anyhow::{Context, Result, anyhow, ensure};
use guira_chain::{Chart, Group, Member, NodeId, Ranges, SLOTS, View};
use guira_cluster::{EtcdArgs, Parts, first_view};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// What a cluster has.
pub(super) struct Layout {
    /// The slots that each node reads are in these proportions.
    pub(super) weights: Vec<u32>,
    /// The keys a second that each link carries are in these.
    pub(super) speeds: Vec<u32>,
    /// The keys a second of a link of speed 1.
    pub(super) rate: f64,
    pub(super) copies: u32,
    /// The keys that are stored: so many.
    pub(super) keys: u64,
}

impl Layout {
    /// Equal nodes.
    pub(super) fn equal(nodes: usize, rate: f64, copies: u32, keys: u64) -> Self {
        let ones = vec![1; nodes];
        Self { weights: ones.clone(), speeds: ones, rate, copies, keys }
    }

    /// The keys a second that all links carry together.
    pub(super) fn capacity(&self) -> f64 {
        self.rate * f64::from(self.speeds.iter().sum::<u32>())
    }
}

/// See the module's head. All processes end with it.
pub(super) struct Placed {
    parts: Parts,
    pub(super) layout: Layout,
    chart: Chart,
    pub(super) relays: Vec<Relay>,
    /// Where the router finds the view.
    pub(super) place: String,
    _directory: tempfile::TempDir,
}

impl Placed {
    /// Starts all, and stores the keys.
    pub(super) fn start(layout: Layout) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let nodes = layout.weights.len();
        let ports = free_ports(2 + 2 * nodes)?;
        let (etcd, ports) = ports.split_at(2);
        let (clients, peers) = ports.split_at(nodes);
        let mut parts = Parts::new(directory.path());
        parts.start_etcd([etcd[0], etcd[1]]).map_err(|words| anyhow!(words))?;
        let mut view = view(&layout, peers)?;
        let file = directory.path().join("view.json");
        put(&file, &view)?;
        for (node, port) in (1..).zip(clients) {
            let name = name(node);
            parts
                .start(&name, store(&file, node, *port, directory.path())?)
                .map_err(|words| anyhow!(words))?;
        }
        let mut runs = BTreeMap::new();
        let all_run = || Ok(look_for_runs(nodes, directory.path(), &mut runs));
        wait(&mut parts, all_run)?;
        begin(&mut view, &runs);
        put(&file, &view)?;
        let placed = Self {
            parts,
            chart: Chart::of(Arc::new(view.clone())),
            relays: clients
                .iter()
                .zip(&layout.speeds)
                .map(|(port, speed)| relay::start(*port, layout.rate * f64::from(*speed)))
                .collect::<Result<_>>()?,
            place: format!("127.0.0.1:{}/{NAME}", etcd[0]),
            layout,
            _directory: directory,
        };
        placed.fill(clients)?;
        for (member, relay) in view.nodes.values_mut().zip(&placed.relays) {
            member.clients = format!("127.0.0.1:{}", relay.port);
        }
        let register = EtcdArgs::default().register(&format!("etcd:{}", placed.place));
        let register = register.map_err(|words| anyhow!(words))?;
        within("etcd takes the view", || register.create(&view).map_err(Into::into))?;
        Ok(placed)
    }

    /// Stores all keys, at the heads of their slots.
    fn fill(&self, ports: &[u16]) -> Result<()> {
        let mut by_head = vec![Vec::new(); ports.len()];
        for number in 0..self.layout.keys {
            let head = self.group(number)?.head().context("a group has a head")?;
            by_head[place(head)].push(key(number));
        }
        for (keys, port) in by_head.into_iter().zip(ports) {
            let Some(first) = keys.first() else { continue };
            let is_stored = || {
                let stored = Client::connect(*port)?.set(first, 1)?;
                ensure!(stored, "the node at port {port} doesn't store yet");
                Ok(())
            };
            within("each node stores", is_stored)?;
            Client::connect(*port)?.fill(keys.into_iter())?;
        }
        Ok(())
    }

    fn group(&self, number: u64) -> Result<&Group> {
        let placed = self.chart.place(key(number).as_bytes());
        Ok(placed.context("a view has all slots")?.1)
    }

    /// The node that reads a key: its place among the links.
    pub(super) fn reader(&self, number: u64) -> Result<usize> {
        Ok(place(self.group(number)?.reader().context("a group has a reader")?))
    }

    /// The queries a second if each stored key is asked for in proportion to its `popularity`, and the node that has most
    /// to do is at its limit.
    pub(super) fn expected(&self, popularity: impl Fn(u64) -> f64) -> Result<f64> {
        self.expected_behind(0, popularity)
    }

    /// As `expected`, if the first `cached` keys never reach a node.
    pub(super) fn expected_behind(
        &self,
        cached: u64,
        popularity: impl Fn(u64) -> f64,
    ) -> Result<f64> {
        let mut shares = vec![0.0; self.relays.len()];
        let mut all = 0.0;
        for number in 0..self.layout.keys {
            let share = popularity(number);
            all += share;
            if number >= cached && share > 0.0 {
                shares[self.reader(number)?] += share;
            }
        }
        let speeds = self.layout.speeds.iter().map(|speed| f64::from(*speed) * self.layout.rate);
        let most =
            speeds.zip(shares).filter(|it| it.1 > 0.0).map(|(speed, share)| speed * all / share);
        Ok(most.fold(f64::INFINITY, f64::min))
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.parts.kill_all();
    }
}

fn name(node: NodeId) -> String {
    format!("n{node}")
}

fn place(node: NodeId) -> usize {
    usize::try_from(node).unwrap_or(usize::MAX) - 1
}

/// The view in which no node has begun: node by node, the slots that it reads. The other copies are on the nodes before
/// it.
fn view(layout: &Layout, peers: &[u16]) -> Result<View> {
    let mut view =
        first_view(NAME, layout.copies, layout.copies.min(2)).map_err(|words| anyhow!(words))?;
    let member = |(node, port): (NodeId, &u16)| {
        let member = Member {
            name: name(node),
            peers: format!("127.0.0.1:{port}"),
            clients: String::new(),
            zone: String::new(),
            weight: layout.weights[place(node)],
            run: String::new(),
        };
        (node, member)
    };
    view.nodes = (1..).zip(peers).map(member).collect();
    let nodes = NodeId::try_from(peers.len())?;
    ensure!(layout.copies <= nodes, "{} copies on {nodes} nodes", layout.copies);
    let all: u64 = layout.weights.iter().copied().map(u64::from).sum();
    let (mut first, mut before) = (0, 0);
    view.groups = Vec::new();
    for node in 1..=nodes {
        before += u64::from(layout.weights[place(node)]);
        let end = u16::try_from(u64::from(SLOTS) * before / all)?;
        let serving = (0..layout.copies).rev().map(|back| (node - 1 + nodes - back) % nodes + 1);
        let serving: Vec<_> = serving.collect();
        let base = serving.first().copied();
        let slots = Ranges::of(first, end - 1);
        view.groups.push(Group { slots, epoch: 1, serving, base, ..Group::default() });
        first = end;
    }
    Ok(view)
}

/// Names the nodes' processes: they begin.
fn begin(view: &mut View, runs: &BTreeMap<NodeId, String>) {
    view.epoch = 2;
    for (node, member) in &mut view.nodes {
        member.run.clone_from(&runs[node]);
    }
    view.groups.iter_mut().for_each(|group| group.epoch = 2);
}

fn put(file: &Path, view: &View) -> Result<()> {
    // At once, since nodes read the file while it is replaced.
    let new = file.with_extension("new");
    fs::write(&new, view.to_json())?;
    Ok(fs::rename(new, file)?)
}

fn store(view: &Path, node: NodeId, port: u16, directory: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["store", "--node", &node.to_string(), "-p", &port.to_string(), "--view"]);
    command.arg(view).arg("-d").arg(directory.join(name(node)));
    // Nothing that the lab stores must outlive the machine.
    command.args(["--durability", "os", "-t", "1", "--read-threads", "1"]);
    Ok(command)
}

/// Finds in the logs how each process is called. Returns what is missing.
fn look_for_runs(
    nodes: usize,
    directory: &Path,
    runs: &mut BTreeMap<NodeId, String>,
) -> Option<String> {
    for node in (1..).take(nodes) {
        let log = || fs::read_to_string(directory.join(format!("{}.log", name(node)))).ok();
        if let Entry::Vacant(entry) = runs.entry(node)
            && let Some(run) = log().as_deref().and_then(run)
        {
            entry.insert(run.to_owned());
        }
    }
    (runs.len() < nodes).then(|| format!("{} of {nodes} nodes run", runs.len()))
}

fn run(log: &str) -> Option<&str> {
    log.split_once("this process is run ")?.1.split_whitespace().next().filter(|it| it.len() == 16)
}

/// Waits until nothing is missing, for [`WAIT_MAX`] at most.
pub(super) fn wait(
    parts: &mut Parts,
    mut lacks: impl FnMut() -> Result<Option<String>, String>,
) -> Result<()> {
    let begun = now();
    let mut last = String::new();
    let asked = || {
        let lack = lacks()?;
        last = lack.clone().unwrap_or_default();
        Ok(lack)
    };
    let is_whole = parts.wait(&mut || begun.elapsed() > WAIT_MAX, asked, |_| ());
    ensure!(
        is_whole.map_err(|words| anyhow!(words))?,
        "the cluster isn't there after {WAIT_MAX:?}: {last}"
    );
    Ok(())
}

/// Tries until it works, for [`WAIT_MAX`] at most.
pub(super) fn within(what: &str, mut tries: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = now();
    while let Err(error) = tries() {
        ensure!(begun.elapsed() < WAIT_MAX, "{what}: not after {WAIT_MAX:?}: {error:#}");
        pause(Duration::from_millis(50));
    }
    Ok(())
}

/// The cluster's name.
pub(super) const NAME: &str = "lab";
const WAIT_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(layout: &Layout, role: fn(&Group) -> Option<NodeId>) -> Vec<usize> {
        let ports = vec![1; layout.weights.len()];
        let view = view(layout, &ports).unwrap();
        view.validate().unwrap();
        let of = |node| {
            view.groups.iter().filter(|it| role(it) == Some(node)).map(|it| it.slots.len()).sum()
        };
        (1..).take(ports.len()).map(of).collect()
    }

    #[test]
    fn each_node_reads_its_share_to_a_slot() {
        let equal = shares(&Layout::equal(85, 1.0, 3, 0), Group::reader);
        assert!(equal.iter().all(|slots| (192..=193).contains(slots)), "{equal:?}");
        let unequal = Layout { weights: vec![1, 2, 4], ..Layout::equal(3, 1.0, 3, 0) };
        let slots = shares(&unequal, Group::reader);
        for (slots, expected) in slots.into_iter().zip([2340_usize, 4681, 9362]) {
            assert!(expected.abs_diff(slots) <= 1, "{slots}, {expected} expected");
        }
    }

    #[test]
    fn all_copies_of_a_slot_are_on_different_nodes() {
        let view = view(&Layout::equal(4, 1.0, 3, 0), &[1; 4]).unwrap();
        let chains: Vec<_> = view.groups.iter().map(|it| it.serving.clone()).collect();
        assert_eq!(chains, [[3, 4, 1], [4, 1, 2], [1, 2, 3], [2, 3, 4]]);
        assert!(view.groups.iter().all(|it| it.base == it.head()));
    }
}
