//! `max_outstanding` of a pool: limits the requests under way to a server. Other requests wait.
//!
//! Shadow requests have a queue of their own. The two queues are served in turn, so that neither starves.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use guira_client::{Reply, Request};
use tokio::sync::oneshot;

use super::{BoxFuture, Context, Node, Route};

/// Limits how many requests are under way at once.
#[derive(Debug)]
struct OutstandingLimit {
    target: Node,
    limit: usize,
    queues: Rc<RefCell<Queues>>,
}

#[derive(Debug)]
struct Queues {
    free: usize,
    /// The queue of client requests, then that of shadow requests.
    waiting: [VecDeque<oneshot::Sender<()>>; 2],
    next: usize,
}

/// One of the places for requests under way. Dropping it passes the place to the next request.
struct Place {
    queues: Rc<RefCell<Queues>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.queues.borrow_mut();
        for turn in 0..2 {
            let queue = (queues.next + turn) % 2;
            // Skip requests that were cancelled while they waited.
            while let Some(waiting) = queues.waiting[queue].pop_front() {
                if waiting.send(()).is_ok() {
                    queues.next = (queue + 1) % 2;
                    return;
                }
            }
        }
        queues.free += 1;
    }
}

impl OutstandingLimit {
    async fn place(&self, context: &Context) -> Place {
        let turn = {
            let mut queues = self.queues.borrow_mut();
            if queues.free > 0 {
                queues.free -= 1;
                None
            } else {
                let (sender, turn) = oneshot::channel();
                queues.waiting[usize::from(context.is_shadow)].push_back(sender);
                Some(turn)
            }
        };
        if let Some(turn) = turn {
            // The sender is in the queues, which exist as long as this route does.
            drop(turn.await);
        }
        Place { queues: Rc::clone(&self.queues) }
    }
}

impl Route for OutstandingLimit {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let _place = self.place(context).await;
            self.target.route(request, context).await
        })
    }

    fn name(&self) -> Cow<'_, str> {
        format!("outstanding-limit|limit={}", self.limit).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }

    fn failure_domain(&self) -> u32 {
        self.target.failure_domain()
    }
}

/// Returns a route to `target` with at most `limit` requests under way.
pub(super) fn node(target: Node, limit: usize) -> Node {
    let queues = Queues { free: limit, waiting: [const { VecDeque::new() }; 2], next: 0 };
    Rc::new(OutstandingLimit { target, limit, queues: Rc::new(RefCell::new(queues)) })
}
