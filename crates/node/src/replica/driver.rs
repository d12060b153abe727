//! The driver: one thread that owns all slots of a node. It passes events to the slots, and carries out the actions that
//! they return.
//!
//! The driver decides nothing: `guira-chain` does, and the register that holds the view.
//!
//! # Invariants
//! 1. A slot's actions are carried out before anything else happens to the slot.
//! 2. After a failure of the engine nothing is carried out any more, and the process ends.
//! 3. Other threads read a slot directly only while nothing of it is held and all is committed: see
//!    [`guira_chain::direct`].
//! 4. What waits here is bounded: by what links and clients may have under way, and by [`QUEUED_BYTES_MAX`] of uncommitted
//!    effects.
//!
//! # Costs
//! A slot that has been at rest for long is checked each sixteen minutes: 16,384 slots take 17 checks per second, of a frame
//! or three each. Twice a second a node asks for promises, and four times a second while it is read from: those nodes with which
//! it shares a chain. Otherwise a node without requests does nothing that costs more with more slots or nodes. The
//! driver reads the device for changes, for other nodes, for holds, and beside changes. Then all slots wait.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use guira_chain::direct::DirectReads;
use guira_chain::frames::{Asked, PeerFrame, PeerHello};
use guira_chain::promises::{Promises, TERM};
use guira_chain::slot::{Around, ClientId, REPEATED, Slot, SlotAction, SlotEvent, Told, WriteKind};
use guira_chain::{Chart, Group, NodeId, SLOTS};
use guira_cluster::Shortage;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::clock::clock;
use super::event::{Ask, Event};
use super::figures::{Counted, ReplicaBoard, ReplicaFigures, Seen};
use super::keeper::Keeper;
use super::membership::Membership;
use super::readiness::Readiness;
use super::requests::{Read, Requests};
use super::role_log::RoleLog;
use super::slots::Slots;
use super::survey::Survey;
use crate::engine::{Engine, EngineError};
use crate::peers::{Arrived, Peers, Unsent, is_front};

mod frames;
mod views;

/// See the module's head.
pub(super) struct Driver<E> {
    me: PeerHello,
    keeper: Keeper<E>,
    peers: Peers,
    /// The runtime that the links are in.
    links: tokio::runtime::Handle,
    chart: watch::Sender<Option<Arc<Chart>>>,
    promises: Promises,
    /// What other threads read without asking.
    direct: Arc<DirectReads>,
    slots: Slots,
    requests: Requests,
    /// The greatest epoch that each peer has named.
    epochs: BTreeMap<NodeId, u64>,
    /// What each peer named when it was last granted a promise: its epoch, and whether holds of older views may run.
    granted: BTreeMap<NodeId, (u64, bool)>,
    roles: RoleLog,
    renew_at: u64,
    /// Whether values were read since promises were asked for.
    has_read: bool,
    /// Until when these nodes are asked for promises.
    near: BTreeMap<NodeId, u64>,
    asked_view_at: u64,
    /// Whether a view was followed that names this process: others may rely on it.
    was_member: bool,
    /// The view that was refused last, by its epoch, and why.
    refused: Option<(u64, String)>,
    /// The node's part in the register, if its views come from there.
    membership: Option<Membership>,
    counted: Counted,
    survey: Survey,
    board: Arc<ReplicaBoard>,
    readiness: Arc<Readiness>,
    show_at: u64,
    /// Since when the device has no room for the copies that this node is to get.
    full_since: Option<u64>,
}

impl<E: Engine> Driver<E> {
    /// Creates the driver of a node that knows no view. Its slots' numbers go on after what the keeper has reserved.
    pub(super) fn new(
        me: PeerHello,
        (keeper, first): (Keeper<E>, u64),
        (peers, links): (Peers, tokio::runtime::Handle),
        (chart, direct): (watch::Sender<Option<Arc<Chart>>>, Arc<DirectReads>),
        (membership, board, readiness): (Option<Membership>, Arc<ReplicaBoard>, Arc<Readiness>),
    ) -> Self {
        let now = clock();
        let slots = Slots::new(me.node, first, now);
        Self {
            me,
            keeper,
            peers,
            links,
            chart,
            promises: Promises::new(now),
            direct,
            slots,
            requests: Requests::default(),
            epochs: BTreeMap::new(),
            granted: BTreeMap::new(),
            roles: RoleLog::of(membership.is_some()),
            renew_at: 0,
            has_read: false,
            near: BTreeMap::new(),
            asked_view_at: 0,
            was_member: false,
            refused: None,
            membership,
            counted: Counted::default(),
            survey: Survey::default(),
            board,
            readiness,
            show_at: 0,
            full_since: None,
        }
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// The engine failed.
    pub(super) async fn work(
        mut self,
        mut events: UnboundedReceiver<Event>,
        mut arrivals: UnboundedReceiver<Arrived>,
    ) -> Result<(), EngineError> {
        let mut arrived = Vec::new();
        // The next look, and the earliest one after the last.
        let (mut next, mut least) = (0, 0);
        let mut alarm = pin!(sleep_until(Instant::now()));
        loop {
            tokio::select! {
                () = &mut alarm => {
                    self.look();
                    next = u64::MAX;
                    least = clock() + LOOK_EVERY;
                }
                event = events.recv() => match event {
                    None | Some(Event::Stop) => return Ok(()),
                    Some(event) => self.take(event),
                },
                // The slots of a node that died wait until two others have told that.
                () = self.peers.next_refusal() => self.tell_progress(),
                // Many at once: peers send many.
                _ = arrivals.recv_many(&mut arrived, ARRIVED_AT_ONCE) => {
                    arrived.drain(..).for_each(|it| self.hear(it.from, it.frame));
                }
            }
            if let Some(failure) = self.keeper.failure() {
                return Err(failure);
            }
            let due = self.next_look().max(least);
            if due < next {
                next = due;
                let left = Duration::from_micros(due.saturating_sub(clock()));
                alarm.as_mut().reset(Instant::now() + left);
            }
        }
    }

    /// When [`Driver::look`] has something to do next. Whatever may end at any time is looked for as often as possible.
    fn next_look(&self) -> u64 {
        let is_copying = self.keeper.has_copies_due();
        if is_copying || !self.requests.is_empty() || !self.slots.holds.is_empty() {
            return 0;
        }
        self.renew_at.min(self.show_at).min(self.slots.next_time())
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
            Event::Keys(found) => self.keeper.collected(found),
            Event::Ahead(found) => self.keeper.came(found),
            Event::Stop => {}
        }
    }

    fn ask(&mut self, ask: Ask) {
        let Ask { to, slot, epoch, number, asked, reply } = ask;
        if to != self.me.node {
            let sent = self.peers.send(to, &PeerFrame::Ask { slot, epoch, number, asked });
            if sent.is_ok() {
                self.requests.ask(number, reply);
            }
            return;
        }
        self.requests.ask(number, reply);
        self.answer(to, (slot, epoch, number), asked);
    }

    /// Answers a request that comes from a client of the node `from`.
    fn answer(&mut self, from: NodeId, (slot, epoch, number): (u16, u64, u64), asked: Asked) {
        match asked {
            Asked::Read { key } => self.read(from, (slot, epoch, number), key, false),
            Asked::Write { .. }
                if self.slots.queued_bytes() > QUEUED_BYTES_MAX || self.keeper.is_burdened() =>
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
        self.has_read = true;
        self.step(slot, SlotEvent::Read { from, epoch, id, key, holds });
        if self.slots.get(slot).is_some_and(|it| it.waiting_reads() > 0) {
            self.requests.read(Read { until: clock() + REPEATED, slot, from, id });
        }
    }

    fn tell(&mut self, client: ClientId, number: u64, told: Told) {
        self.counted.told(&told);
        if client != self.me.node {
            let is_value = matches!(told, Told::Read(_));
            // Without a link the client asks again.
            let sent = self.peers.send(client, &PeerFrame::Told { number, told });
            if is_value && matches!(sent, Err(Unsent::Full(_))) {
                let _ = self.peers.send(client, &PeerFrame::Told { number, told: Told::Busy });
            }
        } else {
            self.requests.answer(number, told);
        }
    }

    fn epoch(&self) -> u64 {
        self.chart.borrow().as_ref().map_or(0, |chart| chart.view.epoch)
    }

    /// Does what is due now.
    fn look(&mut self) {
        let now = clock();
        for slot in self.slots.holds.slots() {
            // Terms run out, and then changes go on.
            self.step(slot, SlotEvent::Synced(0));
        }
        self.slots.look_at_holds(now);
        if now >= self.renew_at || self.slots.is_news_of_holds() {
            let has_read = std::mem::take(&mut self.has_read) | self.direct.take_were_any();
            let pause = if has_read { TERM / 4 } else { TERM / 2 };
            self.renew_at = now + pause;
            self.renew(now);
            self.tell_progress();
        }
        if now >= self.show_at {
            self.show_at = now + SHOW_EVERY;
            self.show(now);
            self.leave_if_full(now);
        }
        self.requests.tidy();
        while let Some(Read { slot, from, id, .. }) = self.requests.next_late(now) {
            self.step(slot, SlotEvent::GaveUp { from, id });
        }
        self.keeper.look(clock());
        while let Some(slot) = self.keeper.next_copy() {
            self.step(slot, SlotEvent::Synced(0));
            self.keeper.copied(slot);
        }
        while let Some(slot) = self.slots.next_due(now) {
            self.step(slot, SlotEvent::Tick);
        }
    }

    /// Ends the node if its device stays full while it is to get copies: others would wait for theirs behind it. It goes
    /// on where it may have the last copies.
    fn leave_if_full(&mut self, now: u64) {
        let me = self.me.node;
        let chart = self.chart.borrow().clone();
        let groups = chart.as_ref().map_or(&[][..], |chart| &chart.view.groups);
        let is_filled = |group: &Group| group.joining.contains(&me) || group.syncing.contains(&me);
        let is_needed = |group: &Group| group.serving.contains(&me) && group.serving.len() < 3;
        let is_waited_for = groups.iter().any(is_filled);
        if !is_waited_for || !self.keeper.is_full() || groups.iter().any(is_needed) {
            self.full_since = None;
            return;
        }
        let since = *self.full_since.get_or_insert(now);
        if now.saturating_sub(since) >= FULL_FOR {
            self.keeper.give_up_full();
        }
    }

    /// Shows the figures to those who read them.
    fn show(&mut self, now: u64) {
        let chart = self.chart.borrow().clone();
        let of = (&self.me, chart.as_deref());
        let seen = self.survey.look(of, &self.slots, &self.promises, now);
        let is_leader = self.membership.as_ref().is_some_and(Membership::leads);
        let refused_links = self.peers.refused().len() as u64;
        let (holds, hold_bytes, holds_run_out) = self.slots.holds.figures();
        let links_down = self.peers.links_down() as u64;
        let seen = Seen { is_leader, refused_links, links_down, ..seen };
        let short = self.membership.as_ref().map(Membership::shortage).unwrap_or_default();
        let Shortage { lost, read_only, degraded } = short;
        let [lost, read_only, degraded] = [lost, read_only, degraded].map(|it| it as u64);
        let seen = Seen { holds, hold_bytes, holds_run_out, lost, read_only, degraded, ..seen };
        self.board.show(ReplicaFigures { counted: self.counted, seen });
    }

    fn renew(&mut self, now: u64) {
        let Some(epoch) = self.promises.asks(now) else { return };
        let (run, has_old_holds) = (self.me.run.clone(), self.slots.has_old_holds());
        self.slots.holds.said(has_old_holds);
        self.near.retain(|_, until| now < *until);
        for peer in self.near.keys() {
            let run = run.clone();
            let frame = PeerFrame::Renew { epoch, asked: now, run, has_old_holds };
            let _ = self.peers.send(*peer, &frame);
        }
    }

    /// Passes an event to a slot, and carries out its actions.
    fn step(&mut self, slot: u16, event: SlotEvent) {
        let min_write = self.chart.borrow().as_ref().map_or(1, |chart| chart.view.min_write);
        let min_write = usize::try_from(min_write).unwrap_or(usize::MAX);
        let shelf = self.keeper.shelf(slot);
        let around = Around { promises: &self.promises, contents: &shelf, min_write };
        let actions = self.slots.step(slot, around, event, clock());
        self.carry_out(slot, actions);
        self.step_landed(slot);
    }

    /// Tells a slot what has landed, and notes whether something waits in it.
    fn step_landed(&mut self, slot: u16) {
        if let Some(upto) = self.keeper.take_landed(slot) {
            self.step(slot, SlotEvent::Synced(upto));
            return;
        }
        let shelf = self.keeper.shelf(slot);
        let (around, now) =
            (Around { promises: &self.promises, contents: &shelf, min_write: 1 }, clock());
        let Some(committed) = self.slots.look_at(slot, around, now) else { return };
        let is_open = self.slots.get(slot).is_some_and(|it| it.is_open(around, now));
        self.keeper.note_committed(slot, committed);
        if is_open && !self.keeper.holds_any(slot) && self.keeper.failure().is_none() {
            self.direct.open(slot);
        }
    }

    fn carry_out(&mut self, slot: u16, actions: Vec<SlotAction>) {
        let changes =
            |it: &SlotAction| matches!(it, SlotAction::Apply(_) | SlotAction::Replace(..));
        if actions.iter().any(changes) {
            self.direct.close(slot);
        }
        let epoch = self.slots.get(slot).map_or(0, Slot::epoch);
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
                        (Err(unsent), _) => {
                            self.counted.unsent += 1;
                            // A link that is down tells when it is up again.
                            if matches!(unsent, Unsent::Full(_)) {
                                self.slots.lost(slot, clock());
                            }
                        }
                        (Ok(()), _) => {}
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
                    self.slots.holds.asked((slot, key.clone()), client, clock());
                    // Without a link its term runs out.
                    let frame = PeerFrame::Invalidate { slot, number, key };
                    let _ = self.peers.send_front(client, &frame);
                }
            }
        }
    }
}

impl<E> Drop for Driver<E> {
    /// Nobody reads directly what has no owner any more.
    fn drop(&mut self) {
        (0..SLOTS).for_each(|slot| self.direct.close(slot));
    }
}

/// How often due work is looked for at most. Microseconds, as below.
const LOOK_EVERY: u64 = 25_000;
/// How often the figures are shown.
const SHOW_EVERY: u64 = 1_000_000;
/// How long a node waits for room on its device. A merge may make some.
const FULL_FOR: u64 = 10_000_000;
const ARRIVED_AT_ONCE: usize = 256;
/// Writes are refused while the uncommitted effects of all slots have more bytes than this.
const QUEUED_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests;
