//! Touches, text and binary: a new expiry, without the value.

use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow};
use guira_cache::{Key, NoRoom, Touched};
use guira_proto::binary::{Packet, Status, reply};
use guira_proto::fixed;

impl Executor<'_> {
    pub(crate) fn touch(&mut self, key: &Key<'_>, exptime: i32, quiet: bool) -> Flow {
        if !self.surfaces(key) {
            return Flow::Later;
        }
        let expiry = self.turn.process.time.expiry(exptime.into(), self.now());
        let what = (Form::Text, Verb::Touch);
        let answer = match self.handle().touch(key, expiry, self.now()) {
            Touched::NoRoom(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
            Touched::NoRoom(_) => {
                self.record(key, what, Outcome::NoMemory, 0);
                fixed::OUT_OF_MEMORY
            }
            Touched::Touched(item) => {
                self.record(key, what, Outcome::Done, item.class());
                fixed::TOUCHED
            }
            Touched::Miss(miss) => {
                self.record_miss(key, what, miss);
                fixed::NOT_FOUND
            }
        };
        self.say_unless(quiet, answer);
        Flow::Done
    }

    /// Executes a binary touch. The reply has the item's flags, and it is counted as a get that touches.
    pub(crate) fn touch_packet(
        &mut self,
        request: &Packet<'_>,
        key: &Key<'_>,
        exptime: u32,
    ) -> Flow {
        if !self.surfaces(key) {
            return Flow::Later;
        }
        let unique = self.cas_unique(key);
        let expiry = self.turn.process.time.expiry(exptime.into(), self.now());
        let what = (Form::Binary, Verb::GetAndTouch);
        match self.handle().touch(key, expiry, self.now()) {
            Touched::NoRoom(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
            Touched::NoRoom(_) => self.fail(request, Status::OutOfMemory),
            Touched::Touched(item) => {
                self.record(key, what, Outcome::Done, item.class());
                let (cas, flags) = (self.cas_of(&item, unique), item.client_flags());
                reply::hit(&mut self.output.bytes, request.echo, cas, flags, None, 0);
            }
            Touched::Miss(miss) => {
                self.record_miss(key, what, miss);
                self.fail(request, Status::NotFound);
            }
        }
        Flow::Done
    }
}
