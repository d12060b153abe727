//! The line from one source to all its destinations: the journal, the read position, what the database has proven to be
//! readable, and the cursor of each courier.
//!
//! ```text
//! source ─ append ─▶ journal ─ barrier: prove ─▶ may be sent ─▶ couriers: cursors
//!        └ advance ─▶ read position ─ store, once a second ─▶ position file
//! ```
//! # Invariants
//! 1. A courier gets an entry only after the database has shown that its change can be read. If the barrier can't be
//!    asked for [`BARRIER_AWAY`], the courier gets the entry unproven, and again once it is proven.
//! 2. The read position moves after a transaction's entries are in the journal. It is stored after they are on the
//!    device.
//! 3. A stored cursor is never ahead of what the courier's router acknowledged.
//! 4. If the journal is full, the slowest destination is given up or the reading stops, as configured.
//! 5. What the stored position needs stays in the journal, even if no courier needs it any more: after a crash it is
//!    needed again.
//! 6. After a failed sync no position is stored any more.

mod reading;
mod seats;
mod share;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::config::{JournalLimits, WhenFull};
use crate::counts::{CourierCounts, SourceCounts};
use crate::entry::{Entry, Errand, LogPlace, Origin};
use crate::journal::Journal;
use crate::position::{CourierState, GtidPosition, Stored};
use crate::rule::Rule;
use crate::sharing::Sharing;
use crate::term::Term;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) counts: SourceCounts,
    seats: RwLock<Vec<Arc<Seat>>>,
    /// Rules that apply from the next transaction on.
    next_rules: Mutex<Option<Arc<[Rule]>>>,
    limits: JournalLimits,
    folder: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a position is stored. So one is stored at a time, and none is replaced by an older one.
    storing: Mutex<()>,
    /// The term in which this daemon may read, send and store.
    term: Arc<Term>,
}

/// The place of a courier at the line. Its number never changes: a changed destination gets another seat.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: String,
    pub(crate) counts: CourierCounts,
}

impl Seat {
    fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), counts: CourierCounts::default() })
    }
}

#[derive(Debug)]
struct State {
    journal: Journal,
    read: GtidPosition,
    /// The timeline of PostgreSQL that `read` is in.
    timeline: Option<u32>,
    /// The position to store while XA transactions are prepared: the one before the first of them.
    held: Option<GtidPosition>,
    /// The first entry of the journal beyond the stored position, until a host is known to have its change.
    unsettled: Option<u64>,
    /// The turn of the host whose log is read. Places are in that log, and that host's snapshots prove them. `None`: no
    /// log was read yet.
    turn: Option<usize>,
    /// Entries before this one can be read in the database.
    proven: u64,
    /// Entries before this one may be sent.
    released: u64,
    /// The places of entries that aren't proven, each with the number after the entry.
    waiting: VecDeque<(u64, LogPlace)>,
    couriers: Vec<CourierState>,
    /// The couriers that have left. They count as given up.
    left: BTreeSet<usize>,
    is_ended: bool,
    /// The turn of a host that must not be followed any more, and why.
    left_host: Option<(usize, &'static str)>,
    /// The position is known. Before that there is nothing to store.
    has_begun: bool,
    stored: Option<Stored>,
    /// What another daemon needs to take over; `None` without etcd.
    sharing: Option<Sharing>,
}

/// What a courier can send.
#[derive(Debug)]
pub(crate) enum Work {
    Entries(Vec<Arc<Entry>>),
    /// The entries from here on are only in this file.
    Behind(PathBuf),
    Nothing,
}

/// What the barrier must ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The turn of the host to ask, see [`Line::follow_host`].
    pub(crate) turn: Option<usize>,
    /// The number after the last entry to prove.
    pub(crate) until: u64,
}

/// How far a courier may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) proven: u64,
    pub(crate) released: u64,
    pub(crate) is_tainted: bool,
    /// The courier must stop: it has left, or the term is over.
    pub(crate) is_left: bool,
    pub(crate) is_ended: bool,
}

impl Line {
    /// Opens the folder of a source. The returned position is `None` if the log was never read.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the folder.
    pub(crate) fn open(
        name: &str,
        state: &Path,
        destinations: &[&str],
        limits: JournalLimits,
        memory: usize,
    ) -> Result<(Self, Option<GtidPosition>), String> {
        let folder = state.join(name);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let stored = Stored::read(&folder)?;
        let next = stored.as_ref().map_or(1, |stored| stored.next);
        let of = |name: &&str| {
            let known = stored.as_ref().and_then(|stored| stored.couriers.get(*name));
            known.copied().unwrap_or(CourierState { cursor: next, is_tainted: false })
        };
        let mut couriers: Vec<CourierState> = destinations.iter().map(of).collect();
        let journal = Journal::open(&folder, needed(&couriers, next), next, memory)?;
        if stored.is_none() {
            // The position file was removed: everything that the journal still has goes to all destinations.
            couriers.iter_mut().for_each(|courier| courier.cursor = journal.first());
        }
        let needed = needed(&couriers, if stored.is_some() { next } else { journal.first() });
        let read = stored.as_ref().map(|stored| stored.read.clone());
        let waiting =
            journal.last_places(needed).map_err(|error| format!("the journal: {error}"))?;
        let line = Self {
            name: name.to_owned(),
            counts: SourceCounts::default(),
            seats: RwLock::new(destinations.iter().map(|name| Seat::new(name)).collect()),
            next_rules: Mutex::default(),
            limits,
            folder,
            state: Mutex::new(State {
                read: read.clone().unwrap_or_default(),
                timeline: stored.as_ref().and_then(|stored| stored.timeline),
                held: None,
                unsettled: stored.as_ref().map(|it| it.next).filter(|next| *next < journal.next()),
                turn: None,
                proven: needed,
                released: needed,
                waiting,
                couriers,
                left: BTreeSet::new(),
                is_ended: false,
                left_host: None,
                has_begun: stored.is_some(),
                stored,
                sharing: None,
                journal,
            }),
            changed: Condvar::new(),
            storing: Mutex::new(()),
            term: Arc::new(Term::endless()),
        };
        Ok((line, read))
    }

    /// Limits the line to a term.
    pub(crate) fn within(self, term: Arc<Term>) -> Self {
        Self { term, ..self }
    }

    /// Whether another daemon may be active: then nothing is read or sent any more.
    pub(crate) fn is_over(&self) -> bool {
        self.term.is_over()
    }

    /// Appends keys or a flush to the journal. Waits while too many entries are unproven, or the journal is full and
    /// must hold.
    ///
    /// # Errors
    /// The entry isn't in the journal.
    pub(crate) fn append(&self, origin: Origin, errand: Errand) -> io::Result<()> {
        let mut state = self.state.lock();
        self.make_room(&mut state)?;
        while state.waiting.len() >= WAITING_MAX && !state.is_ended {
            self.changed.wait_for(&mut state, LOOK);
        }
        let place = origin.place.clone();
        state.journal.append(origin, errand)?;
        let after = state.journal.next();
        state.waiting.push_back((after, place));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn make_room(&self, state: &mut MutexGuard<'_, State>) -> io::Result<()> {
        let JournalLimits { bytes, when_full, .. } = self.limits;
        // Unsettled entries can't be removed. They are settled soon, and what arrives until then is no more than what
        // is there.
        while state.journal.bytes() > bytes && state.unsettled.is_none() {
            state.trim(self.limits)?;
            if state.journal.bytes() <= bytes || state.is_ended {
                break;
            }
            if state.needed_after_crash() < state.needed() {
                MutexGuard::unlocked(state, || self.store())?;
                continue;
            }
            if when_full == WhenFull::Hold {
                self.changed.wait_for(state, LOOK);
                continue;
            }
            let open = state.couriers.iter_mut().enumerate().filter(|(_, it)| !it.is_tainted);
            let Some((at, slowest)) = open.min_by_key(|(_, it)| it.cursor) else { break };
            slowest.is_tainted = true;
            tracing::error!(
                "source {}: the journal is full, and destination {} is given up: what it caches may be stale from here on. \
                 Mend it, stop this daemon, run guira invalidate clear --flush, and start it again",
                self.name,
                self.seat(at).name
            );
        }
        Ok(())
    }

    /// The folder of the journal and the position file.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until the barrier has something to ask about. `None` at the end, or if nothing came for a while.
    pub(crate) fn wait_unproven(&self) -> Option<Question> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && !state.is_ended {
            self.changed.wait_for(&mut state, LOOK);
        }
        state.waiting.back().map(|(after, _)| Question { turn: state.turn, until: *after })
    }

    /// Proves entries by a snapshot of the followed host that was requested after the entries before `until` were
    /// appended.
    #[cfg(test)]
    pub(crate) fn prove(&self, until: u64, snapshot: &LogPlace) -> bool {
        self.prove_by(Question { turn: self.turn(), until }, |place| place.is_within(snapshot))
    }

    /// Proves entries by a snapshot that was requested after the question: `has` returns whether the snapshot includes
    /// a place.
    ///
    /// Returns `true` if it includes everything that was asked about. A snapshot of a host that is no longer followed
    /// proves nothing.
    pub(crate) fn prove_by(&self, asked: Question, has: impl Fn(&LogPlace) -> bool) -> bool {
        let Question { turn, until } = asked;
        let mut state = self.state.lock();
        if state.turn != turn {
            return false;
        }
        while let Some((after, place)) = state.waiting.front()
            && *after <= until
            && has(place)
        {
            state.proven = *after;
            state.waiting.pop_front();
        }
        state.released = state.released.max(state.proven);
        let has_all = state.proven >= until;
        drop(state);
        self.changed.notify_all();
        has_all
    }

    /// Releases all entries unproven. They are sent again once they are proven.
    pub(crate) fn release_unproven(&self) {
        let mut state = self.state.lock();
        let next = state.journal.next();
        self.counts.barrier_passed_by.add(next - state.released);
        state.released = next;
        drop(state);
        self.changed.notify_all();
    }

    /// Returns at most `most` entries from `from` on that may be sent. Waits up to `time` for them.
    pub(crate) fn work(&self, from: u64, most: usize, time: Duration) -> Work {
        let mut state = self.state.lock();
        if from >= state.released && !state.is_ended && !time.is_zero() {
            self.changed.wait_for(&mut state, time);
        }
        if from >= state.released {
            return Work::Nothing;
        }
        match state.journal.recent(from, state.released, most) {
            Some(entries) => Work::Entries(entries),
            None => state.journal.segment_of(from).map_or(Work::Nothing, Work::Behind),
        }
    }

    pub(crate) fn reach(&self, courier: usize) -> Reach {
        let state = self.state.lock();
        let is_tainted = state.couriers[courier].is_tainted;
        let is_left = state.left.contains(&courier) || self.term.is_over();
        let State { proven, released, is_ended, .. } = *state;
        Reach { proven, released, is_tainted, is_left, is_ended }
    }

    pub(crate) fn cursor(&self, courier: usize) -> CourierState {
        self.state.lock().couriers[courier]
    }

    /// Records that the courier's router has acknowledged all entries before `cursor`.
    pub(crate) fn note_cursor(&self, courier: usize, cursor: u64) {
        let mut state = self.state.lock();
        let is_news = state.couriers[courier].cursor != cursor;
        state.couriers[courier].cursor = cursor;
        drop(state);
        if is_news {
            self.changed.notify_all();
        }
    }

    /// Returns the journal's next number, its size in bytes, and the number of entries that aren't proven.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.journal.next(), state.journal.bytes(), state.journal.next() - state.proven)
    }

    /// Makes the journal durable, then stores the position.
    ///
    /// # Errors
    /// The device fails. After a failed sync each later call fails too: see [`Self::unsynced`].
    pub(crate) fn store(&self) -> io::Result<()> {
        let _storing = self.storing.lock();
        let mut state = self.state.lock();
        if !state.has_begun {
            return Ok(());
        }
        state.journal.check_synced()?;
        state.mark();
        let seats = self.seats().into_iter();
        let couriers = seats
            .filter(|(number, _)| !state.left.contains(number))
            .map(|(number, seat)| (seat.name.clone(), state.couriers[number]));
        let stored = Stored {
            read: state.read_position(),
            timeline: state.timeline,
            next: state.unsettled.unwrap_or(state.journal.next()),
            couriers: couriers.collect::<BTreeMap<_, _>>(),
        };
        let before = state.stored.as_ref();
        if before != Some(&stored) {
            let has_entries = before.is_none_or(|before| before.next != stored.next);
            let file = state.journal.file();
            drop(state);
            let synced = if has_entries { file.sync_data() } else { Ok(()) };
            state = self.state.lock();
            if let Err(error) = synced {
                state.journal.note_unsynced(&error);
            }
            // Another thread's sync may have failed: the kernel reports the error of a file only once.
            state.journal.check_synced()?;
            drop(state);
            stored.write(&self.folder)?;
            state = self.state.lock();
            state.stored = Some(stored);
        }
        state.trim(self.limits)
    }

    /// Returns why this process can't make anything durable any more; `None` if it can.
    pub(crate) fn unsynced(&self) -> Option<String> {
        self.state.lock().journal.unsynced().map(str::to_owned)
    }

    /// Ends the line, and wakes all waiting threads: no more entries come.
    pub(crate) fn end(&self) {
        self.state.lock().is_ended = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().is_ended || self.term.is_over()
    }
}

#[cfg(test)]
impl Line {
    /// Replaces the file of the journal, by default with a device that accepts writes and fails to sync. Returns the
    /// previous file.
    pub(crate) fn replace_file(&self, file: Option<Arc<std::fs::File>>) -> Arc<std::fs::File> {
        let null = || std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        self.state.lock().journal.replace_file(file.unwrap_or_else(|| Arc::new(null())))
    }
}

impl State {
    /// The position from which the log must be read after a connection was lost.
    fn read_position(&self) -> GtidPosition {
        self.held.as_ref().unwrap_or(&self.read).clone()
    }

    fn needed(&self) -> u64 {
        needed(&self.couriers, self.released)
    }

    /// The first entry that a process needs if it starts from the stored position.
    fn needed_after_crash(&self) -> u64 {
        self.stored.as_ref().map_or(u64::MAX, |stored| {
            let couriers: Vec<CourierState> = stored.couriers.values().copied().collect();
            needed(&couriers, stored.next)
        })
    }

    fn trim(&mut self, limits: JournalLimits) -> io::Result<()> {
        let needed = self.needed().min(self.needed_after_crash());
        self.journal.trim(needed, limits.bytes, limits.keep)
    }
}

/// The first entry that a destination needs, or that isn't released yet.
fn needed(couriers: &[CourierState], released: u64) -> u64 {
    let open = couriers.iter().filter(|courier| !courier.is_tainted);
    open.map(|courier| courier.cursor).min().unwrap_or(released).min(released)
}

/// How long the barrier's connection may be away before entries are sent unproven.
pub(crate) const BARRIER_AWAY: Duration = Duration::from_secs(10);
/// How long a thread waits before it looks again.
const LOOK: Duration = Duration::from_millis(500);
/// The most unproven entries. At this number the log isn't read.
const WAITING_MAX: usize = 100_000;

#[cfg(test)]
mod tests;
