//! A search through all states of one slot on three nodes: every order of messages, losses, falls, view changes, writes and
//! reads, as far as a budget of each goes.
//!
//! The nodes' decisions are the real ones. Clocks are equal, and time moves by [`STEP`], so a promise holds for one step and
//! not for two. A grant takes no time. The views are all legal ones that keep a controller's duties: who gets to serve is
//! ready, who joins is filled, a base begins anew only if all that served are down or started anew.
//!
//! Committed effects have one order, their numbers. So an answer is wrong if it is older than one given before it was asked
//! for, or if one number has two values.
//!
//! `GUIRA_CHAIN_STATES` is how many states to look at, nearest first.

use super::control::{first_view, member};
use super::tests::number;
use super::weather::Disk;
use crate::planted::{Mistake, plant};
use crate::promises::{Promises, TERM};
use crate::slot::{
    Around, Message, Slot, SlotAction, SlotEvent, Stand, Told, WriteKind, WriteVerdict,
};
use crate::view::{Group, NodeId, Ranges, SLOTS, View};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

const NODES: NodeId = 3;
const STEP: u64 = TERM * 6 / 10;
const KEY: &[u8] = b"k";

/// How often each may happen.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    views: u8,
    writes: u8,
    reads: u8,
    waits: u8,
    falls: u8,
    losses: u8,
    syncs: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Deliver(NodeId, NodeId),
    Lose(NodeId, NodeId),
    /// The first gets a promise of the second.
    Renew(NodeId, NodeId),
    Learn(NodeId),
    Fall(NodeId),
    Restart(NodeId),
    Sync(NodeId),
    /// Time passes, and all tick.
    Wait,
    Write(NodeId),
    Read(NodeId),
    View(usize),
}

#[derive(Debug, Clone, Hash)]
struct Node {
    is_up: bool,
    run: u64,
    promises: Promises,
    slot: Slot,
    disk: Disk,
    synced: Disk,
}

#[derive(Debug, Clone, Hash)]
struct State {
    now: u64,
    epoch: u64,
    group: Group,
    runs: [u64; NODES as usize],
    nodes: Vec<Node>,
    links: BTreeMap<(NodeId, NodeId), VecDeque<(u64, Message)>>,
    left: Budget,
    /// When and by which epochs each pair last renewed: again makes no difference.
    renewed: BTreeMap<(NodeId, NodeId), [Option<u64>; 3]>,
    asked: u64,
    /// Reads under way, each with the newest number that was told before.
    reads: BTreeMap<u64, u64>,
    /// What clients were told.
    told: BTreeMap<u64, Option<Vec<u8>>>,
    wrong: Option<String>,
}

impl State {
    /// One node serves, all are up, and their promises are a term old.
    fn first(waits_for_disk: bool, left: Budget) -> Self {
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

    /// So many serve and know it, and every promise is fresh. If not `is_empty`, a write is done; else the third node is filled
    /// and doesn't serve.
    fn grown(waits_for_disk: bool, serving: usize, is_empty: bool, left: Budget) -> Self {
        let mut state = Self::first(waits_for_disk, Budget { views: 99, writes: 99, ..left });
        while state.group.serving.len() < serving || !state.group.past.is_empty() {
            state.settle();
            // The last is the step that goes on.
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

    /// All is delivered, known and on disk.
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

    fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    fn moves(&self) -> Vec<Move> {
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

    /// The groups that may come next. The last one adds a copy, or goes on with adding it.
    fn views(&self) -> Vec<Group> {
        let old = &self.group;
        let of = |id: NodeId| &self.nodes[id as usize - 1];
        let is_same = |id: NodeId| of(id).is_up && of(id).run == self.runs[id as usize - 1];
        let mut next = Vec::new();
        if !old.serving.iter().any(|id| is_same(*id)) {
            let back = old.serving.iter().copied().filter(|id| of(*id).is_up);
            let anew = |id| {
                let (serving, base) = (vec![id], Some(id));
                Group { serving, base, joining: Vec::new(), syncing: Vec::new(), ..old.clone() }
            };
            return self.finish(back.map(anew).collect());
        }
        for id in old.members() {
            let mut group = old.clone();
            group.retain(|it| it != id);
            if group.serving.iter().any(|it| is_same(*it)) {
                next.push(group);
            }
        }
        let current = |id: NodeId| is_same(id) && of(id).slot.epoch() == old.epoch;
        let reader = old.reader().unwrap_or(1);
        let joiner = old.joining.first().copied();
        if let Some(joiner) = joiner {
            if of(reader).slot.epoch() == old.epoch && of(reader).slot.ready().contains(&joiner) {
                let mut group = old.clone();
                group.joining.remove(0);
                group.serving.push(joiner);
                next.push(group);
            }
        } else if let Some(id) = old.syncing.first().copied() {
            if current(id) && of(id).slot.is_filled() {
                next.push(Group { joining: vec![id], syncing: Vec::new(), ..old.clone() });
            }
        } else if let Some(id) = (1..=NODES).find(|id| !old.is_on_path(*id) && of(*id).is_up) {
            let attempt = self.epoch + 1;
            next.push(Group { syncing: vec![id], attempt, ..old.clone() });
        }
        // While it grows at first; later too little time passes.
        if !old.past.is_empty() && self.left.views > 50 && old.path().all(current) {
            next.push(Group { past: Vec::new(), ..old.clone() });
        }
        self.finish(next)
    }

    fn finish(&self, mut next: Vec<Group>) -> Vec<Group> {
        for group in &mut next {
            group.epoch = self.epoch + 1;
            group.follow(&self.group);
        }
        next
    }

    /// What a promise between two depends on.
    fn renewal(&self, (x, m): (NodeId, NodeId)) -> [Option<u64>; 3] {
        let asks = |id: NodeId| self.nodes[id as usize - 1].promises.asks(self.now);
        [Some(self.now), asks(x), asks(m)]
    }

    fn apply(&mut self, step: Move) {
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
                if self.node(m).promises.grant(x, epoch, now) {
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

    /// A client that knows the node's epoch writes a value of its own, or reads.
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
            SlotEvent::Read { from: 0, epoch, id: number, key }
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

    fn view(&mut self, at: usize) {
        let next = self.views().swap_remove(at);
        self.left.views -= 1;
        let before = self.as_view();
        // A chain names the process of whoever is filled or begins anew.
        let filled = next.syncing.iter().copied().filter(|_| next.attempt == next.epoch);
        let anew = next.base.filter(|_| next.path().count() == 1);
        for id in filled.chain(anew) {
            self.runs[id as usize - 1] = self.node(id).run;
        }
        (self.epoch, self.group) = (next.epoch, next);
        assert_eq!(self.as_view().may_follow(&before), Ok(()), "{before:?}");
    }

    fn as_view(&self) -> View {
        let member = |id: NodeId| (id, member(id, self.runs[id as usize - 1]));
        View {
            epoch: self.epoch,
            nodes: (1..=NODES).map(member).collect(),
            groups: vec![self.group.clone()],
            ..first_view(1)
        }
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

    fn digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        self.hash(&mut digest);
        digest.finish()
    }
}

fn pairs() -> impl Iterator<Item = (NodeId, NodeId)> {
    (1..=NODES).flat_map(|x| (1..=NODES).filter(move |m| *m != x).map(move |m| (x, m)))
}

/// How a search went: how many states it saw, whether these are all, and the way to a wrong answer.
struct Search {
    states: usize,
    is_whole: bool,
    found: Option<(String, Vec<Move>)>,
}

/// Looks at states in the order of their distance, `most` of them.
fn search(first: State, most: usize) -> Search {
    let mut seen = HashSet::from([first.digest()]);
    let mut todo = VecDeque::from([(first, usize::MAX)]);
    // Where each state came from, and by which move.
    let mut ways: Vec<(usize, Move)> = Vec::new();
    while let Some((state, way)) = todo.pop_front() {
        for step in state.moves() {
            let mut next = state.clone();
            next.apply(step);
            if !seen.insert(next.digest()) {
                continue;
            }
            ways.push((way, step));
            if let Some(why) = next.wrong {
                let (mut at, mut moves) = (ways.len() - 1, Vec::new());
                while let Some((before, step)) = ways.get(at) {
                    moves.push(*step);
                    at = *before;
                }
                moves.reverse();
                return Search { states: seen.len(), is_whole: false, found: Some((why, moves)) };
            }
            if seen.len() >= most {
                return Search { states: seen.len(), is_whole: false, found: None };
            }
            todo.push_back((next, ways.len() - 1));
        }
    }
    Search { states: seen.len(), is_whole: true, found: None }
}

const NONE: Budget =
    Budget { views: 0, writes: 0, reads: 0, waits: 0, falls: 0, losses: 0, syncs: 0 };

/// A name, and from where to search.
type Start = (&'static str, fn() -> State);

const STARTS: [Start; 8] = [
    ("a write and a read", || {
        State::grown(false, 3, false, Budget { writes: 1, reads: 1, ..NONE })
    }),
    ("two views", || {
        State::grown(false, 2, false, Budget { views: 2, writes: 1, reads: 1, ..NONE })
    }),
    ("three views of three", || {
        State::grown(false, 3, false, Budget { views: 3, writes: 1, reads: 1, ..NONE })
    }),
    ("four views, and nothing written", || {
        State::grown(false, 2, true, Budget { views: 4, writes: 1, reads: 1, ..NONE })
    }),
    ("falls", || {
        State::grown(false, 3, false, Budget { views: 1, writes: 1, reads: 1, falls: 2, ..NONE })
    }),
    ("power", || {
        let falls = Budget { views: 1, writes: 1, reads: 1, falls: 2, syncs: 1, ..NONE };
        State::grown(true, 2, false, falls)
    }),
    ("losses", || {
        let losses = Budget { views: 1, writes: 1, reads: 1, losses: 1, waits: 1, ..NONE };
        State::grown(false, 2, false, losses)
    }),
    ("the reader left", after_the_reader_left),
];

/// Node 2 doesn't know that it left, and has a promise of node 1. Node 3 joins, knows it, and has made no promise.
fn after_the_reader_left() -> State {
    let left = Budget { views: 9, writes: 1, reads: 1, ..NONE };
    let mut state = State::grown(false, 2, true, left);
    (state.now, state.left.waits) = (state.now + 3 * TERM, 0);
    state.apply(Move::Renew(2, 1));
    let left_by_2 = |group: &Group| !group.is_on_path(2);
    let at = state.views().iter().position(left_by_2).unwrap();
    state.apply(Move::View(at));
    state.apply(Move::Learn(3));
    let joins = |group: &Group| group.joining == [3];
    let at = state.views().iter().position(joins).unwrap();
    state.apply(Move::View(at));
    (state.left.views, state.left.waits) = (2, 0);
    // That node 3 is filled was said in the epoch before.
    for step in [Move::Learn(1), Move::Learn(3), Move::Deliver(3, 1)] {
        state.apply(step);
    }
    state
}

#[test]
fn no_state_breaks_anything() {
    let most = usize::try_from(number("GUIRA_CHAIN_STATES", 10_000)).unwrap();
    for (name, start) in STARTS {
        let it = search(start(), most);
        println!("{name}: {} states, which are all: {}", it.states, it.is_whole);
        assert_eq!(it.found, None, "{name}");
        assert!(it.is_whole || it.states >= most, "{name}");
    }
}

/// Mistakes, from where they are found, and within how many states. 469 and 36,337 were needed.
const FOUND_WITHIN: [(Mistake, &str, usize); 2] = [
    (Mistake::NoHold, "two views", 1_000),
    (Mistake::ReadyWhileHolding, "the reader left", 60_000),
];

#[test]
fn planted_mistakes_are_found() {
    for (mistake, name, within) in FOUND_WITHIN {
        let (_, start) = STARTS.into_iter().find(|it| it.0 == name).unwrap();
        plant(Some(mistake));
        let it = search(start(), within);
        plant(None);
        println!("{mistake:?}: {} states, {:?}", it.states, it.found);
        assert!(it.found.is_some(), "{mistake:?}: not in {within} states");
    }
}
