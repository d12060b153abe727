//! What one server is owed: in which files, and whether somebody sends it.
//!
//! ```text
//!         enter: a delete is written down          start_sending
//! paid ──────────────────────────────────▶ owed ──────────────────▶ sending
//!   ▲                                        ▲ it failed again        │
//!   └────────────────────────────────────────┴────────────────────────┘ close: all is sent
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// What one server is owed.
#[derive(Debug)]
pub(crate) struct Account {
    /// `host:port`.
    pub(crate) name: String,
    /// Written with the book locked.
    state: AtomicU8,
    /// Files that may hold deletes for the server, and where the last of these ends.
    pub(super) book: Mutex<BTreeMap<PathBuf, u64>>,
    /// Deletes that were written down and that the server hasn't got, to be shown.
    waiting: AtomicU64,
    /// Someone sends what is owed in a while, though the server isn't marked.
    pub(crate) is_tended: AtomicBool,
}

const PAID: u8 = 0;
const OWED: u8 = 1;
const SENDING: u8 = 2;

impl Account {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: AtomicU8::new(PAID),
            book: Mutex::default(),
            waiting: AtomicU64::new(0),
            is_tended: AtomicBool::new(false),
        }
    }

    /// So many more deletes for the server are in a file, of which the last ends there.
    pub(super) fn enter(&self, file: &Path, count: u64, end: u64) {
        let mut book = self.book.lock();
        let known = book.entry(file.to_owned()).or_default();
        *known = end.max(*known);
        self.waiting.fetch_add(count, Relaxed);
        let _ = self.state.compare_exchange(PAID, OWED, SeqCst, SeqCst);
    }

    /// The server has so many of them.
    pub(super) fn note_sent(&self, count: usize) {
        let fewer = |waiting: u64| Some(waiting.saturating_sub(count as u64));
        // It always gives a number.
        let _ = self.waiting.fetch_update(Relaxed, Relaxed, fewer);
    }

    /// Deletes that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Whether deletes wait, and nobody sends them now.
    pub(crate) fn is_owed(&self) -> bool {
        self.state.load(SeqCst) == OWED
    }

    /// Whether nothing is owed.
    pub(crate) fn is_paid(&self) -> bool {
        self.state.load(SeqCst) == PAID
    }

    /// Whether deletes are sent now: others may go to the server too, though it is marked.
    pub(crate) fn is_sending(&self) -> bool {
        self.state.load(SeqCst) == SENDING
    }

    /// Nobody sends any more.
    pub(super) fn close(&self, book: &BTreeMap<PathBuf, u64>) {
        if book.is_empty() {
            self.waiting.store(0, Relaxed);
        }
        self.state.store(if book.is_empty() { PAID } else { OWED }, SeqCst);
    }

    /// From now on the caller sends what is owed; false: another does.
    pub(super) fn start_sending(&self) -> bool {
        let _book = self.book.lock();
        self.state.swap(SENDING, SeqCst) != SENDING
    }
}
