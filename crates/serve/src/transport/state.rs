//! The state of a connection: which request it is within, what it waits for, and why work on its input pauses.

use crate::auth::Exchange;
use crate::batch::Piece;
use crate::execute::{Fed, Listing, MoreKeys};
use guira_cache::Unpublished;

/// The position of a connection in its stream of requests.
pub(super) enum State {
    /// Before its first byte, which decides the protocol.
    New,
    /// Before the login, if one is required.
    Login(LoggedOut),
    /// Between requests.
    Requests,
    /// Within the keys of a multiget.
    Keys(MoreKeys),
    /// Within the value of a large item.
    Value(Box<Arriving>),
    /// Within a body to discard; holds the number of bytes that are left.
    Swallow(u64),
    /// Within a line to discard.
    SwallowLine,
    /// Within a request that has to be refused.
    Refused(Refused),
    /// Another thread answers.
    Fed(Fed),
    /// Within the reply to a request; holds the rest of the listing.
    Listing(Box<Listing>),
    /// The last reply is queued.
    Closing,
}

impl State {
    /// Whether more of a long request follows: one piece of it may be short, and the next one long.
    pub(super) fn is_within_value(&self) -> bool {
        matches!(self, State::Value(_) | State::Swallow(_) | State::SwallowLine | State::Refused(_))
    }
}

/// A large item being received, and the line (or header, extras and key) that asked for it.
pub(super) struct Arriving {
    pub(super) line: Box<[u8]>,
    pub(super) new: Unpublished,
    /// Bytes that follow the value.
    pub(super) end_bytes: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Not its socket: the connection is fed, or its client has gone.
    Feed,
    /// Not its socket: the connection has another turn coming. Its socket's events would only wake the worker repeatedly.
    Turn,
}

/// What happens next with a connection.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// It waits for its socket.
    Wait(Interest),
    /// It gets another turn at once: there are requests in its input.
    Again,
    /// It gets another turn when memory may be free. `first`: it has not waited before.
    Later { first: bool },
    /// It gets another turn after those put off before it: its next command is costly.
    PutOff,
    /// It gets another turn at this millisecond of the system's clock.
    Pause { until_ms: u64 },
    /// It is called when its feed has bytes.
    Fed,
    /// It gets another turn when its reads of storage have ended.
    Parked,
    /// What was decided before still holds.
    Nothing,
    /// It is closed.
    Close,
}

impl Next {
    /// Whether the records read for it are kept. A client that doesn't take its replies has them read again.
    pub(super) fn keeps_answers(self) -> bool {
        matches!(self, Next::Parked | Next::Again | Next::Later { .. })
    }
}

/// Why work on the input pauses.
pub(crate) enum Step {
    /// It doesn't pause.
    More,
    /// The output is full.
    Full,
    /// The connection has used up its share of the turn.
    Spent,
    /// The rest of the input isn't a complete request.
    Piece(Piece),
    /// Memory must become free first.
    Later,
    /// The next command is costly, and the share of such commands in the worker's turn is used up.
    PutOff,
    /// The work has to wait until this millisecond.
    Pause(u64),
    /// Another thread answers.
    Fed,
    /// Storage must be read first.
    Parked,
    /// There is no memory for the replies: the connection is closed without them.
    Overrun,
    /// The connection is closed.
    Close,
}

/// The state of a connection that has not logged in.
#[derive(Default)]
pub(super) struct LoggedOut {
    pub(super) exchange: Exchange,
    /// Bytes of a body to discard that are left.
    pub(super) swallow: u64,
    /// Until when the current attempt waits, in milliseconds of the system's clock.
    pub(super) waits_until_ms: Option<u64>,
}

/// The part of a request to refuse that has arrived.
pub(super) enum Refused {
    /// Part of a line, of a packet's head, or of a value that has no memory yet.
    Piece,
    /// A get line that is answered except for these keys.
    Keys(MoreKeys),
    /// An item being received.
    Value(Box<Arriving>),
}
