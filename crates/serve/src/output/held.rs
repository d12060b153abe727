//! Replies that the socket doesn't take: copied or, while memory for them is scarce, held as references to large values.
//!
//! ```text
//! queue    | VALUE small 0 2 … VALUE big 0 900000 | big's value      | \r\nEND\r\n |
//!                  sent up to here ^   copied     | key, bytes gone  | copied      |
//! ```
//! A held value is looked up again as the client takes it. By then the item may be evicted or replaced.
//! Only the value that the client was promised is sent, and a keyed hash identifies it; if it is gone,
//! the connection is closed. If items were pinned for clients instead, clients that don't read could keep
//! a cache from evicting.
//!
//! # Costs
//! A hash of the value each time the client takes a part of it: less than sending it.

use super::{BORROW_FROM_BYTES, Held, Lent, Output, Unsent};
use crate::process::budget::UNSENT_FREE_BYTES;
use crate::turn::Turn;
use guira_cache::ItemRef;

impl<'h> Output<'h> {
    /// Queues the value of an item, borrowing the large pieces of it.
    pub(crate) fn lend(&mut self, item: &ItemRef<'h>) {
        self.lend_from(item, 0);
    }

    fn lend_from(&mut self, item: &ItemRef<'h>, gone: usize) {
        let start = self.len();
        let mut skip = gone;
        for part in item.value_parts() {
            let skipped = skip.min(part.len());
            skip -= skipped;
            self.value(&part[skipped..]);
        }
        self.lent = Some(Lent { item: *item, gone, place: start..self.len() });
    }

    /// Queues a held reply again. Returns `false` if the value no longer exists.
    pub(crate) fn resume(&mut self, held: &Held, turn: &Turn<'h>) -> bool {
        let handle = turn.handle;
        let key = handle.key(&held.key);
        let item = handle.lookup(&key).filter(|item| handle.digest(item) == held.digest);
        if let Some(item) = &item {
            handle.mark_used(item, turn.now);
            self.lend_from(item, held.gone);
            self.bytes.extend_from_slice(&held.tail);
        }
        item.is_some()
    }

    /// Keeps everything after the first `sent` bytes in `unsent`.
    #[cold]
    pub(crate) fn keep_from(&self, sent: usize, unsent: &mut Unsent, turn: &Turn<'_>) {
        let value = self.lent.as_ref().map_or(sent, |lent| lent.place.start.max(sent));
        let end = if self.hold_from(value, unsent, turn) { value } else { self.len() };
        self.copy(sent..end, &mut unsent.bytes);
    }

    /// Holds everything after the first `at` bytes, if that begins in a large value and memory for copies
    /// is scarce. Returns whether it did.
    pub(crate) fn hold_from(&self, at: usize, unsent: &mut Unsent, turn: &Turn<'_>) -> bool {
        let Some(Lent { item, gone, place }) = &self.lent else { return false };
        let left = self.len() - at;
        if at < place.start
            || at + BORROW_FROM_BYTES > place.end
            || left <= UNSENT_FREE_BYTES
            || !turn.process.unsent.is_scarce(left)
        {
            return false;
        }
        let mut tail = Vec::new();
        self.copy(place.end..self.len(), &mut tail);
        unsent.held = Some(Box::new(Held {
            key: item.key().into(),
            digest: turn.handle.digest(item),
            gone: gone + (at - place.start),
            tail,
        }));
        true
    }
}
