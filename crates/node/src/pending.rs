//! Answers under way: a get that is read, a change that lands, or several keys.
//!
//! # Costs
//! A get that memory answers allocates nothing here. A get that reads costs a reader's job. A change costs one allocation;
//! a change that reads first is a future on the heap, and so is a get in a node of a cluster that memory doesn't answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use guira_client::{Reply, Request};
use guira_front::sessions::KEY_BYTES;
use tokio::sync::OwnedRwLockReadGuard;

use crate::customer::Customer;
use crate::engine::Engine;
use crate::node::{Fetching, Node, lost};
use crate::stripes::Write;
use crate::terms::Terms;

/// See the module's head.
pub(crate) enum Pending<E: Engine> {
    Done(Reply),
    /// A get that waits for a reader.
    Get(Box<Getting<E>>),
    /// A change that was submitted, and the reply if it lands.
    Put(Box<Putting<E>>),
    Doing(Pin<Box<dyn Future<Output = Reply>>>),
    Keys(Vec<Pending<E>>),
}

pub(crate) struct Getting<E> {
    pub(crate) node: Arc<Node<E>>,
    pub(crate) request: Request,
    pub(crate) terms: Terms,
    pub(crate) coming: Fetching,
    pub(crate) place: Option<Place>,
}

/// A request's place before the client's next flush, which waits until this is dropped.
pub(crate) type Place = OwnedRwLockReadGuard<()>;

pub(crate) struct Putting<E> {
    pub(crate) node: Arc<Node<E>>,
    pub(crate) request: Request,
    pub(crate) terms: Terms,
    pub(crate) write: Arc<Write>,
    pub(crate) reply: Reply,
}

impl<E: Engine> Getting<E> {
    fn poll(&mut self, customer: &Arc<Customer>, cx: &mut Context<'_>) -> Option<Pending<E>> {
        let Poll::Ready(found) = Pin::new(&mut self.coming).poll(cx) else { return None };
        let found = found.unwrap_or_else(|_| Err(lost()));
        let asked = (&self.request, &self.terms);
        Some(match self.node.found(asked, found, customer) {
            Some(reply) => Pending::Done(reply),
            None => {
                let who = (customer, self.place.take());
                Pending::change(&self.node, who, self.request.clone(), false)
            }
        })
    }
}

impl<E: Engine> Putting<E> {
    fn poll(&mut self, customer: &Arc<Customer>, cx: &mut Context<'_>) -> Option<Pending<E>> {
        let Poll::Ready(result) = self.write.poll(cx) else { return None };
        let reply = self.reply.clone();
        let asked = (&self.request, &self.terms);
        Some(Pending::Done(self.node.landed(result, reply, asked, customer)))
    }
}

impl<E: Engine> Pending<E> {
    /// Begins a change: it is in the line for the turn of its key from now on.
    pub(crate) fn change(
        node: &Arc<Node<E>>,
        (customer, place): (&Arc<Customer>, Option<Place>),
        request: Request,
        is_blind: bool,
    ) -> Self {
        let (node, customer) = (Arc::clone(node), Arc::clone(customer));
        let line = node.line_up(&request.key, &customer);
        Self::Doing(Box::pin(async move {
            let _place = place;
            node.change(line, (request, is_blind), customer).await
        }))
    }

    /// Polls the answer, if it is under way.
    pub(crate) fn go_on(&mut self, customer: &Arc<Customer>, cx: &mut Context<'_>) {
        let next = match self {
            Self::Done(_) => None,
            Self::Get(getting) => getting.poll(customer, cx),
            Self::Put(putting) => putting.poll(customer, cx),
            Self::Doing(future) => match future.as_mut().poll(cx) {
                Poll::Ready(reply) => Some(Self::Done(reply)),
                Poll::Pending => None,
            },
            Self::Keys(keys) => {
                keys.iter_mut().for_each(|key| key.go_on(customer, cx));
                None
            }
        };
        if let Some(next) = next {
            *self = next;
            // The answer that takes its place must be polled, so that it is woken as well.
            if !matches!(self, Self::Done(_)) {
                self.go_on(customer, cx);
            }
        }
    }

    pub(crate) fn reply_to(&self, n: usize) -> Option<&Reply> {
        match self {
            Self::Done(reply) => Some(reply),
            Self::Keys(keys) => keys.get(n)?.reply_to(0),
            _ => None,
        }
    }

    pub(crate) fn count_under_way(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.iter().filter(|key| key.reply_to(0).is_none()).count(),
            _ => self.reply_to(0).is_none().into(),
        }
    }

    pub(crate) fn held_with(&self, value_bytes: usize) -> usize {
        match self {
            Self::Keys(keys) => keys.iter().map(|key| key.held_with(value_bytes)).sum(),
            Self::Doing(_) => DOING_BYTES + value_bytes,
            Self::Done(_) | Self::Get(_) | Self::Put(_) => KEY_BYTES + PENDING_BYTES + value_bytes,
        }
    }
}

/// Bytes of the future of a change, or of a get in a node of a cluster, without the value.
const DOING_BYTES: usize = 2 << 10;
/// Bytes that a get or a change under way takes in addition to its key.
const PENDING_BYTES: usize = 512;
