//! The text protocol, classic and meta commands: one arm per command.

use crate::batch::{AtHand, Batch, Dialect, Rooms, Skip, recycle};
use crate::execute::{Executor, Flow, StoreForm, asks_unique, operator};
use crate::process::measure::Kind;
use crate::version::VERSION;
use guira_proto::{BadLine, Command, Limits, Parsed, fixed, parse_from, reply};

/// The text protocol.
pub(crate) enum Text {}

impl Dialect for Text {
    type Request<'b> = Command<'b>;
    type Error = BadLine;
    const ENDS_WITH_NEWLINE: bool = true;

    #[inline]
    fn parse(input: &[u8], scanned: usize) -> Result<Parsed<Command<'_>>, BadLine> {
        parse_from(input, scanned, &Limits::DEFAULT)
    }

    #[inline]
    fn body_bytes(request: &Command<'_>) -> usize {
        match request {
            Command::Store(store) => store.value_bytes as usize + 2,
            Command::MetaSet(meta) => meta.value_bytes() as usize + 2,
            _ => 0,
        }
    }

    #[inline]
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]> {
        match request {
            Command::Get(get) => {
                let mut keys = get.keys;
                let key = keys.next()?;
                keys.next().is_none().then_some(key)
            }
            Command::Store(store) => Some(store.key),
            Command::Delete { key, .. } | Command::Touch { key, .. } => Some(key),
            Command::Arithmetic(arithmetic) => Some(arithmetic.key),
            Command::MetaGet(meta)
            | Command::MetaSet(meta)
            | Command::MetaDelete(meta)
            | Command::MetaArithmetic(meta) => (!meta.is_base64()).then(|| meta.key()),
            _ => None,
        }
    }

    #[inline]
    fn needs_unique(request: &Command<'_>) -> bool {
        match request {
            Command::Get(get) => get.cas,
            Command::MetaGet(meta) => asks_unique(meta),
            _ => true,
        }
    }

    fn is_read(request: &Command<'_>) -> bool {
        match request {
            Command::Get(get) => get.touch.is_none() && !get.lease,
            Command::MetaGet(meta) => !b"TNR".iter().any(|&flag| meta.has(flag)),
            Command::MetaNoop | Command::Version => true,
            _ => false,
        }
    }

    fn kind(request: &Command<'_>) -> Kind {
        match request {
            Command::Get(get) if get.touch.is_some() => Kind::Touch,
            Command::Get(get) if get.keys.clone().nth(1).is_some() => Kind::Multiget,
            Command::Get(_) | Command::MetaGet(_) => Kind::Get,
            Command::Store(_) | Command::MetaSet(_) => Kind::Set,
            Command::Delete { .. } | Command::MetaDelete(_) => Kind::Delete,
            Command::Arithmetic(_) | Command::MetaArithmetic(_) => Kind::Arithmetic,
            Command::Touch { .. } => Kind::Touch,
            _ => Kind::Other,
        }
    }

    fn storing<'r>(request: &'r Command<'_>) -> Option<StoreForm<'r>> {
        match request {
            Command::Store(store) => Some(StoreForm::Text(store)),
            Command::MetaSet(meta) => Some(StoreForm::Meta(meta)),
            _ => None,
        }
    }

    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Command<'_>>) -> Flow {
        executor.spend();
        let key = at_hand.key.as_ref();
        executor.watch_request(&at_hand.request, key);
        match (&at_hand.request, key) {
            (Command::Get(get), Some(key)) => return executor.get(key, get),
            (Command::Get(get), None) => return executor.get_keys(get),
            (Command::MetaGet(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_get);
            }
            (Command::Store(store), _) => {
                return executor.store(StoreForm::Text(store), key, at_hand.body);
            }
            (Command::MetaSet(meta), _) => {
                return executor.store(StoreForm::Meta(meta), key, at_hand.body);
            }
            (Command::Delete { hold_off_s, quiet, .. }, Some(key)) => {
                return executor.delete(key, *hold_off_s, *quiet);
            }
            (Command::MetaDelete(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_delete);
            }
            (Command::Arithmetic(what), Some(key)) => return executor.arithmetic(what, key),
            (Command::MetaArithmetic(meta), _) => {
                return executor.with_key(meta, key, Executor::meta_arithmetic);
            }
            (Command::Touch { exptime, quiet, .. }, Some(key)) => {
                return executor.touch(key, *exptime, *quiet);
            }
            (Command::MetaNoop, _) => executor.say(fixed::META_NOOP),
            (Command::MetaDebug { key, base64 }, _) => return executor.meta_debug(key, *base64),
            (Command::FlushAll { exptime, quiet }, _) => {
                return operator::flush_all(executor, *exptime, *quiet);
            }
            (Command::Version, _) => reply::version(&mut executor.output.bytes, VERSION),
            (Command::Verbosity { level, quiet }, _) => {
                let level = u8::try_from((*level).min(2)).unwrap_or(2);
                executor.turn.process.log.set_verbosity(level);
                executor.say_unless(*quiet, fixed::OK);
            }
            (Command::Quit, _) => return Flow::Close,
            (Command::Stats(_), _) if executor.puts_off() => return Flow::Later,
            (Command::Stats(words), _) => return operator::stats(executor, *words),
            (Command::Admin { command, quiet }, _) => {
                return operator::run(executor, command, *quiet);
            }
            (_, None) => unreachable!("a batch hashes the key of every request that has one"),
        }
        Flow::Done
    }

    fn out_of_memory(executor: &mut Executor<'_>, _: &Command<'_>) {
        executor.say(fixed::OUT_OF_MEMORY_READING);
    }

    fn deny(executor: &mut Executor<'_>, _: &Command<'_>, why: &str) {
        executor.say(format!("CLIENT_ERROR {why}\r\n").as_bytes());
    }

    fn refuse(executor: &mut Executor<'_>, error: &BadLine) -> Skip {
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
