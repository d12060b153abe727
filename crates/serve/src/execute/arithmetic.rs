//! Increments and decrements in text, meta and binary commands.

use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow};
use guira_cache::{Counted, Delta, Key, NoRoom};
use guira_proto::binary::{self, Packet, Status, reply as packet};
use guira_proto::reply::{self, MetaReply, MetaStatus};
use guira_proto::{Meta, fixed};

impl Executor<'_> {
    pub(crate) fn arithmetic(
        &mut self,
        what: &guira_proto::ArithmeticCommand<'_>,
        key: &Key<'_>,
    ) -> Flow {
        let arithmetic = Delta { delta: what.delta, down: what.decrement, ..Delta::default() };
        let counted = match self.calculate(key, Form::Text, &arithmetic) {
            Ok(counted) => counted,
            Err(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
            Err(_) => {
                self.say_unless(what.quiet, fixed::OUT_OF_MEMORY);
                return Flow::Done;
            }
        };
        match counted {
            Counted::Number { number, .. } if !what.quiet => {
                reply::number(&mut self.output.bytes, number);
            }
            Counted::Number { .. } => {}
            Counted::NonNumeric => self.say_unless(what.quiet, fixed::NON_NUMERIC),
            Counted::NotFound | Counted::Exists => self.say_unless(what.quiet, fixed::NOT_FOUND),
        }
        Flow::Done
    }

    pub(crate) fn count_packet(
        &mut self,
        request: &Packet<'_>,
        what: &binary::PacketArithmetic<'_>,
        key: &Key<'_>,
    ) -> Flow {
        let expiry = |t: u32| self.turn.process.time.expiry(t.into(), self.now());
        let arithmetic = Delta {
            delta: what.delta,
            down: what.decrement,
            initial: what.exptime.map(|exptime| (what.initial, expiry(exptime))),
            compare: (request.cas != 0).then_some(request.cas),
            ..Delta::default()
        };
        let counted = match self.calculate(key, Form::Binary, &arithmetic) {
            Ok(counted) => counted,
            Err(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
            Err(_) => {
                let text = "Out of memory incrementing value";
                let out = &mut self.output.bytes;
                packet::error_saying(out, request.echo, Status::OutOfMemory, text);
                return Flow::Done;
            }
        };
        match counted {
            Counted::Number { .. } if request.quiet => {}
            Counted::Number { number, cas, .. } => {
                let cas = self.shown(cas);
                packet::number(&mut self.output.bytes, request.echo, cas, number);
            }
            Counted::NonNumeric => self.fail(request, Status::NonNumeric),
            Counted::NotFound => self.fail(request, Status::NotFound),
            Counted::Exists => self.fail(request, Status::Exists),
        }
        Flow::Done
    }

    pub(crate) fn meta_arithmetic(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        let expiry = |t: i32| self.turn.process.time.expiry(t.into(), self.now());
        let arithmetic = Delta {
            delta: meta.delta(),
            down: meta.is_decrement(),
            initial: meta.vivify().map(|ttl| (meta.initial(), expiry(ttl))),
            exptime: meta.ttl().map(expiry),
            // memcached treats a unique of 0 as none.
            compare: meta.compare_cas().filter(|&cas| cas != 0),
            explicit_cas: meta.new_cas(),
            key_binary: meta.is_base64(),
        };
        let counted = match self.calculate(key, Form::Meta, &arithmetic) {
            Ok(counted) => counted,
            Err(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
            Err(_) => {
                let creates = meta.vivify().is_some();
                self.say(if creates {
                    fixed::OUT_OF_MEMORY_NEW_ITEM
                } else {
                    fixed::OUT_OF_MEMORY
                });
                return Flow::Done;
            }
        };
        match counted {
            Counted::Number { .. } if meta.quiet() => {}
            Counted::Number { number, cas, exptime, .. } => {
                self.answer_number(meta, key, &number.to_string(), [cas, exptime.into()]);
            }
            Counted::NonNumeric => self.say(fixed::NON_NUMERIC),
            Counted::NotFound => self.status(meta, key, MetaStatus::NotFound),
            Counted::Exists => self.status(meta, key, MetaStatus::Exists),
        }
        Flow::Done
    }

    fn answer_number(
        &mut self,
        meta: &Meta<'_>,
        key: &Key<'_>,
        number: &str,
        [cas, exptime]: [u64; 2],
    ) {
        let now = self.now();
        let out = &mut self.output.bytes;
        let mut reply = if meta.has(b'v') {
            MetaReply::value(out, number.len())
        } else {
            MetaReply::status(out, MetaStatus::Done)
        };
        let left = u32::try_from(exptime).unwrap_or(u32::MAX).saturating_sub(now);
        for flag in meta.flags() {
            match flag.letter() {
                b'c' => reply.number(b'c', cas),
                b't' => reply.ttl((exptime != 0).then_some(left)),
                b'O' => reply.echo(flag.text()),
                b'k' => reply.key(key.bytes(), meta.is_base64()),
                _ => {}
            }
        }
        reply.end();
        if meta.has(b'v') {
            self.say(number.as_bytes());
            self.say(b"\r\n");
        }
    }

    /// Performs the calculation and records it. A number that the command has created counts as neither a hit nor a miss.
    fn calculate(&mut self, key: &Key<'_>, form: Form, what: &Delta) -> Result<Counted, NoRoom> {
        if self.storage().is_some() {
            match self.is_below(key) {
                None => return Err(NoRoom::Later),
                // As in memcached: an item in storage is larger than a number.
                Some(true) => return Ok(Counted::NonNumeric),
                Some(false) => {}
            }
        }
        let counted = self.handle().arithmetic(key, what, self.now())?;
        let verb = if what.down { Verb::Decrement } else { Verb::Increment };
        match counted {
            Counted::Number { created: false, class, .. } => {
                self.record(key, (form, verb), Outcome::Done, class);
            }
            Counted::NotFound => {
                self.record(key, (form, verb), Outcome::Miss, 0);
            }
            _ => {}
        }
        Ok(counted)
    }
}
