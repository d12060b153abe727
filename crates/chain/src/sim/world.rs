//! The nodes, links, clocks and disks of the simulation.

use super::register::Operation;
use super::weather::{Disk, NODES, Random, Weather};
use crate::controller::Wish;
use crate::planted::{Mistake, is_planted};
use crate::promises::Promises;
use crate::slot::{
    Around, ClientId, Effect, Message, Slot, SlotAction, SlotEvent, Stand, Told, Version,
};
use crate::view::{NodeId, View};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

pub(super) struct Node {
    pub(super) run: u64,
    pub(super) is_up: bool,
    pub(super) stopped_until: u64,
    pub(super) etcd_cut_until: u64,
    rate: u64,
    offset: u64,
    promises: Promises,
    pub(super) slot: Slot,
    pub(super) disk: Disk,
    synced: Disk,
    is_dirty: bool,
    /// The content on its way to the disk, with a number that identifies the sync.
    under_way: Option<(u64, Disk)>,
}

impl Node {
    pub(super) fn clock(&self, now: u64) -> u64 {
        self.offset + now * self.rate / 1000
    }
}

#[derive(Debug, Clone)]
pub(super) enum Happening {
    /// A message to a node: receiver, sender, the slot's epoch, and the message.
    Peer(NodeId, NodeId, u64, Message),
    /// A request for a promise: receiver, sender, epoch, the sender's time and run, and whether old holds may run.
    Renew(NodeId, NodeId, u64, (u64, u64), bool),
    Granted(NodeId, NodeId, u64, u64),
    Client(NodeId, SlotEvent),
    Tick(NodeId, u64),
    Sync(NodeId, u64),
    Learn(NodeId),
    Restart(NodeId),
    /// An answer to a client. The simulation itself handles this and all that follow, and `Restart`; nodes handle the
    /// others.
    Answer(ClientId, u64, Told),
    /// A hold for a client: the read's number, and the term.
    Hold(ClientId, u64, u64),
    /// A node asks a client to drop a value: the client, the node, the number of the hold, and the key.
    Invalidate(ClientId, NodeId, u64, Vec<u8>),
    Retry(ClientId, u64, u64),
    Begin(ClientId),
    Control,
    Nemesis,
}

impl Happening {
    fn node(&self) -> Option<NodeId> {
        match self {
            Self::Peer(node, ..) | Self::Renew(node, ..) | Self::Granted(node, ..) => Some(*node),
            Self::Client(node, _) | Self::Tick(node, _) | Self::Sync(node, _) => Some(*node),
            Self::Learn(node) => Some(*node),
            _ => None,
        }
    }

    /// The client that handles it.
    pub(super) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Answer(client, ..) | Self::Hold(client, ..) => Some(*client),
            Self::Invalidate(client, ..) | Self::Retry(client, ..) | Self::Begin(client) => {
                Some(*client)
            }
            _ => None,
        }
    }
}

/// A happening and its time. If two have the same time, the one that was planned first comes first.
struct Due {
    order: Reverse<(u64, u64)>,
    what: Happening,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Due {}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

pub(super) struct World {
    pub(super) random: Random,
    /// For what concerns holds only. So worlds without holds are the same as before there were any.
    pub(super) luck: Random,
    pub(super) now: u64,
    pub(super) weather: Weather,
    pub(super) nodes: Vec<Node>,
    pub(super) view: View,
    pub(super) cuts: BTreeMap<(u32, u32), u64>,
    links: BTreeMap<(u32, u32), u64>,
    todo: BinaryHeap<Due>,
    serial: u64,
    effects: BTreeMap<Version, Effect>,
    pub(super) clients: Vec<super::clients::Client>,
    pub(super) histories: Vec<Vec<Operation>>,
    pub(super) past_since: u64,
    pub(super) wish: Wish,
    /// Nodes that the controller takes for dead, each until a time.
    pub(super) suspected: BTreeMap<NodeId, u64>,
    /// Whether faults have ended.
    pub(super) is_calm: bool,
    pub(super) trace: u64,
    pub(super) broken: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, view: View) -> Self {
        let mut random = Random(seed);
        let mut luck = Random(!seed);
        let weather = Weather::draw(&mut random, &mut luck);
        let mut nodes = Vec::new();
        for id in 1..=NODES {
            let (rate, offset) = (random.of(991..1010), random.of(0..1 << 40));
            let promises = Promises::new(offset);
            let slot = Slot::new(id, weather.waits_for_disk, 0, offset);
            let (disk, synced) = (Disk::default(), Disk::default());
            let (run, is_up, stopped_until, etcd_cut_until) = (0, true, 0, 0);
            nodes.push(Node {
                run,
                is_up,
                stopped_until,
                etcd_cut_until,
                rate,
                offset,
                promises,
                slot,
                disk,
                synced,
                is_dirty: false,
                under_way: None,
            });
        }
        let mut world = Self {
            random,
            luck,
            now: 0,
            weather,
            nodes,
            view,
            cuts: BTreeMap::new(),
            links: BTreeMap::new(),
            todo: BinaryHeap::new(),
            serial: 0,
            effects: BTreeMap::new(),
            clients: Vec::new(),
            histories: Vec::new(),
            past_since: 0,
            wish: Wish { replicas: 3, ..Wish::default() },
            suspected: BTreeMap::new(),
            is_calm: false,
            trace: 0,
            broken: None,
        };
        for id in 1..=NODES {
            world.at(world.random.0 % 1000, Happening::Learn(id));
            world.at(1000 * u64::from(id), Happening::Tick(id, 0));
        }
        world
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    pub(super) fn at(&mut self, delay: u64, what: Happening) {
        self.serial += 1;
        self.todo.push(Due { order: Reverse((self.now + delay, self.serial)), what });
    }

    /// Sends over a link that keeps the order, unless the message is lost.
    pub(super) fn send(&mut self, from: u32, to: u32, what: Happening) {
        let is_cut = self.cuts.get(&(from, to)).is_some_and(|until| self.now < *until);
        if is_cut || self.random.percent(self.weather.loss) {
            return;
        }
        let most = if self.random.percent(self.weather.late) { 1_500_000 } else { 5_000 };
        let slow = self.weather.slow_link.filter(|it| (it.0, it.1) == (from, to));
        let delay = self.random.of(100..most) + slow.map_or(0, |it| it.2);
        let last = self.links.entry((from, to)).or_default();
        *last = (*last + 1).max(self.now + delay);
        let delay = *last - self.now;
        self.at(delay, what);
    }

    /// Runs until a happening that no node handles, and returns it. `None` after `until`, or once an invariant is
    /// broken.
    pub(super) fn run(&mut self, until: u64) -> Option<Happening> {
        while let Some(due) = self.todo.pop() {
            let Reverse((time, serial)) = due.order;
            if time > until || self.broken.is_some() {
                self.todo.push(due);
                return None;
            }
            let what = due.what;
            self.now = time;
            self.trace = (self.trace ^ time ^ serial).wrapping_mul(0x0100_0000_01b3);
            let Some(id) = what.node() else { return Some(what) };
            let node = self.node(id);
            if node.is_up && node.stopped_until > time {
                let delay = node.stopped_until - time;
                self.at(delay, what);
            } else if node.is_up {
                self.happen(id, what);
                self.check();
            }
        }
        None
    }

    fn happen(&mut self, id: NodeId, what: Happening) {
        let now = self.now;
        let (clock, run) = (self.node(id).clock(now), self.node(id).run);
        match what {
            Happening::Peer(_, from, epoch, message) => {
                if epoch > self.node(id).slot.epoch() {
                    self.at(500, Happening::Learn(id));
                }
                self.step(id, SlotEvent::Peer(from, epoch, message));
            }
            Happening::Renew(_, from, epoch, (asked, run), holds) => {
                if self.node(id).promises.grant(from, epoch, holds, clock) {
                    self.send(id, from, Happening::Granted(from, id, asked, run));
                }
                self.step(id, SlotEvent::Tick);
            }
            Happening::Granted(_, from, asked, of) if of == run => {
                self.node(id).promises.granted(from, asked, clock);
                self.step(id, SlotEvent::Synced(0));
            }
            Happening::Client(_, event) => match self.read_directly(id, &event) {
                Some(answer) => self.act(id, vec![answer]),
                None => self.step(id, event),
            },
            Happening::Tick(_, of) if of == run => self.tick(id),
            Happening::Sync(_, serial) => self.synced(id, serial),
            Happening::Learn(_) if self.node(id).etcd_cut_until <= now => self.learn(id),
            _ => {}
        }
    }

    fn tick(&mut self, id: NodeId) {
        let now = self.now;
        let (clock, run) = (self.node(id).clock(now), self.node(id).run);
        let holds = self.node(id).slot.has_old_holds();
        if let Some(epoch) = self.node(id).promises.asks(clock) {
            for peer in (1..=NODES).filter(|peer| *peer != id) {
                self.send(id, peer, Happening::Renew(peer, id, epoch, (clock, run), holds));
            }
        }
        if self.random.percent(10) {
            self.at(100, Happening::Learn(id));
        }
        self.step(id, SlotEvent::Tick);
        self.at(200_000, Happening::Tick(id, run));
    }

    fn learn(&mut self, id: NodeId) {
        let (epoch, group) = (self.view.epoch, self.group().clone());
        let run = self.node(id).run.to_string();
        let is_member = self.view.names(id, &run);
        let now = self.now;
        let clock = self.node(id).clock(now);
        let node = self.node(id);
        node.promises.set_epoch(epoch);
        let actions = node.slot.set_group(&group, is_member, clock);
        self.act(id, actions);
        self.step(id, SlotEvent::Tick);
    }

    fn step(&mut self, id: NodeId, event: SlotEvent) {
        let now = self.now;
        let clock = self.node(id).clock(now);
        let min_write = self.view.min_write as usize;
        let Node { slot, promises, disk, .. } = self.node(id);
        let actions = slot.step(Around { promises, contents: disk, min_write }, event, clock);
        self.act(id, actions);
    }

    /// Answers a read as a thread does that doesn't own the slot, if the slot is open: see [`crate::direct`].
    fn read_directly(&mut self, id: NodeId, event: &SlotEvent) -> Option<SlotAction> {
        let SlotEvent::Read { from, epoch, id: number, key, holds: false } = event else {
            return None;
        };
        let now = self.now;
        let clock = self.node(id).clock(now);
        let Node { slot, promises, disk, .. } = self.node(id);
        let around = Around { promises, contents: disk, min_write: 1 };
        let mut others = slot.group().path().filter(|node| *node != id);
        let may = slot.epoch() == *epoch && slot.is_open(around, clock);
        if !may || !others.all(|node| promises.has(node, clock)) {
            return None;
        }
        let found = disk.items.get(key).and_then(|it| Some((it.value.clone()?, it.version.seq)));
        Some(SlotAction::Answer(*from, *number, Told::Read(found)))
    }

    fn act(&mut self, id: NodeId, actions: Vec<SlotAction>) {
        let epoch = self.node(id).slot.epoch();
        let mut is_changed = false;
        for action in actions {
            match action {
                SlotAction::Send(to, message) => {
                    self.send(id, to, Happening::Peer(to, id, epoch, message));
                }
                SlotAction::Apply(effect) => {
                    is_changed = true;
                    let disk = &mut self.node(id).disk;
                    disk.last = effect.version.seq;
                    if let Some(value) = effect.change.clone() {
                        let version = effect.version;
                        disk.items.insert(effect.key.clone(), Stand { value, version });
                    }
                    let same = self.effects.entry(effect.version).or_insert_with(|| effect.clone());
                    if *same != effect && !is_planted(Mistake::ResendForgetsDelete) {
                        self.broken = Some(format!("{effect:?} on {id} is {same:?} elsewhere"));
                    }
                }
                SlotAction::Replace(items, last) => {
                    is_changed = true;
                    self.node(id).disk = Disk { last, items: items.into_iter().collect() };
                    self.node(id).under_way = None;
                }
                SlotAction::Answer(client, number, told) => {
                    self.send(id, 100 + client, Happening::Answer(client, number, told));
                }
                SlotAction::Hold(client, number, term) => {
                    self.send(id, 100 + client, Happening::Hold(client, number, term));
                }
                SlotAction::Invalidate(client, number, key) => {
                    let what = Happening::Invalidate(client, id, number, key);
                    self.send(id, 100 + client, what);
                }
            }
        }
        if is_changed {
            self.node(id).is_dirty = true;
            self.sync(id);
        }
    }

    /// Begins a sync of the present content, unless one is under way.
    fn sync(&mut self, id: NodeId) {
        let slow = self.weather.is_slow_disk(id).then_some(self.weather.sync_max);
        let delay = self.random.of(200..slow.unwrap_or(8_000));
        let serial = self.serial;
        let node = self.node(id);
        if node.under_way.is_none() && std::mem::take(&mut node.is_dirty) {
            node.under_way = Some((serial, node.disk.clone()));
            self.at(delay, Happening::Sync(id, serial));
        }
    }

    fn synced(&mut self, id: NodeId, serial: u64) {
        let node = self.node(id);
        if let Some((_, disk)) = node.under_way.take_if(|it| it.0 == serial) {
            node.synced = disk;
            let last = node.synced.last;
            self.step(id, SlotEvent::Synced(last));
            self.sync(id);
        }
    }

    /// Ends a process. With `power`, its disk loses what isn't synced; otherwise everything written stays.
    pub(super) fn crash(&mut self, id: NodeId, power: bool) {
        let node = self.node(id);
        (node.is_up, node.is_dirty, node.under_way) = (false, false, None);
        if power {
            node.disk = node.synced.clone();
        } else {
            node.synced = node.disk.clone();
        }
    }

    pub(super) fn restart(&mut self, id: NodeId) {
        let (now, waits_for_disk) = (self.now, self.weather.waits_for_disk);
        let node = self.node(id);
        (node.is_up, node.stopped_until) = (true, 0);
        node.run += 1;
        let (clock, run) = (node.clock(now), node.run);
        node.promises = Promises::new(clock);
        node.slot = Slot::new(id, waits_for_disk, node.disk.last, clock);
        let delay = self.random.of(1_000..100_000);
        self.at(delay, Happening::Learn(id));
        self.at(10, Happening::Tick(id, run));
    }

    /// Checks what must hold along the chain of the newest view after each event.
    fn check(&mut self) {
        let group = self.group();
        let of = |id: NodeId| &self.nodes[id as usize - 1].slot;
        let current = |id: &NodeId| of(*id).epoch() == group.epoch && of(*id).is_filled();
        let path: Vec<NodeId> = group.path().filter(current).collect();
        let ordered =
            path.windows(2).all(|pair| of(pair[0]).progress().0 >= of(pair[1]).progress().0);
        let committed = path.iter().map(|id| of(*id).progress().1).max().unwrap_or(0);
        let serves = |id: &&NodeId| group.serving.contains(id);
        let has_all = path.iter().filter(serves).all(|id| of(*id).progress().0 >= committed);
        if !(ordered && has_all) {
            let progress: Vec<_> = path.iter().map(|id| (id, of(*id).progress())).collect();
            self.broken = Some(format!("{group:?}: members have {progress:?}"));
        }
    }
}
