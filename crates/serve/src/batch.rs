//! The driver: takes the complete requests at the front of an input and executes them in order.
//!
//! The code is generic over the [`Dialect`] (text, binary) and the [`Source`] (a connection, a datagram).
//!
//! # Stages
//! ```text
//! collect          parse up to BATCH_MAX requests, hash the key of each
//! prefetch         prefetch the index lines of every key, then the first line of every item
//! execute          in order; by now the lines are in the processor's cache
//! ```
//! The first two stages only give hints to the processor: what a request finds is decided when it is
//! executed, so their order doesn't change any reply.

use crate::execute::{Executor, Flow, StoreForm, prefetch_items};
use crate::process::measure::Kind;
use guira_cache::{Handle, Key};
use guira_proto::{Command, Parsed, binary};
use std::ops::ControlFlow;

/// A protocol: how its requests are parsed from an input, and how they are executed.
pub(crate) trait Dialect: Sized {
    type Request<'b>: Copy;
    type Error;
    /// Whether a request's head ends with a newline. The driver then remembers how much of the input holds none.
    const ENDS_WITH_NEWLINE: bool;

    /// Parses the request at the front of `input`, of which the first `scanned` bytes are known to hold no newline.
    fn parse(input: &[u8], scanned: usize) -> Result<Parsed<Self::Request<'_>>, Self::Error>;

    /// Bytes after the head that belong to the request.
    fn body_bytes(request: &Self::Request<'_>) -> usize;

    /// The key of a request that has exactly one key, if the key was sent as it is (not in base64).
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]>;

    /// Whether the request may need its item's unique, whose stripe occupies another cache line.
    fn needs_unique(_: &Self::Request<'_>) -> bool {
        true
    }

    /// Whether the request changes nothing and its reply isn't a listing. Over UDP, only such requests are executed.
    fn is_read(request: &Self::Request<'_>) -> bool;

    /// The kind of request under which its latency is measured.
    fn kind(request: &Self::Request<'_>) -> Kind;

    /// The request as a storage command, if it is one.
    fn storing<'r>(request: &'r Self::Request<'_>) -> Option<StoreForm<'r>>;

    /// Executes a request and queues its reply.
    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Self::Request<'_>>) -> Flow;

    /// Replies that there is no memory for the rest of a request that stores nothing.
    fn out_of_memory(executor: &mut Executor<'_>, request: &Self::Request<'_>);

    /// Replies that the request isn't allowed, and why.
    fn deny(executor: &mut Executor<'_>, request: &Self::Request<'_>, why: &str);

    /// Whether an input that failed to parse belongs to logging in.
    fn is_login(_: &Self::Error) -> bool {
        false
    }

    /// Replies to an input that isn't a request, and returns how much of it to skip.
    fn refuse(executor: &mut Executor<'_>, error: &Self::Error) -> Skip;

    /// Takes the buffer for a batch.
    fn take_room<'b>(rooms: &mut Rooms) -> Batch<'b, Self>;
    fn give_back(rooms: &mut Rooms, batch: Batch<'_, Self>);
}

/// Where requests come from.
pub(crate) trait Source {
    /// The reason why the source stops within a batch.
    type Stop;
    /// The largest body that is received into the input. A storage request with a larger one is [`End::Large`].
    const BODY_MAX: usize;

    /// Whether a request may be executed. A request that may not has been answered already.
    fn admit<D: Dialect>(
        &mut self,
        _: &mut Executor<'_>,
        _: &D::Request<'_>,
    ) -> ControlFlow<Self::Stop, bool> {
        ControlFlow::Continue(true)
    }

    /// Handles the outcome of a request. Returns whether to go on, with its other keys ([`Flow::Keys`])
    /// or the next request.
    fn after(&mut self, executor: &mut Executor<'_>, flow: Flow) -> ControlFlow<Self::Stop>;
}

/// A parsed request with its hashed key and its body.
pub(crate) struct AtHand<'b, R> {
    pub(crate) request: R,
    /// The hashed key of a request that has exactly one key, if it was sent as it is (not in base64).
    pub(crate) key: Option<Key<'b>>,
    /// The body of a storage request: the value and, in text, the two bytes after it.
    pub(crate) body: &'b [u8],
    /// Bytes of the head and the body.
    used: usize,
}

/// The parsed requests of one run.
pub(crate) type Batch<'b, D> = Vec<AtHand<'b, <D as Dialect>::Request<'b>>>;

/// How much of an input to skip because it isn't a request.
pub(crate) struct Skip {
    /// Bytes to skip at the front of the input; `swallow` counts the bytes to skip after those, as they arrive.
    pub(crate) used: usize,
    pub(crate) swallow: u64,
    /// Whether the connection is closed.
    pub(crate) close: bool,
}

/// How a batch ended.
pub(crate) enum End<'b, D: Dialect, S> {
    /// The source stopped it.
    Stopped(S),
    /// The whole batch is executed. More requests may follow.
    More,
    /// Nothing follows the batch, or only part of a request.
    Piece(Piece),
    /// The input after the batch isn't a request.
    Refused(D::Error),
    /// The batch is followed by a storage request whose value is received outside the input.
    Large { request: D::Request<'b>, head_bytes: usize },
}

/// The part of an incomplete request that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Nothing, or a line without its end. The number of bytes that hold no newline.
    Line(usize),
    /// The head of a storage request, and not all of its body.
    Body,
}

/// Buffers that all connections and datagrams of a worker share, one after the other.
#[derive(Default)]
pub(crate) struct Rooms {
    pub(crate) receive: Vec<u8>,
    /// TLS records that were received or are to be sent.
    pub(crate) wire: Vec<u8>,
    pub(crate) replies: Vec<u8>,
    pub(crate) lines: Vec<AtHand<'static, Command<'static>>>,
    pub(crate) packets: Vec<AtHand<'static, binary::Packet<'static>>>,
}

/// Executes the requests at the front of `input`, at most [`BATCH_MAX`]. Returns how many bytes they
/// used, and how the batch ended.
pub(crate) fn run<'b, D: Dialect, S: Source>(
    executor: &mut Executor<'_>,
    rooms: &mut Rooms,
    source: &mut S,
    input: &'b [u8],
    scanned: usize,
) -> (usize, End<'b, D, S::Stop>) {
    let mut batch = D::take_room(rooms);
    let most = executor.requests_left().min(BATCH_MAX);
    let reach = (scanned, S::BODY_MAX);
    let mut end = collect::<D, S::Stop>(input, reach, most, executor.handle(), &mut batch);
    if batch.len() > 1 {
        prefetch::<D>(executor.handle(), &batch);
    }
    let mut used = 0;
    'batch: for (number, at_hand) in batch.iter().enumerate() {
        let behind = used + at_hand.used;
        match source.admit::<D>(executor, &at_hand.request) {
            ControlFlow::Continue(true) => {}
            ControlFlow::Continue(false) => {
                used = behind;
                continue;
            }
            ControlFlow::Break(stop) => {
                end = End::Stopped(stop);
                break;
            }
        }
        let kind = || D::kind(&at_hand.request);
        let mut flow = executor.observe(kind, |executor| D::execute(executor, at_hand));
        if executor.is_parked() {
            want_ahead::<D>(executor, &batch[number + 1..]);
        }
        loop {
            match flow {
                Flow::Later => {}
                Flow::Keys => used = behind - executor.more_bytes(&input[..behind]),
                _ => used = behind,
            }
            if let ControlFlow::Break(stop) = source.after(executor, flow) {
                end = End::Stopped(stop);
                break 'batch;
            }
            if flow != Flow::Keys {
                break;
            }
            flow = executor.go_on(&input[used..]);
        }
    }
    D::give_back(rooms, batch);
    (used, end)
}

/// Fills `batch` with the requests at the front of `input`, at most `most` of them.
///
/// The first `scanned` bytes are known to hold no newline. A request with a body of more than `body_max`
/// bytes ends the batch as [`End::Large`].
fn collect<'b, D: Dialect, S>(
    input: &'b [u8],
    (mut scanned, body_max): (usize, usize),
    most: usize,
    handle: &Handle<'_>,
    batch: &mut Batch<'b, D>,
) -> End<'b, D, S> {
    let mut rest = input;
    while batch.len() < most {
        if rest.is_empty() {
            return End::Piece(Piece::Line(0));
        }
        let (request, head_bytes) = match D::parse(rest, std::mem::take(&mut scanned)) {
            Ok(Parsed::Request { request, used }) => (request, used),
            Ok(Parsed::Incomplete { .. }) => {
                let scanned = if D::ENDS_WITH_NEWLINE { rest.len() } else { 0 };
                return End::Piece(Piece::Line(scanned));
            }
            Err(error) => return End::Refused(error),
        };
        let body_bytes = D::body_bytes(&request);
        if body_bytes > body_max {
            return End::Large { request, head_bytes };
        }
        let used = head_bytes + body_bytes;
        let Some(body) = rest.get(head_bytes..used) else { return End::Piece(Piece::Body) };
        let key = D::key(&request).map(|key| handle.key(key));
        batch.push(AtHand { request, key, body, used });
        rest = &rest[used..];
    }
    End::More
}

/// Prefetches the cache lines that a batch will access.
fn prefetch<D: Dialect>(handle: &Handle<'_>, batch: &Batch<'_, D>) {
    for at_hand in batch {
        match &at_hand.key {
            Some(key) if D::needs_unique(&at_hand.request) => handle.prefetch_change(key),
            Some(key) => handle.prefetch(key),
            None => {}
        }
    }
    prefetch_items(handle, batch.iter().filter_map(|at_hand| at_hand.key.as_ref()));
}

/// Records which reads of storage the requests behind a waiting one will need.
#[cold]
fn want_ahead<D: Dialect>(executor: &mut Executor<'_>, behind: &[AtHand<'_, D::Request<'_>>]) {
    let reads = behind.iter().filter(|at_hand| D::storing(&at_hand.request).is_none());
    executor.want_ahead(reads.filter_map(|at_hand| at_hand.key));
}

/// Returns an empty batch in the memory of a used one, without its borrows.
pub(crate) fn recycle<R, S>(mut batch: Vec<AtHand<'_, R>>) -> Vec<AtHand<'static, S>> {
    batch.clear();
    // The collection reuses the vector's memory, so nothing is allocated.
    batch.into_iter().map(|_| unreachable!("the batch is empty")).collect()
}

/// Requests whose memory is prefetched together. Beyond about 64 the first lines may be evicted from the
/// L1 cache before they are used.
const BATCH_MAX: usize = 64;
