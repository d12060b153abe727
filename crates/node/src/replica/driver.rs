//! The driver: one thread that owns all slots of a node. It passes events to the slots, and carries out the actions that
//! they return.
//!
//! The driver decides nothing: `guira-chain` does, and the register that holds the view.
//!
//! # Invariants
//! 1. A slot's actions are carried out before anything else happens to the slot.
//! 2. After a failure of the engine nothing is carried out any more, and the process ends.
//! 3. What waits here is bounded: by what links and clients may have under way, and by [`QUEUED_BYTES_MAX`] of uncommitted
//!    effects.
//!
//! # Costs
//! A slot at rest is checked twice a minute: 16,384 slots take 550 frames per second, times the length of their chains. A
//! read of the device keeps all slots waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use guira_chain::frames::{Asked, PeerFrame, PeerHello};
use guira_chain::promises::{Promises, TERM};
use guira_chain::slot::{
    Around, ClientId, Message, REPEATED, Slot, SlotAction, SlotEvent, Told, WriteKind,
};
use guira_chain::{Chart, Group, NodeId, SLOTS, View};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::event::{Ask, Event};
use super::figures::{Counted, ReplicaBoard, ReplicaFigures, Seen};
use super::holds::Holds;
use super::keeper::Keeper;
use super::membership::Membership;
use super::role_log::log_role;
use super::survey::Survey;
use crate::engine::Engine;
use crate::peers::{Arrived, Peers, Unsent, is_front};

/// See the module's head.
pub(super) struct Driver<E> {
    me: PeerHello,
    keeper: Keeper<E>,
    peers: Peers,
    /// The runtime that the links are in.
    links: tokio::runtime::Handle,
    chart: watch::Sender<Option<Arc<Chart>>>,
    promises: Promises,
    slots: Vec<Slot>,
    rests: Vec<Rest>,
    /// Slots in which reads wait.
    reading: BTreeSet<u16>,
    holds: Holds,
    queued_bytes: usize,
    asks: HashMap<u64, oneshot::Sender<Told>>,
    /// Reads that wait: each with its end, its slot, the node that asks, and its number.
    reads: VecDeque<(u64, u16, NodeId, u64)>,
    /// The greatest epoch that each peer has named.
    epochs: BTreeMap<NodeId, u64>,
    /// What is still to be logged about this view: that this node is filled, and that the nodes that join are ready.
    untold: [bool; 2],
    renew_at: u64,
    asked_view_at: u64,
    /// The node's part in the register, if its views come from there.
    membership: Option<Membership>,
    counted: Counted,
    survey: Survey,
    board: Arc<ReplicaBoard>,
    show_at: u64,
}

/// When a slot is checked next, and the pause after that if nothing happens.
#[derive(Clone, Copy)]
struct Rest {
    due: u64,
    pause: u64,
}

impl<E: Engine> Driver<E> {
    /// Creates the driver of a node that knows no view. Its slots' numbers go on after what the keeper has reserved.
    pub(super) fn new(
        me: PeerHello,
        (keeper, first): (Keeper<E>, u64),
        (peers, links): (Peers, tokio::runtime::Handle),
        chart: watch::Sender<Option<Arc<Chart>>>,
        (membership, board): (Option<Membership>, Arc<ReplicaBoard>),
    ) -> Self {
        let now = clock();
        // The chain waits for what the engine calls durable, whatever `--durability` means by it.
        let slots = (0..SLOTS).map(|_| Slot::new(me.node, true, first, now)).collect();
        let rests = vec![Rest { due: now, pause: PAUSE_MIN }; usize::from(SLOTS)];
        Self {
            me,
            keeper,
            peers,
            links,
            chart,
            promises: Promises::new(now),
            slots,
            rests,
            reading: BTreeSet::new(),
            holds: Holds::default(),
            queued_bytes: 0,
            asks: HashMap::new(),
            reads: VecDeque::new(),
            epochs: BTreeMap::new(),
            untold: [false; 2],
            renew_at: 0,
            asked_view_at: 0,
            membership,
            counted: Counted::default(),
            survey: Survey::default(),
            board,
            show_at: 0,
        }
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// A sentence: the engine failed.
    pub(super) async fn work(
        mut self,
        mut events: UnboundedReceiver<Event>,
        mut arrivals: UnboundedReceiver<Arrived>,
    ) -> Result<(), String> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut arrived = Vec::new();
        loop {
            tokio::select! {
                _ = looks.tick() => self.look(),
                event = events.recv() => match event {
                    None | Some(Event::Stop) => return Ok(()),
                    Some(event) => self.take(event),
                },
                // Many at once: peers send many.
                _ = arrivals.recv_many(&mut arrived, ARRIVED_AT_ONCE) => {
                    arrived.drain(..).for_each(|it| self.hear(it.from, it.frame));
                }
            }
            if let Some(failure) = self.keeper.failure() {
                return Err(format!("the store fails, so this node leaves its chains: {failure}"));
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Ask(ask) => self.ask(*ask),
            Event::Landed { slot, term, seq, result } => {
                self.keeper.landed((slot, term, seq), result);
                if slot < SLOTS {
                    self.step_landed(slot);
                }
            }
            Event::View(view, source) => self.learn(*view, source),
            Event::Stop => {}
        }
    }

    fn ask(&mut self, ask: Ask) {
        let Ask { to, slot, epoch, number, asked, reply } = ask;
        if to != self.me.node {
            let sent = self.peers.send(to, &PeerFrame::Ask { slot, epoch, number, asked });
            if sent.is_ok() {
                self.asks.insert(number, reply);
            }
            return;
        }
        self.asks.insert(number, reply);
        self.answer(to, (slot, epoch, number), asked);
    }

    /// Answers a request that comes from a client of the node `from`.
    fn answer(&mut self, from: NodeId, (slot, epoch, number): (u16, u64, u64), asked: Asked) {
        match asked {
            Asked::Read { key } => self.read(from, (slot, epoch, number), key, false),
            Asked::Write { .. }
                if self.queued_bytes > QUEUED_BYTES_MAX || self.keeper.is_burdened() =>
            {
                self.tell(from, number, Told::Busy);
            }
            Asked::Write { id, is_repeated, key, command } => {
                let wanted = WriteKind::Command(command);
                let event = SlotEvent::Write { from, epoch, id, is_repeated, key, wanted };
                self.step(slot, event);
            }
        }
    }

    fn read(
        &mut self,
        from: ClientId,
        (slot, epoch, id): (u16, u64, u64),
        key: Vec<u8>,
        holds: bool,
    ) {
        self.reads.push_back((clock() + REPEATED, slot, from, id));
        self.step(slot, SlotEvent::Read { from, epoch, id, key, holds });
        if self.slots[usize::from(slot)].waiting_reads() == 0 {
            self.reads.pop_back();
        }
    }

    /// Takes a front-end's frame.
    fn hear_front(&mut self, from: ClientId, frame: PeerFrame) {
        match frame {
            PeerFrame::Hold { slot, epoch, number, key } => {
                let place = self.chart.borrow().as_ref().and_then(|it| Some(it.place(&key)?.0));
                let may_hold = place == Some(slot) && self.holds.has_room();
                self.read(from, (slot, epoch, number), key, may_hold);
            }
            PeerFrame::Invalidated { slot, number, key } => {
                self.counted.invalidations_answered += 1;
                self.step(slot, SlotEvent::Invalidated { from, id: number, key });
            }
            // The link lets no other frame through.
            _ => {}
        }
    }

    fn tell(&mut self, client: ClientId, number: u64, told: Told) {
        self.counted.told(&told);
        if client != self.me.node {
            // Without a link the client asks again.
            let _ = self.peers.send(client, &PeerFrame::Told { number, told });
        } else if let Some(reply) = self.asks.remove(&number) {
            // Perhaps the client waits no longer.
            let _ = reply.send(told);
        }
    }

    /// Takes a peer's frame.
    fn hear(&mut self, from: NodeId, frame: PeerFrame) {
        if is_front(from) {
            self.hear_front(from, frame);
            return;
        }
        match frame {
            PeerFrame::Hello(hello) => {
                self.note_epoch(from, hello.epoch);
                // Frames that were under way may be lost.
                self.wake(from);
            }
            PeerFrame::Slot { slot, epoch, message } => {
                self.note_epoch(from, epoch);
                self.counted.received(&message);
                let is_load = matches!(message, Message::Effect(_) | Message::Copy(_));
                // A frame that can't be taken now is as good as lost: it is sent again.
                if !is_load || !self.keeper.is_burdened() {
                    self.step(slot, SlotEvent::Peer(from, epoch, message));
                }
            }
            PeerFrame::Renew { epoch, asked, run, has_old_holds } => {
                self.note_epoch(from, epoch);
                if !self.promises.grant(from, epoch, has_old_holds, clock()) {
                    self.counted.promises_refused += 1;
                } else {
                    self.counted.promises_granted += 1;
                    let _ = self.peers.send(from, &PeerFrame::Granted { asked, run });
                }
            }
            PeerFrame::Granted { asked, run } if run == self.me.run => {
                self.promises.granted(from, asked, clock());
                self.go_on();
            }
            PeerFrame::AskView => {
                let known = self.chart.borrow().clone();
                if let Some(known) = known {
                    let _ =
                        self.peers.send(from, &PeerFrame::View(Box::new(View::clone(&known.view))));
                }
            }
            PeerFrame::View(view) => self.learn(*view, &format!("node {from}")),
            PeerFrame::Ask { slot, epoch, number, asked } => {
                self.note_epoch(from, epoch);
                self.answer(from, (slot, epoch, number), asked);
            }
            PeerFrame::Told { number, told } => {
                if let Some(reply) = self.asks.remove(&number) {
                    let _ = reply.send(told);
                }
            }
            // Front-ends ask nodes for holds; nodes don't ask each other.
            PeerFrame::Granted { .. }
            | PeerFrame::Hold { .. }
            | PeerFrame::Held { .. }
            | PeerFrame::Invalidate { .. }
            | PeerFrame::Invalidated { .. } => {}
        }
    }

    /// Records an epoch that a peer named: of its view, or of a slot.
    fn note_epoch(&mut self, from: NodeId, epoch: u64) {
        let known = self.epochs.entry(from).or_default();
        if epoch > std::mem::replace(known, epoch.max(*known)) {
            // The peer may accept now what it refused.
            self.wake(from);
        }
        let (own, now) = (self.epoch(), clock());
        if epoch > own && now >= self.asked_view_at {
            self.asked_view_at = now + ASK_VIEW_EVERY;
            let _ = self.peers.send(from, &PeerFrame::AskView);
        }
    }

    fn epoch(&self) -> u64 {
        self.chart.borrow().as_ref().map_or(0, |chart| chart.view.epoch)
    }

    /// Does what is due now.
    fn look(&mut self) {
        let now = clock();
        for slot in self.holds.slots() {
            // Terms run out, and then changes go on.
            self.step(slot, SlotEvent::Synced(0));
        }
        if now >= self.renew_at || self.holds.is_news(&self.slots) {
            self.renew_at = now + TERM / 4;
            self.renew(now);
            self.tell_progress();
            self.tell_register();
        }
        if now >= self.show_at {
            self.show_at = now + SHOW_EVERY;
            self.show(now);
        }
        self.asks.retain(|_, reply| !reply.is_closed());
        while let Some((_, slot, from, id)) = self.reads.pop_front_if(|it| it.0 <= now) {
            self.step(slot, SlotEvent::GaveUp { from, id });
        }
        self.keeper.look(now);
        for slot in 0..SLOTS {
            let rest = &mut self.rests[usize::from(slot)];
            if rest.due <= now {
                rest.pause = (rest.pause * 2).min(PAUSE_MAX);
                rest.due = now + rest.pause;
                self.step(slot, SlotEvent::Tick);
            }
        }
    }

    /// Shows the figures to those who read them.
    fn show(&mut self, now: u64) {
        let chart = self.chart.borrow().clone();
        let epoch = self.epoch();
        let is_named = |chart: &Arc<Chart>| chart.view.names(self.me.node, &self.me.run);
        let seen = match chart.filter(is_named) {
            Some(chart) => {
                self.survey.look(self.me.node, (&chart, &self.slots, &self.promises), now)
            }
            None => Seen { epoch, ..Seen::default() },
        };
        let is_leader = self.membership.as_ref().is_some_and(Membership::leads);
        let refused_links = self.peers.refused().len() as u64;
        let (holds, hold_bytes) = self.holds.figures();
        let seen = Seen { is_leader, refused_links, holds, hold_bytes, ..seen };
        self.board.show(ReplicaFigures { counted: self.counted, seen });
    }

    fn renew(&mut self, now: u64) {
        let Some(epoch) = self.promises.asks(now) else { return };
        let Some(chart) = self.chart.borrow().clone() else { return };
        let (run, has_old_holds) = (self.me.run.clone(), self.holds.has_old(&self.slots));
        self.holds.said(has_old_holds);
        for peer in chart.view.nodes.keys().filter(|peer| **peer != self.me.node) {
            let run = run.clone();
            let frame = PeerFrame::Renew { epoch, asked: now, run, has_old_holds };
            let _ = self.peers.send(*peer, &frame);
        }
    }

    /// Lets reads go on that waited, because promises came.
    fn go_on(&mut self) {
        for slot in self.reading.clone() {
            self.step(slot, SlotEvent::Synced(0));
        }
    }

    /// Checks soon the slots in which this node follows a peer, because the peer is to be told about them.
    fn wake(&mut self, peer: NodeId) {
        let now = clock();
        for slot in (0..SLOTS).filter(|slot| self.slots[usize::from(*slot)].follows(peer)) {
            self.rests[usize::from(slot)] = Rest { due: now + spread(slot), pause: PAUSE_MIN / 2 };
        }
    }

    /// Passes an event to a slot, and carries out its actions.
    fn step(&mut self, slot: u16, event: SlotEvent) {
        let Some(state) = self.slots.get_mut(usize::from(slot)) else { return };
        let (now, min_write) =
            (clock(), self.chart.borrow().as_ref().map_or(1, |chart| chart.view.min_write));
        let shelf = self.keeper.shelf(slot);
        let min_write = usize::try_from(min_write).unwrap_or(usize::MAX);
        let around = Around { promises: &self.promises, contents: &shelf, min_write };
        let (before, held) = (state.queued_bytes(), state.holds_granted());
        let actions = state.step(around, event, now);
        self.queued_bytes = self.queued_bytes.saturating_sub(before) + state.queued_bytes();
        self.holds.note(slot, held, state);
        self.carry_out(slot, actions);
        self.step_landed(slot);
    }

    /// Tells a slot what has landed, and notes whether something waits in it.
    fn step_landed(&mut self, slot: u16) {
        if let Some(upto) = self.keeper.take_landed(slot) {
            self.step(slot, SlotEvent::Synced(upto));
            return;
        }
        let (now, state) = (clock(), &self.slots[usize::from(slot)]);
        let (_, committed) = state.progress();
        let shelf = self.keeper.shelf(slot);
        let around = Around { promises: &self.promises, contents: &shelf, min_write: 1 };
        if state.waiting_reads() > 0 {
            self.reading.insert(slot);
        } else {
            self.reading.remove(&slot);
        }
        let rest = &mut self.rests[usize::from(slot)];
        if state.has_waiting() {
            *rest = Rest { due: rest.due.min(now + PAUSE_MIN), pause: PAUSE_MIN / 2 };
        } else if !state.is_settled(around, now) {
            let (due, pause) = (rest.due.min(now + PAUSE_OPEN), rest.pause.min(PAUSE_OPEN / 2));
            *rest = Rest { due, pause };
        }
        self.keeper.note_committed(slot, committed);
    }

    fn carry_out(&mut self, slot: u16, actions: Vec<SlotAction>) {
        let epoch = self.slots[usize::from(slot)].epoch();
        // The hold that goes with the next answer.
        let mut granted = 0;
        for action in actions {
            if self.keeper.failure().is_some() {
                return;
            }
            match action {
                SlotAction::Send(to, message) => {
                    let frame = PeerFrame::Slot { slot, epoch, message };
                    match (self.peers.send(to, &frame), &frame) {
                        (Ok(()), PeerFrame::Slot { message, .. }) => self.counted.sent(message),
                        (Err(Unsent::Bad(why)), _) => {
                            tracing::error!("slot {slot} can't be sent to node {to}: {why}");
                        }
                        _ => self.counted.unsent += 1,
                    }
                }
                SlotAction::Apply(effect) => self.keeper.apply(slot, effect),
                SlotAction::Replace(items, last) => {
                    self.counted.took(&items);
                    self.keeper.replace(slot, items, last);
                }
                SlotAction::Answer(client, number, _) if is_front(client) => {
                    let term = std::mem::take(&mut granted);
                    self.counted.held(term);
                    // Without a link the front-end asks again.
                    let _ = self.peers.send_front(client, &PeerFrame::Held { number, term });
                }
                SlotAction::Answer(client, number, told) => self.tell(client, number, told),
                SlotAction::Hold(_, _, term) => granted = term,
                SlotAction::Invalidate(client, number, key) => {
                    self.counted.invalidations_sent += 1;
                    // Without a link its term runs out.
                    let frame = PeerFrame::Invalidate { slot, number, key };
                    let _ = self.peers.send_front(client, &frame);
                }
            }
        }
    }

    /// Follows a view, if that is allowed.
    fn learn(&mut self, view: View, source: &str) {
        if view.is_draft() {
            tracing::info!(
                "the view from {source} names no process yet: this one is run {}",
                self.me.run
            );
            return;
        }
        let known = self.chart.borrow().clone();
        let refused = match &known {
            Some(known) if *known.view == view => return,
            // A peer sent a newer view before etcd did. An older view in a file goes on to the check, because somebody put
            // it there.
            Some(known) if self.membership.is_some() && view.epoch < known.view.epoch => return,
            Some(known) => view.may_replace(&known.view).err().map(|why| why.to_string()),
            None => None,
        };
        let is_other = !self.keeper.is_of(&view);
        if let Some(why) = refused.or_else(|| is_other.then(|| "it is another cluster's".into())) {
            tracing::warn!("the view of epoch {} from {source} isn't followed: {why}", view.epoch);
            return;
        }
        self.counted.views += 1;
        let is_member = view.names(self.me.node, &self.me.run);
        log_role(&self.me, &view, is_member, self.membership.is_some());
        self.promises.set_epoch(view.epoch);
        self.peers.set_epoch(view.epoch);
        let addresses = view.nodes.iter().map(|(node, it)| (*node, it.peers.clone())).collect();
        {
            let _links = self.links.enter();
            self.peers.set_addresses(&addresses);
        }
        let chart = Arc::new(Chart::of(Arc::new(view)));
        self.chart.send_replace(Some(Arc::clone(&chart)));
        let now = clock();
        for slot in 0..SLOTS {
            let Some(group) = chart.group(slot) else { continue };
            let state = &mut self.slots[usize::from(slot)];
            if group.epoch > state.epoch() {
                let before = state.queued_bytes();
                let actions = state.set_group(group, is_member, now);
                self.queued_bytes = self.queued_bytes.saturating_sub(before) + state.queued_bytes();
                self.carry_out(slot, actions);
                self.rests[usize::from(slot)] =
                    Rest { due: now + spread(slot), pause: PAUSE_MIN / 2 };
            }
        }
        self.untold = [is_member; 2];
        self.look();
    }

    /// Tells the register how far the slots have come, and which nodes can't be reached.
    fn tell_register(&mut self) {
        let chart = self.chart.borrow().clone();
        if let (Some(membership), Some(chart)) = (&mut self.membership, chart) {
            membership.tell(&self.me, &chart, (&self.slots, &self.peers.refused()));
        }
    }

    /// Logs how far this view has come, for the operator, who changes views.
    fn tell_progress(&mut self) {
        let Some(chart) = self.chart.borrow().clone().filter(|_| self.untold != [false; 2]) else {
            return;
        };
        let (me, epoch) = (self.me.node, chart.view.epoch);
        let of = |slot: u16| chart.group(slot).map(|group| (group, &self.slots[usize::from(slot)]));
        let own = (0..SLOTS).filter_map(of).filter(|it| it.0.members().any(|node| node == me));
        let joined = own
            .clone()
            .filter(|(group, _)| group.reader() == Some(me) && !group.joining.is_empty());
        if self.untold[0]
            && own.clone().next().is_some()
            && own.clone().all(|(_, slot)| slot.is_filled())
        {
            self.untold[0] = false;
            tracing::info!("epoch {epoch}: node {me} is filled");
        }
        let is_ready = |(group, slot): (&Group, &Slot)| {
            group.joining.iter().all(|node| slot.ready().contains(node))
        };
        if self.untold[1] && joined.clone().next().is_some() && joined.clone().all(is_ready) {
            self.untold[1] = false;
            tracing::info!(
                "epoch {epoch}: those that join have all that node {me} has: they may serve"
            );
        }
    }
}

/// A delay, so that not all slots are checked at one moment. Microseconds.
fn spread(slot: u16) -> u64 {
    u64::from(slot) * 4
}

/// Microseconds of a clock that nobody sets, and that goes on while the machine is suspended.
pub(super) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}

/// How often due work is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How often a slot is checked in which something waits. Microseconds, as below.
const PAUSE_MIN: u64 = 200_000;
/// How often a slot is checked in which no client waits, but that isn't at rest: it is to be filled, or it holds.
const PAUSE_OPEN: u64 = 1_600_000;
/// How often a slot at rest is checked.
const PAUSE_MAX: u64 = 30_000_000;
/// How often the figures are shown.
const SHOW_EVERY: u64 = 1_000_000;
const ARRIVED_AT_ONCE: usize = 256;
const ASK_VIEW_EVERY: u64 = 100_000;
/// Writes are refused while the uncommitted effects of all slots have more bytes than this.
const QUEUED_BYTES_MAX: usize = 64 << 20;
