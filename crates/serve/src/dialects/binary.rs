//! The binary protocol: one arm per command.

use crate::batch::{AtHand, Batch, Dialect, Rooms, Skip, recycle};
use crate::execute::{Executor, Flow, StoreCommand};
use crate::process::measure::Kind;
use crate::version::VERSION;
use guira_proto::Parsed;
use guira_proto::binary::login::is_login;
use guira_proto::binary::{Command, Error, Request, Status, parse, reply};

/// The binary protocol.
pub(crate) enum Binary {}

impl Dialect for Binary {
    type Request<'b> = Request<'b>;
    type Error = Error;
    const ENDS_WITH_NEWLINE: bool = false;

    #[inline]
    fn parse(input: &[u8], _: usize) -> Result<Parsed<Request<'_>>, Error> {
        parse(input)
    }

    #[inline]
    fn body_bytes(request: &Request<'_>) -> usize {
        request.value_bytes() as usize
    }

    #[inline]
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]> {
        request.key()
    }

    fn is_read(request: &Request<'_>) -> bool {
        matches!(
            request.command,
            Command::Get { touch: None, .. } | Command::Noop | Command::Version
        )
    }

    fn kind(request: &Request<'_>) -> Kind {
        match request.command {
            Command::Get { touch: None, .. } => Kind::Get,
            Command::Get { .. } | Command::Touch { .. } => Kind::Touch,
            Command::Store(_) => Kind::Set,
            Command::Delete { .. } => Kind::Delete,
            Command::Arithmetic(_) => Kind::Arithmetic,
            _ => Kind::Other,
        }
    }

    fn storing<'r>(request: &'r Request<'_>) -> Option<StoreCommand<'r>> {
        match &request.command {
            Command::Store(store) => Some(StoreCommand::Binary(request, store)),
            _ => None,
        }
    }

    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Request<'_>>) -> Flow {
        executor.spend();
        let request = &at_hand.request;
        executor.watch_packet(request, at_hand.key.as_ref());
        let out = &mut executor.output.bytes;
        match (&request.command, &at_hand.key) {
            (Command::Get { touch, with_key, .. }, Some(key)) => {
                return executor.get_packet(request, key, *touch, *with_key);
            }
            (Command::Store(store), key) => {
                let command = StoreCommand::Binary(request, store);
                return executor.store(command, key.as_ref(), at_hand.body);
            }
            (Command::Delete { .. }, Some(key)) => executor.delete_packet(request, key),
            (Command::Arithmetic(what), Some(key)) => {
                return executor.count_packet(request, what, key);
            }
            (Command::Touch { exptime, .. }, Some(key)) => {
                return executor.touch_packet(request, key, *exptime);
            }
            (Command::Flush { exptime }, _) => {
                return executor.flush_packet(request, exptime.unwrap_or(0));
            }
            (Command::Noop, _) => reply::done(out, request.echo, 0),
            (Command::Version, _) => reply::text(out, request.echo, VERSION),
            (Command::Stat { .. }, _) if executor.puts_off() => return Flow::Later,
            (Command::Stat { name }, _) => executor.stat_packets(request, name),
            (Command::Quit, _) => {
                executor.done_unless_quiet(request, 0);
                return Flow::Close;
            }
            (_, None) => unreachable!("a batch hashes the key of every request that has one"),
        }
        Flow::Done
    }

    fn out_of_memory(executor: &mut Executor<'_>, request: &Request<'_>) {
        let text = "Out of memory reading request";
        let out = &mut executor.output.bytes;
        reply::error_saying(out, request.echo, Status::OutOfMemory, text);
    }

    fn deny(executor: &mut Executor<'_>, request: &Request<'_>, why: &str) {
        reply::error_saying(&mut executor.output.bytes, request.echo, Status::Auth, why);
    }

    fn is_login(error: &Error) -> bool {
        error.reply.is_some_and(|(echo, _)| is_login(echo.opcode))
    }

    fn refuse(executor: &mut Executor<'_>, error: &Error) -> Skip {
        executor.refuse_packet(error);
        Skip { used: error.used, swallow: error.swallow, close: error.close }
    }

    fn take_room<'b>(rooms: &mut Rooms) -> Batch<'b, Self> {
        std::mem::take(&mut rooms.packets)
    }

    fn give_back(rooms: &mut Rooms, batch: Batch<'_, Self>) {
        rooms.packets = recycle(batch);
    }
}
