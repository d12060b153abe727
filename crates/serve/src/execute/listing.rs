//! Listings that may be long (`stats cachedump`, `stats conns`, `stats detail dump`), in pieces.
//!
//! A piece is what one costly command may cost a worker's turn; the next one is put off as such commands are
//! (`turn.rs`). So whoever asks for long listings waits, and others wait for a piece. What changes from piece to
//! piece is listed as it is when its turn comes. Where all is one packet, whose length comes first, it is measured before, in
//! pieces too: what doesn't fit any more is left out, and what is missing is made up for by empty lines.

use crate::process::dump;
use crate::stats;
use crate::turn::Turn;
use guira_cache::Walk;
use guira_proto::binary::{Echo, reply};
use guira_proto::fixed;
use std::os::fd::RawFd;
use std::sync::Arc;

/// What is still to be listed, and how.
pub(crate) struct Listing {
    what: Listed,
    /// A packet for each line, in answer to this one; `None`: in text.
    packets: Option<Echo>,
    /// All in one of these, and where that stands.
    one: Option<One>,
}

/// Where one packet stands: the bytes of its value so far, then those that are left.
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
        let what = Listed::Items { walk, items_left, bytes_left: CACHEDUMP_BYTES_MAX };
        Listing { what, packets: None, one: None }
    }

    /// Of all prefixes.
    pub(crate) fn prefixes() -> Listing {
        Listing { what: Listed::Prefixes { after: None }, packets: None, one: None }
    }

    /// Of all sockets.
    pub(crate) fn sockets() -> Listing {
        Listing { what: Listed::Sockets { from: 0 }, packets: None, one: None }
    }

    /// Of all prefixes, in one packet in answer to this one.
    pub(crate) fn prefixes_in_one(echo: Echo) -> Listing {
        Listing { packets: Some(echo), one: Some(One::Measured(0)), ..Listing::prefixes() }
    }

    /// In packets, in answer to this one.
    pub(crate) fn in_packets(self, echo: Echo) -> Listing {
        Listing { packets: Some(echo), ..self }
    }

    /// Appends the next piece, and the end if it is the last; whether there may be more. `asking` is the connection that
    /// wants to know.
    pub(crate) fn append(&mut self, turn: &Turn<'_>, asking: RawFd, out: &mut Vec<u8>) -> bool {
        // Packets are about twice as long as their lines.
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
    /// Appends what goes into the packet of the next piece of text, behind which there is more or not; whether the packet
    /// isn't whole. Empty lines fill what is left of it.
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
    /// Appends the next piece, one of so many `parts` of what a piece usually has; whether there may be more.
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
/// Sockets of a piece, with about as many bytes.
const SOCKETS: usize = 70;
/// While memory for replies is scarce a piece is so much smaller.
const SCARCE_PARTS: usize = 4;
/// Steps of a walk in a piece: not every item is shown.
const STEPS: usize = 16;
const CACHEDUMP_BYTES_MAX: usize = (2 << 20) - 400;
