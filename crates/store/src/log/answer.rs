//! The answer that a thread waits for: told once, by whoever writes the log.
//!
//! # Invariants
//! 1. A [`Teller`] tells, or is dropped, which tells [`StoreError::Closed`]: so nobody waits for ever.

use crate::error::StoreError;
use crate::log::queue::Committed;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Where the answer will be.
#[derive(Default)]
pub(crate) struct Answer {
    told: Mutex<Option<Result<Committed, StoreError>>>,
    changed: Condvar,
}

/// Who tells it.
pub(crate) struct Teller(Option<Arc<Answer>>);

impl Answer {
    /// An answer that waits to be told.
    pub(crate) fn new() -> (Arc<Self>, Teller) {
        let answer = Arc::new(Self::default());
        (answer.clone(), Teller(Some(answer)))
    }

    /// The answer, if it was told.
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
    /// Tells the answer.
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
