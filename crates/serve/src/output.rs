//! The replies to be sent: small values are copied into one buffer, large ones are sent from the item's memory.
//!
//! ```text
//! bytes     | VALUE k 0 32 … END | VALUE big 0 65536\r\n |           | \r\nEND\r\n |
//! borrowed                                               ^ at: the item's own 65,536 bytes
//! ```
//! All connections of a worker use one output in turn; it borrows items for at most a turn. The bytes
//! that the socket doesn't take are copied into the connection, so a reply that outlives its turn owns
//! its bytes. While memory for such copies is scarce, a large value is looked up again instead (held.rs).
//!
//! # Costs
//! One `send` per batch (`sendmsg` with a slice for each borrowed value and for the bytes between them).
//! Copying 8 KiB costs about as much as the extra slice; larger values are borrowed.

mod held;

use guira_cache::ItemRef;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::ops::Range;

/// The replies of one connection that aren't sent yet.
pub(crate) struct Output<'h> {
    /// The buffer to which proto's reply functions append.
    pub(crate) bytes: Vec<u8>,
    /// Values to send before `bytes[at]`, sorted by `at`.
    borrowed: Vec<(usize, &'h [u8])>,
    borrowed_bytes: usize,
    /// The last item whose value the output borrows.
    lent: Option<Lent<'h>>,
}

impl<'h> Output<'h> {
    /// Returns an empty output that appends to `bytes`, whose capacity is reused.
    pub(crate) fn new(mut bytes: Vec<u8>) -> Output<'h> {
        bytes.clear();
        Output { bytes, borrowed: Vec::new(), borrowed_bytes: 0, lent: None }
    }

    /// Queues a piece of a value: a copy if it is small, otherwise a borrow.
    #[inline]
    pub(crate) fn value(&mut self, piece: &'h [u8]) {
        if piece.len() < BORROW_FROM_BYTES {
            self.bytes.extend_from_slice(piece);
        } else {
            self.borrowed.push((self.bytes.len(), piece));
            self.borrowed_bytes += piece.len();
        }
    }

    /// The current end of the queue, for [`Output::rewind`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), borrowed: self.borrowed.len() }
    }

    /// Removes what was queued since `to` was taken.
    pub(crate) fn rewind(&mut self, to: Mark) {
        self.bytes.truncate(to.bytes);
        let taken_back = self.borrowed.drain(to.borrowed..);
        self.borrowed_bytes -= taken_back.map(|(_, piece)| piece.len()).sum::<usize>();
        self.lent = None;
    }

    /// Bytes in the queue, copied and borrowed.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.borrowed_bytes
    }

    /// Sends the queue. Returns how many bytes the socket took.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        match (self.borrowed.is_empty(), self.bytes.is_empty()) {
            (true, true) => Ok(0),
            (true, false) => send_once(socket, &[IoSlice::new(&self.bytes)]),
            (false, _) => self.send_slices(socket),
        }
    }

    fn send_slices(&self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let slices: Vec<IoSlice<'_>> = self.slices().map(IoSlice::new).collect();
        let mut sent = 0;
        for slices in slices.chunks(SLICES_MAX) {
            let len: usize = slices.iter().map(|s| s.len()).sum();
            let taken = send_once(socket, slices)?;
            sent += taken;
            if taken < len {
                break;
            }
        }
        Ok(sent)
    }

    /// Returns the queued bytes in order.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.borrowed.iter().map(|&(at, _)| at).chain([self.bytes.len()]);
        let starts = [0].into_iter().chain(self.borrowed.iter().map(|&(at, _)| at));
        let values = self.borrowed.iter().map(|&(_, piece)| piece).chain([&[][..]]);
        starts
            .zip(ends)
            .zip(values)
            .flat_map(|((start, end), value)| [&self.bytes[start..end], value])
            .filter(|slice| !slice.is_empty())
    }

    /// Appends a range of the queue to `to`.
    fn copy(&self, piece: Range<usize>, to: &mut Vec<u8>) {
        to.reserve_exact(piece.len());
        let mut at = 0;
        for slice in self.slices() {
            let (start, end) = (at, at + slice.len());
            at = end;
            let within = piece.start.clamp(start, end)..piece.end.clamp(start, end);
            to.extend_from_slice(&slice[within.start - start..within.end - start]);
        }
    }

    /// Empties the output.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.borrowed.clear();
        self.borrowed_bytes = 0;
        self.lent = None;
    }

    /// Returns all queued bytes in one buffer, with borrowed values copied.
    pub(crate) fn flatten(self) -> Vec<u8> {
        if self.borrowed.is_empty() {
            return self.bytes;
        }
        let mut all = Vec::with_capacity(self.len());
        self.slices().for_each(|slice| all.extend_from_slice(slice));
        all
    }

    /// Returns the buffer for the next connection, shrunk to what a turn usually needs.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes.shrink_to(ROOM_KEPT_BYTES);
        self.bytes
    }
}

/// An end of the queue. Valid while nothing of the queue has been sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark {
    bytes: usize,
    borrowed: usize,
}

/// Bytes that a client hasn't taken yet.
#[derive(Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
    /// What follows the bytes, while its value stays in the cache.
    held: Option<Box<Held>>,
}

impl Unsent {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.held.is_none()
    }

    /// Takes `bytes` to send. Nothing may be waiting.
    pub(crate) fn fill(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.is_empty(), "what waits goes first");
        *self = Unsent { bytes, sent: 0, held: None };
    }

    /// Appends `bytes` to those that wait.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        debug_assert!(self.held.is_none(), "nothing overtakes what is held");
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of memory that the waiting replies take.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.held.as_ref().map_or(0, |held| held.memory_bytes())
    }

    /// Takes what is held, if all bytes before it are sent.
    pub(crate) fn take_held(&mut self) -> Option<Box<Held>> {
        if self.bytes.is_empty() { self.held.take() } else { None }
    }

    /// Continues to send. Returns how many bytes were sent; the buffer is freed once all are.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return Ok(0);
        }
        let sent = send_once(socket, &[IoSlice::new(&self.bytes[self.sent..])])?;
        self.sent += sent;
        if self.sent == self.bytes.len() {
            (self.bytes, self.sent) = (Vec::new(), 0);
        }
        Ok(sent)
    }
}

/// An item whose value, or the rest of it, an output borrows.
struct Lent<'h> {
    item: ItemRef<'h>,
    /// Bytes of the value that were sent in former turns.
    gone: usize,
    /// The range of the queue that holds the rest.
    place: Range<usize>,
}

/// The rest of a value, which will be looked up again, and what follows it.
pub(crate) struct Held {
    key: Box<[u8]>,
    digest: u64,
    /// Bytes of the value that have been sent, or will be before this.
    gone: usize,
    tail: Vec<u8>,
}

impl Held {
    fn memory_bytes(&self) -> usize {
        size_of::<Held>() + self.key.len() + self.tail.capacity()
    }
}

/// Sends the slices. Returns how many bytes the socket took; 0 if it is full.
pub(crate) fn send_once(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        let sent = match slices {
            [one] => rustix::net::send(socket, one, flags),
            _ => sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags),
        };
        match sent {
            Ok(sent) => return Ok(sent),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pieces of at least this size are borrowed.
pub(crate) const BORROW_FROM_BYTES: usize = 8 << 10;
/// Slices that the system takes in one call (`IOV_MAX` is 1,024).
const SLICES_MAX: usize = 512;
/// The capacity of the buffer that a worker keeps between turns.
const ROOM_KEPT_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Sends `output` over a socket pair and returns the bytes that arrive, in order.
    fn arrived(output: &Output<'_>) -> Vec<u8> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all
        });
        let mut unsent = Unsent::default();
        let sent = output.send(ours.as_fd()).unwrap();
        output.copy(sent..output.len(), &mut unsent.bytes);
        while !unsent.is_empty() {
            unsent.send(ours.as_fd()).unwrap();
        }
        drop(ours);
        reader.join().unwrap()
    }

    #[test]
    fn copied_and_borrowed_pieces_arrive_in_the_order_in_which_they_were_queued() {
        let large: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut output = Output::new(b"left from before".to_vec());
        let mut want = Vec::new();
        for n in 0..5 {
            output.bytes.extend_from_slice(b"VALUE\r\n");
            output.value(&large[..n]);
            output.value(&large[n..]);
            output.value(&large[..BORROW_FROM_BYTES]);
            for piece in [&b"VALUE\r\n"[..], &large, &large[..BORROW_FROM_BYTES]] {
                want.extend_from_slice(piece);
            }
        }
        assert_eq!(output.len(), want.len());
        assert!(arrived(&output) == want);
    }

    #[test]
    fn more_borrowed_values_than_one_call_takes_arrive_too() {
        let value = vec![7; BORROW_FROM_BYTES];
        let mut output = Output::new(Vec::new());
        for _ in 0..2 * SLICES_MAX {
            output.bytes.push(b'v');
            output.value(&value);
        }
        assert_eq!(arrived(&output).len(), 2 * SLICES_MAX * (BORROW_FROM_BYTES + 1));
    }
}
