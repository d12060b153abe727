//! `BigValueRoute` (`--big-value-split-threshold`): cuts values that are too long for one item into chunks.
//!
//! ```text
//! key           flags | 0x8000     1-CHUNKS-HASH
//! key:0:HASH    flags              first chunk
//! key:1:HASH …                     threshold bytes each, except the last
//! ```
//! The item at the key is the index. Its hash is the value's, so that chunks of two values never mix. If a chunk is
//! gone, the reply is a miss.
//!
//! # Invariants
//! 1. An index is not trusted: clients can store one, as they can with mcrouter. After the first missing chunk, it
//!    costs at most the rest of a batch. Its chunks hold at most [`VALUE_BYTES_MAX`] bytes, which are charged to the
//!    client as they arrive.
//! 2. Nothing is appended to an index.
//!
//! # Bad at
//! Appending: it needs a get first. A value in chunks can't be appended to: its expiry isn't known and would be lost.
//! An append that overlaps with a set may corrupt the index; the next get is then a miss.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use guira_client::ring::spooky32;
use guira_client::{NO_ROOM, Op, Outcome, Reply, Request, charged};

use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, U32, field, needed,
};
use crate::key;
use crate::outcome::{default_reply, is_hit, is_miss, is_stored, severity};

/// Cuts values into chunks, and joins them.
#[derive(Debug)]
struct BigValue {
    child: Node,
    threshold: usize,
    /// Chunks under way at once; 0: all.
    batch: usize,
    hides_flag: bool,
}

/// The flag of a value that is stored in chunks.
const IS_BIG: u32 = 0x8000;
/// More chunks than any value has. An index with more was not written by this route.
const CHUNKS_MAX: u32 = 1 << 14;
const VALUE_BYTES_MAX: usize = 256 << 20;

/// The parsed item that is stored at the key itself.
struct Index {
    chunks: u32,
    hash: u64,
}

impl Index {
    fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split('-');
        let (version, chunks, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let chunks = chunks.parse().ok().filter(|chunks| (1..=CHUNKS_MAX).contains(chunks))?;
        let is_ours = version == "1" && parts.next().is_none();
        is_ours.then_some(Self { chunks, hash: hash.parse().ok()? })
    }

    fn key(&self, whole: &Bytes, chunk: u32) -> Bytes {
        key::concat(&[whole, format!(":{chunk}:{}", self.hash).as_bytes()])
    }
}

impl BigValue {
    /// Sends the requests of the next batch: from chunk `at` on, of `chunks` in total.
    async fn batch(
        &self,
        at: u32,
        chunks: u32,
        ask: impl Fn(u32) -> Request,
        context: &Context,
    ) -> Vec<Reply> {
        let batch = u32::try_from(self.batch).ok().filter(|&n| n > 0).unwrap_or(chunks);
        let requests: Vec<Request> = (at..chunks.min(at.saturating_add(batch))).map(ask).collect();
        join_all(requests.iter().map(|request| self.child.route(request, context))).await
    }

    /// Returns all chunks joined, or the worst outcome of the first batch that isn't complete.
    async fn chunks(&self, index: &Index, request: &Request, context: &Context) -> Reply {
        let get = |chunk| Request::new(Op::Get, index.key(&request.key, chunk));
        let (mut parts, mut at, mut bytes) = (Vec::new(), 0, 0);
        while at < index.chunks {
            let replies = self.batch(at, index.chunks, get, context).await;
            let worst = worst(&replies);
            if !is_hit(worst) {
                let failed = replies.into_iter().find(|reply| reply.outcome == worst);
                return Reply { value: Bytes::new(), ..failed.unwrap_or(Reply::new(worst)) };
            }
            at += u32::try_from(replies.len()).unwrap_or(u32::MAX);
            bytes += replies.iter().map(|reply| reply.value.len()).sum::<usize>();
            if bytes > VALUE_BYTES_MAX {
                return Reply::failure(Outcome::LocalError, NO_ROOM);
            }
            let Some(part) = joined(replies.iter().map(|reply| &reply.value), context) else {
                return Reply::failure(Outcome::LocalError, NO_ROOM);
            };
            parts.push(part);
        }
        match joined(parts.iter(), context) {
            Some(value) => Reply { value, ..Reply::new(Outcome::Found) },
            None => Reply::failure(Outcome::LocalError, NO_ROOM),
        }
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

    /// Combines the index and the chunks into the client's reply.
    fn joined(&self, found: Reply, chunks: Reply) -> Reply {
        if !is_hit(chunks.outcome) {
            return chunks;
        }
        let flags = if self.hides_flag { found.flags ^ IS_BIG } else { found.flags };
        Reply { value: chunks.value, flags, ..found }
    }

    /// Answers a lease-get. If a chunk is gone, the index is expired first, so that the next attempt can get a lease.
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
                if ended.outcome.is_error() {
                    return ended;
                }
            } else if current.outcome.is_error() && retries == 0 {
                return current;
            }
            if retries == 0 {
                let message = "BigValueRoute: exhausted retries for lease-get";
                return Reply::failure(Outcome::RemoteError, message);
            }
            retries -= 1;
        }
    }

    /// Appends or prepends, unless the stored value is an index, or the result would be too long.
    async fn extend(&self, request: &Request, context: &Context) -> Reply {
        let get = Request::new(Op::Get, request.key.clone());
        let found = self.child.route(&get, context).await;
        if found.outcome.is_error() {
            return found;
        }
        let is_long = found.value.len() + request.value.len() > self.threshold;
        if is_hit(found.outcome) && (is_long || found.flags & IS_BIG != 0) {
            let message = "values that are cut into chunks can't be appended to";
            return Reply::failure(Outcome::ClientError, message);
        }
        self.child.route(request, context).await
    }

    async fn set(&self, request: &Request, context: &Context) -> Reply {
        let pieces = request.value.len().div_ceil(self.threshold);
        let chunks = u32::try_from(pieces).ok().filter(|chunks| *chunks <= CHUNKS_MAX);
        let Some(chunks) = chunks.filter(|_| request.value.len() <= VALUE_BYTES_MAX) else {
            return Reply::failure(Outcome::BadValue, "the value has too many chunks");
        };
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
        let mut at = 0;
        while at < chunks {
            let replies = self.batch(at, chunks, set, context).await;
            let worst = worst(&replies);
            if !is_stored(worst) {
                return Reply::new(worst);
            }
            at += u32::try_from(replies.len()).unwrap_or(u32::MAX);
        }
        let value = format!("1-{}-{}", index.chunks, index.hash).into();
        let request = Request { value, flags: request.flags | IS_BIG, ..request.clone() };
        self.child.route(&request, context).await
    }
}

/// Concatenates values and charges the client for them. `None` if the charge exceeds the client's limit.
fn joined<'v>(values: impl Iterator<Item = &'v Bytes> + Clone, context: &Context) -> Option<Bytes> {
    let mut all = BytesMut::with_capacity(values.clone().map(Bytes::len).sum());
    values.for_each(|value| all.extend_from_slice(value));
    match &context.purse {
        Some(purse) => charged(all.freeze(), purse),
        None => Some(all.freeze()),
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
            Op::Append | Op::Prepend => Box::pin(self.extend(request, context)),
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

/// Returns a route to `child` that cuts values longer than `threshold` bytes. 0: `child` itself.
pub(in crate::tree) fn node(child: Node, threshold: usize, batch: usize, hides_flag: bool) -> Node {
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
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let child = builder.one(fields.required("target")?)?;
    let number = |name: &str| -> Result<usize> {
        let number = fields.integer(name)?;
        number.ok_or_else(|| fields.error(format!("'{name}' is missing")))
    };
    let (threshold, batch) = (number("split_threshold")?, number("batch_size")?);
    let hides_flag = fields.boolean("hide_reply_flag")?.unwrap_or(false);
    Ok(vec![node(child, threshold, batch, hides_flag)])
}
