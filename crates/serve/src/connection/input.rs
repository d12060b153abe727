//! Receiving: into the worker's buffer, into the connection's own while much is left over, or
//! straight into the memory of a large item.

use super::{Connection, Rooms, State, Stream};
use crate::worker::Turn;
use guira_cache::Counter;
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

impl Connection {
    /// The buffer to receive into, with what was left over at its front.
    pub(super) fn lend_input(&mut self, rooms: &mut Rooms) -> Vec<u8> {
        let mut own = std::mem::take(&mut self.input);
        if own.len() > KEEP_BYTES {
            if own.capacity() - own.len() < RECEIVE_BYTES / 4 {
                own.reserve(RECEIVE_BYTES.max(own.len()));
            }
            return own;
        }
        let mut room = std::mem::take(&mut rooms.receive);
        room.clear();
        room.reserve_exact(ROOM_BYTES);
        room.extend_from_slice(&own);
        room
    }

    /// Receives once; the bytes received, 0 at the end of the stream.
    pub(super) fn receive(
        &mut self,
        turn: &Turn<'_>,
        input: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<usize, Errno> {
        let received = match (&mut self.stream, &mut self.state) {
            (Stream::Tls(channel), _) => {
                channel.receive(turn.shared, input, wire, &mut self.unsent)?
            }
            (Stream::Plain(socket), State::Value(arriving))
                if input.is_empty() && arriving.new.missing_bytes() > 0 =>
            {
                match turn.handle.room(&mut arriving.new, turn.now) {
                    Ok(room) => {
                        let (_, received) = recv(socket, room, RecvFlags::DONTWAIT)?;
                        arriving.new.advance(received);
                        received
                    }
                    // Whoever takes the value off the input deals with that.
                    Err(_) => receive_into(socket, input)?,
                }
            }
            (Stream::Plain(socket), _) => receive_into(socket, input)?,
        };
        turn.handle.count_many(Counter::BytesRead, received as u64);
        Ok(received)
    }

    /// Keeps what was not consumed, and gives the buffer back to the worker if that is little.
    pub(super) fn keep_input(&mut self, mut input: Vec<u8>, consumed: usize, rooms: &mut Rooms) {
        let left = input.len() - consumed;
        if left > KEEP_BYTES {
            input.drain(..consumed);
            self.input = input;
            return;
        }
        if left > 0 {
            let mut piece = Vec::with_capacity(left.next_multiple_of(PIECE_STEP_BYTES));
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
}

fn receive_into(socket: &OwnedFd, input: &mut Vec<u8>) -> Result<usize, Errno> {
    let (_, received) = recv(socket, spare_capacity(input), RecvFlags::DONTWAIT)?;
    Ok(received)
}

/// Bytes received at most in one go.
const RECEIVE_BYTES: usize = 64 << 10;
/// Room for what one connection left over and what it then receives. Always the same, so that it is never given back and
/// asked for again.
const ROOM_BYTES: usize = KEEP_BYTES + RECEIVE_BYTES;
/// Pieces have room in steps of this, so that the next one fits where the last one was: memory that is asked for in all
/// sizes falls to bits that nobody can use.
const PIECE_STEP_BYTES: usize = 2 << 10;
/// More than this left over stays where it is; less is copied, so that the worker keeps its buffer.
const KEEP_BYTES: usize = 20 << 10;
