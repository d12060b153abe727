//! What a client stores and finds, and what it is told when that fails.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::{Outcome, Reply};

/// A value with its flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The bytes.
    pub value: Bytes,
    /// The client's own 32 bits, stored beside them.
    pub flags: u32,
    /// After `gets` and `gats`: what [`cas`](crate::Client::cas) compares; else 0.
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

/// What a get found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Got {
    /// The item.
    Hit(Item),
    /// There is none: whoever has the value may store it.
    Miss,
    /// Nobody knows. A miss to whoever reads, but *not to be filled*: the cache may hold a newer value, and be where
    /// no delete reaches it.
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

    /// The item, if there is one.
    #[must_use]
    pub fn hit(self) -> Option<Item> {
        match self {
            Got::Hit(item) => Some(item),
            Got::Miss | Got::Failed(_) => None,
        }
    }

    /// Whether the value may be stored after it was read from the database.
    #[must_use]
    pub fn may_fill(&self) -> bool {
        matches!(self, Got::Miss)
    }
}

/// Why a request was not carried out, or nobody knows whether it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened. After [`Outcome::Timeout`] and [`Outcome::RemoteError`] it may have been carried out.
    pub outcome: Outcome,
    /// The server's words, or ours.
    pub message: String,
}

impl Failure {
    /// Whether the server has as many connections as it may have: it answers so whatever it is asked.
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

/// What became of a `cas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cas {
    /// Stored.
    Stored,
    /// Somebody stored since.
    Exists,
    /// The item is gone.
    NotFound,
}

/// When an item expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// When it is evicted or deleted.
    #[default]
    Never,
    /// After so long, in whole seconds, rounded up; nothing is at once.
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
    /// As memcached reads it: beyond 30 days a number is a Unix time.
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

/// The longest time that memcached takes as relative. Seconds.
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
