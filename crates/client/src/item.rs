//! The items that a client stores and finds, and the failures of requests.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::{Outcome, Reply};

/// A value with its flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The value's bytes.
    pub value: Bytes,
    /// The client's own 32 bits, stored next to the value.
    pub flags: u32,
    /// The unique that [`cas`](crate::Client::cas) compares, after `gets` and `gats`; else 0.
    pub cas: u64,
}

impl Item {
    pub(crate) fn of(reply: Reply) -> Self {
        Self { value: reply.value, flags: reply.flags, cas: reply.token }
    }
}

impl<B: Into<Bytes>> From<B> for Item {
    fn from(value: B) -> Self {
        Self { value: value.into(), flags: 0, cas: 0 }
    }
}

/// The result of a get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Got {
    /// The item.
    Hit(Item),
    /// There is no item. A client that has the value may store it.
    Miss,
    /// The result is unknown. To a reader this is a miss, but it *must not be filled*: the cache may hold a newer
    /// value, where no delete reaches it.
    Failed(Failure),
}

impl Got {
    pub(crate) fn of(reply: Reply) -> Self {
        match reply.outcome {
            Outcome::Found => Got::Hit(Item::of(reply)),
            Outcome::NotFound => Got::Miss,
            _ => Got::Failed(Failure::of(&reply)),
        }
    }

    /// Returns the item, if there is one.
    #[must_use]
    pub fn hit(self) -> Option<Item> {
        match self {
            Got::Hit(item) => Some(item),
            Got::Miss | Got::Failed(_) => None,
        }
    }

    /// Whether a value read from the database may be stored.
    #[must_use]
    pub fn may_fill(&self) -> bool {
        matches!(self, Got::Miss)
    }
}

/// A request that was not carried out, or whose result is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The outcome. After [`Outcome::Timeout`] and [`Outcome::RemoteError`], the request may have been carried out.
    pub outcome: Outcome,
    /// The message of the server, or of this client.
    pub message: String,
}

impl Failure {
    /// Whether the server has its maximum number of connections. Then it gives the same answer to every request.
    #[must_use]
    pub fn is_for_room(&self) -> bool {
        self.message.contains("Too many open connections")
    }

    pub(crate) fn of(reply: &Reply) -> Self {
        let message = String::from_utf8_lossy(&reply.message).into_owned();
        Self { outcome: reply.outcome, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.outcome {
            Outcome::BadCommand if self.is_for_room() => "the server refuses the connection",
            Outcome::Timeout => "no reply in time",
            Outcome::ConnectTimeout => "no connection in time",
            Outcome::ConnectError => "no connection",
            Outcome::DeadlineExceeded => "too late before it was sent",
            Outcome::Busy => "too much to do",
            Outcome::BadKey => "not a key",
            Outcome::BadValue => "not a value",
            Outcome::BadCommand => "the server does not know the command",
            Outcome::ClientError => "the server refuses the request",
            _ => "the server failed",
        };
        f.write_str(words)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for Failure {}

/// The result of a `cas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cas {
    /// Stored.
    Stored,
    /// The key was stored by another client since.
    Exists,
    /// The item is gone.
    NotFound,
}

/// When an item expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never: the item stays until it is evicted or deleted.
    #[default]
    Never,
    /// After this time, rounded up to whole seconds. Zero means at once.
    In(Duration),
    /// At this time.
    At(SystemTime),
}

impl From<Duration> for Expiry {
    fn from(time: Duration) -> Self {
        Expiry::In(time)
    }
}

impl Expiry {
    /// Returns the expiry as memcached reads it: beyond 30 days, a number is a Unix time.
    pub(crate) fn wire(self) -> i64 {
        let seconds = match self {
            Expiry::Never => return 0,
            Expiry::At(time) => return unix(time).max(RELATIVE_S_MAX + 1),
            Expiry::In(time) => time.as_secs() + u64::from(time.subsec_nanos() > 0),
        };
        match i64::try_from(seconds) {
            Ok(0) => -1,
            Ok(seconds @ ..=RELATIVE_S_MAX) => seconds,
            Ok(seconds) => unix(SystemTime::now()).saturating_add(seconds),
            Err(_) => i64::MAX,
        }
    }
}

fn unix(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The longest time that memcached reads as relative, in seconds.
const RELATIVE_S_MAX: i64 = 30 * 24 * 3600;

#[cfg(test)]
mod tests {
    use super::Expiry;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn an_expiry_is_what_memcached_would_make_of_it() {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        assert_eq!(Expiry::Never.wire(), 0);
        assert_eq!(Expiry::In(Duration::ZERO).wire(), -1, "0 would be never");
        assert_eq!(Expiry::In(Duration::from_millis(1)).wire(), 1);
        assert_eq!(Expiry::In(days(30)).wire(), 2_592_000);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let far = u64::try_from(Expiry::In(days(31)).wire()).unwrap();
        assert!((now + 31 * 86400..now + 31 * 86400 + 60).contains(&far));
        assert_eq!(Expiry::At(UNIX_EPOCH).wire(), 2_592_001, "long ago, not never");
    }
}
