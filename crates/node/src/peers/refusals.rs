//! The log of nodes that are refused because of TLS.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::stream::LinkEnd;

/// What was said last, and when. Strangers may dial as often as they like, and don't fill the log.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Option<(String, Instant)>>);

impl Refusals {
    /// Logs that a link from there isn't accepted, unless too much was logged of late.
    pub(super) fn tell(&self, from: IpAddr, why: &LinkEnd) {
        let words = format!("{from}: {why}");
        let mut last = self.0.lock();
        let is_due = last.as_ref().is_none_or(|(before, at)| {
            at.elapsed() >= if *before == words { SAME_EVERY } else { OTHER_EVERY }
        });
        if is_due {
            tracing::warn!("a link from {from} isn't accepted: {why}");
            *last = Some((words, Instant::now()));
        }
    }
}

/// How often the same words are logged.
const SAME_EVERY: Duration = Duration::from_secs(60);
/// How often anything is logged.
const OTHER_EVERY: Duration = Duration::from_secs(1);
