//! A limit on the requests of a client that are under way at all servers: incast control (Scaling Memcache at Facebook,
//! §3.1).
//!
//! If many servers answer one client at the same moment, they overflow the port of its switch. So all servers share one
//! window. It grows by one after a window's worth of answers, and halves when an answer is lost.
//!
//! # Invariants
//! 1. No more requests are under way than the window allows, and one is always allowed.
//! 2. Tasks that wait get permits in the order of their calls. A task that stops waiting leaves nothing behind.
//!
//! # Costs
//! One lock to enter, and one to leave.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A window. Clones share it: their requests count together.
#[derive(Clone, Debug)]
pub struct Window {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    size: f64,
    size_max: f64,
    out: usize,
    waiting: VecDeque<oneshot::Sender<Offer>>,
}

/// The permit for one request. If it is dropped without [`answered`](Permit::answered), the request counts as
/// unanswered.
#[derive(Debug)]
pub struct Permit {
    /// `None` once the permit is settled.
    window: Option<Window>,
}

/// A permit for a task that waits. If the task has stopped waiting, the permit is returned unused.
#[derive(Debug)]
struct Offer(Option<Permit>);

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.unused();
        }
    }
}

impl Window {
    /// Creates a window that begins with `size` requests and never allows more than `size_max`. Both are at least 1.
    #[must_use]
    pub fn new(size: u32, size_max: u32) -> Self {
        let (size, size_max) = (f64::from(size.max(1)), f64::from(size_max.max(1)));
        let state = State { size: size.min(size_max), size_max, out: 0, waiting: VecDeque::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits until the window has room for one more request.
    pub async fn enter(&self) -> Permit {
        loop {
            let room = {
                let mut state = self.state.lock();
                if state.has_room() && state.waiting.is_empty() {
                    state.out += 1;
                    return self.permit();
                }
                let (sender, room) = oneshot::channel();
                state.waiting.push_back(sender);
                room
            };
            if let Ok(mut offer) = room.await
                && let Some(permit) = offer.0.take()
            {
                return permit;
            }
        }
    }

    /// Returns a permit if there is room and no task waits for it.
    #[must_use]
    pub fn try_enter(&self) -> Option<Permit> {
        let mut state = self.state.lock();
        if !state.has_room() || !state.waiting.is_empty() {
            return None;
        }
        state.out += 1;
        Some(self.permit())
    }

    /// How many requests the window allows at present.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.state.lock().size
    }

    /// How many requests are under way.
    #[must_use]
    pub fn out(&self) -> usize {
        self.state.lock().out
    }

    fn permit(&self) -> Permit {
        Permit { window: Some(self.clone()) }
    }

    fn settle(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        state.out -= 1;
        change(&mut state);
        self.admit(&mut state);
    }

    fn admit(&self, state: &mut State) {
        while state.has_room() {
            let Some(sender) = state.waiting.pop_front() else {
                return;
            };
            state.out += 1;
            if let Err(mut offer) = sender.send(Offer(Some(self.permit()))) {
                // Settle the permit here: its drop would take the lock, which is already held.
                if let Some(permit) = &mut offer.0 {
                    permit.window = None;
                }
                state.out -= 1;
            }
        }
    }
}

impl State {
    #[expect(clippy::cast_precision_loss, reason = "far fewer requests than 2^52 are out")]
    fn has_room(&self) -> bool {
        self.out == 0 || (self.out + 1) as f64 <= self.size
    }
}

impl Permit {
    /// Records that the answer came: the window grows by its share of one.
    pub fn answered(mut self) {
        if let Some(window) = self.window.take() {
            window.settle(|state| state.size = (state.size + 1.0 / state.size).min(state.size_max));
        }
    }

    /// Records that no request was sent: the window stays as it is.
    pub fn unused(mut self) {
        if let Some(window) = self.window.take() {
            window.settle(|_| {});
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(window) = self.window.take() {
            window.settle(|state| state.size = (state.size / 2.0).max(1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Window;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_windows_worth_of_answers_makes_room_for_one_more_and_a_lost_one_halves_it() {
        let window = Window::new(10, 100);
        for _ in 0..10 {
            window.try_enter().unwrap().answered();
        }
        assert!((10.9..11.0).contains(&window.size()), "{}", window.size());
        drop(window.try_enter().unwrap());
        assert!((5.4..5.5).contains(&window.size()), "{}", window.size());
        for _ in 0..10 {
            drop(window.try_enter().unwrap());
        }
        assert_eq!(window.size(), 1.0);
        assert_eq!(window.out(), 0);
    }

    #[test]
    fn a_window_never_exceeds_its_cap() {
        let window = Window::new(3, 4);
        for _ in 0..100 {
            window.try_enter().unwrap().answered();
        }
        let permits: Vec<_> = std::iter::from_fn(|| window.try_enter()).collect();
        assert_eq!(permits.len(), 4);
    }

    #[test]
    fn those_who_wait_enter_in_order_and_those_who_leave_hold_nobody_up() {
        let window = Window::new(1, 1);
        let first = window.try_enter().unwrap();
        let mut second = Box::pin(window.enter());
        let mut third = Box::pin(window.enter());
        let mut fourth = pin!(window.enter());
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        assert!(poll(fourth.as_mut()).is_pending());
        assert!(window.try_enter().is_none());
        drop(second);
        first.answered();
        assert!(poll(fourth.as_mut()).is_pending(), "the third was before");
        let Poll::Ready(permit) = poll(third.as_mut()) else { panic!("it was its turn") };
        drop(third);
        permit.unused();
        assert!(poll(fourth.as_mut()).is_ready());
        assert_eq!(window.out(), 0, "its permit was dropped with the poll's result");
    }

    #[test]
    fn room_given_to_one_who_left_goes_to_the_next() {
        let window = Window::new(2, 2);
        let [first, _second] = [window.try_enter().unwrap(), window.try_enter().unwrap()];
        let mut third = Box::pin(window.enter());
        assert!(poll(third.as_mut()).is_pending());
        first.answered();
        drop(third);
        assert_eq!((window.size(), window.out()), (2.0, 1));
    }
}
