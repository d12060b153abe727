//! Listings that may be long (`stats cachedump`, `stats conns`, `stats detail dump`), in pieces.
//!
//! A piece is what one costly command may cost a worker's turn; the next one is put off as such commands are
//! (`turn.rs`). So whoever asks for long listings waits, and others wait for a piece. What changes from piece to
//! piece is listed as it is when its turn comes.

use crate::process::dump;
use crate::stats;
use crate::turn::Turn;
use guira_cache::Walk;
use std::os::fd::RawFd;
use std::sync::Arc;

/// What is still to be listed.
pub(crate) enum Listing {
    Items {
        walk: Walk,
        items_left: u32,
        bytes_left: usize,
    },
    /// The prefixes behind this one.
    Prefixes {
        after: Option<Arc<[u8]>>,
    },
    /// The sockets from this one on.
    Sockets {
        from: RawFd,
    },
}

impl Listing {
    /// Of up to `limit` items (0: any number) of a class that is counted from 1, no more than memcached's 2 MiB of them.
    pub(crate) fn items(turn: &Turn<'_>, class: usize, limit: u32) -> Listing {
        // There is no class 0, and none of this number.
        let walk = turn.handle.walk(class.checked_sub(1).unwrap_or(usize::MAX));
        let items_left = if limit == 0 { u32::MAX } else { limit };
        Listing::Items { walk, items_left, bytes_left: CACHEDUMP_BYTES_MAX }
    }

    /// Appends the next piece; whether there may be more. `asking` is the connection that wants to know.
    pub(crate) fn append(&mut self, turn: &Turn<'_>, asking: RawFd, out: &mut Vec<u8>) -> bool {
        let end = out.len() + PIECE_BYTES;
        match self {
            Listing::Items { walk, items_left, bytes_left } => {
                let start = out.len();
                for _ in 0..STEPS {
                    let has_more = turn.handle.list(walk, turn.now, |item| {
                        if *items_left > 0 && out.len() - start < *bytes_left {
                            let is_shown = dump::cachedump(out, item, &turn.process.time);
                            *items_left -= u32::from(is_shown);
                        }
                    });
                    if !has_more || *items_left == 0 || out.len() - start >= *bytes_left {
                        return false;
                    }
                    if out.len() >= end {
                        break;
                    }
                }
                *bytes_left -= out.len() - start;
                true
            }
            Listing::Prefixes { after } => {
                *after = turn.process.detail.dump(after.as_deref(), end, out);
                after.is_some()
            }
            Listing::Sockets { from } => {
                let seats = turn.process.roster.from(*from, SOCKETS);
                for (fd, seat) in &seats {
                    stats::conn((*fd, seat), turn.now, *fd == asking, out);
                    *from = fd.saturating_add(1);
                }
                seats.len() == SOCKETS
            }
        }
    }
}

/// Bytes of a piece: about 250 lines, some ten microseconds.
const PIECE_BYTES: usize = 16 << 10;
/// Sockets of a piece, with about as many bytes.
const SOCKETS: usize = 70;
/// Steps of a walk in a piece: not every item is shown.
const STEPS: usize = 16;
const CACHEDUMP_BYTES_MAX: usize = (2 << 20) - 400;
