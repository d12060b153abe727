//! The requests that may be sent on a link now, and those for which the server must first show an ability ([`Skills`]).
//!
//! [`Skills`]: crate::servers::skills::Skills

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use guira_client::{Ask, Outcome, Reply, Request};

use super::Link;
use super::requests::{UnderWay, now};
use crate::servers::skills::Skill;

impl Link {
    /// Sends a request in the order of arrival, after the server has shown that it understands it.
    pub(super) async fn begin_in_turn(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::context::Context,
    ) -> Result<UnderWay<Ask>, Reply> {
        self.refuse_what_server_misses(&request)?;
        let Some(_turn) = self.skills.turn(timeout).await else {
            return Err(self.noted(Reply::failure(Outcome::Timeout, "Reply timeout")));
        };
        if let Some(skill) = self.lacks(&request) {
            self.refuse_what_server_misses(&request)?;
            let question = skill.question(&request);
            let mut asked = self.begin(question, timeout, (now(), context))?;
            let (reply, _) = poll_fn(|cx| asked.poll(cx)).await;
            if !self.skills.learn(skill, reply.outcome) {
                return Err(reply);
            }
        }
        self.begin(request, timeout, (now(), context))
    }

    /// Fails a request that the server has shown not to understand.
    fn refuse_what_server_misses(&self, request: &Request) -> Result<(), Reply> {
        match self.lacks(request) {
            Some(skill) if self.skills.misses(skill) => {
                Err(self.noted(Reply::new(Outcome::BadCommand)))
            }
            _ => Ok(()),
        }
    }

    /// Whether the request may be sent now: the server is known to understand it, and no question is under way.
    pub(crate) fn may_carry(&self, request: &Request) -> bool {
        !self.skills.are_asked() && self.lacks(request).is_none()
    }

    /// The ability that the server must show before the request is sent.
    fn lacks(&self, request: &Request) -> Option<Skill> {
        let skill = Skill::for_request(request, self.server.speaks_meta())?;
        let is_shown = self.stats.is_up.load(Relaxed) && self.skills.has(skill);
        (!is_shown).then_some(skill)
    }
}
