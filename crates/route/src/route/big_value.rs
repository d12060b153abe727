//! `BigValueRoute` (`--big-value-split-threshold`): values too long for one item are cut into chunks.
//!
//! ```text
//! key           flags | 0x8000     1-CHUNKS-HASH
//! key:0:HASH    flags              first chunk
//! key:1:HASH …                     each of threshold bytes, but the last
//! ```
//! The hash is that of the value, so that chunks of two values never mix. A chunk that is gone is a miss.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use guira_client::ring::spooky32;
use guira_client::{Op, Outcome, Reply, Request};

use super::{BoxFuture, Node};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::shape::{Shape, Takes, U32, field, needed};
use crate::config::{ConfigError, Json};
use crate::outcome::{default_reply, is_error, is_hit, is_miss, is_stored, severity};
use crate::{Context, Route, key};

/// Cuts and joins.
#[derive(Debug)]
struct BigValue {
    child: Node,
    threshold: usize,
    /// Chunks under way at once; 0: all.
    batch: usize,
    hides_flag: bool,
}

/// The flag of a value that stands in chunks.
const IS_BIG: u32 = 0x8000;
/// More than any value has; an index that says more is not ours.
const CHUNKS_MAX: u32 = 1 << 20;

/// What stands under the key itself.
struct Index {
    chunks: u32,
    hash: u64,
}

impl Index {
    fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split('-');
        let (version, chunks, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let chunks = chunks.parse().ok().filter(|chunks| *chunks <= CHUNKS_MAX)?;
        let is_ours = version == "1" && parts.next().is_none();
        is_ours.then_some(Self { chunks, hash: hash.parse().ok()? })
    }

    fn key(&self, whole: &Bytes, chunk: u32) -> Bytes {
        key::concat(&[whole, format!(":{chunk}:{}", self.hash).as_bytes()])
    }
}

impl BigValue {
    /// Asks for all, a batch at a time.
    async fn all(&self, requests: &[Request], context: &Context) -> Vec<Reply> {
        let batch = if self.batch == 0 { requests.len() } else { self.batch };
        let mut replies = Vec::with_capacity(requests.len());
        for requests in requests.chunks(batch.max(1)) {
            let asked = requests.iter().map(|request| self.child.route(request, context));
            replies.extend(join_all(asked).await);
        }
        replies
    }

    async fn chunks(&self, index: &Index, request: &Request, context: &Context) -> Reply {
        let get = |chunk| Request::new(Op::Get, index.key(&request.key, chunk));
        let requests: Vec<Request> = (0..index.chunks).map(get).collect();
        let replies = self.all(&requests, context).await;
        let worst = worst(&replies);
        if !is_hit(worst) {
            return Reply::new(worst);
        }
        let mut value =
            BytesMut::with_capacity(replies.iter().map(|reply| reply.value.len()).sum());
        replies.iter().for_each(|reply| value.extend_from_slice(&reply.value));
        Reply { value: value.freeze(), ..Reply::new(Outcome::Found) }
    }

    async fn get(&self, request: &Request, context: &Context) -> Reply {
        let found = self.child.route(request, context).await;
        if found.flags & IS_BIG == 0 {
            return found;
        }
        if !is_hit(found.outcome) {
            return Reply { token: found.token, ..Reply::new(found.outcome) };
        }
        let Some(index) = Index::parse(&found.value) else { return default_reply(request) };
        let reply = self.chunks(&index, request, context).await;
        self.joined(found, reply)
    }

    /// What the client gets of the index and the chunks.
    fn joined(&self, found: Reply, chunks: Reply) -> Reply {
        if !is_hit(chunks.outcome) {
            return chunks;
        }
        let flags = if self.hides_flag { found.flags ^ IS_BIG } else { found.flags };
        Reply { value: chunks.value, flags, ..found }
    }

    /// A lease-get finds an index of which a chunk is gone: the index must go before anybody gets a lease.
    async fn get_lease(&self, request: &Request, context: &Context) -> Reply {
        let mut retries = 1;
        loop {
            let found = self.child.route(request, context).await;
            if found.flags & IS_BIG == 0 {
                return found;
            }
            if !is_hit(found.outcome) {
                return Reply { token: found.token, ..Reply::new(found.outcome) };
            }
            let Some(index) = Index::parse(&found.value) else {
                return Reply { token: u64::MAX, ..Reply::new(Outcome::NotFound) };
            };
            let gets = Request::new(Op::Gets, request.key.clone());
            let (current, chunks) = futures_util::future::join(
                self.child.route(&gets, context),
                self.chunks(&index, request, context),
            )
            .await;
            if !is_miss(chunks.outcome) {
                return self.joined(found, chunks);
            }
            if is_hit(current.outcome) {
                let key = request.key.clone();
                let end =
                    Request { token: current.token, exptime: -1, ..Request::new(Op::Cas, key) };
                let ended = self.child.route(&end, context).await;
                if is_error(ended.outcome) {
                    return ended;
                }
            } else if is_error(current.outcome) && retries == 0 {
                return current;
            }
            if retries == 0 {
                let message = "BigValueRoute: exhausted retries for lease-get";
                return Reply::failure(Outcome::RemoteError, message);
            }
            retries -= 1;
        }
    }

    async fn set(&self, request: &Request, context: &Context) -> Reply {
        let pieces = request.value.len().div_ceil(self.threshold);
        let Ok(chunks) = u32::try_from(pieces) else { return Reply::new(Outcome::BadValue) };
        let index = Index { chunks, hash: u64::from(spooky32(&request.value, 0)) };
        let set = |chunk: u32| {
            let start = chunk as usize * self.threshold;
            let value =
                request.value.slice(start..(start + self.threshold).min(request.value.len()));
            let key = index.key(&request.key, chunk);
            Request {
                value,
                flags: request.flags,
                exptime: request.exptime,
                ..Request::new(Op::Set, key)
            }
        };
        let requests: Vec<Request> = (0..chunks).map(set).collect();
        let worst = worst(&self.all(&requests, context).await);
        if !is_stored(worst) {
            return Reply::new(worst);
        }
        let value = format!("1-{}-{}", index.chunks, index.hash).into();
        let request = Request { value, flags: request.flags | IS_BIG, ..request.clone() };
        self.child.route(&request, context).await
    }
}

/// The worst of all outcomes.
fn worst(replies: &[Reply]) -> Outcome {
    let outcomes = replies.iter().map(|reply| reply.outcome);
    let worse = |a, b| if severity(b) > severity(a) { b } else { a };
    outcomes.reduce(worse).unwrap_or(Outcome::NotFound)
}

impl Route for BigValue {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        match request.op {
            Op::Get | Op::Gets | Op::Gat | Op::Gats => Box::pin(self.get(request, context)),
            Op::LeaseGet => Box::pin(self.get_lease(request, context)),
            op if op.is_update() && request.value.len() > self.threshold => {
                Box::pin(self.set(request, context))
            }
            _ => self.child.route(request, context),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "big-value".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.child, request);
    }
}

/// `child`, in which no value is longer than `threshold` bytes.
pub(super) fn node(child: Node, threshold: usize, batch: usize, hides_flag: bool) -> Node {
    if threshold == 0 {
        return child;
    }
    Rc::new(BigValue { child, threshold, batch, hides_flag })
}
pub(super) static SHAPE: Shape = Shape {
    name: "BigValueRoute",
    fields: &[&[
        needed("target", Takes::Route, "what the chunks go to"),
        needed("split_threshold", Takes::Whole(0, U32), "bytes; longer values are cut, 0: none"),
        needed("batch_size", Takes::Whole(0, U32), "chunks under way at once, 0: all"),
        field(
            "hide_reply_flag",
            Takes::Bool,
            "clients do not see the flag of a value that was cut",
        ),
    ]],
};

/// `BigValueRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let fields = Fields::new(json, &SHAPE);
    let child = builder.one(fields.required("target")?)?;
    let number = |name: &str| -> Result<usize, ConfigError> {
        let number = fields.integer(name)?;
        number.ok_or_else(|| fields.error(format!("'{name}' is missing")))
    };
    let (threshold, batch) = (number("split_threshold")?, number("batch_size")?);
    let hides_flag = fields.boolean("hide_reply_flag")?.unwrap_or(false);
    Ok(vec![node(child, threshold, batch, hides_flag)])
}
