//! Who pays for the values that servers send.
//!
//! A caller that holds many replies at once gives its [`Purse`] along with what it asks. A long value is charged to it as
//! it comes and paid back when the last copy of it is dropped, wherever that copy is. A value that the purse can't pay for
//! is dropped at once, what is still to come of it is read away, and its reply says [`NO_ROOM`].
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

    /// Whether a value of so many bytes may begin to come: it would find room if it were here now.
    fn has_room(&self, bytes: usize) -> bool;
}

/// A value that `purse` pays for until its last copy is dropped; `None`: it can't.
#[must_use]
pub fn charged(value: Bytes, purse: &Arc<dyn Purse>) -> Option<Bytes> {
    paid(value, Charge::new(purse))
}

fn paid(value: Bytes, mut charge: Charge) -> Option<Bytes> {
    let is_paid = charge.raise_to(value.len());
    is_paid.then(|| Bytes::from_owner(Paid { value, _charge: charge }))
}

/// So many bytes of a purse, until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    purse: Arc<dyn Purse>,
    bytes: usize,
}

impl Charge {
    pub(super) fn new(purse: &Arc<dyn Purse>) -> Self {
        Self { purse: Arc::clone(purse), bytes: 0 }
    }

    /// False: the purse has no room for what is missing.
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

/// What a reply says whose value was dropped.
pub const NO_ROOM: &[u8] = b"out of memory for the reply";

/// Values from here on are charged. Bytes.
pub const CHARGED_BYTES_MIN: usize = 4 << 10;

/// Makes the reply what its caller gets; `ahead` is what was charged while its value came.
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
    /// Put back with the last copy.
    _charge: Charge,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}
