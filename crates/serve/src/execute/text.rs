//! The text commands, classic and meta: one arm per command.

use super::{Executor, Flow, operator};
use crate::batch::Line;
use crate::version::VERSION;
use guira_proto::{Request, fixed, reply};

impl Executor<'_> {
    /// Executes one request and queues its reply.
    pub(crate) fn execute(&mut self, at_hand: &Line<'_>) -> Flow {
        self.requests_left = self.requests_left.saturating_sub(1);
        self.watch_request(at_hand);
        let key = at_hand.key.as_ref();
        match (&at_hand.request, key) {
            (Request::Get(get), Some(key)) => return self.get(key, get),
            (Request::Get(get), None) => return self.get_keys(get),
            (Request::MetaGet(meta), _) => return self.meta_get(meta, key),
            (Request::Store(store), Some(key)) => return self.store(store, key, at_hand.body),
            (Request::MetaSet(meta), _) => return self.meta_set(meta, key, at_hand.body),
            (Request::Delete { hold_off_s, quiet, .. }, Some(key)) => {
                self.delete(key, *hold_off_s, *quiet);
            }
            (Request::MetaDelete(meta), _) => return self.meta_delete(meta, key),
            (Request::Arithmetic(what), Some(key)) => return self.arithmetic(what, key),
            (Request::MetaArithmetic(meta), _) => return self.meta_arithmetic(meta, key),
            (Request::Touch { exptime, quiet, .. }, Some(key)) => {
                return self.touch(key, *exptime, *quiet);
            }
            (Request::MetaNoop, _) => self.say(fixed::META_NOOP),
            (Request::MetaDebug { key, base64 }, _) => self.meta_debug(key, *base64),
            (Request::FlushAll { exptime, quiet }, _) => {
                return operator::flush_all(self, *exptime, *quiet);
            }
            (Request::Version, _) => reply::version(&mut self.output.bytes, VERSION),
            (Request::Verbosity { level, quiet }, _) => {
                self.turn.process.log.set_verbosity(u8::try_from((*level).min(2)).unwrap_or(2));
                self.say_unless(*quiet, fixed::OK);
            }
            (Request::Quit, _) => return Flow::Close,
            (Request::Stats(_), _) if self.puts_off() => return Flow::Later,
            (Request::Stats(words), _) => return operator::stats(self, *words),
            (Request::Admin { command, quiet }, _) => return operator::run(self, command, *quiet),
            (_, None) => unreachable!("a batch hashes the key of every request that has one"),
        }
        Flow::Done
    }
}
