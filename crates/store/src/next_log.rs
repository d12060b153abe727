//! The next log, which a thread makes in advance.
//!
//! While a full log is followed by the next one, no write is answered. To make a file takes as long as several syncs. So
//! a thread makes it while the log before it fills, under a name that no opening takes for a log's. The thread that writes
//! only has to give it its name.
//!
//! # Invariants
//! 1. A log that was made in advance is given out once, or removed.
//! 2. [`NextLog::take`] waits for a log that is being made, and for nothing else.

use crate::log::LogFile;
use parking_lot::{Condvar, Mutex};

/// The place where the next log is asked for, and found.
#[derive(Default)]
pub(crate) struct NextLog {
    state: Mutex<State>,
    changed: Condvar,
}

/// A log without its name.
pub(crate) struct Made {
    pub(crate) id: u64,
    pub(crate) log: LogFile,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Wanted,
    Making,
    Made(Box<Made>),
    /// It couldn't be made. It isn't tried again until the log before it is full.
    Failed,
    Over,
}

impl NextLog {
    /// Asks for a log, unless there is one or making it has failed.
    pub(crate) fn want(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Idle) {
            *state = State::Wanted;
            self.changed.notify_all();
        }
    }

    /// Takes the log that was made in advance, if there is one.
    pub(crate) fn take(&self) -> Option<Made> {
        let mut state = self.state.lock();
        while matches!(*state, State::Making) {
            self.changed.wait(&mut state);
        }
        if matches!(*state, State::Over) {
            return None;
        }
        match std::mem::take(&mut *state) {
            State::Made(made) => Some(*made),
            _ => None,
        }
    }

    /// Bytes of the disk that the log takes, if there is one.
    pub(crate) fn bytes(&self) -> u64 {
        match &*self.state.lock() {
            State::Made(made) => made.log.capacity(),
            _ => 0,
        }
    }

    /// Makes each log that is asked for by calling `make`, until the end. Returns a log that nobody took.
    pub(crate) fn serve(&self, mut make: impl FnMut() -> Option<Made>) -> Option<Made> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Wanted => {
                    *state = State::Making;
                    drop(state);
                    let made = make();
                    state = self.state.lock();
                    if matches!(*state, State::Over) {
                        return made;
                    }
                    *state = made.map_or(State::Failed, |made| State::Made(Box::new(made)));
                    self.changed.notify_all();
                }
                State::Over => return None,
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// Ends [`NextLog::serve`]. Returns a log that nobody took.
    pub(crate) fn end(&self) -> Option<Made> {
        let before = std::mem::replace(&mut *self.state.lock(), State::Over);
        self.changed.notify_all();
        if let State::Made(made) = before { Some(*made) } else { None }
    }
}
