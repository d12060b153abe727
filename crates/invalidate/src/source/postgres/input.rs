//! The bytes that arrived over a socket, in a room that is used again and again.
//!
//! ```text
//! room  | taken | arrived, not taken yet | free |
//!               ▲ begin                  ▲ end
//! ```
//! # Invariants
//! 1. What was taken stays readable until the next read.
//! 2. Nothing is allocated for a read, unless a caller wants more bytes at once than the room has. A larger room is
//!    given back once it is empty.

use std::io::{self, Read};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Input {
    room: Vec<u8>,
    begin: usize,
    end: usize,
    /// The number of bytes that a caller waits for, from `begin` on.
    wanted: usize,
    /// The number of bytes that are still to be skipped.
    leave_out: usize,
}

/// Where taken bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    from: usize,
    until: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self { room: vec![0; READ_BYTES], begin: 0, end: 0, wanted: 0, leave_out: 0 }
    }
}

impl Input {
    /// Reads once, as much as there is room for. Returns the number of bytes, with those that are skipped.
    pub(super) fn read(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        let read = from.read(&mut self.room[self.end..])?;
        self.end += read;
        self.skip();
        Ok(read)
    }

    /// Returns what has arrived and isn't taken.
    pub(super) fn rest(&self) -> &[u8] {
        &self.room[self.begin..self.end]
    }

    /// Whether so many bytes have arrived. If not, the next reads wait for them.
    pub(super) fn has(&mut self, count: usize) -> bool {
        let has = self.end - self.begin >= count;
        self.wanted = if has { 0 } else { count };
        has
    }

    /// Takes bytes that have arrived.
    pub(super) fn take(&mut self, count: usize) -> Piece {
        let from = self.begin;
        self.begin = (from + count).min(self.end);
        Piece { from, until: self.begin }
    }

    /// Returns taken bytes.
    pub(super) fn bytes(&self, piece: Piece) -> &[u8] {
        &self.room[piece.from..piece.until]
    }

    /// Skips the next bytes, which may not have arrived yet.
    pub(super) fn leave_out(&mut self, count: usize) {
        self.leave_out += count;
        self.skip();
    }

    fn skip(&mut self) {
        let here = self.leave_out.min(self.end - self.begin);
        self.begin += here;
        self.leave_out -= here;
    }

    fn make_room(&mut self) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.room.len() > READ_BYTES && self.wanted <= READ_BYTES {
                self.room = vec![0; READ_BYTES];
            }
        } else if self.begin > 0 && self.room.len() - self.begin < self.wanted.max(READ_BYTES / 2) {
            self.room.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.end.max(self.wanted) <= READ_BYTES {
                self.room.truncate(READ_BYTES);
                self.room.shrink_to_fit();
            }
        }
        if self.room.len() < self.wanted {
            // A length that isn't true takes no more memory than what arrives, twice.
            let more = (self.end * 2).clamp(READ_BYTES, self.wanted);
            self.room.resize(more.max(self.room.len()), 0);
        }
        if self.end == self.room.len() {
            self.room.resize(self.room.len() * 2, 0);
        }
    }

    /// The size of the room, in bytes.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.room.len()
    }
}

/// The size of the room, unless more is wanted at once.
pub(super) const READ_BYTES: usize = 64 << 10;
