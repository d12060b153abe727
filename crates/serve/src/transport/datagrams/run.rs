//! Execution of the requests in one datagram; its first byte tells text from binary.

use crate::batch::{self, Dialect, End, Rooms, Skip, Source};
use crate::dialects::{Binary, Text};
use crate::execute::{Executor, Flow};
use crate::settings::WireProtocol;
use guira_proto::binary::REQUEST_MAGIC;
use std::ops::ControlFlow;

/// Executes the requests of a payload and queues their replies. Returns `false` if the replies are too
/// long, if the payload exceeds a datagram's limits, or if a request would have to wait.
pub(super) fn run(executor: &mut Executor<'_>, rooms: &mut Rooms, payload: &[u8]) -> bool {
    let is_binary = match executor.turn.process.settings.protocol {
        WireProtocol::Auto => payload.first() == Some(&REQUEST_MAGIC),
        WireProtocol::Ascii => false,
        WireProtocol::Binary => true,
    };
    if is_binary {
        run_all::<Binary>(executor, rooms, payload)
    } else {
        run_all::<Text>(executor, rooms, payload)
    }
}

fn run_all<D: Dialect>(executor: &mut Executor<'_>, rooms: &mut Rooms, payload: &[u8]) -> bool {
    let mut rest = payload;
    loop {
        executor.renew_requests();
        let (used, end) = batch::run::<D, _>(executor, rooms, &mut Datagram, rest, 0);
        rest = &rest[used..];
        match end {
            End::Stopped(is_answered) => return is_answered,
            // A request that is incomplete in this datagram isn't continued in another one.
            End::Piece(_) | End::Large { .. } => return true,
            End::More => {}
            End::Refused(error) => {
                executor.spend_keys(1);
                let Skip { used, swallow, close } = D::refuse(executor, &error);
                if close {
                    return true;
                }
                let skipped =
                    usize::try_from(swallow).map_or(usize::MAX, |n| n.saturating_add(used));
                rest = rest.get(skipped..).unwrap_or_default();
            }
        }
        if has_too_much(executor) {
            return false;
        }
    }
}

/// The requests of a datagram: within its limits, and reads only unless `-o udp_writes`.
struct Datagram;

impl Source for Datagram {
    /// Whether the datagram is answered.
    type Stop = bool;
    const BODY_MAX: usize = usize::MAX;

    fn admit<D: Dialect>(
        &mut self,
        executor: &mut Executor<'_>,
        request: &D::Request<'_>,
    ) -> ControlFlow<bool, bool> {
        if has_too_much(executor) {
            return ControlFlow::Break(false);
        }
        executor.spend_keys(1);
        let is_allowed = D::is_read(request) || executor.turn.process.settings.extended.udp_writes;
        if !is_allowed {
            D::deny(executor, request, "only gets are allowed over UDP");
        }
        ControlFlow::Continue(is_allowed)
    }

    fn after(&mut self, executor: &mut Executor<'_>, flow: Flow) -> ControlFlow<bool> {
        match flow {
            Flow::Done => ControlFlow::Continue(()),
            Flow::Keys if !has_too_much(executor) => ControlFlow::Continue(()),
            Flow::Close => ControlFlow::Break(true),
            Flow::Keys | Flow::Later | Flow::Fed | Flow::Listing => ControlFlow::Break(false),
        }
    }
}

/// Whether the limit of keys is used up, or the reply is so long that nothing may be added.
fn has_too_much(executor: &Executor<'_>) -> bool {
    executor.keys_left() == 0 || executor.output.len() >= REPLY_BYTES_MAX
}

const REPLY_BYTES_MAX: usize = 512 << 10;
