//! The debts of one server: the files with its deletes, and whether a task is sending them.
//!
//! ```text
//!         enter: a delete is logged                start_sending
//! paid ──────────────────────────────────▶ owed ──────────────────▶ sending
//!   ▲                                        ▲ it failed again        │
//!   └────────────────────────────────────────┴────────────────────────┘ close: all are sent
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// The deletes that one server is owed.
#[derive(Debug)]
pub(crate) struct Account {
    /// `host:port`.
    pub(crate) name: String,
    /// Written only while the book is locked.
    state: AtomicU8,
    /// The files that may hold deletes for the server, each with the end of its last one.
    pub(super) book: Mutex<BTreeMap<PathBuf, u64>>,
    /// The number of logged deletes that the server hasn't got, for statistics.
    waiting: AtomicU64,
    /// Whether a task will send what is owed, although the server isn't marked.
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

    /// Records `count` more deletes for the server in a file, the last of which ends at `end`.
    pub(super) fn enter(&self, file: &Path, count: u64, end: u64) {
        let mut book = self.book.lock();
        let known = book.entry(file.to_owned()).or_default();
        *known = end.max(*known);
        self.waiting.fetch_add(count, Relaxed);
        let _ = self.state.compare_exchange(PAID, OWED, SeqCst, SeqCst);
    }

    /// Records that the server has got `count` of them.
    pub(super) fn note_sent(&self, count: usize) {
        let fewer = |waiting: u64| Some(waiting.saturating_sub(count as u64));
        // The closure always returns a number.
        let _ = self.waiting.fetch_update(Relaxed, Relaxed, fewer);
    }

    /// The number of waiting deletes.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Whether deletes wait and no task is sending them.
    pub(crate) fn is_owed(&self) -> bool {
        self.state.load(SeqCst) == OWED
    }

    /// Whether nothing is owed.
    pub(crate) fn is_paid(&self) -> bool {
        self.state.load(SeqCst) == PAID
    }

    /// Whether deletes are being sent. Then other deletes may go to the server too, though it is marked.
    pub(crate) fn is_sending(&self) -> bool {
        self.state.load(SeqCst) == SENDING
    }

    /// Records that sending has ended.
    pub(super) fn close(&self, book: &BTreeMap<PathBuf, u64>) {
        if book.is_empty() {
            self.waiting.store(0, Relaxed);
        }
        self.state.store(if book.is_empty() { PAID } else { OWED }, SeqCst);
    }

    /// Reserves sending for the caller. `false`: another task is sending.
    pub(super) fn start_sending(&self) -> bool {
        let _book = self.book.lock();
        self.state.swap(SENDING, SeqCst) != SENDING
    }
}
