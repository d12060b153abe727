//! One budget of bytes for requests that aren't whole, over all connections: `-o unfinished_limit`.
//!
//! A client may announce what it likes and send nothing, or send a line that never ends. What that holds is charged as
//! it comes to be: a piece of a line or of a value in a connection's input, and the chunks of an item in the making,
//! which are taken as its value arrives. A request that comes whole in one receive is never charged.
//!
//! What a connection holds up to [`FREE_BYTES`] is free, so it is never refused: short requests work however they are cut
//! into packets, whatever others hold. All that is free is bounded by the number of connections (`-c`).
//!
//! # When the budget is used up
//! The request whose bytes came last takes its worker to the budget's end; of that worker's connections the one that
//! began to hold something last is told that there is no memory, and the rest of its request is read away. But where
//! the first of them has sent nothing for [`STALLED_S`](crate::process::budget::STALLED_S), that one gives way instead: else whoever was first could keep
//! all others' large values out for ever.

use crate::process::budget::ByteBudget;
use crate::settings::ServerSettings;

/// The budget that these settings mean.
pub(crate) fn budget(settings: &ServerSettings) -> ByteBudget {
    let wanted = match settings.extended.unfinished_limit_bytes {
        0 => settings.memory_bytes / MEMORY_SHARE,
        given => given,
    };
    // The largest item must find its way in.
    ByteBudget::new(wanted.max(2 * settings.item_bytes_max))
}

/// Of so many bytes for items one more may be held for requests that aren't whole.
const MEMORY_SHARE: usize = 10;
/// What each connection may hold for a request that isn't whole, beside the budget: room for every line but long gets.
pub(crate) const FREE_BYTES: usize = 2 << 10;
