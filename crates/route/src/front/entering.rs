//! The clients of a thread that are not let in yet, oldest first.
//!
//! A client that opens a connection and says nothing costs a socket and the memory of a handshake. A thread keeps
//! [`ENTERING_MAX`] of them; one more makes the oldest give way, so that a flood of silent clients takes bounded memory
//! and keeps nobody out that shakes hands at once.
//!
//! # Costs
//! Nothing for clients without TLS and login. For others a small allocation, and a search among those that came earlier
//! and are not through.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;

/// The clients of a thread that are not let in yet.
#[derive(Debug, Default)]
pub(crate) struct Entering(RefCell<VecDeque<Rc<Notify>>>);

impl Entering {
    /// A place for a newcomer; the oldest gives way if there is none.
    pub(crate) fn begin(&self) -> EntrancePlace<'_> {
        let mine = Rc::new(Notify::new());
        let mut places = self.0.borrow_mut();
        if places.len() >= ENTERING_MAX
            && let Some(oldest) = places.pop_front()
        {
            oldest.notify_one();
        }
        places.push_back(Rc::clone(&mine));
        EntrancePlace { entering: self, mine }
    }
}

/// A client's place among those that are not let in yet; free when it is dropped.
#[derive(Debug)]
pub(crate) struct EntrancePlace<'e> {
    entering: &'e Entering,
    mine: Rc<Notify>,
}

impl EntrancePlace<'_> {
    /// Ends when the client has to give way.
    pub(crate) async fn gives_way(&self) {
        self.mine.notified().await;
    }
}

impl Drop for EntrancePlace<'_> {
    fn drop(&mut self) {
        self.entering.0.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.mine));
    }
}

/// Clients of a thread that may be on their way in at once.
pub(crate) const ENTERING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_oldest_gives_way_and_those_that_are_through_count_no_more() {
        let entering = Entering::default();
        let first = entering.begin();
        drop(entering.begin());
        let mut others: Vec<_> = (1..ENTERING_MAX).map(|_| entering.begin()).collect();
        assert!(first.gives_way().now_or_never().is_none(), "there was room for all");
        others.push(entering.begin());
        assert!(first.gives_way().now_or_never().is_some(), "the oldest has to go");
        assert!(others.iter().all(|place| place.gives_way().now_or_never().is_none()));
        drop(first);
        assert_eq!(entering.0.borrow().len(), ENTERING_MAX);
    }
}
