//! One slot on three nodes, and the moves to the next states.

use super::super::weather::Disk;
use crate::promises::{Promises, TERM};
use crate::slot::{
    Around, Message, Slot, SlotAction, SlotEvent, Stand, Told, WriteKind, WriteVerdict,
};
use crate::view::{Group, NodeId, Ranges, SLOTS};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

pub(super) const NODES: NodeId = 3;
const STEP: u64 = TERM * 6 / 10;
const KEY: &[u8] = b"k";

/// How often each kind of move may still happen.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Budget {
    pub(super) views: u8,
    pub(super) writes: u8,
    pub(super) reads: u8,
    pub(super) waits: u8,
    pub(super) falls: u8,
    pub(super) losses: u8,
    pub(super) syncs: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Deliver(NodeId, NodeId),
    Lose(NodeId, NodeId),
    /// The first node gets a promise of the second.
    Renew(NodeId, NodeId),
    Learn(NodeId),
    Fall(NodeId),
    Restart(NodeId),
    Sync(NodeId),
    /// Time passes, and each node gets a tick.
    Wait,
    Write(NodeId),
    Read(NodeId),
    View(usize),
}

#[derive(Debug, Clone, Hash)]
pub(super) struct Node {
    pub(super) is_up: bool,
    pub(super) run: u64,
    promises: Promises,
    pub(super) slot: Slot,
    disk: Disk,
    synced: Disk,
}

#[derive(Debug, Clone, Hash)]
pub(super) struct State {
    pub(super) now: u64,
    pub(super) epoch: u64,
    pub(super) group: Group,
    pub(super) runs: [u64; NODES as usize],
    pub(super) nodes: Vec<Node>,
    links: BTreeMap<(NodeId, NodeId), VecDeque<(u64, Message)>>,
    pub(super) left: Budget,
    /// The time and the epochs of each pair's last renewal. A repetition makes no difference.
    renewed: BTreeMap<(NodeId, NodeId), [Option<u64>; 3]>,
    asked: u64,
    /// Reads under way, each with the newest number that any client had been told when the read began.
    reads: BTreeMap<u64, u64>,
    /// The value that clients were told for each number.
    told: BTreeMap<u64, Option<Vec<u8>>>,
    pub(super) wrong: Option<String>,
}

impl State {
    /// Node 1 serves. All nodes are up, and none is in the first term of its process.
    pub(super) fn first(waits_for_disk: bool, left: Budget) -> Self {
        let node = |id| Node {
            is_up: true,
            run: 0,
            promises: Promises::new(0),
            slot: Slot::new(id, waits_for_disk, 0, 0),
            disk: Disk::default(),
            synced: Disk::default(),
        };
        let group = Group { epoch: 1, serving: vec![1], base: Some(1), ..Group::default() };
        Self {
            now: 2 * TERM,
            epoch: 1,
            group: Group { slots: Ranges::of(0, SLOTS), ..group },
            runs: [0; NODES as usize],
            nodes: (1..=NODES).map(node).collect(),
            links: BTreeMap::new(),
            left,
            renewed: BTreeMap::new(),
            asked: 0,
            reads: BTreeMap::new(),
            told: BTreeMap::new(),
            wrong: None,
        }
    }

    /// So many nodes serve and know it, and every promise is fresh. With `is_empty`, no write was done, and a further
    /// node is filled without serving. Otherwise one write is done.
    pub(super) fn grown(
        waits_for_disk: bool,
        serving: usize,
        is_empty: bool,
        left: Budget,
    ) -> Self {
        let mut state = Self::first(waits_for_disk, Budget { views: 99, writes: 99, ..left });
        while state.group.serving.len() < serving || !state.group.past.is_empty() {
            state.settle();
            // The last view is the one that makes progress.
            let views = state.views();
            state.apply(Move::View(views.len() - 1));
        }
        state.settle();
        if is_empty {
            let views = state.views();
            state.apply(Move::View(views.len() - 1));
        } else {
            state.apply(Move::Write(1));
        }
        state.settle();
        for (x, m) in pairs() {
            state.apply(Move::Renew(x, m));
        }
        state.left = left;
        state
    }

    /// Delivers every message, and lets every node learn the view and sync.
    fn settle(&mut self) {
        for _ in 0..3 {
            (1..=NODES).for_each(|id| self.apply(Move::Learn(id)));
            self.left.waits = 9;
            self.apply(Move::Wait);
            while let Some(link) = self.links.keys().next().copied() {
                self.apply(Move::Deliver(link.0, link.1));
                (1..=NODES).for_each(|id| self.apply(Move::Sync(id)));
            }
        }
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    pub(super) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let (left, of) = (self.left, |id: NodeId| &self.nodes[id as usize - 1]);
        for link in self.links.keys().filter(|it| of(it.1).is_up) {
            moves.push(Move::Deliver(link.0, link.1));
            if left.losses > 0 {
                moves.push(Move::Lose(link.0, link.1));
            }
        }
        for id in 1..=NODES {
            let node = of(id);
            if !node.is_up {
                moves.push(Move::Restart(id));
                continue;
            }
            if node.slot.epoch() < self.group.epoch {
                moves.push(Move::Learn(id));
            }
            if left.falls > 0 {
                moves.push(Move::Fall(id));
            }
            if left.syncs > 0 && node.synced.last != node.disk.last {
                moves.push(Move::Sync(id));
            }
            if left.writes > 0 && node.slot.is_filled() && node.slot.is_head() {
                moves.push(Move::Write(id));
            }
            if left.reads > 0 && node.slot.is_filled() && node.slot.is_reader() {
                moves.push(Move::Read(id));
            }
        }
        moves.extend((left.waits > 0).then_some(Move::Wait));
        if left.views > 0 {
            moves.extend((0..self.views().len()).map(Move::View));
        }
        let may_renew = |pair: &(NodeId, NodeId)| {
            let is_up = of(pair.0).is_up && of(pair.1).is_up;
            is_up && self.renewed.get(pair) != Some(&self.renewal(*pair))
        };
        moves.extend(pairs().filter(may_renew).map(|(x, m)| Move::Renew(x, m)));
        moves
    }

    /// What a promise between the two nodes depends on.
    fn renewal(&self, (x, m): (NodeId, NodeId)) -> [Option<u64>; 3] {
        let asks = |id: NodeId| self.nodes[id as usize - 1].promises.asks(self.now);
        [Some(self.now), asks(x), asks(m)]
    }

    pub(super) fn apply(&mut self, step: Move) {
        let now = self.now;
        match step {
            Move::Deliver(from, to) | Move::Lose(from, to) => {
                let Some(link) = self.links.get_mut(&(from, to)) else { return };
                let Some((epoch, message)) = link.pop_front() else { return };
                if link.is_empty() {
                    self.links.remove(&(from, to));
                }
                if matches!(step, Move::Lose(..)) {
                    self.left.losses -= 1;
                } else {
                    self.step(to, SlotEvent::Peer(from, epoch, message));
                }
            }
            Move::Renew(x, m) => {
                let renewal = self.renewal((x, m));
                self.renewed.insert((x, m), renewal);
                let Some(epoch) = self.node(x).promises.asks(now) else { return };
                if self.node(m).promises.grant(x, epoch, false, now) {
                    self.node(x).promises.granted(m, now, now);
                }
                self.step(m, SlotEvent::Synced(0));
                self.step(x, SlotEvent::Synced(0));
            }
            Move::Learn(id) => self.learn(id),
            Move::Fall(id) => {
                self.left.falls -= 1;
                let node = self.node(id);
                node.is_up = false;
                node.disk = node.synced.clone();
            }
            Move::Restart(id) => {
                let node = self.node(id);
                (node.is_up, node.run) = (true, node.run + 1);
                node.promises = Promises::new(now);
                self.renewed.retain(|pair, _| pair.0 != id && pair.1 != id);
                let node = self.node(id);
                node.slot = Slot::new(id, node.slot.waits_for_disk(), node.disk.last, now);
            }
            Move::Sync(id) => {
                self.left.syncs = self.left.syncs.saturating_sub(1);
                let node = self.node(id);
                node.synced = node.disk.clone();
                let last = node.synced.last;
                self.step(id, SlotEvent::Synced(last));
            }
            Move::Wait => {
                self.left.waits -= 1;
                self.now += STEP;
                (1..=NODES).for_each(|id| self.step(id, SlotEvent::Tick));
            }
            Move::Write(id) | Move::Read(id) => self.ask(id, matches!(step, Move::Write(_))),
            Move::View(at) => self.view(at),
        }
    }

    /// Lets a client that knows the node's epoch write a value of its own, or read.
    fn ask(&mut self, id: NodeId, writes: bool) {
        self.asked += 1;
        let (epoch, number, key) = (self.node(id).slot.epoch(), self.asked, KEY.to_vec());
        let event = if writes {
            self.left.writes -= 1;
            let wanted = WriteKind::Set(number.to_string().into_bytes());
            let (from, is_repeated, id) = (0, false, (0, number));
            SlotEvent::Write { from, epoch, id, is_repeated, key, wanted }
        } else {
            self.left.reads -= 1;
            let newest = self.told.keys().next_back().copied().unwrap_or(0);
            self.reads.insert(number, newest);
            SlotEvent::Read { from: 0, epoch, id: number, key, holds: false }
        };
        self.step(id, event);
    }

    fn learn(&mut self, id: NodeId) {
        let (now, epoch, group) = (self.now, self.epoch, self.group.clone());
        let run = self.runs[id as usize - 1];
        let node = self.node(id);
        if !node.is_up {
            return;
        }
        node.promises.set_epoch(epoch);
        let is_member = node.run == run;
        let actions = node.slot.set_group(&group, is_member, now);
        self.act(id, actions);
        self.step(id, SlotEvent::Tick);
    }

    fn step(&mut self, id: NodeId, event: SlotEvent) {
        let now = self.now;
        let node = self.node(id);
        if !node.is_up {
            return;
        }
        let Node { slot, promises, disk, .. } = node;
        let actions = slot.step(Around { promises, contents: disk, min_write: 1 }, event, now);
        self.act(id, actions);
    }

    fn act(&mut self, id: NodeId, actions: Vec<SlotAction>) {
        for action in actions {
            match action {
                SlotAction::Send(to, message) => {
                    let epoch = self.node(id).slot.epoch();
                    self.links.entry((id, to)).or_default().push_back((epoch, message));
                }
                SlotAction::Apply(effect) => {
                    let disk = &mut self.node(id).disk;
                    disk.last = effect.version.seq;
                    if let Some(value) = effect.change {
                        disk.items.insert(effect.key, Stand { value, version: effect.version });
                    }
                }
                SlotAction::Replace(items, last) => {
                    self.node(id).disk = Disk { last, items: items.into_iter().collect() };
                }
                SlotAction::Answer(_, number, told) => self.hear(number, told),
                SlotAction::Hold(..) | SlotAction::Invalidate(..) => {}
            }
            let node = self.node(id);
            if !node.slot.waits_for_disk() {
                node.synced = node.disk.clone();
            }
        }
    }

    fn hear(&mut self, number: u64, told: Told) {
        let floor = self.reads.remove(&number);
        let (seq, value) = match told {
            Told::Wrote(WriteVerdict::Done(seq)) => (seq, Some(number.to_string().into_bytes())),
            Told::Read(Some((value, seq))) => (seq, Some(value)),
            Told::Read(None) => (0, None),
            _ => return,
        };
        if floor.is_some_and(|floor| seq < floor) {
            self.wrong = Some(format!("a read tells {seq}, after {floor:?} was told"));
        }
        if *self.told.entry(seq).or_insert_with(|| value.clone()) != value {
            self.wrong = Some(format!("{seq} is {value:?} and another"));
        }
    }

    pub(super) fn digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        self.hash(&mut digest);
        digest.finish()
    }
}

fn pairs() -> impl Iterator<Item = (NodeId, NodeId)> {
    (1..=NODES).flat_map(|x| (1..=NODES).filter(move |m| *m != x).map(move |m| (x, m)))
}
