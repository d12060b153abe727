//! A client's output: replies that it hasn't taken yet.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use guira_client::Output;

use super::pace::{Pace, TURN_BYTES};
use super::patience::Patience;
use crate::sessions::stream::Stream;

/// Replies on their way to the client.
#[derive(Default)]
pub(super) struct Outlet {
    pub(super) output: Output,
    /// Whether written bytes still wait in the stream.
    is_held: bool,
}

impl Outlet {
    /// Whether all replies were written.
    pub(super) fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// Whether replies wait for the client.
    pub(super) fn waits(&self) -> bool {
        !self.output.is_empty() || self.is_held
    }

    /// Whether there is room for more replies.
    pub(super) fn has_room(&self) -> bool {
        self.output.left() < OUTPUT_BYTES_MAX
    }

    /// The capacity of the output buffer in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.output.bytes.capacity()
    }

    /// Writes replies, as far as the socket takes them and the client's turn lasts.
    pub(super) fn flush(
        &mut self,
        stream: &mut Stream,
        (pace, patience): (&mut Pace, &mut Patience),
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        while !self.output.is_empty() {
            let written = if let Some(bytes) = self.output.single() {
                stream.poll_write(cx, &bytes[..bytes.len().min(TURN_BYTES)])?
            } else {
                let mut stretches = [IoSlice::new(b""); STRETCHES];
                let used = self.output.slices(&mut stretches, TURN_BYTES);
                stream.poll_write_vectored(cx, &stretches[..used])?
            };
            match written {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(n) => {
                    self.output.advance(n);
                    patience.took(n);
                    pace.told();
                    pace.spend(n);
                    if !self.output.is_empty() && pace.is_spent(cx.waker()) {
                        return Ok(());
                    }
                }
                Poll::Pending => return Ok(()),
            }
        }
        // Bytes that TLS keeps back are written when the socket has room, which wakes this task.
        let flushed = stream.poll_flush(cx)?;
        self.is_held = flushed.is_pending();
        Ok(())
    }
}

/// With this many bytes unsent, no more replies are said, and nothing is read.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Slices of one vectored write.
const STRETCHES: usize = 8;
