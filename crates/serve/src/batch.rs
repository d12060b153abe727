//! The driver: takes the whole requests at the front of an input and executes them in order.
//!
//! One driver for each [`Dialect`] (text, binary) and each [`Source`] (a connection, a datagram).
//!
//! # Stages
//! ```text
//! collect          parse up to BATCH_MAX requests, hash each one's key
//! prefetch         ask for the index lines of every key, then for every item's first line
//! execute          in order; by now the lines are there
//! ```
//! The first two are hints to the processor: what a request finds is decided when it is executed, so their order changes
//! no answer.

use crate::execute::{Executor, Flow, StoreForm, prefetch_items};
use crate::process::measure::Kind;
use guira_cache::{Handle, Key};
use guira_proto::{Command, Parsed, binary};
use std::ops::ControlFlow;

/// A protocol: how its requests are cut from an input, and what executes them.
pub(crate) trait Dialect: Sized {
    type Request<'b>: Copy;
    type Error;
    /// Whether a head ends with a newline, which is searched for once.
    const ENDS_WITH_NEWLINE: bool;

    /// The request at the front of `input`, of which `scanned` bytes are known to hold no newline.
    fn parse(input: &[u8], scanned: usize) -> Result<Parsed<Self::Request<'_>>, Self::Error>;

    /// Bytes behind the head that belong to the request.
    fn body_bytes(request: &Self::Request<'_>) -> usize;

    /// The key of a request that has exactly one, sent as it is.
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]>;

    /// Whether it may need its item's unique, whose stripe is a line of its own.
    fn needs_unique(_: &Self::Request<'_>) -> bool {
        true
    }

    /// Whether it changes nothing, and its answer is no listing: UDP executes no others.
    fn is_read(request: &Self::Request<'_>) -> bool;

    /// What it is measured as.
    fn kind(request: &Self::Request<'_>) -> Kind;

    /// The storage command that it is, if it is one.
    fn storing<'r>(request: &'r Self::Request<'_>) -> Option<StoreForm<'r>>;

    /// Executes a request and queues its reply.
    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Self::Request<'_>>) -> Flow;

    /// Answers that there is no memory for the rest of a request that stores nothing.
    fn out_of_memory(executor: &mut Executor<'_>, request: &Self::Request<'_>);

    /// Answers that the request isn't allowed, and why.
    fn deny(executor: &mut Executor<'_>, request: &Self::Request<'_>, why: &str);

    /// Whether what is no request otherwise belongs to logging in.
    fn is_login(_: &Self::Error) -> bool {
        false
    }

    /// Answers what is no request.
    fn refuse(executor: &mut Executor<'_>, error: &Self::Error) -> Skip;

    /// Room for a batch.
    fn take_room<'b>(rooms: &mut Rooms) -> Batch<'b, Self>;
    fn give_back(rooms: &mut Rooms, batch: Batch<'_, Self>);
}

/// What requests come from.
pub(crate) trait Source {
    /// Why it stops within a batch.
    type Stop;
    /// The largest body that is waited for in the input.
    const BODY_MAX: usize;

    /// Whether a request may be executed; one that may not has been answered.
    fn admit<D: Dialect>(
        &mut self,
        _: &mut Executor<'_>,
        _: &D::Request<'_>,
    ) -> ControlFlow<Self::Stop, bool> {
        ControlFlow::Continue(true)
    }

    /// What a request's outcome means: whether to go on, with its other keys ([`Flow::Keys`]) or the next one.
    fn after(&mut self, executor: &mut Executor<'_>, flow: Flow) -> ControlFlow<Self::Stop>;
}

/// One request, its key and its body.
pub(crate) struct AtHand<'b, R> {
    pub(crate) request: R,
    /// The hashed key of a request that has exactly one, sent as it is.
    pub(crate) key: Option<Key<'b>>,
    /// Of a storage request: the value, and in text the two bytes after it.
    pub(crate) body: &'b [u8],
    /// Bytes of head and body.
    used: usize,
}

/// Requests at hand.
pub(crate) type Batch<'b, D> = Vec<AtHand<'b, <D as Dialect>::Request<'b>>>;

/// What is to be dropped of an input because it is no request.
pub(crate) struct Skip {
    /// Bytes at its front, and bytes to come behind those.
    pub(crate) used: usize,
    pub(crate) swallow: u64,
    /// Whether the connection ends.
    pub(crate) close: bool,
}

/// How a batch ended.
pub(crate) enum End<'b, D: Dialect, S> {
    /// The source stopped it.
    Stopped(S),
    /// All of it is executed. More requests may follow.
    More,
    /// Behind it is nothing, or a piece of a request.
    Piece(Piece),
    /// Behind it is what is no request.
    Refused(D::Error),
    /// Behind it is a storage request whose value is received outside the input.
    Large { request: D::Request<'b>, head_bytes: usize },
}

/// What there is of a request that isn't whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Nothing at all, or a line without its end, of so many bytes.
    Line(usize),
    /// A storage request's head, and not all of its body.
    Body,
}

/// Buffers that all connections and datagrams of a worker use in turn.
#[derive(Default)]
pub(crate) struct Rooms {
    pub(crate) receive: Vec<u8>,
    /// Records of TLS on their way in or out.
    pub(crate) wire: Vec<u8>,
    pub(crate) replies: Vec<u8>,
    pub(crate) lines: Vec<AtHand<'static, Command<'static>>>,
    pub(crate) packets: Vec<AtHand<'static, binary::Packet<'static>>>,
}

/// Executes the requests at the front of `input`, up to [`BATCH_MAX`]. The bytes that they used, and how it ended.
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

/// Fills `batch` with the requests at the front of `input`, at most `most`.
///
/// `scanned` bytes are known to hold no newline. A body over `body_max` bytes is not waited for.
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

/// Brings the lines that a batch will look at closer.
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

/// Notes what those behind a request that waits for storage will have to read there.
#[cold]
fn want_ahead<D: Dialect>(executor: &mut Executor<'_>, behind: &[AtHand<'_, D::Request<'_>>]) {
    let reads = behind.iter().filter(|at_hand| D::storing(&at_hand.request).is_none());
    executor.want_ahead(reads.filter_map(|at_hand| at_hand.key));
}

/// An empty batch in the memory of a used one, free of what it borrowed.
pub(crate) fn recycle<R, S>(mut batch: Vec<AtHand<'_, R>>) -> Vec<AtHand<'static, S>> {
    batch.clear();
    // The collection is in place: no allocation.
    batch.into_iter().map(|_| unreachable!("the batch is empty")).collect()
}

/// Requests whose memory is asked for together. Beyond about 64 the first lines may be evicted
/// from the nearest cache before they are used.
const BATCH_MAX: usize = 64;
