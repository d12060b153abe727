//! Where a connection stands: within which request, what it waits for, why work on its input pauses.

use crate::auth::Exchange;
use crate::batch::Piece;
use crate::execute::{Fed, Listing, MoreKeys};
use guira_cache::Unpublished;

/// Where in the stream of requests a connection stands.
pub(super) enum State {
    /// Before its first byte, which decides the protocol.
    New,
    /// Before the login, where one is required.
    Login(LoggedOut),
    /// Between requests.
    Requests,
    /// Within the keys of a multiget.
    Keys(MoreKeys),
    /// Within the value of a large item.
    Value(Box<Arriving>),
    /// Within a body that nobody wants; so many bytes are to come.
    Swallow(u64),
    /// Within a line that nobody wants.
    SwallowLine,
    /// Within a request that is to be refused.
    Refused(Refused),
    /// Another thread answers.
    Fed(Fed),
    /// Within the answer to a request: this is still to be listed.
    Listing(Box<Listing>),
    /// Answered for the last time.
    Closing,
}

impl State {
    /// Whether more of what is long comes: one piece of it may be short, and the next one long.
    pub(super) fn is_within_value(&self) -> bool {
        matches!(self, State::Value(_) | State::Swallow(_) | State::SwallowLine | State::Refused(_))
    }
}

/// A large item in the making, and the line (or header, extras and key) that asked for it.
pub(super) struct Arriving {
    pub(super) line: Box<[u8]>,
    pub(super) new: Unpublished,
    /// Bytes that come behind the value.
    pub(super) end_bytes: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Not its socket: it is fed, or has gone.
    Feed,
    /// Not its socket: it has its turn coming. What the socket has to tell would wake the worker again and again.
    Turn,
}

/// What a connection wants next.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// To be woken by the socket.
    Wait(Interest),
    /// Another turn at once: there are requests at hand.
    Again,
    /// Another turn when memory may have come free. `first`: it has not waited yet.
    Later { first: bool },
    /// Another turn, when those before it have had theirs: a costly command is at hand.
    PutOff,
    /// Another turn at this millisecond of the system's clock.
    Pause { until_ms: u64 },
    /// To be called when its feed has something.
    Fed,
    /// Another turn when what it has to read from storage is read.
    Parked,
    /// What it wanted before.
    Nothing,
    /// The end.
    Close,
}

impl Next {
    /// Whether what was read for it is kept. A client that lets its replies wait has it read again.
    pub(super) fn keeps_answers(self) -> bool {
        matches!(self, Next::Parked | Next::Again | Next::Later { .. })
    }
}

/// Why work on the input pauses.
pub(crate) enum Step {
    /// It doesn't.
    More,
    /// The output is full.
    Full,
    /// The connection had its share of the turn.
    Spent,
    /// The rest of the input is not a whole request.
    Piece(Piece),
    /// Memory must come free first.
    Later,
    /// A costly command is at hand, and the worker's turn has had its share of these.
    PutOff,
    /// It has to wait until this millisecond.
    Pause(u64),
    /// Another thread answers.
    Fed,
    /// Storage must be read first.
    Parked,
    /// There is no memory for the replies: the connection ends without them.
    Overrun,
    /// The connection ends.
    Close,
}

/// Where a connection stands that has not logged in.
#[derive(Default)]
pub(super) struct LoggedOut {
    pub(super) exchange: Exchange,
    /// Bytes to come of a body that nobody wants.
    pub(super) swallow: u64,
    /// Until when the attempt at hand waits, in milliseconds of the system's clock.
    pub(super) waits_until_ms: Option<u64>,
}

/// What there is of a request that is to be refused.
pub(super) enum Refused {
    /// A piece of a line, of a packet's head, or of a value that has no memory yet.
    Piece,
    /// A get line that is answered but for these keys.
    Keys(MoreKeys),
    /// An item in the making.
    Value(Box<Arriving>),
}
