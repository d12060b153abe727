//! What a server has to be known for before some requests travel to it.
//!
//! A server that doesn't know the line of a request reads its value as commands. So whoever can choose the value could run
//! what the router refuses, `flush_all` for one. Before the first such request of a connection the server is asked something
//! that does no harm where it isn't understood.
//!
//! | request | asked | shows it |
//! |---|---|---|
//! | `lease-set` | a `lease-get` of a key that nobody has | any answer but an error |
//! | `ms`, with flags that no text command has | an `ms` of the request's key with a cas unique that no item has | that nothing was stored |
//!
//! The value of that `ms` is a delete, for which a server that reads it as a command is not to answer: so it answers once, in
//! any case.
//!
//! # Invariants
//! 1. Requests that come while a server is asked wait for that, so that all of a client's are sent in their order.
//! 2. A server that doesn't know what it was asked isn't asked again for [`MISSED_FOR`]: else everybody's requests waited
//!    behind the questions of those who go on trying, and some questions cost the connection.
//!
//! # Costs
//! One more exchange per connection; then a load per request that stores.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use guira_client::{Op, Outcome, Request};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

/// What a server can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skill {
    /// `lease-get` and `lease-set`.
    Leases,
    /// `ms` as memcached has it since 1.6.12: its length before its flags.
    Meta,
}

impl Skill {
    /// What a server has to know for a request. One that is asked in meta commands gets a lease-set as a `cas`.
    pub(super) fn for_request(request: &Request, speaks_meta: bool) -> Option<Skill> {
        match request.op {
            op if op.is_update() && request.meta.is_some() => Some(Skill::Meta),
            Op::LeaseSet if !speaks_meta => Some(Skill::Leases),
            _ => None,
        }
    }

    /// What is asked before a request.
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

    /// Whether that is the answer of a server that knows it.
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

/// What a server has shown on a connection.
#[derive(Debug, Default)]
pub(super) struct Skills {
    leases: AtomicBool,
    meta: AtomicBool,
    /// Which it showed that it is without, and when; on connections before this one, too.
    missed: parking_lot::Mutex<Vec<(Skill, Instant)>>,
    /// Requests that wait until the server has been asked, or ask it.
    waiting: AtomicUsize,
    turn: Mutex<()>,
}

/// A request's turn to ask, or to be sent behind those that asked.
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

    /// Whether the server has shown lately that it is without.
    pub(super) fn misses(&self, skill: Skill) -> bool {
        let mut missed = self.missed.lock();
        missed.retain(|(_, at)| at.elapsed() < MISSED_FOR);
        missed.iter().any(|(missing, _)| *missing == skill)
    }

    /// Notes the answer to the question. True: the server has the skill.
    pub(super) fn learn(&self, skill: Skill, outcome: Outcome) -> bool {
        let has = skill.is_shown_by(outcome);
        // Other failures tell of the moment, or of the request's key.
        if has {
            self.of(skill).store(true, Relaxed);
        } else if outcome == Outcome::BadCommand {
            self.missed.lock().push((skill, Instant::now()));
        }
        has
    }

    /// Whether a server is being asked.
    #[inline]
    pub(super) fn are_asked(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Waits for those who came before; `None`: for too long.
    pub(super) async fn turn(&self, limit: Duration) -> Option<Turn<'_>> {
        self.waiting.fetch_add(1, Relaxed);
        let mut turn = Turn { waiting: &self.waiting, guard: None };
        turn.guard = Some(timeout(limit, self.turn.lock()).await.ok()?);
        Some(turn)
    }

    /// Another connection may lead to another server.
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

/// A server that was upgraded is asked again after so long.
const MISSED_FOR: Duration = Duration::from_secs(10);
/// A key that nobody has.
const NOBODYS_KEY: &str = "guira:has-leases";
/// A command without an effect or a reply, as every server has known it.
const SILENT_COMMAND: &str = "delete guira:has-meta noreply";
/// As a flag of `ms`. Servers count from 1.
const NO_ITEMS_CAS: &str = "C18446744073709551615";
