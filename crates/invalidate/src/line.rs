//! The line from one source to all destinations: its journal, how far it was read, what can be read, who has what.
//!
//! ```text
//! source ─ append ─▶ journal ─ barrier: prove ─▶ may be sent ─▶ couriers: cursors
//!        └ advance ─▶ read position ─ store, once a second ─▶ position file
//! ```
//! # Invariants
//! 1. A courier gets an entry only after the database has shown that its change can be read, or if the barrier can't be asked
//!    for [`BARRIER_AWAY`]; then it gets the entry again once it can.
//! 2. The read position moves after a transaction's entries are in the journal. It is stored after they are on the device.
//! 3. A stored cursor is at most what the courier's router acknowledged.
//! 4. A full journal gives the slowest destination up, or stops the reading; which is the configuration's choice.
//! 5. What the stored position needs stays in the journal, also if nobody needs it any more: after a crash it is needed again.
//! 6. After a sync that failed no position is stored any more.

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

/// The line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) counts: SourceCounts,
    seats: RwLock<Vec<Arc<Seat>>>,
    /// Rules that are to hold from the next transaction on.
    next_rules: Mutex<Option<Arc<[Rule]>>>,
    limits: JournalLimits,
    folder: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a position is stored: one at a time, so that none is replaced by an older one.
    storing: Mutex<()>,
    /// Until when anything is read, sent and stored.
    term: Arc<Term>,
}

/// A courier's place at the line. Its number stays; who changes a destination gives it another one.
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
    /// PostgreSQL's history that `read` is in.
    timeline: Option<u32>,
    /// The position to be stored while XA transactions are prepared: before the first of them.
    held: Option<GtidPosition>,
    /// The first entry that is in the journal and isn't in a stored position, until a host was seen to have its change.
    unsettled: Option<u64>,
    /// The turn of the host whose log is read: places are of that log, and its snapshots prove them. `None`: none was read yet.
    turn: Option<usize>,
    /// Entries before this one can be read in the database.
    proven: u64,
    /// Entries before this one may be sent.
    released: u64,
    /// Ends of entries that aren't proven, each with the number after it.
    waiting: VecDeque<(u64, LogPlace)>,
    couriers: Vec<CourierState>,
    /// Couriers that are no more. They count as given up.
    left: BTreeSet<usize>,
    is_ended: bool,
    /// The host isn't the one that is wanted.
    is_left: bool,
    /// The position is known: before, there is nothing to store.
    has_begun: bool,
    stored: Option<Stored>,
    /// What another daemon needs that may go on.
    sharing: Option<Sharing>,
}

/// What a courier may do.
#[derive(Debug)]
pub(crate) enum Work {
    Entries(Vec<Arc<Entry>>),
    /// The entries from here on stand in this file only.
    Behind(PathBuf),
    Nothing,
}

/// What the barrier has to ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Of the host that must be asked, see [`Line::follow_host`].
    pub(crate) turn: Option<usize>,
    /// The number after the last entry.
    pub(crate) until: u64,
}

/// How far a courier may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) proven: u64,
    pub(crate) released: u64,
    pub(crate) is_tainted: bool,
    /// It is to go on nowhere.
    pub(crate) is_left: bool,
    pub(crate) is_ended: bool,
}

impl Line {
    /// Opens the folder of a source. The position is `None` if it was never read.
    ///
    /// # Errors
    /// In a sentence.
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
            // Somebody removed the position: what the journal still has goes to all.
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
                is_left: false,
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

    /// The same, until a term is over.
    pub(crate) fn within(self, term: Arc<Term>) -> Self {
        Self { term, ..self }
    }

    /// Whether another daemon may be active: then nothing is read or sent any more.
    pub(crate) fn is_over(&self) -> bool {
        self.term.is_over()
    }

    /// Puts keys or a flush into the journal, after all before them. Waits while it is full, if it must.
    ///
    /// # Errors
    /// They aren't in it.
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
        // What isn't settled can't go. It is soon, and what comes until then is no more than what is there.
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

    /// Says how far the log was read; `held` is what is to be stored instead while transactions are prepared.
    pub(crate) fn advance(&self, read: &GtidPosition, held: Option<&GtidPosition>) {
        let mut state = self.state.lock();
        state.has_begun = true;
        state.read.clone_from(read);
        state.held = held.cloned();
    }

    /// The log is read from here on, and what lies before isn't: at first, or after a gap. What waits to be proven may be of a
    /// history that the database no longer has: it is proven once a snapshot has reached `place`, the log's end.
    pub(crate) fn begin_at(&self, read: &GtidPosition, place: LogPlace) {
        let mut state = self.state.lock();
        (state.has_begun, state.held, state.unsettled) = (true, None, None);
        state.read.clone_from(read);
        state.forget_marks();
        let next = state.journal.next();
        if !state.waiting.is_empty() {
            state.waiting = [(next, place)].into();
        }
    }

    /// The log is read at the host whose turn it is: the barrier must ask that one. What waits to be proven has places of another
    /// host's log; `moves` tells of each where that is in this one's, if it isn't at the same place.
    pub(crate) fn follow_host(&self, turn: usize, moves: impl Fn(&LogPlace) -> Option<LogPlace>) {
        let mut state = self.state.lock();
        (state.turn, state.is_left) = (Some(turn), false);
        for (_, place) in &mut state.waiting {
            if let Some(there) = moves(place) {
                *place = there;
            }
        }
    }

    /// What was read, of transactions that are prepared, too; and the first entry of those that the journal has beyond the position
    /// that was stored.
    pub(crate) fn read_so_far(&self) -> (GtidPosition, Option<u64>) {
        let state = self.state.lock();
        (state.read.clone(), state.unsettled)
    }

    /// The host that is followed has all that the journal has, or that was made up for: then its log is read on from `rewound`.
    pub(crate) fn settle(&self, rewound: Option<&GtidPosition>) {
        let mut state = self.state.lock();
        state.unsettled = None;
        if let Some(rewound) = rewound {
            state.held = None;
            state.read.clone_from(rewound);
            state.forget_marks();
        }
    }

    /// Which of PostgreSQL's histories the position is in; `None`: it wasn't noted.
    pub(crate) fn timeline(&self) -> Option<u32> {
        self.state.lock().timeline
    }

    /// The position is in that history, or is about to be.
    pub(crate) fn note_timeline(&self, timeline: u32) {
        self.state.lock().timeline = Some(timeline);
    }

    /// The folder with its journal and position.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The turn of the host whose log is read.
    pub(crate) fn turn(&self) -> Option<usize> {
        self.state.lock().turn
    }

    /// The host of that turn isn't what is wanted any more.
    pub(crate) fn leave_host(&self, turn: usize) {
        let mut state = self.state.lock();
        state.is_left = state.turn == Some(turn);
    }

    /// Whether another host is wanted.
    pub(crate) fn is_host_left(&self) -> bool {
        self.state.lock().is_left
    }

    /// Where the log is to be read on after a connection was lost.
    pub(crate) fn read_position(&self) -> GtidPosition {
        let state = self.state.lock();
        state.held.as_ref().unwrap_or(&state.read).clone()
    }

    /// The position that is stored for whoever goes on: on the device, or in etcd.
    pub(crate) fn stored_position(&self) -> Option<GtidPosition> {
        let state = self.state.lock();
        let stored = state.shared().unwrap_or(state.stored.as_ref());
        stored.map(|stored| stored.read.clone())
    }

    /// Waits until the barrier has something to ask about. `None`: the end, or nothing came for a while.
    pub(crate) fn wait_unproven(&self) -> Option<Question> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && !state.is_ended {
            self.changed.wait_for(&mut state, LOOK);
        }
        state.waiting.back().map(|(after, _)| Question { turn: state.turn, until: *after })
    }

    /// A snapshot of the host that is followed, asked for after entry `until` was appended.
    #[cfg(test)]
    pub(crate) fn prove(&self, until: u64, snapshot: &LogPlace) -> bool {
        self.prove_by(Question { turn: self.turn(), until }, |place| place.is_within(snapshot))
    }

    /// A snapshot, asked for after the question, says of each place whether it has it. True if it has all that was asked about.
    /// One of a host that is no longer followed says nothing.
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

    /// Lets what there is be sent unproven. It is sent again once it is proven.
    pub(crate) fn release_unproven(&self) {
        let mut state = self.state.lock();
        let next = state.journal.next();
        self.counts.barrier_passed_by.add(next - state.released);
        state.released = next;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for entries from `from` on that may be sent, up to `time`. For the courier of that number.
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

    /// The courier's router has acknowledged all entries before this one.
    pub(crate) fn note_cursor(&self, courier: usize, cursor: u64) {
        let mut state = self.state.lock();
        let is_news = state.couriers[courier].cursor != cursor;
        state.couriers[courier].cursor = cursor;
        drop(state);
        if is_news {
            self.changed.notify_all();
        }
    }

    /// The journal's next number, its bytes, and entries that aren't proven.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.journal.next(), state.journal.bytes(), state.journal.next() - state.proven)
    }

    /// Makes what there is durable, then the position.
    ///
    /// # Errors
    /// The device fails. After a sync that failed, each later call does too: see [`Self::unsynced`].
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
            read: state.held.as_ref().unwrap_or(&state.read).clone(),
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
            // Or somebody else's sync has failed: a file tells of it once.
            state.journal.check_synced()?;
            drop(state);
            stored.write(&self.folder)?;
            state = self.state.lock();
            state.stored = Some(stored);
        }
        state.trim(self.limits)
    }

    /// Why nothing can be made durable any more in this process.
    pub(crate) fn unsynced(&self) -> Option<String> {
        self.state.lock().journal.unsynced().map(str::to_owned)
    }

    /// Wakes all who wait: nothing more comes.
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
    /// The journal is on a device that takes what is written, and fails to sync it; or on that file.
    pub(crate) fn replace_file(&self, file: Option<Arc<std::fs::File>>) -> Arc<std::fs::File> {
        let null = || std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        self.state.lock().journal.replace_file(file.unwrap_or_else(|| Arc::new(null())))
    }
}

impl State {
    fn needed(&self) -> u64 {
        needed(&self.couriers, self.released)
    }

    /// What a process needs that begins with the position that is stored.
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

/// The first entry that a destination needs, or that isn't sent yet.
fn needed(couriers: &[CourierState], released: u64) -> u64 {
    let open = couriers.iter().filter(|courier| !courier.is_tainted);
    open.map(|courier| courier.cursor).min().unwrap_or(released).min(released)
}

/// After so long without the barrier's connection, entries are sent unproven.
pub(crate) const BARRIER_AWAY: Duration = Duration::from_secs(10);
/// How long somebody waits before looking again.
const LOOK: Duration = Duration::from_millis(500);
/// Entries that aren't proven; beyond, the log isn't read.
const WAITING_MAX: usize = 100_000;

#[cfg(test)]
mod tests;
