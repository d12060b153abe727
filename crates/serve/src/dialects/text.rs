//! The text protocol, classic and meta commands: one arm per command.

use crate::batch::{AtHand, Batch, Dialect, Rooms, Skip, recycle};
use crate::execute::{Executor, Flow, StoreCommand, asks_unique, operator};
use crate::process::measure::Kind;
use crate::version::VERSION;
use guira_proto::{Error, Limits, Parsed, Request, fixed, parse_from, reply};

/// The text protocol.
pub(crate) enum Text {}

impl Dialect for Text {
    type Request<'b> = Request<'b>;
    type Error = Error;
    const ENDS_WITH_NEWLINE: bool = true;

    #[inline]
    fn parse(input: &[u8], scanned: usize) -> Result<Parsed<Request<'_>>, Error> {
        parse_from(input, scanned, &Limits::DEFAULT)
    }

    #[inline]
    fn body_bytes(request: &Request<'_>) -> usize {
        match request {
            Request::Store(store) => store.value_bytes as usize + 2,
            Request::MetaSet(meta) => meta.value_bytes() as usize + 2,
            _ => 0,
        }
    }

    #[inline]
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]> {
        match request {
            Request::Get(get) => {
                let mut keys = get.keys;
                let key = keys.next()?;
                keys.next().is_none().then_some(key)
            }
            Request::Store(store) => Some(store.key),
            Request::Delete { key, .. } | Request::Touch { key, .. } => Some(key),
            Request::Arithmetic(arithmetic) => Some(arithmetic.key),
            Request::MetaGet(meta)
            | Request::MetaSet(meta)
            | Request::MetaDelete(meta)
            | Request::MetaArithmetic(meta) => (!meta.is_base64()).then(|| meta.key()),
            _ => None,
        }
    }

    #[inline]
    fn needs_unique(request: &Request<'_>) -> bool {
        match request {
            Request::Get(get) => get.cas,
            Request::MetaGet(meta) => asks_unique(meta),
            _ => true,
        }
    }

    fn is_read(request: &Request<'_>) -> bool {
        match request {
            Request::Get(get) => get.touch.is_none() && !get.lease,
            Request::MetaGet(meta) => !b"TNR".iter().any(|&flag| meta.has(flag)),
            Request::MetaNoop | Request::Version => true,
            _ => false,
        }
    }

    fn kind(request: &Request<'_>) -> Kind {
        match request {
            Request::Get(get) if get.touch.is_some() => Kind::Touch,
            Request::Get(get) if get.keys.clone().nth(1).is_some() => Kind::Multiget,
            Request::Get(_) | Request::MetaGet(_) => Kind::Get,
            Request::Store(_) | Request::MetaSet(_) => Kind::Set,
            Request::Delete { .. } | Request::MetaDelete(_) => Kind::Delete,
            Request::Arithmetic(_) | Request::MetaArithmetic(_) => Kind::Arithmetic,
            Request::Touch { .. } => Kind::Touch,
            _ => Kind::Other,
        }
    }

    fn storing<'r>(request: &'r Request<'_>) -> Option<StoreCommand<'r>> {
        match request {
            Request::Store(store) => Some(StoreCommand::Text(store)),
            Request::MetaSet(meta) => Some(StoreCommand::Meta(meta)),
            _ => None,
        }
    }

    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Request<'_>>) -> Flow {
        executor.spend();
        let key = at_hand.key.as_ref();
        executor.watch_request(&at_hand.request, key);
        match (&at_hand.request, key) {
            (Request::Get(get), Some(key)) => return executor.get(key, get),
            (Request::Get(get), None) => return executor.get_keys(get),
            (Request::MetaGet(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_get);
            }
            (Request::Store(store), _) => {
                return executor.store(StoreCommand::Text(store), key, at_hand.body);
            }
            (Request::MetaSet(meta), _) => {
                return executor.store(StoreCommand::Meta(meta), key, at_hand.body);
            }
            (Request::Delete { hold_off_s, quiet, .. }, Some(key)) => {
                executor.delete(key, *hold_off_s, *quiet);
            }
            (Request::MetaDelete(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_delete);
            }
            (Request::Arithmetic(what), Some(key)) => return executor.arithmetic(what, key),
            (Request::MetaArithmetic(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_arithmetic);
            }
            (Request::Touch { exptime, quiet, .. }, Some(key)) => {
                return executor.touch(key, *exptime, *quiet);
            }
            (Request::MetaNoop, _) => executor.say(fixed::META_NOOP),
            (Request::MetaDebug { key, base64 }, _) => executor.meta_debug(key, *base64),
            (Request::FlushAll { exptime, quiet }, _) => {
                return operator::flush_all(executor, *exptime, *quiet);
            }
            (Request::Version, _) => reply::version(&mut executor.output.bytes, VERSION),
            (Request::Verbosity { level, quiet }, _) => {
                let level = u8::try_from((*level).min(2)).unwrap_or(2);
                executor.turn.process.log.set_verbosity(level);
                executor.say_unless(*quiet, fixed::OK);
            }
            (Request::Quit, _) => return Flow::Close,
            (Request::Stats(_), _) if executor.puts_off() => return Flow::Later,
            (Request::Stats(words), _) => return operator::stats(executor, *words),
            (Request::Admin { command, quiet }, _) => {
                return operator::run(executor, command, *quiet);
            }
            (_, None) => unreachable!("a batch hashes the key of every request that has one"),
        }
        Flow::Done
    }

    fn out_of_memory(executor: &mut Executor<'_>, _: &Request<'_>) {
        executor.say(fixed::OUT_OF_MEMORY_READING);
    }

    fn deny(executor: &mut Executor<'_>, _: &Request<'_>, why: &str) {
        executor.say(format!("CLIENT_ERROR {why}\r\n").as_bytes());
    }

    fn refuse(executor: &mut Executor<'_>, error: &Error) -> Skip {
        executor.say(error.reply);
        Skip { used: error.used, swallow: error.swallow, close: error.close }
    }

    fn take_room<'b>(rooms: &mut Rooms) -> Batch<'b, Self> {
        std::mem::take(&mut rooms.lines)
    }

    fn give_back(rooms: &mut Rooms, batch: Batch<'_, Self>) {
        rooms.lines = recycle(batch);
    }
}
