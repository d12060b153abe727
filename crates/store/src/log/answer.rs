//! The answer that a thread waits for. The thread that writes the log gives it, once.
//!
//! # Invariants
//! 1. A [`Teller`] gives an answer, or is dropped, which answers [`StoreError::Closed`]. So no thread waits forever.

use crate::error::StoreError;
use crate::log::queue::Committed;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// A slot for the answer.
#[derive(Default)]
pub(crate) struct Answer {
    told: Mutex<Option<Result<Committed, StoreError>>>,
    changed: Condvar,
}

/// The handle that gives the answer.
pub(crate) struct Teller(Option<Arc<Answer>>);

impl Answer {
    /// Creates an empty slot, and the handle that fills it.
    pub(crate) fn new() -> (Arc<Self>, Teller) {
        let answer = Arc::new(Self::default());
        (answer.clone(), Teller(Some(answer)))
    }

    /// Takes the answer, if it was given.
    pub(crate) fn take(&self) -> Option<Result<Committed, StoreError>> {
        self.told.lock().take()
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self) -> Result<Committed, StoreError> {
        let mut told = self.told.lock();
        loop {
            match told.take() {
                Some(answer) => return answer,
                None => self.changed.wait(&mut told),
            }
        }
    }
}

impl Teller {
    /// Gives the answer.
    pub(crate) fn tell(mut self, answer: Result<Committed, StoreError>) {
        self.end(answer);
    }

    fn end(&mut self, answer: Result<Committed, StoreError>) {
        if let Some(to) = self.0.take() {
            *to.told.lock() = Some(answer);
            to.changed.notify_one();
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.end(Err(StoreError::Closed));
    }
}
