//! The state that decides whether a server is asked at all. All proxy threads share it, by address.
//!
//! ```text
//!            consecutive timeouts              a probe succeeds
//! asked ──────────────────────────▶ soft TKO ────────────────────▶ asked
//!   └─── no connection, or lost ──▶ hard TKO ────────────────────────┘
//! ```
//! TKO means "technical knock-out": requests fail at once, and the thread that marked the server probes it.
//!
//! # Invariants
//! 1. If several threads find a server failed, one of them gets `true` from [`Tko::failed`]. It probes the server, and
//!    in the end calls [`Tko::clear`].
//! 2. A reply to a request never clears the mark: only the prober does.
//! 3. While a marked server gets the deletes that it is owed, other deletes are sent to it too.
//!
//! # Costs
//! One relaxed load per request, and one more per success, as long as nothing fails.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use std::time::Duration;

use guira_client::Outcome;
use guira_log::Seldom;
use parking_lot::Mutex;

/// The conditions under which a server is marked, and the times of its probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TkoOptions {
    pub(crate) is_tracked: bool,
    /// The number of consecutive timeouts that mark a server.
    pub(crate) timeouts: u32,
    pub(crate) probe_first: Duration,
    pub(crate) probe_most: Duration,
    /// How long a connection may be idle; zero: forever.
    pub(crate) idle_max: Duration,
}

/// The numbers of marked servers.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) hard: AtomicUsize,
    pub(crate) soft: AtomicUsize,
    /// How often a pool began to use failing servers, and how often it stopped.
    pub(crate) opened: AtomicUsize,
    pub(crate) closed: AtomicUsize,
}

/// A pool that keeps using its servers if too many of them fail. It is consulted when one fails or returns.
#[derive(Debug)]
pub(crate) struct FailOpen {
    totals: Arc<Totals>,
    opening: Mutex<Opening>,
}

#[derive(Debug)]
struct Opening {
    /// The number of the configuration that set the limits.
    configuration: u64,
    marked: usize,
    is_open: bool,
    /// At this number of marked servers, no more are marked.
    enter: usize,
    /// At this number of marked servers, servers are marked again.
    leave: usize,
}

impl FailOpen {
    pub(crate) fn new(
        configuration: u64,
        (enter, leave): (usize, usize),
        totals: Arc<Totals>,
    ) -> Self {
        let opening = Opening { configuration, marked: 0, is_open: false, enter, leave };
        Self { totals, opening: Mutex::new(opening) }
    }

    fn open(&self, opening: &mut Opening, is_open: bool) {
        if std::mem::replace(&mut opening.is_open, is_open) != is_open {
            let total = if is_open { &self.totals.opened } else { &self.totals.closed };
            total.fetch_add(1, Relaxed);
        }
    }

    /// Changes the limits, if they come from a newer configuration.
    pub(crate) fn limit(&self, configuration: u64, (enter, leave): (usize, usize)) {
        let mut opening = self.opening.lock();
        if configuration > opening.configuration {
            let is_open = opening.is_open && (opening.enter, opening.leave) == (enter, leave);
            self.open(&mut opening, is_open);
            *opening = Opening { configuration, enter, leave, ..*opening };
        }
    }

    /// Whether one more server may be marked. If so, it is counted.
    fn admits(&self) -> bool {
        let mut opening = self.opening.lock();
        let admitted = !opening.is_open && opening.marked < opening.enter;
        opening.marked += usize::from(admitted);
        self.open(&mut opening, !admitted);
        admitted
    }

    fn returned(&self) {
        let mut opening = self.opening.lock();
        opening.marked -= 1;
        let is_open = opening.is_open && opening.marked > opening.leave;
        self.open(&mut opening, is_open);
    }
}

/// The pool whose limits apply to a server: the first pool that names it.
#[derive(Debug, Default)]
struct Following {
    /// The number of the configuration that chose the pool.
    configuration: u64,
    pool: Option<Arc<FailOpen>>,
    /// The pool that counts the server's mark.
    marked_in: Option<Arc<FailOpen>>,
}

/// The state of one server.
#[derive(Debug)]
pub(crate) struct Tko {
    /// `host:port`.
    pub(crate) name: String,
    /// The number of consecutive timeouts that mark it.
    timeouts_max: u32,
    timeouts: AtomicU32,
    /// Consecutive failures of all kinds.
    failures: AtomicU32,
    mark: AtomicU8,
    reason: AtomicU8,
    /// What the system or TLS said when a connection failed last.
    said: Mutex<String>,
    /// When that was logged, for servers that are never marked.
    pub(crate) told: Seldom,
    totals: Arc<Totals>,
    following: Mutex<Following>,
}

const ASKED: u8 = 0;
const SOFT: u8 = 1;
const HARD: u8 = 2;

impl Tko {
    pub(crate) fn new(name: String, timeouts_max: u32, totals: Arc<Totals>) -> Self {
        let (timeouts, failures) = (AtomicU32::new(0), AtomicU32::new(0));
        let (mark, reason) = (AtomicU8::new(ASKED), AtomicU8::new(0));
        Self {
            name,
            timeouts_max,
            timeouts,
            failures,
            mark,
            reason,
            said: Mutex::default(),
            told: Seldom::new(),
            totals,
            following: Mutex::default(),
        }
    }

    /// Sets the pool whose limits apply, or none, if the configuration is newer than the last one.
    pub(crate) fn follow(&self, configuration: u64, pool: Option<&Arc<FailOpen>>) {
        let mut following = self.following.lock();
        if configuration > following.configuration {
            (following.configuration, following.pool) = (configuration, pool.cloned());
        }
    }

    /// Marks a new server that is owed deletes. The caller must probe it.
    pub(crate) fn mark_owed(&self) {
        self.failures.fetch_add(1, Relaxed);
        self.mark.store(HARD, Relaxed);
        self.reason.store(REASON_OWED, Relaxed);
        self.total(HARD).fetch_add(1, Relaxed);
    }

    /// Whether requests must fail at once.
    pub(crate) fn is_marked(&self) -> bool {
        self.mark.load(Relaxed) != ASKED
    }

    pub(crate) fn is_hard(&self) -> bool {
        self.mark.load(Relaxed) == HARD
    }

    /// The number of consecutive failures.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// The error for which the server was marked, by mcrouter's name.
    pub(crate) fn reason(&self) -> &'static str {
        match self.reason.load(Relaxed) {
            REASON_TIMEOUT => "mc_res_timeout",
            REASON_CONNECT_TIMEOUT => "mc_res_connect_timeout",
            REASON_SHUTDOWN => "mc_res_shutdown",
            REASON_OWED => "mc_res_tko",
            _ => "mc_res_connect_error",
        }
    }

    /// Records what the system or TLS said when a connection failed. Returns whether that is news.
    pub(crate) fn note_said(&self, message: &[u8]) -> bool {
        let (mut said, now) = (self.said.lock(), String::from_utf8_lossy(message));
        let is_news = *said != now;
        if is_news {
            *said = now.into_owned();
        }
        is_news
    }

    /// The error for which the server was marked, with what the system or TLS said.
    pub(crate) fn whole_reason(&self) -> String {
        let (reason, said) = (self.reason(), self.said.lock());
        if said.is_empty() || self.reason.load(Relaxed) != REASON_CONNECT_ERROR {
            return reason.to_owned();
        }
        format!("{reason} ({said})")
    }

    /// Records a failure. `true`: the server is marked now, and the caller must probe it.
    pub(crate) fn failed(&self, outcome: Outcome) -> bool {
        let (mark, reason) = match outcome {
            Outcome::Timeout => (SOFT, REASON_TIMEOUT),
            Outcome::ConnectTimeout => (HARD, REASON_CONNECT_TIMEOUT),
            Outcome::Shutdown => (HARD, REASON_SHUTDOWN),
            Outcome::ConnectError => (HARD, REASON_CONNECT_ERROR),
            _ => return false,
        };
        self.failures.fetch_add(1, Relaxed);
        if mark == SOFT && self.timeouts.fetch_add(1, Relaxed) + 1 < self.timeouts_max {
            return false;
        }
        if self.is_marked() {
            self.harden(mark);
            return false;
        }
        let mut following = self.following.lock();
        // Check again under the lock: another thread may have been first.
        if self.is_marked() || !following.pool.as_ref().is_none_or(|pool| pool.admits()) {
            return false;
        }
        following.marked_in = following.pool.clone();
        self.mark.store(mark, Relaxed);
        self.reason.store(reason, Relaxed);
        self.total(mark).fetch_add(1, Relaxed);
        true
    }

    /// Turns a soft mark into a hard one if the connection fails too.
    fn harden(&self, mark: u8) {
        if mark == HARD && self.mark.compare_exchange(SOFT, HARD, Relaxed, Relaxed).is_ok() {
            self.totals.soft.fetch_sub(1, Relaxed);
            self.totals.hard.fetch_add(1, Relaxed);
        }
    }

    /// Records a success. As long as nothing fails, this is one load.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) != 0 && !self.is_marked() {
            self.failures.store(0, Relaxed);
            self.timeouts.store(0, Relaxed);
        }
    }

    /// Clears the mark: a probe succeeded, or the server isn't configured any more.
    pub(crate) fn clear(&self) {
        self.failures.store(0, Relaxed);
        self.timeouts.store(0, Relaxed);
        let mut following = self.following.lock();
        let mark = self.mark.swap(ASKED, Relaxed);
        if mark != ASKED {
            self.total(mark).fetch_sub(1, Relaxed);
            if let Some(pool) = following.marked_in.take() {
                pool.returned();
            }
        }
    }

    fn total(&self, mark: u8) -> &AtomicUsize {
        if mark == SOFT { &self.totals.soft } else { &self.totals.hard }
    }

    /// The current total of marked servers, as the end of a log line.
    pub(crate) fn standing(&self) -> String {
        let (hard, soft) = (self.totals.hard.load(Relaxed), self.totals.soft.load(Relaxed));
        format!("Total hard TKOs: {hard}; soft TKOs: {soft}")
    }
}

const REASON_CONNECT_ERROR: u8 = 0;
const REASON_CONNECT_TIMEOUT: u8 = 1;
const REASON_TIMEOUT: u8 = 2;
const REASON_SHUTDOWN: u8 = 3;
const REASON_OWED: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn tko(timeouts_max: u32) -> Tko {
        Tko::new("h:1".to_owned(), timeouts_max, Arc::default())
    }

    #[test]
    fn timeouts_mark_a_server_only_when_they_come_in_a_row() {
        let tko = tko(3);
        for _ in 0..2 {
            assert!(!tko.failed(Outcome::Timeout));
            assert!(!tko.failed(Outcome::Timeout));
            tko.succeeded();
        }
        assert!(!tko.failed(Outcome::Timeout));
        assert!(!tko.failed(Outcome::Timeout));
        assert!(tko.failed(Outcome::Timeout), "the third in a row marks it");
        assert!(tko.is_marked() && !tko.is_hard());
        assert_eq!(tko.reason(), "mc_res_timeout");
    }

    #[test]
    fn of_all_who_find_a_server_down_one_is_to_probe_it() {
        let tko = tko(3);
        assert!(tko.failed(Outcome::ConnectError));
        assert!(!tko.failed(Outcome::ConnectError));
        assert!(tko.is_hard());
        assert_eq!(tko.failures(), 2);
        tko.succeeded();
        assert!(tko.is_marked(), "only the prober clears the mark");
        tko.clear();
        assert!(!tko.is_marked());
        assert_eq!((tko.failures(), tko.totals.hard.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_soft_mark_turns_hard_and_the_totals_follow() {
        let tko = tko(1);
        assert!(tko.failed(Outcome::Timeout));
        assert!(!tko.failed(Outcome::ConnectError));
        assert_eq!((tko.totals.soft.load(Relaxed), tko.totals.hard.load(Relaxed)), (0, 1));
        tko.clear();
        assert_eq!((tko.totals.soft.load(Relaxed), tko.totals.hard.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_pool_that_fails_open_marks_no_more_than_it_may() {
        let pool = Arc::new(FailOpen::new(1, (1, 0), Arc::default()));
        let tkos = [0, 1].map(|n| Tko::new(format!("h:{n}"), 1, Arc::default()));
        tkos.iter().for_each(|tko| tko.follow(1, Some(&pool)));
        assert!(tkos[0].failed(Outcome::ConnectError));
        assert!(!tkos[1].failed(Outcome::ConnectError), "one is the most");
        assert!(!tkos[1].is_marked());
        tkos[0].clear();
        assert!(tkos[1].failed(Outcome::ConnectError), "and again when the first is back");
    }

    #[test]
    fn other_limits_hold_at_once_and_those_of_an_older_configuration_never() {
        let pool = Arc::new(FailOpen::new(1, (1, 0), Arc::default()));
        let tkos = [0, 1, 2].map(|n| Tko::new(format!("h:{n}"), 1, Arc::default()));
        tkos.iter().for_each(|tko| tko.follow(1, Some(&pool)));
        assert!(tkos[0].failed(Outcome::ConnectError) && !tkos[1].failed(Outcome::ConnectError));
        pool.limit(2, (2, 0));
        pool.limit(1, (1, 0));
        assert!(tkos[1].failed(Outcome::ConnectError) && !tkos[2].failed(Outcome::ConnectError));
        tkos[2].follow(2, None);
        tkos[2].follow(1, Some(&pool));
        assert!(tkos[2].failed(Outcome::ConnectError), "its pool has no limits any more");
        tkos.iter().for_each(Tko::clear);
        assert_eq!(pool.opening.lock().marked, 0);
    }
}
