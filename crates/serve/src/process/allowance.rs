//! How much of a worker's turn and memory a connection may take: `-R`, and `-o read_buf_mem_limit`.
//!
//! memcached allocates buffers of 16 KiB: one for each connection with an incomplete request, and one for
//! each 32 or so replies that wait to be sent. `read_buf_mem_limit` limits these, shared out among the
//! threads. Guira needs far less memory for either, but operators set the limit by memcached's account,
//! so Guira enforces that account:
//! - a multiget of more keys than replies are allowed is answered
//!   `SERVER_ERROR out of memory writing get response`,
//! - a connection that sends more requests at once than replies are allowed is closed,
//! - a connection that keeps part of a request is closed if as many others as there are buffers do.

use crate::settings::ServerSettings;

/// What a connection may do in one turn, and how many connections may keep part of a request.
pub(crate) struct Allowance {
    /// Requests of a connection in one turn.
    pub(crate) requests: usize,
    /// Keys of a connection's multigets in one turn.
    pub(crate) keys: usize,
    /// Connections of a worker that may keep part of a request.
    pub(crate) pieces: usize,
    /// Replies in one turn for which a worker has memory.
    replies: usize,
}

impl Allowance {
    pub(crate) fn new(settings: &ServerSettings) -> Allowance {
        let limit_bytes = settings.extended.read_buf_mem_limit_bytes;
        let threads = settings.threads as u64;
        let buffers = match usize::try_from(limit_bytes / threads / BUFFER_BYTES) {
            _ if limit_bytes == 0 => usize::MAX,
            Ok(buffers) => buffers.max(1),
            Err(_) => usize::MAX,
        };
        // One of the buffers holds the requests.
        let replies = buffers.saturating_sub(1).max(1).saturating_mul(REPLIES_A_BUFFER);
        Allowance {
            requests: replies.min(settings.requests_per_turn as usize),
            keys: replies.min(KEYS_PER_TURN),
            pieces: buffers,
            replies,
        }
    }

    /// Whether a connection that has used up its keys of a turn has used up memory too.
    pub(crate) fn limits_keys(&self) -> bool {
        self.keys == self.replies
    }

    /// Whether a connection that has used up its requests of a turn has used up memory too.
    pub(crate) fn limits_requests(&self) -> bool {
        self.requests == self.replies
    }
}

/// Keys of multigets that a connection may get in one turn: about 200 µs of work.
const KEYS_PER_TURN: usize = 1024;
/// The size of memcached's buffer.
const BUFFER_BYTES: u64 = 16 << 10;
const REPLIES_A_BUFFER: usize = 32;
