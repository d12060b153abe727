//! Receiving: into the worker's buffer, into the connection's own buffer while much is left over, or
//! directly into the memory of a large item.

use super::{Connection, LONG_BYTES};
use crate::batch::Rooms;
use crate::process::budget::SPARING_BYTES;
use crate::transport::state::State;
use crate::transport::stream::Stream;
use crate::turn::Turn;
use guira_cache::Counter;
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

impl Connection {
    /// Returns the buffer to receive into, and the offset in it of the bytes left over.
    #[inline]
    pub(super) fn lend_input(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) -> (Vec<u8>, usize) {
        let mut own = std::mem::take(&mut self.input);
        if turn.process.backlog.is_used_up() && !self.has_backlog {
            own.reserve_exact(SPARING_BYTES);
            return (own, std::mem::take(&mut self.done));
        }
        if own.len() > KEEP_BYTES {
            if own.capacity() - own.len() < RECEIVE_BYTES / 4 {
                // The capacity is far more than is needed next: untouched capacity takes no memory, while
                // copying takes time and leaves a hole in the heap each time. Less than a megabyte is
                // copied.
                let room = 7 * own.len();
                own.reserve_exact(if room > MOVED_BYTES_MAX { ROOM_BYTES_MAX } else { room });
            }
            return (own, std::mem::take(&mut self.done));
        }
        let mut room = std::mem::take(&mut rooms.receive);
        room.clear();
        room.reserve_exact(ROOM_BYTES);
        room.extend_from_slice(&own);
        (room, 0)
    }

    /// Receives once. Returns the number of bytes received; 0 at the end of the stream.
    pub(super) fn receive(
        &mut self,
        turn: &Turn<'_>,
        input: &mut Vec<u8>,
        rooms: &mut Rooms,
    ) -> Result<usize, Errno> {
        let received = match (&mut self.stream, &mut self.state) {
            (Stream::Tls(channel), _) => {
                channel.receive(turn.process, input, &mut rooms.wire, &mut self.unsent)?
            }
            (Stream::Plain(socket), State::Value(arriving))
                if input.is_empty() && arriving.new.missing_bytes() > 0 =>
            {
                match turn.handle.room_at_hand(&mut arriving.new) {
                    // The next chunk is allocated when the value is taken from the input.
                    [] => receive_into(socket, input, rooms)?,
                    room => {
                        let (_, received) = recv(socket, room, RecvFlags::DONTWAIT)?;
                        arriving.new.advance(received);
                        received
                    }
                }
            }
            (Stream::Plain(socket), _) => receive_into(socket, input, rooms)?,
        };
        turn.handle.count_many(Counter::BytesRead, received as u64);
        if received >= LONG_BYTES {
            turn.handle.note_moved(received);
        }
        Ok(received)
    }

    /// Keeps what was not consumed, and returns the buffer to the worker if that is little.
    pub(super) fn keep_input(&mut self, mut input: Vec<u8>, consumed: usize, rooms: &mut Rooms) {
        let left = input.len() - consumed;
        if left > KEEP_BYTES {
            // The rest is moved to the front once it is no longer than what was consumed. A line of n
            // bytes thus costs n bytes of moving in total, however few of its keys are answered at a
            // time. A long rest isn't moved: that takes a millisecond per megabyte, during which others
            // wait.
            if consumed < left || left > MOVED_BYTES_MAX {
                self.done = consumed;
                self.input = input;
            } else {
                self.input = Vec::with_capacity(left + RECEIVE_BYTES);
                self.input.extend_from_slice(&input[consumed..]);
            }
            return;
        }
        if left > 0 {
            let mut piece = Vec::with_capacity(piece_bytes(left));
            piece.extend_from_slice(&input[consumed..]);
            self.input = piece;
        }
        if rooms.receive.capacity() == 0
            && (ROOM_BYTES..2 * RECEIVE_BYTES).contains(&input.capacity())
        {
            input.clear();
            rooms.receive = input;
        }
    }

    /// Bytes of memory that the input takes; of a large buffer, only the part that was written to.
    pub(super) fn input_bytes(&self) -> usize {
        self.input.capacity().min(self.input.len().max(ROOM_BYTES))
    }
}

/// Receives once, at most about [`RECEIVE_BYTES`] even if `input` has room for megabytes, because others wait meanwhile.
fn receive_into(socket: &OwnedFd, input: &mut Vec<u8>, rooms: &mut Rooms) -> Result<usize, Errno> {
    if input.capacity() - input.len() <= ROOM_BYTES {
        let (_, received) = recv(socket, spare_capacity(input), RecvFlags::DONTWAIT)?;
        return Ok(received);
    }
    rooms.receive.clear();
    rooms.receive.reserve_exact(ROOM_BYTES);
    let (_, received) = recv(socket, spare_capacity(&mut rooms.receive), RecvFlags::DONTWAIT)?;
    input.extend_from_slice(&rooms.receive);
    Ok(received)
}

/// The capacity for `left` bytes of an incomplete request. There are few sizes, so that the next one fits
/// where the last one was: allocations of all sizes would fragment the heap.
fn piece_bytes(left: usize) -> usize {
    if left < PIECE_STEP_BYTES {
        return left.next_power_of_two().max(PIECE_BYTES_MIN);
    }
    left.next_multiple_of(PIECE_STEP_BYTES)
}

/// The most bytes received at a time.
const RECEIVE_BYTES: usize = 64 << 10;
/// The capacity for what one connection left over and what it then receives. It is constant, so that the
/// buffer is never freed and allocated again.
const ROOM_BYTES: usize = KEEP_BYTES + RECEIVE_BYTES;
/// The most capacity that is allocated at a time: enough for the longest line.
const ROOM_BYTES_MAX: usize = 8 << 20;
/// The most bytes that are moved at a time.
const MOVED_BYTES_MAX: usize = 1 << 20;
/// Large pieces have capacities in multiples of this.
const PIECE_STEP_BYTES: usize = 2 << 10;
const PIECE_BYTES_MIN: usize = 64;
/// A larger rest stays in its buffer; a smaller one is copied, so that the worker keeps its buffer.
const KEEP_BYTES: usize = 20 << 10;
