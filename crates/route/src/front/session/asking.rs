//! How a proxy thread begins what a client asks: at a server, at its routes, or at the router itself.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::Instant;

use super::lines::{Gets, Part, State};
use crate::Context;
use crate::operate::{admin, stats};
use crate::proxy::Proxy;
use crate::servers::Start;

impl Proxy {
    /// Begins a get of one key, which may be a question to the router itself.
    pub(super) fn get(
        self: &Rc<Self>,
        request: Request,
        context: &Rc<Context>,
        start: Start<'_>,
    ) -> Part {
        match self.question(&request) {
            Some(answer) => Part { key: request.key, state: State::Waiting(answer) },
            None => self.ask(request, context, start),
        }
    }

    /// The answer to a get that asks the router about itself.
    fn question(
        self: &Rc<Self>,
        request: &Request,
    ) -> Option<Pin<Box<dyn Future<Output = Reply>>>> {
        let command = request.key.strip_prefix(admin::PREFIX).filter(|_| request.op == Op::Get)?;
        Some(admin::answer(&self.view, self.tree(), command))
    }

    /// The answer to `stats`, unless the last one was so recent that there would be no time for anything else: then the
    /// waker is called later.
    pub(super) fn stats(self: &Rc<Self>, group: &str, start: Start<'_>) -> Option<Vec<u8>> {
        let free_at = self.stats_free_at.get();
        if Instant::now() < free_at {
            let waker = start.waker.cloned();
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(free_at).await;
                waker.into_iter().for_each(Waker::wake);
            });
            return None;
        }
        let began = Instant::now();
        let text = stats::answer(&self.view, group);
        self.stats_free_at.set(Instant::now() + began.elapsed() * STATS_PAUSE);
        Some(text)
    }

    /// Begins a get of several keys.
    pub(super) fn get_several(
        self: &Rc<Self>,
        (op, exptime): (Op, i64),
        (n, keys): (usize, impl Iterator<Item = Bytes>),
        context: &Rc<Context>,
        start: Start<'_>,
    ) -> Gets {
        let is_shareable = matches!(op, Op::Get | Op::Gets | Op::LeaseGet);
        let mut gets = Gets::new(op, n);
        for key in keys.take(n) {
            let request = Request { exptime, ..Request::new(op, key) };
            let is_question = request.key.starts_with(admin::PREFIX);
            let leaf =
                if is_shareable && !is_question { self.leaf(&request, context) } else { None };
            match leaf {
                Some(leaf) => gets.share(leaf, request.key),
                None => gets.ask(self.get(request, context, start)),
            }
        }
        gets.begin(context, start);
        gets
    }

    /// Begins a `flush_all`, if it is enabled.
    pub(super) fn flush_all(
        self: &Rc<Self>,
        delay: i64,
        context: &Rc<Context>,
        start: Start<'_>,
    ) -> Part {
        if self.process.options.is_flush_enabled {
            let request = Request { exptime: delay, ..Request::new(Op::FlushAll, "") };
            return self.ask(request, context, start);
        }
        let refusal = Reply::failure(Outcome::RemoteError, "Command disabled");
        Part { key: Bytes::new(), state: State::Done(refusal) }
    }

    /// Begins a request.
    pub(super) fn ask(
        self: &Rc<Self>,
        request: Request,
        context: &Rc<Context>,
        start: Start<'_>,
    ) -> Part {
        let key = request.key.clone();
        if let Some(leaf) = self.leaf(&request, context) {
            let state = leaf.begin(request, context, start).map_or_else(State::Done, State::Asking);
            return Part { key, state };
        }
        let (proxy, context) = (Rc::clone(self), Rc::clone(context));
        let future = async move { proxy.route(&request, &context).await };
        Part { key, state: State::Waiting(Box::pin(future)) }
    }
}

/// After `stats` a thread does other things for so many times as long.
const STATS_PAUSE: u32 = 4;
