//! The binary protocol: one arm per command.

use crate::batch::{AtHand, Batch, Dialect, Rooms, Skip, recycle};
use crate::execute::{Executor, Flow, StoreForm};
use crate::process::measure::Kind;
use crate::version::VERSION;
use guira_proto::Parsed;
use guira_proto::binary::login::is_login;
use guira_proto::binary::{BadPacket, Packet, PacketBody, Status, parse, reply};

/// The binary protocol.
pub(crate) enum Binary {}

impl Dialect for Binary {
    type Request<'b> = Packet<'b>;
    type Error = BadPacket;
    const ENDS_WITH_NEWLINE: bool = false;

    #[inline]
    fn parse(input: &[u8], _: usize) -> Result<Parsed<Packet<'_>>, BadPacket> {
        parse(input)
    }

    #[inline]
    fn body_bytes(request: &Packet<'_>) -> usize {
        request.value_bytes() as usize
    }

    #[inline]
    fn key<'b>(request: &Self::Request<'b>) -> Option<&'b [u8]> {
        request.key()
    }

    fn is_read(request: &Packet<'_>) -> bool {
        matches!(
            request.command,
            PacketBody::Get { touch: None, .. } | PacketBody::Noop | PacketBody::Version
        )
    }

    fn kind(request: &Packet<'_>) -> Kind {
        match request.command {
            PacketBody::Get { touch: None, .. } => Kind::Get,
            PacketBody::Get { .. } | PacketBody::Touch { .. } => Kind::Touch,
            PacketBody::Store(_) => Kind::Set,
            PacketBody::Delete { .. } => Kind::Delete,
            PacketBody::Arithmetic(_) => Kind::Arithmetic,
            _ => Kind::Other,
        }
    }

    fn storing<'r>(request: &'r Packet<'_>) -> Option<StoreForm<'r>> {
        match &request.command {
            PacketBody::Store(store) => Some(StoreForm::Binary(request, store)),
            _ => None,
        }
    }

    fn execute(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Packet<'_>>) -> Flow {
        executor.spend();
        let request = &at_hand.request;
        executor.watch_packet(request, at_hand.key.as_ref());
        let out = &mut executor.output.bytes;
        match (&request.command, &at_hand.key) {
            (PacketBody::Get { touch, with_key, .. }, Some(key)) => {
                return executor.get_packet(request, key, *touch, *with_key);
            }
            (PacketBody::Store(store), key) => {
                let command = StoreForm::Binary(request, store);
                return executor.store(command, key.as_ref(), at_hand.body);
            }
            (PacketBody::Delete { .. }, Some(key)) => return executor.delete_packet(request, key),
            (PacketBody::Arithmetic(what), Some(key)) => {
                return executor.count_packet(request, what, key);
            }
            (PacketBody::Touch { exptime, .. }, Some(key)) => {
                return executor.touch_packet(request, key, *exptime);
            }
            (PacketBody::Flush { exptime }, _) => {
                return executor.flush_packet(request, exptime.unwrap_or(0));
            }
            (PacketBody::Noop, _) => reply::done(out, request.echo, 0),
            (PacketBody::Version, _) => reply::text(out, request.echo, VERSION),
            (PacketBody::Stat { .. }, _) if executor.puts_off() => return Flow::Later,
            (PacketBody::Stat { name }, _) => return executor.stat_packets(request, name),
            (PacketBody::Quit, _) => {
                executor.done_unless_quiet(request, 0);
                return Flow::Close;
            }
            (_, None) => unreachable!("a batch hashes the key of every request that has one"),
        }
        Flow::Done
    }

    fn out_of_memory(executor: &mut Executor<'_>, request: &Packet<'_>) {
        let text = "Out of memory reading request";
        let out = &mut executor.output.bytes;
        reply::error_saying(out, request.echo, Status::OutOfMemory, text);
    }

    fn deny(executor: &mut Executor<'_>, request: &Packet<'_>, why: &str) {
        reply::error_saying(&mut executor.output.bytes, request.echo, Status::Auth, why);
    }

    fn is_login(error: &BadPacket) -> bool {
        error.reply.is_some_and(|(echo, _)| is_login(echo.opcode))
    }

    fn refuse(executor: &mut Executor<'_>, error: &BadPacket) -> Skip {
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
