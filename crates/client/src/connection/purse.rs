//! Purses: they pay for the values that servers send.
//!
//! A caller that holds many replies at once passes its [`Purse`] with each request. A long value is charged to it as it
//! arrives. The charge is refunded when the last clone of the value is dropped, wherever it is. If the purse can't pay,
//! the value is dropped at once and the rest of it is read and discarded. The reply's message is then [`NO_ROOM`].
//!
//! # Costs
//! A request without a long value costs one reference count of its purse. Shorter values are free: callers must limit
//! the number of their requests.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Outcome, Reply};

/// An account of the memory that values take.
pub trait Purse: fmt::Debug + Send + Sync {
    /// Takes this number of bytes. Returns false if not so many are left.
    fn charge(&self, bytes: usize) -> bool;

    /// Returns bytes that [`charge`](Self::charge) took.
    fn refund(&self, bytes: usize);

    /// Whether a value of this size may begin to arrive: there would be room if it were here now.
    fn has_room(&self, bytes: usize) -> bool;
}

/// Returns the value, paid by `purse` until its last clone is dropped. `None` if the purse can't pay.
#[must_use]
pub fn charged(value: Bytes, purse: &Arc<dyn Purse>) -> Option<Bytes> {
    paid(value, Charge::new(purse))
}

fn paid(value: Bytes, mut charge: Charge) -> Option<Bytes> {
    let is_paid = charge.raise_to(value.len());
    is_paid.then(|| Bytes::from_owner(Paid { value, _charge: charge }))
}

/// A number of bytes taken from a purse. They are refunded when this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    purse: Arc<dyn Purse>,
    bytes: usize,
}

impl Charge {
    pub(super) fn new(purse: &Arc<dyn Purse>) -> Self {
        Self { purse: Arc::clone(purse), bytes: 0 }
    }

    /// Raises the charge to `bytes`. Returns false if the purse can't pay the difference.
    pub(super) fn raise_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        let is_paid = missing == 0 || self.purse.charge(missing);
        self.bytes += if is_paid { missing } else { 0 };
        is_paid
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.purse.refund(self.bytes);
    }
}

/// The message of a reply whose value was dropped.
pub const NO_ROOM: &[u8] = b"out of memory for the reply";

/// The size in bytes from which values are charged.
pub const CHARGED_BYTES_MIN: usize = 4 << 10;

/// Charges a reply's value to its caller, or replaces the reply. `ahead` is what was charged while the value arrived.
#[inline]
pub(super) fn pay(reply: &mut Reply, purse: Option<&Arc<dyn Purse>>, ahead: &mut Option<Charge>) {
    if reply.value.len() >= CHARGED_BYTES_MIN
        && let Some(purse) = purse
    {
        pay_long(reply, purse, ahead.take());
    }
}

#[cold]
fn pay_long(reply: &mut Reply, purse: &Arc<dyn Purse>, ahead: Option<Charge>) {
    let charge = ahead.unwrap_or_else(|| Charge::new(purse));
    match paid(std::mem::take(&mut reply.value), charge) {
        Some(value) => reply.value = value,
        None => *reply = no_room(),
    }
}

pub(super) fn no_room() -> Reply {
    Reply::failure(Outcome::LocalError, NO_ROOM)
}

struct Paid {
    value: Bytes,
    /// Refunded when the last clone is dropped.
    _charge: Charge,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}
