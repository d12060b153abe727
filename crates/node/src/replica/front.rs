//! The requests of a node's clients: each goes to the node that is responsible for its key, until there is an answer.
//!
//! # Invariants
//! 1. A change has one number, however often it is sent, so it happens once. A router that gives a change its number has
//!    perhaps asked another node before.
//! 2. Of one client's requests for one key, a change waits for those before it, and those behind it wait for it. A router
//!    keeps that order itself, because many clients share its connection.
//! 3. Each request ends within [`PATIENCE`] and a pause, once those before it have: with an answer, or with an error that
//!    says what isn't known.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use guira_chain::frames::Asked;
use guira_chain::slot::{REPEATED, Told, WriteId, WriteTag, WriteVerdict};
use guira_chain::{Chart, SLOTS};
use guira_client::{Op, Outcome, Reply, Request};
use guira_front::rewrites::LongValues;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{RwLock, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::event::{Ask, Event};
use super::wire;
use crate::counts::Count;
use crate::customer::Customer;
use crate::decide::{Current, Order, Said, failed, plain, say};
use crate::engine::Record;
use crate::horizon::Horizon;
use crate::node::{charge, now};
use crate::terms::Terms;

/// See the module's head.
pub(crate) struct Front {
    pub(super) events: UnboundedSender<Event>,
    pub(super) chart: watch::Receiver<Option<Arc<Chart>>>,
    /// The number of this process among all that ask.
    pub(super) client: u32,
    pub(super) numbers: std::sync::atomic::AtomicU64,
    /// The longest value.
    pub(super) value_max: usize,
    pub(super) long: LongValues,
}

/// Locks that keep one client's requests for a key in order. Keys share them.
#[derive(Clone)]
pub(crate) struct Lines(Arc<[Arc<RwLock<()>>; LINES]>);

impl Default for Lines {
    fn default() -> Self {
        Self(Arc::new(std::array::from_fn(|_| Arc::default())))
    }
}

impl Lines {
    fn of(&self, slot: u16) -> Arc<RwLock<()>> {
        Arc::clone(&self.0[usize::from(slot) % LINES])
    }
}

/// Why there is no answer, in words for the client.
type Unanswered = String;

impl Front {
    /// Carries out a request.
    pub(crate) async fn serve(
        self: Arc<Self>,
        request: Request,
        customer: Arc<Customer>,
        lines: Lines,
    ) -> Reply {
        let terms = Terms::of(&request);
        let reply = match self.answer(&request, &terms, &customer, &lines).await {
            Ok(reply) => reply,
            Err(words) => failed(&words),
        };
        customer.counts.ended(request.op, request.op == Op::Touch, reply.outcome);
        customer.counts.add(Count::CmdMeta, terms.is_meta.into());
        reply
    }

    async fn answer(
        &self,
        request: &Request,
        terms: &Terms,
        customer: &Arc<Customer>,
        lines: &Lines,
    ) -> Result<Reply, Unanswered> {
        if let Some(lack) = wire::lacks(request, terms) {
            return Err(lack.to_owned());
        }
        let order = Order { request, terms, now: now(), value_max: self.value_max };
        let slot =
            self.chart.borrow().as_ref().and_then(|chart| Some(chart.place(&request.key)?.0));
        let line = lines.of(slot.unwrap_or(SLOTS));
        if request.op.is_get() {
            let _line = line.read().await;
            let Told::Read(found) = self.ask(&request.key, None).await? else {
                return Err(odd());
            };
            let record = match found {
                Some((item, seq)) => match charge(item.into(), &customer.purse) {
                    Ok(value) => Some(Record { seq, value }),
                    Err(reply) => return Ok(reply),
                },
                None => None,
            };
            let current = Current::of(record.as_ref(), &Horizon::default(), order.now).ok();
            let said = match terms.is_meta {
                true => crate::decide::decide(order, current.as_ref()).1,
                false => plain(current.as_ref()),
            };
            return Ok(say(order, said, None));
        }
        let Some(command) = wire::command(request) else {
            return Ok(Reply::new(Outcome::BadCommand));
        };
        // A router takes the line and the permit itself: on its connection other clients' changes would wait behind this one.
        let is_own = terms.tag.is_none();
        let _line = if is_own { Some(line.write().await) } else { None };
        let _rewrite = match is_own {
            true => self.long.begin(request.op, &request.key, &customer.rewrites).await,
            false => None,
        };
        let told = self.ask(&request.key, Some((&command[..], terms.tag))).await?;
        let Told::Wrote(WriteVerdict::Said(said)) = told else { return Err(odd()) };
        let (said, written) = wire::said(&said).ok_or_else(odd)?;
        if let Said::Store(Outcome::Stored, bytes) = said {
            self.long.note(&request.key, bytes);
        }
        Ok(say(order, said, written))
    }

    /// A number that no other request has.
    fn new_number(&self) -> WriteId {
        use std::sync::atomic::Ordering::Relaxed;
        (self.client, self.numbers.fetch_add(1, Relaxed))
    }

    /// Asks the node that is responsible for a key, again and again.
    async fn ask(
        &self,
        key: &Bytes,
        change: Option<(&[u8], Option<WriteTag>)>,
    ) -> Result<Told, Unanswered> {
        let begun = Instant::now();
        let (command, tag) = change.map_or((None, None), |(command, tag)| (Some(command), tag));
        let id = tag.map_or_else(|| self.new_number(), |tag| tag.id);
        let mut views = self.chart.clone();
        let (mut is_repeated, mut pause) = (tag.is_some_and(|tag| tag.is_repeated), PAUSE_MIN);
        let mut slot = None;
        while begun.elapsed() < PATIENCE {
            let chart = views.borrow_and_update().clone();
            let Some(chart) = chart else {
                let _ = timeout(PAUSE_MAX, views.changed()).await;
                continue;
            };
            let (place, group) = chart.place(key).ok_or_else(odd)?;
            slot = Some(place);
            let to = if command.is_some() { group.head() } else { group.reader() };
            let asked = match command {
                None => Asked::Read { key: key.to_vec() },
                Some(command) => {
                    Asked::Write { id, is_repeated, key: key.to_vec(), command: command.to_vec() }
                }
            };
            let (reply, told) = oneshot::channel();
            let to = to.unwrap_or_default();
            let ask = Ask { to, slot: place, epoch: group.epoch, number: id.1, asked, reply };
            self.events.send(Event::Ask(Box::new(ask))).map_err(|_| stopped())?;
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match timeout(TRY_MAX.min(left), told).await {
                Ok(Ok(told @ (Told::Wrote(_) | Told::Read(_)))) => return Ok(told),
                Ok(Ok(Told::Unknown)) => return Err(unknown(slot)),
                Ok(Ok(Told::Refused)) => {
                    return Err(format!(
                        "slot {place}: fewer copies than writes need: start a node, or wait until one is filled"
                    ));
                }
                Ok(Ok(Told::Busy)) => {
                    is_repeated = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Ok(Ok(Told::Stale)) => {
                    is_repeated = true;
                    // A newer view is on its way: here, or to the node that was asked.
                    let _ = timeout(pause, views.changed()).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                // There is no link.
                Ok(Err(_)) => drop(timeout(PAUSE_MAX, views.changed()).await),
                Err(_) => is_repeated = true,
            }
        }
        Err(match (command, is_repeated) {
            (Some(_), true) => unknown(slot),
            (Some(_), false) => format!("{}: no head", name(slot)),
            (None, _) => format!("{}: no reader", name(slot)),
        })
    }
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
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
const LINES: usize = 16;
