//! A batch: the whole requests at the front of a connection's input, with their keys hashed.
//!
//! Text and binary requests take the same stages; what differs is how they are parsed.
//!
//! # Stages
//! ```text
//! collect          parse up to BATCH_MAX requests, hash each one's key
//! prefetch         ask for the index lines of every key, then for every item's first line
//! (execute)        in order; by now the lines are there
//! ```
//! The stages are hints to the processor: what a request finds is decided when it is executed, so
//! their order changes no answer.

use guira_cache::{Handle, Key};
use guira_proto::{Error, Limits, Meta, Parsed, Request, binary};

/// One request, its key and its body. `R` is a text [`Request`] or a [`binary::Request`].
pub(crate) struct AtHand<'b, R> {
    pub(crate) request: R,
    /// The hashed key of a request that has exactly one, sent as it is.
    pub(crate) key: Option<Key<'b>>,
    /// Of a storage request: the value, and in text the two bytes after it.
    pub(crate) body: &'b [u8],
    /// Bytes of line (or header, extras and key) and body.
    pub(crate) used: usize,
}

/// A text request at hand.
pub(crate) type Line<'b> = AtHand<'b, Request<'b>>;
/// A binary request at hand.
pub(crate) type Packet<'b> = AtHand<'b, binary::Request<'b>>;

/// What follows the last request of a batch.
pub(crate) enum After<R, E> {
    /// More requests, perhaps.
    More,
    /// Nothing, or a piece of a request.
    Piece(Piece),
    /// What is no request.
    Refused(E),
    /// A storage request whose value is taken in outside the input; what comes before the value has
    /// `line_bytes`.
    Large { request: R, line_bytes: usize },
}

/// What there is of a request that isn't whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Nothing at all, or a line without its end, of so many bytes.
    Line(usize),
    /// A storage request's line, and not all of its body.
    Body,
}

/// Fills `batch` with the requests at the front of `input`, at most `most`.
///
/// `scanned` bytes are known to hold no newline. A body over `body_max` bytes is not waited for.
pub(crate) fn collect<'b>(
    input: &'b [u8],
    (mut scanned, body_max): (usize, usize),
    most: usize,
    handle: &Handle<'_>,
    batch: &mut Vec<Line<'b>>,
) -> After<Request<'b>, Error> {
    let mut rest = input;
    while batch.len() < most.min(BATCH_MAX) {
        if rest.is_empty() {
            return After::Piece(Piece::Line(0));
        }
        let (request, line_bytes) =
            match guira_proto::parse_from(rest, std::mem::take(&mut scanned), &Limits::DEFAULT) {
                Ok(Parsed::Request { request, used }) => (request, used),
                Ok(Parsed::Incomplete { .. }) => return After::Piece(Piece::Line(rest.len())),
                Err(error) => return After::Refused(error),
            };
        let body_bytes = body_bytes(&request);
        if body_bytes > body_max {
            return After::Large { request, line_bytes };
        }
        let used = line_bytes + body_bytes;
        if rest.len() < used {
            return After::Piece(Piece::Body);
        }
        let body = &rest[line_bytes..used];
        let key = single_key(&request).map(|key| handle.key(key));
        batch.push(AtHand { request, key, body, used });
        rest = &rest[used..];
    }
    After::More
}

/// As [`collect`], for binary requests.
pub(crate) fn collect_packets<'b>(
    input: &'b [u8],
    body_max: usize,
    most: usize,
    handle: &Handle<'_>,
    batch: &mut Vec<Packet<'b>>,
) -> After<binary::Request<'b>, binary::Error> {
    let mut rest = input;
    while batch.len() < most.min(BATCH_MAX) {
        let (request, head_bytes) = match binary::parse(rest) {
            Ok(binary::Parsed::Request { request, used }) => (request, used),
            Ok(binary::Parsed::Incomplete { .. }) => return After::Piece(Piece::Line(0)),
            Err(error) => return After::Refused(error),
        };
        let value_bytes = request.value_bytes() as usize;
        if value_bytes > body_max {
            return After::Large { request, line_bytes: head_bytes };
        }
        let used = head_bytes + value_bytes;
        let Some(body) = rest.get(head_bytes..used) else { return After::Piece(Piece::Body) };
        let key = request.key().map(|key| handle.key(key));
        batch.push(AtHand { request, key, body, used });
        rest = &rest[used..];
    }
    After::More
}

/// As [`prefetch`], for binary requests: each answer has a unique.
pub(crate) fn prefetch_packets(handle: &Handle<'_>, batch: &[Packet<'_>]) {
    let keys = batch.iter().filter_map(|at_hand| at_hand.key.as_ref());
    for key in keys.clone() {
        handle.prefetch_change(key);
    }
    prefetch_items(handle, keys);
}

/// Brings the lines that a batch will look at closer.
pub(crate) fn prefetch(handle: &Handle<'_>, batch: &[Line<'_>]) {
    for at_hand in batch {
        match (&at_hand.key, &at_hand.request) {
            (Some(key), Request::Get(get)) if !get.cas => handle.prefetch(key),
            (Some(key), Request::MetaGet(meta)) if !asks_unique(meta) => handle.prefetch(key),
            (Some(key), _) => handle.prefetch_change(key),
            (None, _) => {}
        }
    }
    prefetch_items(handle, batch.iter().filter_map(|at_hand| at_hand.key.as_ref()));
}

/// As [`prefetch`], for the keys of a multiget.
pub(crate) fn prefetch_keys<'k>(
    handle: &Handle<'_>,
    keys: impl Iterator<Item = &'k Key<'k>> + Clone,
) {
    for key in keys.clone() {
        handle.prefetch(key);
    }
    prefetch_items(handle, keys);
}

fn prefetch_items<'k>(handle: &Handle<'_>, keys: impl Iterator<Item = &'k Key<'k>>) {
    for key in keys {
        handle.prefetch_item(key);
    }
}

/// An empty batch in the memory of a used one, free of what it borrowed.
pub(crate) fn recycle<R, S>(mut batch: Vec<AtHand<'_, R>>) -> Vec<AtHand<'static, S>> {
    batch.clear();
    // The collection is in place: no allocation.
    batch.into_iter().map(|_| unreachable!("the batch is empty")).collect()
}

/// Bytes after the line that belong to the request.
fn body_bytes(request: &Request<'_>) -> usize {
    match request {
        Request::Store(store) => store.value_bytes as usize + 2,
        Request::MetaSet(meta) => meta.value_bytes() as usize + 2,
        _ => 0,
    }
}

/// The key of a request with one key, as it stands in the input.
fn single_key<'b>(request: &Request<'b>) -> Option<&'b [u8]> {
    match request {
        Request::Get(get) => {
            let mut keys = get.keys;
            let key = keys.next()?;
            keys.next().is_none().then_some(key)
        }
        Request::Store(store) => Some(store.key),
        Request::Delete { key, .. } | Request::Touch { key, .. } => Some(key),
        Request::Arithmetic(arithmetic) => Some(arithmetic.key),
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => (!meta.is_base64()).then(|| meta.key()),
        _ => None,
    }
}

/// Whether a meta get needs the item's unique. Most don't, and its stripe is a line of its own.
pub(crate) fn asks_unique(meta: &Meta<'_>) -> bool {
    meta.has(b'c') || meta.compare_cas().is_some()
}

/// Requests whose memory is asked for together. Beyond about 64 the first lines may be evicted
/// from the nearest cache before they are used.
pub(crate) const BATCH_MAX: usize = 64;
/// A value up to this size is waited for in the input and stored in one go; larger ones are
/// received where they will stay.
pub(crate) const BODY_IN_INPUT_MAX: usize = 16 << 10;
