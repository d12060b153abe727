//! The tries of one request: what is known after each, and the reply once one is final.

use std::time::Duration;

use guira_chain::slot::WriteTag;
use guira_client::{Outcome, Reply, Request};
use tokio::time::Instant;

/// The state of a request between its tries.
pub(super) struct Tries {
    pub(super) began: Instant,
    /// The number of the change, if it has one.
    pub(super) tag: Option<WriteTag>,
    /// Whether the request may have reached a node.
    pub(super) was_sent: bool,
    /// How many nodes were asked with the current view, and in total.
    pub(super) by_view: usize,
    pub(super) all: usize,
    pub(super) epoch: u64,
    /// The time limit of the next try.
    limit: Duration,
    pub(super) pause: Duration,
    /// Why the last try at each node failed, by the nodes' names. The node that should answer is asked first.
    pub(super) whys: Vec<(String, String)>,
}

/// The result of a try.
pub(super) enum Tried {
    /// The reply is final.
    Answered(Reply),
    /// No node got the request.
    Unsent(Reply),
    /// The request may have reached the node, but its reply is lost: this is why.
    Lost(Reply),
    /// The node didn't answer in time.
    Late,
}

impl Tries {
    /// No node was asked yet. `tag`: the change's number; `limit`: the time limit of the first try.
    pub(super) fn new(tag: Option<WriteTag>, limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            tag,
            was_sent: false,
            by_view: 0,
            all: 0,
            epoch: 0,
            limit,
            pause: PAUSE_MIN,
            whys: Vec::new(),
        }
    }

    /// The time limit of a try that begins now: all tries together end within [`PATIENCE`] and [`LAST_TRY`].
    pub(super) fn limit_after(&self, elapsed: Duration) -> Duration {
        self.limit.min((PATIENCE + LAST_TRY).saturating_sub(elapsed))
    }

    /// Records a try at a node. Returns the reply if it is final.
    pub(super) fn judge(
        &mut self,
        (node, tried): (&str, Tried),
        request: &Request,
        slot: u16,
    ) -> Option<Reply> {
        self.all += 1;
        match tried {
            Tried::Answered(reply) => {
                // The node that was asked before may carry it out yet, where this one refused it.
                let is_refusal = reply.outcome == Outcome::RemoteError
                    && reply.message.starts_with(b"slot ")
                    && !request.op.is_get();
                return Some(if self.was_sent && is_refusal { unknown(slot) } else { reply });
            }
            Tried::Unsent(reply) => {
                self.note(node, &String::from_utf8_lossy(&reply.message));
                return None;
            }
            Tried::Late => {
                self.limit = (self.limit * 2).min(LIMIT_MAX).max(self.limit);
                self.note(node, "it didn't answer in time");
            }
            Tried::Lost(reply) => {
                let why = String::from_utf8_lossy(&reply.message);
                let lost =
                    if reply.message.starts_with(LEFT) { "" } else { "the reply was lost: " };
                self.note(node, &format!("{lost}{why}"));
            }
        }
        self.was_sent = true;
        let may_repeat = request.op.is_get() || self.tag.is_some();
        (!may_repeat).then(|| unknown(slot))
    }

    fn note(&mut self, node: &str, why: &str) {
        if let Some(noted) = self.whys.iter_mut().find(|it| it.0 == node) {
            why.clone_into(&mut noted.1);
        } else if self.whys.len() < TOLD_MAX {
            self.whys.push((node.to_owned(), why.to_owned()));
        }
    }

    pub(super) fn failed(&self, request: &Request, slot: u16) -> Reply {
        match (request.op.is_get(), self.was_sent) {
            (false, true) => unknown(slot),
            _ => {
                let whys = self.whys.iter().map(|(node, why)| format!("{node}: {why}"));
                let whys = whys.collect::<Vec<_>>().join("; ");
                let words = format!("slot {slot}: no node answers: {whys}");
                Reply::failure(Outcome::RemoteError, words)
            }
        }
    }
}

fn unknown(slot: u16) -> Reply {
    Reply::failure(Outcome::RemoteError, format!("slot {slot}: outcome unknown"))
}

/// How long nodes are asked. A node continues for ten seconds, and keeps the results of changes for thirty.
pub(super) const PATIENCE: Duration = Duration::from_secs(9);
/// An error tells what so many nodes said, those of the chain first.
const TOLD_MAX: usize = 5;
/// The longest try, unless the configured limit of the first one is longer.
const LIMIT_MAX: Duration = Duration::from_secs(4);
/// How long the last try may go on after [`PATIENCE`].
const LAST_TRY: Duration = Duration::from_millis(500);
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(5);
/// The error of a node that has left its chains.
pub(super) const LEFT: &[u8] = b"this node has left its chains";

#[cfg(test)]
mod tests {
    use guira_client::Op;

    use super::*;

    #[test]
    fn what_may_have_been_sent_without_a_number_is_not_sent_again() {
        let tries = |tag| Tries::new(tag, Duration::from_millis(500));
        let refused = || Tried::Unsent(Reply::failure(Outcome::ConnectError, "refused"));
        let tag = Some(WriteTag { id: (1, 1), is_repeated: false });
        let mut touch = tries(None);
        let request = Request::new(Op::Touch, "k");
        assert!(touch.judge(("a", refused()), &request, 3).is_none());
        assert_eq!(touch.failed(&request, 3).message, "slot 3: no node answers: a: refused");
        let lost = Tried::Lost(Reply::failure(Outcome::RemoteError, "reset"));
        let told = touch.judge(("b", lost), &request, 3).map(|reply| reply.message);
        assert_eq!(told.as_deref(), Some(&b"slot 3: outcome unknown"[..]));
        let mut set = tries(tag);
        let request = Request::new(Op::Set, "k");
        assert!(set.judge(("a", Tried::Late), &request, 3).is_none() && set.was_sent);
        assert_eq!(set.limit, Duration::from_secs(1), "a slow chain isn't asked ever more");
        assert_eq!(set.failed(&request, 3).message, "slot 3: outcome unknown");
        let few = "slot 3: fewer copies than writes need";
        let refusal = || Tried::Answered(Reply::failure(Outcome::RemoteError, few));
        let told = set.judge(("a", refusal()), &request, 3).map(|reply| reply.message);
        assert_eq!(
            told.as_deref(),
            Some(&b"slot 3: outcome unknown"[..]),
            "who was late may do it"
        );
        let told = tries(tag).judge(("a", refusal()), &request, 3).map(|reply| reply.message);
        assert_eq!(told.as_deref(), Some(few.as_bytes()));
        set.limit = LIMIT_MAX;
        for (elapsed_ms, limit_ms) in [(0, 4000), (5500, 4000), (7500, 2000), (8999, 501)] {
            let [elapsed, limit] = [elapsed_ms, limit_ms].map(Duration::from_millis);
            assert_eq!(set.limit_after(elapsed), limit, "after {elapsed_ms} ms");
        }
        let mut get = tries(None);
        let request = Request::new(Op::Get, "k");
        assert!(get.judge(("a", Tried::Late), &request, 3).is_none());
        for node in ["b", "c", "d", "e", "f", "a"] {
            assert!(get.judge((node, refused()), &request, 3).is_none());
        }
        let told =
            "slot 3: no node answers: a: refused; b: refused; c: refused; d: refused; e: refused";
        assert_eq!(get.failed(&request, 3).message, told, "the one that should answer first");
    }
}
