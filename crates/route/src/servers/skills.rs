//! The abilities that a server must show before some requests are sent to it.
//!
//! A server that doesn't know the command line of a request reads its value as commands. So a client that chooses the
//! value could run commands that the router refuses, such as `flush_all`. Before the first such request on a
//! connection, the server is asked a question that is harmless if it isn't understood.
//!
//! | request | question | ability shown by |
//! |---|---|---|
//! | `lease-set` | a `lease-get` of a key that doesn't exist | any reply except an error; or a lease given to a client |
//! | `ms` with flags that text commands lack | an `ms` of its key, with a cas unique of no item | nothing was stored |
//!
//! The value of that `ms` is a delete with `noreply`. A server that reads it as a command doesn't answer it, so there
//! is one reply in any case.
//!
//! # Invariants
//! 1. Requests that arrive during a question wait for its end, so that all requests of a client are sent in order.
//! 2. A server that lacks an ability isn't asked again for [`MISSED_FOR`]. Otherwise all requests would wait behind
//!    repeated questions, and some questions cost the connection.
//!
//! # Costs
//! One more exchange per connection, but for leases only if no client of the connection got one before; then one atomic load per request that stores.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use guira_client::{Op, Outcome, Reply, Request};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

/// An ability of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skill {
    /// `lease-get` and `lease-set`.
    Leases,
    /// `ms` as in memcached since 1.6.12: the length comes before the flags.
    Meta,
}

impl Skill {
    /// The ability that a request needs. A server that is asked in meta commands gets a lease-set as a `cas`.
    pub(super) fn for_request(request: &Request, speaks_meta: bool) -> Option<Skill> {
        match request.op {
            op if op.is_update() && request.meta.is_some() => Some(Skill::Meta),
            Op::LeaseSet if !speaks_meta => Some(Skill::Leases),
            _ => None,
        }
    }

    /// The question to send before a request.
    pub(super) fn question(self, request: &Request) -> Request {
        match self {
            Skill::Leases => Request::new(Op::LeaseGet, NOBODYS_KEY),
            Skill::Meta => Request {
                value: SILENT_COMMAND.into(),
                meta: Some(NO_ITEMS_CAS.as_bytes().into()),
                ..Request::new(Op::Cas, request.key.clone())
            },
        }
    }

    /// Whether the outcome shows that the server has this ability.
    fn is_shown_by(self, outcome: Outcome) -> bool {
        match self {
            Skill::Leases => {
                matches!(outcome, Outcome::Found | Outcome::NotFound | Outcome::NotFoundHot)
            }
            Skill::Meta => {
                matches!(outcome, Outcome::NotFound | Outcome::Exists | Outcome::NotStored)
            }
        }
    }
}

/// The abilities that a server has shown on a connection.
#[derive(Debug, Default)]
pub(super) struct Skills {
    leases: AtomicBool,
    meta: AtomicBool,
    /// Abilities that the server lacks, with the time when it showed that. They are kept across connections.
    missed: parking_lot::Mutex<Vec<(Skill, Instant)>>,
    /// The number of requests that ask a question or wait for one.
    waiting: AtomicUsize,
    turn: Mutex<()>,
}

/// A request's turn to ask a question, or to be sent after it.
pub(super) struct Turn<'a> {
    waiting: &'a AtomicUsize,
    guard: Option<MutexGuard<'a, ()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.waiting.fetch_sub(1, Relaxed);
    }
}

impl Skills {
    pub(super) fn has(&self, skill: Skill) -> bool {
        self.of(skill).load(Relaxed)
    }

    /// Whether the server has recently shown that it lacks this ability.
    pub(super) fn misses(&self, skill: Skill) -> bool {
        let mut missed = self.missed.lock();
        missed.retain(|(_, at)| at.elapsed() < MISSED_FOR);
        missed.iter().any(|(missing, _)| *missing == skill)
    }

    /// Records the reply to the question. Returns whether the server has the ability.
    pub(super) fn learn(&self, skill: Skill, outcome: Outcome) -> bool {
        let has = skill.is_shown_by(outcome);
        // Other failures are temporary, or concern the request's key.
        if has {
            self.of(skill).store(true, Relaxed);
        } else if outcome == Outcome::BadCommand {
            self.missed.lock().push((skill, Instant::now()));
        }
        has
    }

    /// Records a reply to a client's request: a lease shows that the server knows leases, without a question.
    #[inline]
    pub(super) fn notice(&self, reply: &Reply) {
        if reply.token != 0 && matches!(reply.outcome, Outcome::NotFound | Outcome::NotFoundHot) {
            self.leases.store(true, Relaxed);
        }
    }

    /// Whether a question is under way.
    #[inline]
    pub(super) fn are_asked(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Waits for the requests that came before. `None`: the wait took longer than `limit`.
    pub(super) async fn turn(&self, limit: Duration) -> Option<Turn<'_>> {
        self.waiting.fetch_add(1, Relaxed);
        let mut turn = Turn { waiting: &self.waiting, guard: None };
        turn.guard = Some(timeout(limit, self.turn.lock()).await.ok()?);
        Some(turn)
    }

    /// Forgets what was shown: a new connection may lead to another server.
    pub(super) fn forget(&self) {
        self.leases.store(false, Relaxed);
        self.meta.store(false, Relaxed);
    }

    fn of(&self, skill: Skill) -> &AtomicBool {
        match skill {
            Skill::Leases => &self.leases,
            Skill::Meta => &self.meta,
        }
    }
}

/// How long until the server is asked again. It may have been upgraded meanwhile.
const MISSED_FOR: Duration = Duration::from_secs(10);
/// A key that doesn't exist.
const NOBODYS_KEY: &str = "guira:has-leases";
/// A command without effect or reply, which every server knows.
const SILENT_COMMAND: &str = "delete guira:has-meta noreply";
/// A flag of `ms`. No item has this cas unique, because servers count from 1.
const NO_ITEMS_CAS: &str = "C18446744073709551615";
