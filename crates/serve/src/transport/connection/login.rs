//! The login before the first request, where one is required. Nothing else is executed before it.
//!
//! Over binary, a connection that logs in again is logged out until that succeeds, as in memcached.

use super::Connection;
use crate::auth::{Verdict, WAIT_MS};
use crate::batch::Piece;
use crate::execute::Executor;
use crate::time::clock_ms;
use crate::transport::state::{LoggedOut, State, Step};
use crate::version::VERSION;
use guira_cache::Counter;
use guira_log::Seldom;
use guira_proto::binary::login::{self, Whole};
use guira_proto::binary::{Status, reply};
use guira_proto::{TextLogin, fixed, parse_login};

impl Connection {
    /// Handles one login attempt.
    pub(super) fn log_in(
        &mut self,
        executor: &mut Executor<'_>,
        rest: &[u8],
        consumed: &mut usize,
    ) -> Step {
        if executor.is_spent() {
            return Step::Spent;
        }
        executor.spend();
        if self.speaks_binary() {
            self.log_in_by_packet(executor, rest, consumed)
        } else {
            self.log_in_by_line(executor, rest, consumed)
        }
    }

    fn log_in_by_line(
        &mut self,
        executor: &mut Executor<'_>,
        rest: &[u8],
        consumed: &mut usize,
    ) -> Step {
        match parse_login(rest) {
            TextLogin::Line => return Step::Piece(Piece::Line(0)),
            TextLogin::Value => return Step::Piece(Piece::Body),
            TextLogin::Junk => return Step::Close,
            TextLogin::Refused { reply, used } => {
                *consumed += used;
                executor.say(reply);
            }
            TextLogin::Token { user, password, used } => {
                if let Some(until_ms) = self.waits_until(executor) {
                    return Step::Pause(until_ms);
                }
                *consumed += used;
                let is_admitted = executor.turn.process.auth.admits(user, password);
                executor.say(if is_admitted { fixed::STORED } else { fixed::AUTH_FAILED });
                self.count_login(executor, is_admitted);
            }
        }
        Step::More
    }

    fn log_in_by_packet(
        &mut self,
        executor: &mut Executor<'_>,
        rest: &[u8],
        consumed: &mut usize,
    ) -> Step {
        let State::Login(LoggedOut { swallow, .. }) = &mut self.state else {
            return Step::More;
        };
        if *swallow > 0 {
            let taken = usize::try_from(*swallow).map_or(rest.len(), |n| n.min(rest.len()));
            *swallow -= taken as u64;
            *consumed += taken;
            return if *swallow > 0 { Step::Piece(Piece::Body) } else { Step::More };
        }
        let Whole { echo, login, used } = match login::parse(rest) {
            Ok(Some(whole)) => whole,
            Ok(None) => return Step::Piece(Piece::Body),
            Err(error) => {
                *consumed += error.used;
                *swallow = error.swallow;
                executor.refuse_packet(&error);
                return if error.close { Step::Close } else { Step::More };
            }
        };
        let is_attempt = matches!(login, login::SaslLogin::Begin(_) | login::SaslLogin::Step(_));
        if is_attempt && let Some(until_ms) = self.waits_until(executor) {
            return Step::Pause(until_ms);
        }
        let State::Login(LoggedOut { exchange, .. }) = &mut self.state else {
            return Step::More;
        };
        *consumed += used;
        let auth = &executor.turn.process.auth;
        let verdict = match login {
            login::SaslLogin::Mechanisms => {
                reply::text(&mut executor.output.bytes, echo, auth.mechanisms());
                return Step::More;
            }
            login::SaslLogin::Version => {
                reply::text(&mut executor.output.bytes, echo, VERSION);
                return Step::More;
            }
            login::SaslLogin::Begin(response) => exchange.begin(auth, &response),
            login::SaslLogin::Step(response) => exchange.step(auth, &response),
        };
        let out = &mut executor.output.bytes;
        let is_admitted = match verdict {
            Verdict::Continue(challenge) => {
                reply::error_saying(out, echo, Status::Continue, challenge);
                return Step::More;
            }
            Verdict::Admitted => {
                reply::text(out, echo, "Authenticated");
                true
            }
            Verdict::Refused => {
                reply::error(out, echo, Status::Auth);
                false
            }
        };
        self.count_login(executor, is_admitted);
        Step::More
    }

    /// Until when the current attempt has to wait, because its source has just failed to log in.
    fn waits_until(&mut self, executor: &Executor<'_>) -> Option<u64> {
        let State::Login(logged_out) = &mut self.state else { return None };
        let now_ms = clock_ms();
        if let Some(until_ms) = logged_out.waits_until_ms.take() {
            logged_out.waits_until_ms = (now_ms < until_ms).then_some(until_ms);
            return logged_out.waits_until_ms;
        }
        let failures = &executor.turn.process.auth.failures;
        if failures.is_recent(self.seat.remote().map(|remote| remote.ip()), now_ms) {
            logged_out.waits_until_ms = Some(now_ms + WAIT_MS);
        }
        logged_out.waits_until_ms
    }

    fn count_login(&mut self, executor: &Executor<'_>, is_admitted: bool) {
        executor.handle().count(Counter::AuthCmds);
        if is_admitted {
            self.state = State::Requests;
        } else {
            executor.handle().count(Counter::AuthErrors);
            let source = self.seat.remote().map(|remote| remote.ip());
            executor.turn.process.auth.failures.note(source, clock_ms());
            tell_of_failure(&self.seat.address());
        }
    }

    /// The state of a connection that has to log in.
    pub(super) fn logged_out() -> State {
        State::Login(LoggedOut::default())
    }
}

/// Logs a failed login: each one with `-v`, otherwise one now and then.
fn tell_of_failure(address: &str) {
    static TOLD: Seldom = Seldom::new();
    if TOLD.admits() {
        tracing::warn!(
            "{address} failed to log in, and others may; -v names each. Correct that client's user or password, or refuse \
             its address."
        );
    } else {
        tracing::debug!("{address} failed to log in");
    }
}
