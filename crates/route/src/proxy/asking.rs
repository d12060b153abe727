//! How a proxy thread begins client requests: at a server, at its routes, or at the router itself.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task;

use bytes::Bytes;
use guira_client::{Op, Outcome, Purse, Reply, Request};
use guira_front::sessions::{AsRouter, ClientTap, Service, Start};

use super::Proxy;
use super::answers::{Answer, Gets};
use crate::context::Context;
use crate::counters::Counter;
use crate::operate::{admin, stats};
use crate::ops::VERSION;

impl Service for Proxy {
    type Client = Rc<Context>;
    type Answer = Answer;
    type Manners = AsRouter;
    const VERSION: &'static str = VERSION;

    fn enter(&self, peer: Option<IpAddr>, purse: Arc<dyn Purse>) -> Rc<Context> {
        let client = peer.filter(|_| self.process.options.keeps_address);
        let (counters, purse) = (self.counters(), Some(purse));
        Rc::new(Context { client, peer, counters, purse, ..Context::default() })
    }

    fn tap(
        &self,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
    ) -> Option<Box<dyn ClientTap>> {
        Some(Box::new(self.view.client_tap(peer, local)?))
    }

    #[inline]
    fn begin(self: &Rc<Self>, context: &Rc<Context>, request: Request, start: Start<'_>) -> Answer {
        self.count(request.op, 1);
        if request.op == Op::FlushAll && !self.process.options.is_flush_enabled {
            return Answer::Done(Reply::failure(Outcome::RemoteError, "Command disabled"));
        }
        self.ask(request, context, start)
    }

    fn begin_keys(
        self: &Rc<Self>,
        context: &Rc<Context>,
        op: Op,
        exptime: i64,
        keys: impl ExactSizeIterator<Item = Bytes>,
        start: Start<'_>,
    ) -> Answer {
        self.count(op, keys.len());
        let is_shareable = matches!(op, Op::Get | Op::Gets | Op::LeaseGet);
        let mut gets = Gets::new(op, keys.len());
        for key in keys {
            let request = Request { exptime, ..Request::new(op, key) };
            let is_question = request.key.starts_with(admin::PREFIX);
            let leaf = if is_shareable && !is_question && !self.is_sampled(op, &request.key) {
                self.leaf(&request, context)
            } else {
                None
            };
            match leaf {
                Some(leaf) => gets.share(leaf, request.key),
                None => gets.ask(self.ask(request, context, start)),
            }
        }
        gets.begin(context, start);
        Answer::Keys(Box::new(gets))
    }

    fn replied(&self, reply: &Reply) {
        let counters = self.counters_ref();
        counters.add(Counter::RequestReplied, 1);
        let is_good = !reply.outcome.is_error();
        counters.add(if is_good { Counter::RequestSuccess } else { Counter::RequestError }, 1);
    }

    fn stats(&self, group: &str) -> Vec<u8> {
        stats::answer(&self.view, group)
    }

    fn shut_down(&self) {
        self.process.lifecycle.stop_for("a client's shutdown");
    }
}

impl guira_front::sessions::Answer<Proxy> for Answer {
    fn poll(&mut self, client: &Rc<Context>, cx: &mut task::Context<'_>) {
        self.go_on(cx, client);
    }

    fn reply(&self, n: usize) -> Option<&Reply> {
        self.reply_to(n)
    }

    fn under_way(&self) -> usize {
        match self {
            Answer::Keys(gets) => gets.under_way(),
            _ => self.reply_to(0).is_none().into(),
        }
    }

    fn held(&self, value_bytes: usize) -> usize {
        self.held_with(value_bytes)
    }
}

impl Proxy {
    /// Begins a request: at its server, at its routes, or at the router itself.
    #[inline]
    fn ask(self: &Rc<Self>, request: Request, context: &Rc<Context>, start: Start<'_>) -> Answer {
        if request.op == Op::Get
            && request.meta.is_none()
            && let Some(command) = request.key.strip_prefix(admin::PREFIX)
        {
            return Answer::Routed(admin::answer(&self.view, self.tree(), command));
        }
        if self.is_sampled(request.op, &request.key) {
            return self.ask_noted(request, context);
        }
        if let Some(leaf) = self.leaf(&request, context) {
            return leaf.begin(request, context, start).map_or_else(Answer::Done, Answer::Sent);
        }
        let (proxy, context) = (Rc::clone(self), Rc::clone(context));
        Answer::Routed(Box::pin(async move { proxy.route(&request, &context).await }))
    }

    fn count(&self, op: Op, n: usize) {
        let counters = self.counters_ref();
        counters.add(Counter::of(op), n as u64);
        counters.add(Counter::RequestSent, n as u64);
    }
}
