//! Executing what one datagram asks, text or binary by its first byte.

use crate::batch::{After, AtHand, collect, collect_packets, prefetch, prefetch_packets, recycle};
use crate::execute::{Executor, Flow};
use crate::settings::Protocol;
use crate::transport::state::Rooms;
use guira_proto::binary::{self, Command, REQUEST_MAGIC, Status};
use guira_proto::{Get, Request, Words};

/// Executes the requests of a payload and queues their replies. `false`: they would be too long, or more than
/// a datagram may ask for, or can't be had without waiting.
pub(super) fn run(executor: &mut Executor<'_>, rooms: &mut Rooms, payload: &[u8]) -> bool {
    let is_binary = match executor.turn.process.settings.protocol {
        Protocol::Auto => payload.first() == Some(&REQUEST_MAGIC),
        Protocol::Ascii => false,
        Protocol::Binary => true,
    };
    let mut rest = payload;
    loop {
        executor.renew_requests();
        let went = match is_binary {
            true => run_packets(executor, rooms, rest),
            false => run_lines(executor, rooms, rest),
        };
        match went {
            Went::On(_) if executor.keys_left() == 0 => return false,
            Went::On(used) => rest = &rest[used.min(rest.len())..],
            Went::Done => return true,
            Went::TooLong => return false,
        }
    }
}

/// How a batch went.
enum Went {
    /// It took so many bytes; there may be more.
    On(usize),
    /// There is no more.
    Done,
    /// The reply would be too long, or late.
    TooLong,
}

fn run_lines(executor: &mut Executor<'_>, rooms: &mut Rooms, input: &[u8]) -> Went {
    if input.is_empty() {
        return Went::Done;
    }
    let mut batch = std::mem::take(&mut rooms.batch);
    let most = executor.requests_left();
    let after = collect(input, (0, usize::MAX), most, executor.handle(), &mut batch);
    prefetch(executor.handle(), &batch);
    executor.spend_keys(batch.len());
    let went = batch.iter().find_map(|at_hand| run_line(executor, at_hand));
    let used: usize = batch.iter().map(|at_hand| at_hand.used).sum();
    rooms.batch = recycle(batch);
    match (went, after) {
        (Some(went), _) => went,
        (None, After::More) => Went::On(used),
        (None, After::Refused(error)) => {
            executor.say(error.reply);
            let swallow = usize::try_from(error.swallow).unwrap_or(usize::MAX);
            if error.close {
                Went::Done
            } else {
                Went::On((used + error.used).saturating_add(swallow))
            }
        }
        // What isn't all in this datagram comes in no other.
        (None, After::Piece(_) | After::Large { .. }) => Went::Done,
    }
}

/// Executes one text request; `None`: on with the next.
fn run_line(executor: &mut Executor<'_>, at_hand: &AtHand<'_, Request<'_>>) -> Option<Went> {
    if is_too_long(executor) {
        return Some(Went::TooLong);
    }
    let writes = executor.turn.process.settings.extended.udp_writes;
    let is_get = match at_hand.request {
        Request::Get(get) => get.touch.is_none() && !get.lease,
        Request::MetaGet(meta) => !b"TNR".iter().any(|&flag| meta.has(flag)),
        Request::MetaNoop | Request::Version => true,
        _ => false,
    };
    if !(is_get || writes) {
        executor.say(GETS_ONLY_LINE);
        return None;
    }
    let mut flow = executor.execute(at_hand);
    while let (Flow::Keys { rest_bytes }, Request::Get(get)) = (flow, at_hand.request) {
        if is_too_long(executor) || executor.keys_left() == 0 {
            return Some(Went::TooLong);
        }
        let keys = get.keys.rest();
        let keys = Words::new(&keys[keys.len() - rest_bytes..]);
        flow = executor.get_keys(&Get { keys, ..get });
    }
    went(flow)
}

fn run_packets(executor: &mut Executor<'_>, rooms: &mut Rooms, input: &[u8]) -> Went {
    let mut batch = std::mem::take(&mut rooms.packets);
    let most = executor.requests_left();
    let after = collect_packets(input, usize::MAX, most, executor.handle(), &mut batch);
    prefetch_packets(executor.handle(), &batch);
    executor.spend_keys(batch.len());
    let went = batch.iter().find_map(|at_hand| run_packet(executor, at_hand));
    let used: usize = batch.iter().map(|at_hand| at_hand.used).sum();
    rooms.packets = recycle(batch);
    match (went, after) {
        (Some(went), _) => went,
        (None, After::More) => Went::On(used),
        (None, After::Refused(error)) => {
            executor.refuse_packet(&error);
            let swallow = usize::try_from(error.swallow).unwrap_or(usize::MAX);
            if error.close {
                Went::Done
            } else {
                Went::On((used + error.used).saturating_add(swallow))
            }
        }
        (None, After::Piece(_) | After::Large { .. }) => Went::Done,
    }
}

/// Executes one binary request; `None`: on with the next.
fn run_packet(
    executor: &mut Executor<'_>,
    at_hand: &AtHand<'_, binary::Request<'_>>,
) -> Option<Went> {
    if is_too_long(executor) {
        return Some(Went::TooLong);
    }
    let writes = executor.turn.process.settings.extended.udp_writes;
    let is_get = matches!(
        at_hand.request.command,
        Command::Get { touch: None, .. } | Command::Noop | Command::Version
    );
    if !(is_get || writes) {
        let out = &mut executor.output.bytes;
        binary::reply::error_saying(out, at_hand.request.echo, Status::Auth, GETS_ONLY);
        return None;
    }
    went(executor.execute_packet(at_hand))
}

fn went(flow: Flow) -> Option<Went> {
    match flow {
        Flow::Done => None,
        Flow::Close => Some(Went::Done),
        Flow::Keys { .. } | Flow::Later | Flow::Fed | Flow::Listing => Some(Went::TooLong),
    }
}

/// Whether there is so much to send that nothing may be added.
fn is_too_long(executor: &Executor<'_>) -> bool {
    executor.output.len() >= REPLY_BYTES_MAX
}

const REPLY_BYTES_MAX: usize = 512 << 10;
const GETS_ONLY: &str = "only gets are allowed over UDP";
const GETS_ONLY_LINE: &[u8] = b"CLIENT_ERROR only gets are allowed over UDP\r\n";
