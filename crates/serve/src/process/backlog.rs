//! Requests that were received and wait for their turns: one budget of bytes for what all connections hold of these.
//!
//! A client may send as many requests at once as it likes. A connection has `-R` of them executed in a turn, so what it
//! received with them, up to 84 KiB, may wait for thousands of turns; and for as long as its client doesn't read the replies.
//! A client that sends many at once does nothing wrong, so nobody is refused: while all connections together hold more
//! than the budget, each receives [`SPARING_BYTES`] at a time. The rest waits in the system, which has a bound for each socket.
//!
//! # Costs
//! A load and a comparison for each receive; an atomic addition where a connection begins or ends to hold more than
//! [`SPARING_BYTES`], which no usual pipeline of small requests does.

use crate::process::budget::ByteBudget;
use crate::settings::ServerSettings;

/// The budget that these settings mean.
pub(crate) fn budget(settings: &ServerSettings) -> ByteBudget {
    ByteBudget::new(settings.threads * WORKER_BYTES)
}

/// For each worker: dozens of connections receive as much as they can.
const WORKER_BYTES: usize = 2 << 20;
/// What each connection may hold beside the budget, and receives at a time while that is used up.
pub(crate) const SPARING_BYTES: usize = 4 << 10;
