//! Classes of outcomes: which ones are errors, which are worth another try, and which of two is worse.
//!
//! Names and classes are mcrouter's, because configurations and logs contain them.

use guira_client::{Outcome, Reply, Request};

/// The reply of a route that sends nothing: nothing was found or stored.
pub(crate) fn default_reply(request: &Request) -> Reply {
    Reply::new(if request.op.is_update() { Outcome::NotStored } else { Outcome::NotFound })
}

/// Whether another server may succeed, by default.
pub(crate) const fn is_failover_error(outcome: Outcome) -> bool {
    outcome.is_error()
        && !matches!(
            outcome,
            Outcome::BadKey | Outcome::BadValue | Outcome::BadCommand | Outcome::ClientError
        )
}

/// Whether nothing was or could be sent, so that the server has no work.
pub(crate) const fn is_tko(outcome: Outcome) -> bool {
    use Outcome::{ConnectError, ConnectTimeout, Shutdown, Tko};
    matches!(outcome, Tko | ConnectError | ConnectTimeout | Shutdown)
}

/// Whether the item existed.
pub(crate) const fn is_hit(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Found | Outcome::Deleted | Outcome::Touched)
}

/// Whether the item didn't exist, and no other client is about to fill it.
pub(crate) const fn is_miss(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::NotFound)
}

/// Whether another client holds the lease.
pub(crate) const fn is_hot_miss(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::FoundStale | Outcome::NotFoundHot)
}

/// Whether a value was stored.
pub(crate) const fn is_stored(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Stored | Outcome::StaleStored)
}

/// How bad an outcome is, for comparison with others.
pub(crate) const fn severity(outcome: Outcome) -> u8 {
    use Outcome::{
        BadKey, BadValue, Busy, ClientError, ConnectError, ConnectTimeout, DeadlineExceeded,
        Deleted, Exists, Found, LocalError, NotFound, NotStored, Ok, RemoteError, Shutdown,
        StaleStored, Stored, Timeout, Tko, TryAgain,
    };
    match outcome {
        Ok | Stored | StaleStored | Exists | Deleted | Found => 1,
        NotFound | NotStored => 4,
        Timeout | ConnectTimeout | ConnectError | Busy | Shutdown | TryAgain | Tko => 5,
        BadKey | BadValue | DeadlineExceeded => 6,
        RemoteError => 7,
        LocalError => 8,
        ClientError => 9,
        _ => 10,
    }
}

/// mcrouter's name, without `mc_res_`.
pub(crate) const fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Found => "found",
        Outcome::FoundStale => "foundstale",
        Outcome::Stored => "stored",
        Outcome::StaleStored => "stalestored",
        Outcome::Deleted => "deleted",
        Outcome::Touched => "touched",
        Outcome::Exists => "exists",
        Outcome::NotFound => "notfound",
        Outcome::NotFoundHot => "notfoundhot",
        Outcome::NotStored => "notstored",
        Outcome::Timeout => "timeout",
        Outcome::ConnectTimeout => "connect_timeout",
        Outcome::ConnectError => "connect_error",
        Outcome::Tko => "tko",
        Outcome::Busy => "busy",
        Outcome::TryAgain => "try_again",
        Outcome::Shutdown => "shutdown",
        Outcome::DeadlineExceeded => "deadline_exceeded",
        Outcome::BadKey => "bad_key",
        Outcome::BadValue => "bad_value",
        Outcome::BadCommand => "bad_command",
        Outcome::ClientError => "client_error",
        Outcome::RemoteError => "remote_error",
        Outcome::LocalError => "local_error",
    }
}

/// The error with this name. Errors that exist only in mcrouter's own protocols become the nearest one of the text
/// protocol.
pub(crate) fn error_named(text: &str) -> Option<Outcome> {
    let text = text.strip_prefix("mc_res_").unwrap_or(text);
    let nearest = NEAREST.iter().find(|(known, _)| *known == text).map(|(_, outcome)| *outcome);
    nearest.or_else(|| ERRORS.into_iter().find(|outcome| name(*outcome) == text))
}

/// All names that [`error_named`] knows, with and without `mc_res_`.
pub(crate) fn error_names() -> Vec<String> {
    let short = ERRORS.into_iter().map(name).chain(NEAREST.iter().map(|(name, _)| *name));
    short.flat_map(|name| [name.to_owned(), format!("mc_res_{name}")]).collect()
}

/// A set of errors, as listed in configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorSet {
    bits: u32,
}

impl ErrorSet {
    /// The errors that are worth another try by default.
    pub(crate) fn failover() -> Self {
        ERRORS.into_iter().filter(|outcome| is_failover_error(*outcome)).collect()
    }

    /// Whether the outcome is in the set.
    pub(crate) const fn contains(self, outcome: Outcome) -> bool {
        self.bits >> (outcome as u32) & 1 == 1
    }
}

impl FromIterator<Outcome> for ErrorSet {
    fn from_iter<T: IntoIterator<Item = Outcome>>(outcomes: T) -> Self {
        Self { bits: outcomes.into_iter().fold(0, |bits, outcome| bits | 1 << (outcome as u32)) }
    }
}

const NEAREST: [(&str, Outcome); 9] = [
    ("bad_flags", Outcome::ClientError),
    ("bad_exptime", Outcome::ClientError),
    ("bad_lease_id", Outcome::ClientError),
    ("bad_cas_id", Outcome::ClientError),
    ("ooo", Outcome::RemoteError),
    ("aborted", Outcome::RemoteError),
    ("permission_denied", Outcome::RemoteError),
    ("hot_key", Outcome::RemoteError),
    ("overloaded", Outcome::RemoteError),
];

const ERRORS: [Outcome; 14] = [
    Outcome::Timeout,
    Outcome::ConnectTimeout,
    Outcome::ConnectError,
    Outcome::Tko,
    Outcome::Busy,
    Outcome::TryAgain,
    Outcome::Shutdown,
    Outcome::DeadlineExceeded,
    Outcome::BadKey,
    Outcome::BadValue,
    Outcome::BadCommand,
    Outcome::ClientError,
    Outcome::RemoteError,
    Outcome::LocalError,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_name_and_failover_is_for_those_that_another_server_may_not_have() {
        for outcome in ERRORS {
            assert!(outcome.is_error());
            assert_eq!(error_named(name(outcome)), Some(outcome));
            assert_eq!(ErrorSet::failover().contains(outcome), is_failover_error(outcome));
        }
        let names: Vec<&str> =
            ERRORS.into_iter().filter(|outcome| is_failover_error(*outcome)).map(name).collect();
        let expected = "timeout connect_timeout connect_error tko busy try_again shutdown \
                        deadline_exceeded remote_error local_error";
        assert_eq!(names.join(" "), expected);
        assert_eq!(error_named("mc_res_found"), None);
    }
}
