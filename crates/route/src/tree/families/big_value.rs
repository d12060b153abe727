//! `BigValueRoute` (`--big-value-split-threshold`): values too long for one item are cut into chunks.
//!
//! ```text
//! key           flags | 0x8000     1-CHUNKS-HASH
//! key:0:HASH    flags              first chunk
//! key:1:HASH …                     each of threshold bytes, but the last
//! ```
//! The hash is that of the value, so that chunks of two values never mix. A chunk that is gone is a miss.
//!
//! # Invariants
//! 1. An index may be anybody's: clients can store one, as mcrouter's can. It costs no more gets than a batch beyond the
//!    first chunk that is missing, and no more bytes than [`VALUE_BYTES_MAX`], charged to the client as they come.
//! 2. Nothing is appended to an index.
//!
//! # Bad at
//! Appending: it asks first what is there. A value that is cut into chunks can't be appended to: its expiry isn't known,
//! and would be lost. An append that meets a set on its way may spoil the index, and the next get is a miss.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use guira_client::ring::spooky32;
use guira_client::{NO_ROOM, Op, Outcome, Reply, Request, charged};

use super::{
    BoxFuture, Builder, Context, Fields, Json, Node, Result, Route, Shape, Takes, U32, field,
    needed,
};
use crate::key;
use crate::outcome::{default_reply, is_error, is_hit, is_miss, is_stored, severity};

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
const CHUNKS_MAX: u32 = 1 << 14;
const VALUE_BYTES_MAX: usize = 256 << 20;

/// What stands under the key itself.
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
    /// Asks for chunks from `at` on, of `chunks` the next batch.
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

    /// All chunks in one, or how the first batch that lacks one ended.
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

    /// Appends or prepends, unless what is there is an index, or would be too long.
    async fn extend(&self, request: &Request, context: &Context) -> Reply {
        let get = Request::new(Op::Get, request.key.clone());
        let found = self.child.route(&get, context).await;
        if is_error(found.outcome) {
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

/// Values one after the other, paid for by the client; `None`: it can't hold so much.
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

/// `child`, in which no value is longer than `threshold` bytes.
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
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let fields = Fields::new(json, &SHAPE);
    let child = builder.one(fields.required("target")?)?;
    let number = |name: &str| -> Result<usize> {
        let number = fields.integer(name)?;
        number.ok_or_else(|| fields.error(format!("'{name}' is missing")))
    };
    let (threshold, batch) = (number("split_threshold")?, number("batch_size")?);
    let hides_flag = fields.boolean("hide_reply_flag")?.unwrap_or(false);
    Ok(vec![node(child, threshold, batch, hides_flag)])
}
