//! Deletes in all protocols, and items made stale or empty (`md` with `I` or `x`).

use super::record::{Form, Outcome, Verb};
use super::{Executor, Flow};
use guira_cache::{Deleted, Handle, Invalidate, Key, NoRoom};
use guira_proto::binary::{Packet, Status};
use guira_proto::reply::MetaStatus;
use guira_proto::{Meta, fixed};

impl<'t> Executor<'t> {
    /// Executes a text delete.
    pub(crate) fn delete(&mut self, key: &Key<'_>, hold_off_s: u32, quiet: bool) -> Flow {
        let deleted =
            self.remove(key, (Form::Text, quiet, false), |handle, now| match hold_off_s {
                0 => handle.delete(key, None, now),
                _ => handle.delete_holding_off(key, hold_off_s, now),
            });
        let Some(deleted) = deleted else { return Flow::Later };
        let is_done = matches!(deleted, Deleted::Deleted { .. });
        self.say_unless(quiet, if is_done { fixed::DELETED } else { fixed::NOT_FOUND });
        Flow::Done
    }

    /// Executes a binary delete.
    pub(crate) fn delete_packet(&mut self, request: &Packet<'_>, key: &Key<'_>) -> Flow {
        let compare = (request.cas != 0).then_some(request.cas);
        if compare.is_some() && !self.surfaces(key) {
            return Flow::Later;
        }
        // Even a quiet binary delete replies when it found nothing.
        let how = (Form::Binary, false, compare.is_some());
        match self.remove(key, how, |handle, now| handle.delete(key, compare, now)) {
            None => return Flow::Later,
            Some(Deleted::Deleted { .. }) => self.done_unless_quiet(request, 0),
            Some(Deleted::Exists) => self.fail(request, Status::Exists),
            Some(Deleted::NotFound) => self.fail(request, Status::NotFound),
        }
        Flow::Done
    }

    pub(crate) fn meta_delete(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Flow {
        let changes = meta.has(b'I') || meta.has(b'x');
        if (changes || meta.compare_cas().is_some()) && !self.surfaces(key) {
            return Flow::Later;
        }
        let deleted = if changes {
            match self.invalidate(meta, key) {
                Ok(deleted) => deleted,
                Err(NoRoom::Later | NoRoom::Below) if self.can_wait => return Flow::Later,
                Err(_) => {
                    self.say(fixed::OUT_OF_MEMORY);
                    return Flow::Done;
                }
            }
        } else {
            let compare = meta.compare_cas();
            let how = (Form::Meta, false, compare.is_some());
            match self.remove(key, how, |handle, now| handle.delete(key, compare, now)) {
                Some(deleted) => deleted,
                None => return Flow::Later,
            }
        };
        match deleted {
            Deleted::Deleted { .. } if meta.quiet() => {}
            Deleted::Deleted { .. } => self.status(meta, key, MetaStatus::Done),
            Deleted::NotFound => self.status(meta, key, MetaStatus::NotFound),
            Deleted::Exists => self.status(meta, key, MetaStatus::Exists),
        }
        Flow::Done
    }

    /// Deletes the key by calling `delete`, and records the result. `None`: the request has to wait for
    /// reads below memory. With `is_blind` the client doesn't learn the result, so entries in storage
    /// that may be the key's are removed unread.
    #[inline]
    fn remove(
        &mut self,
        key: &Key<'_>,
        (form, is_blind, compares): (Form, bool, bool),
        delete: impl FnOnce(&Handle<'t>, u32) -> Deleted,
    ) -> Option<Deleted> {
        let doomed = self.doomed(key);
        let mut deleted = delete(self.handle(), self.now());
        if deleted == Deleted::NotFound && self.storage().is_some() {
            match self.delete_below(key, is_blind, compares) {
                Ok(true) => deleted = Deleted::Deleted { class: 0 },
                Ok(false) => {}
                Err(()) => return None,
            }
        }
        self.record_delete(key, form, &deleted);
        if let Deleted::Deleted { .. } = deleted {
            self.watch_delete(key, doomed, if form == Form::Meta { "md" } else { "delete" });
        }
        Some(deleted)
    }

    /// Marks the item stale, or empties its value. Watchers get no event, and an item made stale isn't counted as a hit.
    fn invalidate(&mut self, meta: &Meta<'_>, key: &Key<'_>) -> Result<Deleted, NoRoom> {
        let stale = meta.has(b'I');
        let what = Invalidate {
            compare: meta.compare_cas(),
            stale,
            exptime: meta.ttl().map(|t| self.turn.process.time.expiry(t.into(), self.now())),
            empty: meta.has(b'x'),
            explicit_cas: meta.new_cas(),
        };
        let deleted = self.handle().invalidate(key, &what, self.now())?;
        if !(stale && matches!(deleted, Deleted::Deleted { .. })) {
            self.record_delete(key, Form::Meta, &deleted);
        }
        Ok(deleted)
    }

    #[inline]
    fn record_delete(&mut self, key: &Key<'_>, form: Form, deleted: &Deleted) {
        let what = (form, Verb::Delete);
        match *deleted {
            Deleted::Deleted { class } => self.record(key, what, Outcome::Done, class),
            // A unique that differs counts as a miss for memcached's meta commands, and as nothing in binary.
            Deleted::Exists if form == Form::Binary => self.record(key, what, Outcome::Exists, 0),
            Deleted::Exists | Deleted::NotFound => self.record(key, what, Outcome::Miss, 0),
        };
    }
}
