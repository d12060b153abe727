//! The step before the first request where a login is required: nothing else is executed.
//!
//! Over binary, a connection that logs in again is not logged in until that succeeds, as in memcached.

use super::{Connection, State, Step};
use crate::auth::{Exchange, Verdict};
use crate::batch::Piece;
use crate::execute::Executor;
use crate::version::VERSION;
use guira_cache::Counter;
use guira_proto::binary::login::{self, Whole};
use guira_proto::binary::{Status, reply};
use guira_proto::{Login, fixed, parse_login};

/// Where a connection stands that has not logged in.
#[derive(Default)]
pub(super) struct LoggedOut {
    exchange: Exchange,
    /// Bytes to come of a body that nobody wants.
    swallow: u64,
}

impl Connection {
    /// Takes one attempt to log in.
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
            Login::Line => return Step::Piece(Piece::Line(0)),
            Login::Value => return Step::Piece(Piece::Body),
            Login::Junk => return Step::Close,
            Login::Refused { reply, used } => {
                *consumed += used;
                executor.say(reply);
            }
            Login::Token { user, password, used } => {
                *consumed += used;
                let is_admitted = executor.turn.shared.auth.admits(user, password);
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
        let State::Login(LoggedOut { exchange, swallow }) = &mut self.state else {
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
        *consumed += used;
        let auth = &executor.turn.shared.auth;
        let verdict = match login {
            login::Login::Mechanisms => {
                reply::text(&mut executor.output.bytes, echo, auth.mechanisms());
                return Step::More;
            }
            login::Login::Version => {
                reply::text(&mut executor.output.bytes, echo, VERSION);
                return Step::More;
            }
            login::Login::Begin(response) => exchange.begin(auth, &response),
            login::Login::Step(response) => exchange.step(auth, &response),
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

    fn count_login(&mut self, executor: &Executor<'_>, is_admitted: bool) {
        executor.handle().count(Counter::AuthCmds);
        if is_admitted {
            self.state = State::Requests;
        } else {
            executor.handle().count(Counter::AuthErrors);
            executor.turn.shared.log.say(1, format_args!("<{} failed to log in", self.fd()));
        }
    }

    /// The state of a connection that has to log in.
    pub(super) fn logged_out() -> State {
        State::Login(LoggedOut::default())
    }
}
