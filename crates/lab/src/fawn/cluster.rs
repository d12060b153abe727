//! The cluster of the thesis, to which all of its figures refer.

/// The thesis' cluster.
pub(super) const SERVERS: usize = 85;
/// The queries per second that a server takes, in thousands.
pub(super) const RATE: f64 = 10.0;
/// The queries per second that all servers take, in thousands.
pub(super) const WHOLE: f64 = RATE * SERVERS as f64;

/// Rounds up to a number of entries or keys.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of things")]
pub(super) fn count(number: f64) -> usize {
    number.ceil() as usize
}
