//! Listings that may be long (`stats cachedump`, `stats conns`, `stats detail dump`), produced in pieces.
//!
//! A piece costs as much as one costly command may cost a worker's turn, and the next piece is put off
//! like such a command (`turn.rs`). A client that asks for a long listing therefore waits itself, and the
//! others wait for one piece. Entries that change between pieces are listed as they are when their piece
//! is produced.
//!
//! A listing in one packet, whose length comes first, is measured in pieces before it is sent. Lines that
//! no longer fit are then left out, and empty lines fill the missing bytes.

use crate::process::dump;
use crate::stats;
use crate::turn::Turn;
use guira_cache::Walk;
use guira_proto::binary::{Echo, reply};
use guira_proto::fixed;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The rest of a listing, and its format.
pub(crate) struct Listing {
    what: Listed,
    /// The request that is answered with one packet per line; `None`: the listing is text.
    packets: Option<Echo>,
    /// The progress of a listing that is sent in one packet.
    one: Option<One>,
}

/// The progress of a one-packet listing: the bytes measured so far, or the bytes of the value that are left.
enum One {
    Measured(usize),
    Said(usize),
    Filled(usize),
}

enum Listed {
    Items {
        walk: Walk,
        items_left: u32,
        bytes_left: usize,
    },
    /// The prefixes after this one.
    Prefixes {
        after: Option<Arc<[u8]>>,
    },
    /// The sockets from this descriptor on.
    Sockets {
        from: RawFd,
    },
}

impl Listing {
    /// Lists up to `limit` items (0: any number) of a class, counted from 1. As in memcached, at most 2 MiB are listed.
    pub(crate) fn items(turn: &Turn<'_>, class: usize, limit: u32) -> Listing {
        // Class 0 and the class of this number don't exist.
        let walk = turn.handle.walk(class.checked_sub(1).unwrap_or(usize::MAX));
        let items_left = if limit == 0 { u32::MAX } else { limit };
        let what = Listed::Items { walk, items_left, bytes_left: CACHEDUMP_BYTES_MAX };
        Listing { what, packets: None, one: None }
    }

    /// Lists all prefixes.
    pub(crate) fn prefixes() -> Listing {
        Listing { what: Listed::Prefixes { after: None }, packets: None, one: None }
    }

    /// Lists all sockets.
    pub(crate) fn sockets() -> Listing {
        Listing { what: Listed::Sockets { from: 0 }, packets: None, one: None }
    }

    /// Lists all prefixes in one packet, in reply to the request of `echo`.
    pub(crate) fn prefixes_in_one(echo: Echo) -> Listing {
        Listing { packets: Some(echo), one: Some(One::Measured(0)), ..Listing::prefixes() }
    }

    /// Turns the listing into packets, in reply to the request of `echo`.
    pub(crate) fn in_packets(self, echo: Echo) -> Listing {
        Listing { packets: Some(echo), ..self }
    }

    /// Appends the next piece, and the end if it is the last. Returns whether there may be more. `asking`
    /// is the descriptor of the connection that asked.
    pub(crate) fn append(&mut self, turn: &Turn<'_>, asking: RawFd, out: &mut Vec<u8>) -> bool {
        // Packets are about twice as long as the lines they hold.
        let parts = if turn.process.unsent.is_scarce(0) { SCARCE_PARTS } else { 1 };
        let Some(echo) = self.packets else {
            let has_more = self.what.append(turn, asking, parts, out);
            if !has_more {
                out.extend_from_slice(fixed::END);
            }
            return has_more;
        };
        let mut text = Vec::with_capacity(PIECE_BYTES);
        let has_more = match &mut self.one {
            Some(One::Filled(_)) => false,
            _ => self.what.append(turn, asking, 2 * parts, &mut text),
        };
        let has_more = match &mut self.one {
            Some(one) => one.append(&text, has_more, echo, out),
            None => {
                append_packets(&text, echo, out);
                has_more
            }
        };
        if !has_more {
            reply::stat(out, echo, b"", b"");
        }
        has_more
    }
}

impl One {
    /// Appends the bytes of the next piece of text that belong in the packet; `has_more`: more text
    /// follows. Empty lines fill the rest of the packet. Returns whether the packet is still incomplete.
    fn append(&mut self, text: &[u8], has_more: bool, echo: Echo, out: &mut Vec<u8>) -> bool {
        match *self {
            One::Measured(bytes) if has_more => *self = One::Measured(bytes + text.len()),
            One::Measured(bytes) => {
                let bytes = bytes + text.len();
                reply::stat_head(out, echo, b"detailed", bytes);
                *self = One::Said(bytes);
            }
            One::Said(left) => {
                let fitting = &text[..text.len().min(left)];
                let whole = fitting.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                out.extend_from_slice(&text[..whole]);
                let goes_on = has_more && whole == text.len();
                let left = left - whole;
                *self = if goes_on { One::Said(left) } else { One::Filled(left) };
            }
            One::Filled(left) => {
                let now = left.min(PIECE_BYTES);
                out.resize(out.len() + now, b'\n');
                *self = One::Filled(left - now);
            }
        }
        !matches!(self, One::Filled(0))
    }
}

impl Listed {
    /// Appends the next piece, of a usual piece's size divided by `parts`. Returns whether there may be more.
    fn append(&mut self, turn: &Turn<'_>, asking: RawFd, parts: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + PIECE_BYTES / parts;
        match self {
            Listed::Items { walk, items_left, bytes_left } => {
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
            Listed::Prefixes { after } => {
                *after = turn.process.detail.dump(after.as_deref(), end, out);
                after.is_some()
            }
            Listed::Sockets { from } => {
                let most = SOCKETS / parts;
                let seats = turn.process.roster.from(*from, most);
                for (fd, seat) in &seats {
                    stats::conn((*fd, seat), turn.now, *fd == asking, out);
                    *from = fd.saturating_add(1);
                }
                seats.len() == most
            }
        }
    }
}

/// Appends a packet for each `STAT` line of `text`.
pub(super) fn append_packets(text: &[u8], echo: Echo, out: &mut Vec<u8>) {
    for line in text.split(|&b| b == b'\n') {
        let Some(line) = line.strip_prefix(b"STAT ") else { continue };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let name_bytes = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
        let (name, value) = line.split_at(name_bytes);
        reply::stat(out, echo, name, value.strip_prefix(b" ").unwrap_or(value));
    }
}

/// Bytes of a piece: about 250 lines, some ten microseconds.
const PIECE_BYTES: usize = 16 << 10;
/// Sockets of a piece, whose lines take about as many bytes.
const SOCKETS: usize = 70;
/// The divisor of a piece's size while memory for replies is scarce.
const SCARCE_PARTS: usize = 4;
/// Steps of a walk per piece. A step may show nothing, because not every item is shown.
const STEPS: usize = 16;
const CACHEDUMP_BYTES_MAX: usize = (2 << 20) - 400;
