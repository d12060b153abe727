//! Who pays for the values that servers send.
//!
//! A caller that holds many replies at once gives its [`Purse`] along with what it asks. A long value is charged to it when
//! it comes and paid back when the last copy of it is dropped, wherever that copy is. A value that the purse can't pay for
//! is dropped at once, and its reply says [`NO_ROOM`].
//!
//! # Costs
//! A request without a long value: a counted reference to its purse. Shorter values are free: whoever asks bounds how
//! many requests it has under way.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Outcome, Reply};

/// An account of the memory that values take.
pub trait Purse: fmt::Debug + Send + Sync {
    /// Takes so many bytes; false: there aren't so many left.
    fn charge(&self, bytes: usize) -> bool;

    /// Puts back what [`charge`](Self::charge) took.
    fn refund(&self, bytes: usize);
}

/// A value that `purse` pays for until its last copy is dropped; `None`: it can't.
#[must_use]
pub fn charged(value: Bytes, purse: &Arc<dyn Purse>) -> Option<Bytes> {
    let is_paid = purse.charge(value.len());
    is_paid.then(|| Bytes::from_owner(Paid { value, purse: Arc::clone(purse) }))
}

/// What a reply says whose value was dropped.
pub const NO_ROOM: &[u8] = b"out of memory for the reply";

/// Values from here on are charged. Bytes.
pub const CHARGED_BYTES_MIN: usize = 4 << 10;

/// Makes the reply what its caller gets.
#[inline]
pub(super) fn pay(reply: &mut Reply, purse: Option<&Arc<dyn Purse>>) {
    if reply.value.len() >= CHARGED_BYTES_MIN
        && let Some(purse) = purse
    {
        pay_long(reply, purse);
    }
}

#[cold]
fn pay_long(reply: &mut Reply, purse: &Arc<dyn Purse>) {
    match charged(std::mem::take(&mut reply.value), purse) {
        Some(value) => reply.value = value,
        None => *reply = Reply::failure(Outcome::LocalError, NO_ROOM),
    }
}

struct Paid {
    value: Bytes,
    purse: Arc<dyn Purse>,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.purse.refund(self.value.len());
    }
}
