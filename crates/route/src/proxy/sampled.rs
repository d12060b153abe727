//! A request for a key whose family is sampled: it goes through the tree as others do, and is noted with its reply.

use std::rc::Rc;

use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::Instant;

use super::Proxy;
use super::answers::Answer;
use crate::context::Context;
use crate::families::Use;

impl Proxy {
    /// Whether a request is to be noted.
    #[inline]
    pub(super) fn is_sampled(&self, op: Op, key: &[u8]) -> bool {
        let is_of_key = !matches!(op, Op::FlushAll | Op::Version);
        self.process.families.as_ref().is_some_and(|families| is_of_key && families.is_sampled(key))
    }

    /// Begins a request, and notes what it finds or stores.
    pub(super) fn ask_noted(self: &Rc<Self>, request: Request, context: &Rc<Context>) -> Answer {
        let (proxy, context) = (Rc::clone(self), Rc::clone(context));
        Answer::Routed(Box::pin(async move {
            let reply = proxy.route(&request, &context).await;
            if let Some(families) = &proxy.process.families {
                let is_get = request.op.is_get();
                let value_bytes = value_bytes(&request, &reply);
                let of = Use { key: &request.key, is_get, value_bytes, client: context.peer };
                families.note(&of, Instant::now());
            }
            reply
        }))
    }
}

/// Of the value that is cached now, if that is known.
fn value_bytes(request: &Request, reply: &Reply) -> Option<usize> {
    match (request.op, reply.outcome) {
        // It tells of the item, not the value.
        (Op::MetaGet, _) => None,
        (op, Outcome::Found) if op.is_get() => Some(reply.value.len()),
        (Op::Set | Op::Add | Op::Replace | Op::Cas | Op::LeaseSet, Outcome::Stored) => {
            Some(request.value.len())
        }
        _ => None,
    }
}
