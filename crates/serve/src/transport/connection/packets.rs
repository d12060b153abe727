//! The step of work on binary requests: a batch.

use super::Connection;
use crate::batch::{After, BODY_IN_INPUT_MAX, Piece, collect_packets, prefetch_packets, recycle};
use crate::execute::{Asked, Executor, Flow, kind_of_packet};
use crate::transport::state::{Rooms, State, Step};
use guira_proto::binary::login::is_login;

impl Connection {
    pub(super) fn run_packets(
        &mut self,
        executor: &mut Executor<'_>,
        rooms: &mut Rooms,
        input: &[u8],
        consumed: &mut usize,
    ) -> Step {
        if input.is_empty() {
            return Step::Piece(Piece::Line(0));
        }
        if executor.is_spent() {
            return Step::Spent;
        }
        let mut batch = std::mem::take(&mut rooms.packets);
        let most = executor.requests_left();
        let after = collect_packets(input, BODY_IN_INPUT_MAX, most, executor.handle(), &mut batch);
        if batch.len() > 1 {
            prefetch_packets(executor.handle(), &batch);
        }
        let mut at = 0;
        let mut step = None;
        for at_hand in &batch {
            let kind = || kind_of_packet(&at_hand.request);
            let flow = executor.observe(kind, |executor| executor.execute_packet(at_hand));
            if !matches!(flow, Flow::Later) {
                at += at_hand.used;
            }
            match self.after(executor, &flow) {
                Step::More if executor.is_full() => step = Some(Step::Full),
                Step::More => continue,
                other => step = Some(other),
            }
            break;
        }
        *consumed += at;
        rooms.packets = recycle(batch);
        if let Some(step) = step {
            return step;
        }
        match after {
            After::More => Step::More,
            After::Piece(piece) => Step::Piece(piece),
            After::Refused(error) => {
                let opcode = error.reply.map(|(echo, _)| echo.opcode);
                if opcode.is_some_and(is_login) && executor.turn.process.auth.has_sasl() {
                    self.state = Self::logged_out();
                    return Step::More;
                }
                *consumed += error.used;
                executor.spend();
                executor.refuse_packet(&error);
                if error.swallow > 0 {
                    self.state = State::Swallow(error.swallow);
                }
                self.is_broken |= error.close;
                if error.close { Step::Close } else { Step::More }
            }
            After::Large { request, line_bytes } => {
                let (head, body) = input[at..].split_at(line_bytes);
                self.begin_value(executor, &Asked::Packet(request), (head, body.len()), consumed)
            }
        }
    }
}
