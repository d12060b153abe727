//! The requests of a node's clients: each goes to the node that is responsible for its key, until there is an answer.
//!
//! A get of a key whose reader is this node needs no other thread, as long as no change of its slot is under way: see
//! [`guira_chain::direct`].
//!
//! # Invariants
//! 1. A change has one number, however often it is sent, so it happens once. A router that gives a change its number has
//!    perhaps asked another node before.
//! 2. Of one client's requests for one key, a change waits for those before it, and those behind it wait for it. A router
//!    keeps that order itself, because many clients share its connection. A get that finds no request of its client queued in
//!    its line may need no other thread. It keeps its place until the device has been read.
//! 3. Each request ends within [`PATIENCE`] and a pause, once those before it have, and once the device was read for it: with
//!    an answer, or with an error that says what isn't known.
//!
//! # Weaknesses
//! Two gets of one key that a client sends without waiting may show a change by another client in the first only, if one of
//! them waits for the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use guira_chain::direct::{DirectRead, DirectReads};
use guira_chain::frames::Asked;
use guira_chain::slot::{REPEATED, Told, WriteId, WriteTag, WriteVerdict};
use guira_chain::{Chart, NodeId, SlotHash};
use guira_client::{CHARGED_BYTES_MIN, NO_ROOM, Op, Outcome, Reply, Request};
use guira_front::crowded::CrowdedSlots;
use guira_front::rewrites::LongValues;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::clock::clock;
use super::event::{Ask, Event};
use super::long_answers::LongAnswers;
use super::{record, wire};
use crate::counts::Count;
use crate::customer::Customer;
use crate::decide::{Current, Order, Said, failed, plain, say};
use crate::engine::Record;
use crate::horizon::Horizon;
use crate::node::{charge, no_room, now};
use crate::terms::Terms;

/// See the module's head.
pub(crate) struct Front {
    pub(super) events: UnboundedSender<Event>,
    pub(super) chart: watch::Receiver<Option<Arc<Chart>>>,
    pub(super) direct: Arc<DirectReads>,
    pub(super) hash: SlotHash,
    /// The number of this process among all that ask.
    pub(super) client: u32,
    pub(super) numbers: AtomicU64,
    /// The longest value.
    pub(super) value_max: usize,
    pub(super) long: LongValues,
    pub(super) answers: LongAnswers,
    /// Turns of changes that the head refused because too much waits in their slot.
    pub(super) crowded: CrowdedSlots,
}

/// What keeps one client's requests for a key in order. Keys share lines.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<[Line; LINES]>);

#[derive(Default)]
struct Line {
    /// Gets share it, a change has it alone. It is fair.
    lock: Arc<RwLock<()>>,
    /// Requests that wait for the lock or for an answer, except changes of routers and gets that only wait for the device.
    queued: AtomicUsize,
}

/// A request that counts as queued in the line of its slot.
struct Queued(Lines, u16);

/// A place before the client's next change of a key.
pub(crate) struct BeforeChanges(
    #[expect(dead_code, reason = "it is held")] OwnedRwLockReadGuard<()>,
);

impl Lines {
    fn of(&self, slot: u16) -> &Line {
        &self.0[usize::from(slot) % LINES]
    }
}

impl Queued {
    fn begin(lines: &Lines, slot: u16) -> Self {
        lines.of(slot).queued.fetch_add(1, Relaxed);
        Self(lines.clone(), slot)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.of(self.1).queued.fetch_sub(1, Relaxed);
    }
}

/// A request, and its flags.
type Asks<'a> = (&'a Request, &'a Terms);

/// Why there is no answer, in words for the client.
type Unanswered = String;

impl Front {
    /// Begins a get that needs no other thread. `None`: [`serve`](Self::serve) has to carry the request out.
    pub(crate) fn begin_read(
        &self,
        (request, terms): Asks<'_>,
        lines: &Lines,
    ) -> Option<DirectRead> {
        if !request.op.is_get() {
            return None;
        }
        let read = self.direct.begin(self.hash.slot(&request.key))?;
        // Earlier requests of the same client would be overtaken.
        let is_first = lines.of(read.slot()).queued.load(Relaxed) == 0;
        (is_first && wire::lacks(request, terms).is_none()).then_some(read)
    }

    /// The place of a get that waits for the device. `None`: changes are before it.
    pub(crate) fn place(&self, read: &DirectRead, lines: &Lines) -> Option<BeforeChanges> {
        let lock = Arc::clone(&lines.of(read.slot()).lock);
        lock.try_read_owned().ok().map(BeforeChanges)
    }

    /// The reply to such a get, given the record that it found. `None`: [`serve`](Self::serve) has to carry it out.
    pub(crate) fn end_read(
        &self,
        read: &DirectRead,
        (request, terms): Asks<'_>,
        found: Result<Option<Record>, Reply>,
        customer: &Customer,
    ) -> Option<Reply> {
        let found = match found {
            Ok(found) => found,
            Err(reply) if reply.message == NO_ROOM => {
                return Some(ended((request, terms), reply, customer));
            }
            // The thread of the slots meets the same failure, and ends the node.
            Err(_) => return None,
        };
        if !self.direct.has_lasted(read, clock()) {
            return None;
        }
        let found = found.and_then(|it| {
            let (version, _) = record::decode(&it.value)?;
            Some(Record { seq: version.seq, value: it.value.slice(record::HEAD_BYTES..) })
        });
        let order = Order { request, terms, now: now(), value_max: self.value_max };
        customer.counts.add(Count::GetDirect, 1);
        Some(ended((request, terms), hit(order, found.as_ref()), customer))
    }

    /// Carries out a request, a get perhaps at a place that it has. It is queued from this call on, and takes its lock when it
    /// is polled first.
    pub(crate) fn serve(
        self: Arc<Self>,
        request: Request,
        customer: Arc<Customer>,
        (lines, place): (Lines, Option<BeforeChanges>),
    ) -> impl Future<Output = Reply> + use<> {
        let terms = Terms::of(&request);
        let slot = self.hash.slot(&request.key);
        // A router keeps the order of changes itself: on its connection other clients' gets would wait behind them.
        let is_queued = request.op.is_get() || terms.tag.is_none();
        let queued = is_queued.then(|| Queued::begin(&lines, slot));
        async move {
            let asked = (&request, &terms);
            let reply = match self.answer(asked, &customer, (lines.of(slot), place)).await {
                Ok(reply) => reply,
                Err(words) => failed(&words),
            };
            drop(queued);
            ended(asked, reply, &customer)
        }
    }

    async fn answer(
        &self,
        (request, terms): Asks<'_>,
        customer: &Arc<Customer>,
        (line, place): (&Line, Option<BeforeChanges>),
    ) -> Result<Reply, Unanswered> {
        if let Some(lack) = wire::lacks(request, terms) {
            return Err(lack.to_owned());
        }
        let order = Order { request, terms, now: now(), value_max: self.value_max };
        if request.op.is_get() {
            let _line = match place {
                Some(place) => place,
                None => BeforeChanges(Arc::clone(&line.lock).read_owned().await),
            };
            return Ok(match self.read(&request.key, customer).await? {
                Ok(record) => hit(order, record.as_ref()),
                Err(reply) => reply,
            });
        }
        let Some(command) = wire::command(request) else {
            return Ok(Reply::new(Outcome::BadCommand));
        };
        // A router takes the line and the permit itself: on its connection other clients' changes would wait behind this one.
        let is_own = terms.tag.is_none();
        let _line = if is_own { Some(line.lock.write().await) } else { None };
        let _rewrite = match is_own {
            true => self.long.begin(request.op, &request.key, &customer.rewrites).await,
            false => None,
        };
        let told = self.ask(&request.key, Some((&command[..], terms.tag)), 0).await?;
        let Told::Wrote(WriteVerdict::Said(said)) = told else { return Err(odd()) };
        let (said, written) = wire::said(&said).ok_or_else(odd)?;
        if let Said::Store(Outcome::Stored, bytes) = said {
            self.long.note(&request.key, bytes);
        }
        Ok(say(order, said, written))
    }

    /// Reads a key at its reader.
    async fn read(
        &self,
        key: &Bytes,
        customer: &Customer,
    ) -> Result<Result<Option<Record>, Reply>, Unanswered> {
        let _ask = customer.ask().await;
        // A value without room would be read and sent in vain. Who is refused some times is trusted with less again.
        let expected = customer.reads.expected();
        if expected >= CHARGED_BYTES_MIN && !customer.purse.has_room(expected) {
            customer.reads.learn(0);
            return Ok(Err(no_room()));
        }
        let told = self.ask(key, None, expected).await;
        customer.note_asked();
        let Told::Read(found) = told? else { return Err(odd()) };
        customer.reads.learn(found.as_ref().map_or(0, |it| it.0.len()));
        let Some((item, seq)) = found else { return Ok(Ok(None)) };
        Ok(charge(item.into(), &customer.purse).map(|value| Some(Record { seq, value })))
    }

    /// A number that no other request has.
    fn new_number(&self) -> WriteId {
        (self.client, self.numbers.fetch_add(1, Relaxed))
    }

    /// Asks the node that is responsible for a key, again and again. A value probably has the `expected` bytes.
    async fn ask(
        &self,
        key: &Bytes,
        change: Option<(&[u8], Option<WriteTag>)>,
        expected: usize,
    ) -> Result<Told, Unanswered> {
        let mut patience = Patience { begun: Instant::now(), waited: Duration::ZERO };
        let (command, tag) = change.map_or((None, None), |(command, tag)| (Some(command), tag));
        let id = tag.map_or_else(|| self.new_number(), |tag| tag.id);
        let mut views = self.chart.clone();
        let (mut is_repeated, mut pause) = (tag.is_some_and(|tag| tag.is_repeated), PAUSE_MIN);
        let (mut slot, mut is_refused, mut turn) = (None, false, None);
        while patience.begun.elapsed() < PATIENCE {
            let chart = views.borrow_and_update().clone();
            let Some(chart) = chart else {
                let _ = timeout(PAUSE_MAX, views.changed()).await;
                continue;
            };
            let (place, group) = chart.place(key).ok_or_else(odd)?;
            slot = Some(place);
            let may_wait = command.is_some() && turn.is_none();
            if may_wait && (is_refused || self.crowded.is_crowded(place)) {
                let most = CROWDED_MAX.saturating_sub(patience.begun.elapsed());
                turn = self.crowded.turn(place, 1, most).await;
                match turn {
                    // There may be a newer view by now.
                    Some(_) => continue,
                    None if is_repeated => return Err(unknown(slot)),
                    None => return Err(format!("slot {place}: too many changes wait for it")),
                }
            }
            let to = if command.is_some() { group.head() } else { group.reader() };
            let to = (to.unwrap_or_default(), place, group.epoch);
            let asked = match command {
                None => Asked::Read { key: key.to_vec() },
                Some(command) => {
                    Asked::Write { id, is_repeated, key: key.to_vec(), command: command.to_vec() }
                }
            };
            match self.try_once(to, (id.1, asked, expected), &mut patience).await? {
                Tried::Told(told @ (Told::Wrote(_) | Told::Read(_))) => return Ok(told),
                Tried::Told(Told::Unknown) => return Err(unknown(slot)),
                Tried::Told(Told::Refused) => {
                    return Err(format!(
                        "slot {place}: fewer copies than writes need: start a node, or wait until one is filled"
                    ));
                }
                // Nothing happened by this try.
                Tried::Told(Told::Busy) => {
                    is_refused = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Tried::Told(Told::Stale) => {
                    is_repeated = true;
                    // A newer view is on its way: here, or to the node that was asked.
                    let _ = timeout(pause, views.changed()).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Tried::NoRoom => break,
                Tried::NoLink => drop(timeout(PAUSE_MAX, views.changed()).await),
                Tried::Late => is_repeated = true,
            }
        }
        Err(match (command, is_repeated) {
            (Some(_), true) => unknown(slot),
            (Some(_), false) => format!("{}: no head", name(slot)),
            (None, _) => format!("{}: no reader", name(slot)),
        })
    }

    /// Asks a node once, about a slot at this epoch.
    async fn try_once(
        &self,
        (to, slot, epoch): (NodeId, u16, u64),
        (number, asked, expected): (u64, Asked, usize),
        patience: &mut Patience,
    ) -> Result<Tried, Unanswered> {
        // All its tries together wait as long for room as they take otherwise.
        let (waits, most) = (Instant::now(), PATIENCE.saturating_sub(patience.waited));
        let Ok(_room) = timeout(most, self.answers.room(to, expected)).await else {
            return Ok(Tried::NoRoom);
        };
        patience.begun += waits.elapsed();
        patience.waited += waits.elapsed();
        let (reply, told) = oneshot::channel();
        let ask = Ask { to, slot, epoch, number, asked, reply };
        self.events.send(Event::Ask(Box::new(ask))).map_err(|_| stopped())?;
        let left = PATIENCE.saturating_sub(patience.begun.elapsed());
        Ok(match timeout(TRY_MAX.min(left), told).await {
            Ok(Ok(told)) => Tried::Told(told),
            Ok(Err(_)) => Tried::NoLink,
            Err(_) => Tried::Late,
        })
    }
}

/// Since when a request is tried, not counting how long it waited for room.
struct Patience {
    begun: Instant,
    waited: Duration,
}

/// What came of asking a node once.
enum Tried {
    Told(Told),
    /// No room for the answer has become free.
    NoRoom,
    NoLink,
    /// There is no answer yet.
    Late,
}

/// Turns of changes that a head refused. There are enough that a slot's queue doesn't run empty while those who have a turn
/// pause.
pub(super) fn refused_changes() -> CrowdedSlots {
    CrowdedSlots::new(16)
}

/// The reply to a get that found this record.
fn hit(order: Order<'_>, found: Option<&Record>) -> Reply {
    let current = Current::of(found, &Horizon::default(), order.now).ok();
    let said = match order.terms.is_meta {
        true => crate::decide::decide(order, current.as_ref()).1,
        false => plain(current.as_ref()),
    };
    say(order, said, None)
}

/// Counts a request that has its reply.
fn ended((request, terms): Asks<'_>, reply: Reply, customer: &Customer) -> Reply {
    customer.counts.ended(request.op, request.op == Op::Touch, reply.outcome);
    customer.counts.add(Count::CmdMeta, terms.is_meta.into());
    reply
}

fn name(slot: Option<u16>) -> String {
    slot.map_or_else(|| "no view yet".to_owned(), |slot| format!("slot {slot}"))
}

fn unknown(slot: Option<u16>) -> Unanswered {
    format!("{}: outcome unknown", name(slot))
}

fn odd() -> Unanswered {
    "another node answers in an unknown way: update it, or this one".to_owned()
}

fn stopped() -> Unanswered {
    "this node has left its chains: see its log".to_owned()
}

/// How long a request is tried.
const PATIENCE: Duration = Duration::from_micros(REPEATED);
/// How long one try waits for its answer.
const TRY_MAX: Duration = Duration::from_millis(500);
/// How long a change waits for a turn in a crowded slot. Whoever asks for a router's client gives up after [`PATIENCE`].
const CROWDED_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
const LINES: usize = 16;

#[cfg(test)]
mod tests;
