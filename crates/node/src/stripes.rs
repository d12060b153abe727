//! Changes under way: what each key will be once they have landed, and the turn to change a key.
//!
//! A change is visible as soon as it is submitted, and answered once it is durable. Between the two its value stays here.
//! So a counter that many clients increment costs one sync for each group of increments, not one for each.
//!
//! # Invariants
//! 1. A key's change is submitted by the holder of the key's turn. So what was read in that turn is still the current
//!    record when the change is submitted. A turn may take long: other keys don't wait for it.
//! 2. A value stays here until the engine has it. A lookup that searches here first, and then in the engine, misses none.
//! 3. The lock of a stripe's changes is held while one is submitted, so that changes have the same order here and in the
//!    engine. Nothing waits for a device under it.
//!
//! # Costs
//! A get looks here only while changes are under way: a hash and an uncontended lock. A turn is a copy of the key in a map,
//! and the same again when it ends.
//!
//! # Weaknesses
//! A change that fails was visible for a while, so a client may have seen a value that isn't stored. Only a device that
//! fails leads to this: an engine without room refuses a change when it is submitted.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::engine::{EngineError, Landing, Record};

/// See the module's head.
pub(crate) struct Stripes {
    stripes: Vec<Stripe>,
    hasher: RandomState,
    under_way: AtomicUsize,
}

#[derive(Default)]
struct Stripe {
    /// Keys whose turn is taken, each with those that wait for it.
    turns: Mutex<HashMap<Bytes, VecDeque<oneshot::Sender<Turn>>>>,
    changes: Mutex<HashMap<Bytes, Change>>,
}

/// A key's newest change that hasn't landed.
struct Change {
    seq: u64,
    /// `None`: a delete.
    value: Option<Bytes>,
    write: Arc<Write>,
}

/// The right to change a key. When it is dropped, it goes to the change that has waited longest.
pub(crate) struct Turn {
    key: Bytes,
    /// `None`: this turn isn't held, and passes nothing on.
    stripes: Option<Arc<Stripes>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(stripes) = self.stripes.take() {
            stripes.pass_on(&self.key);
        }
    }
}

/// A place in the line for the turn of a key.
pub(crate) enum Coming {
    Now(Turn),
    Later(oneshot::Receiver<Turn>),
}

impl Coming {
    /// Waits for the turn; `None`: the process ends.
    pub(crate) async fn turn(self) -> Option<Turn> {
        match self {
            Self::Now(turn) => Some(turn),
            Self::Later(coming) => coming.await.ok(),
        }
    }
}

impl Stripes {
    pub(crate) fn new() -> Arc<Self> {
        let stripes = (0..STRIPES).map(|_| Stripe::default()).collect();
        Arc::new(Self { stripes, hasher: RandomState::new(), under_way: AtomicUsize::new(0) })
    }

    fn of(&self, key: &[u8]) -> &Stripe {
        let hash = usize::try_from(self.hasher.hash_one(key) % STRIPES as u64).unwrap_or_default();
        &self.stripes[hash]
    }

    /// Takes the turn of a key if it is free.
    pub(crate) fn try_turn(self: &Arc<Self>, key: &Bytes) -> Option<Turn> {
        match self.of(key).turns.lock().entry(own(key)) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => Some(self.begin(vacant.insert_entry(VecDeque::new()).key())),
        }
    }

    /// Lines up for the turn of a key, behind those that came before.
    pub(crate) fn line_up(self: &Arc<Self>, key: &Bytes) -> Coming {
        match self.of(key).turns.lock().entry(own(key)) {
            Entry::Occupied(mut waiting) => {
                let (send, receive) = oneshot::channel();
                waiting.get_mut().push_back(send);
                Coming::Later(receive)
            }
            Entry::Vacant(vacant) => {
                Coming::Now(self.begin(vacant.insert_entry(VecDeque::new()).key()))
            }
        }
    }

    fn begin(self: &Arc<Self>, key: &Bytes) -> Turn {
        Turn { key: key.clone(), stripes: Some(Arc::clone(self)) }
    }

    /// Gives a key's turn to the change that has waited longest and still waits.
    fn pass_on(self: &Arc<Self>, key: &Bytes) {
        let mut turns = self.of(key).turns.lock();
        while let Some(next) = turns.get_mut(key).and_then(VecDeque::pop_front) {
            let Err(mut refused) = next.send(self.begin(key)) else { return };
            refused.stripes = None;
        }
        turns.remove(key);
    }

    /// What a key will be if a change of it is under way: a record, or none after a delete.
    pub(crate) fn look(&self, key: &[u8]) -> Option<Option<Record>> {
        if self.under_way.load(Ordering::Acquire) == 0 {
            return None;
        }
        let changes = self.of(key).changes.lock();
        let Change { seq, value, .. } = changes.get(key)?;
        Some(value.clone().map(|value| Record { seq: *seq, value }))
    }

    /// Changes that haven't landed.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Submits a change of a key by calling `submit`, in the turn of the key. The turn is `None` for a key that no change
    /// reads first.
    pub(crate) fn submit(
        self: &Arc<Self>,
        _turn: Option<&Turn>,
        (key, value): (Bytes, Option<Bytes>),
        submit: impl FnOnce(Bytes, Option<Bytes>, Arc<Write>) -> Result<u64, EngineError>,
    ) -> Result<(u64, Arc<Write>), EngineError> {
        let write = Arc::new(Write {
            stripes: Arc::clone(self),
            key: key.clone(),
            state: Mutex::new(WriteState::UnderWay(None)),
        });
        let mut changes = self.of(&key).changes.lock();
        self.under_way.fetch_add(1, Ordering::Release);
        match submit(key.clone(), value.clone(), Arc::clone(&write)) {
            Ok(seq) => {
                changes.insert(key, Change { seq, value, write: Arc::clone(&write) });
                Ok((seq, write))
            }
            Err(failure) => {
                self.under_way.fetch_sub(1, Ordering::Release);
                Err(failure)
            }
        }
    }

    fn forget(&self, write: &Write) {
        let mut changes = self.of(&write.key).changes.lock();
        let is_newest =
            changes.get(&write.key).is_some_and(|change| std::ptr::eq(&*change.write, write));
        if is_newest {
            changes.remove(&write.key);
        }
        drop(changes);
        self.under_way.fetch_sub(1, Ordering::Release);
    }
}

/// A change, from its submission until it has landed.
pub(crate) struct Write {
    stripes: Arc<Stripes>,
    key: Bytes,
    state: Mutex<WriteState>,
}

enum WriteState {
    UnderWay(Option<Waker>),
    Landed(Result<(), EngineError>),
}

impl Write {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<(), EngineError>> {
        match &mut *self.state.lock() {
            WriteState::Landed(result) => Poll::Ready(result.clone()),
            WriteState::UnderWay(waker) => {
                if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Waits until the change has landed.
    pub(crate) async fn wait(&self) -> Result<(), EngineError> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }
}

impl Landing for Write {
    fn landed(&self, result: Result<(), EngineError>) {
        self.stripes.forget(self);
        let before = std::mem::replace(&mut *self.state.lock(), WriteState::Landed(result));
        if let WriteState::UnderWay(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// Copies a key: what a client sends stays in a buffer with much else.
fn own(key: &Bytes) -> Bytes {
    Bytes::copy_from_slice(key)
}

/// The number of stripes. Keys of one stripe share a lock.
const STRIPES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::future::Future as _;

    use super::*;

    fn key() -> Bytes {
        Bytes::from_static(b"k")
    }

    #[test]
    fn the_newest_change_is_seen_until_it_lands_and_an_older_one_that_lands_hides_none() {
        let stripes = Stripes::new();
        let turn = stripes.try_turn(&key()).expect("nobody has it");
        assert!(stripes.try_turn(&key()).is_none(), "one at a time");
        let submit = |seq, value: Option<&'static str>| {
            let change = (key(), value.map(Bytes::from));
            stripes.submit(Some(&turn), change, |_, _, _| Ok(seq)).expect("it is taken").1
        };
        let first = submit(1, Some("a"));
        let second = submit(2, Some("b"));
        assert_eq!(stripes.look(b"k").flatten().map(|record| record.seq), Some(2));
        first.landed(Ok(()));
        assert_eq!(stripes.look(b"k").flatten().map(|record| record.value), Some("b".into()));
        let third = submit(3, None);
        second.landed(Ok(()));
        assert!(matches!(stripes.look(b"k"), Some(None)), "deleted");
        third.landed(Err(EngineError::ReadOnly));
        assert!(stripes.look(b"k").is_none());
        assert_eq!(stripes.under_way(), 0);
        let polled = third.poll(&Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(Err(EngineError::ReadOnly)));
    }

    #[test]
    fn a_change_that_is_refused_leaves_nothing() {
        let stripes = Stripes::new();
        let turn = stripes.try_turn(&key()).expect("nobody has it");
        let change = (key(), Some(Bytes::from("a")));
        let refused = stripes.submit(Some(&turn), change, |_, _, _| Err(EngineError::OutOfDisk));
        assert_eq!(refused.err(), Some(EngineError::OutOfDisk));
        assert!(stripes.look(b"k").is_none());
        assert_eq!(stripes.under_way(), 0);
    }

    /// Regression: one key's long turn kept other keys of the same stripe from theirs.
    #[tokio::test]
    async fn a_turn_keeps_no_other_key_and_goes_to_whoever_has_waited_longest_and_is_there() {
        let stripes = Stripes::new();
        let turn = stripes.line_up(&key()).turn().await;
        for n in 0..4 * STRIPES {
            assert!(stripes.try_turn(&Bytes::from(format!("{n}"))).is_some(), "{n}");
        }
        let order = std::sync::Mutex::new(Vec::new());
        let taken = async |n: u32| {
            let turn = stripes.line_up(&key()).turn().await;
            order.lock().expect("no panic").push(n);
            drop(turn);
        };
        let (mut first, mut gone, mut last) =
            (Box::pin(taken(1)), Box::pin(taken(2)), Box::pin(taken(3)));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(
            [&mut first, &mut gone, &mut last]
                .into_iter()
                .all(|it| it.as_mut().poll(cx).is_pending())
        );
        drop(gone);
        drop(turn);
        assert!(stripes.try_turn(&key()).is_none(), "nobody comes before those that wait");
        tokio::join!(last, first);
        assert_eq!(*order.lock().expect("no panic"), [1, 3]);
        assert!(stripes.stripes.iter().all(|stripe| stripe.turns.lock().is_empty()));
    }
}
