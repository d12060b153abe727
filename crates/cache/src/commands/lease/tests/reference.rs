//! The reference: the leases of one key, in a simple implementation.

use super::{INTERVAL_S, STALE_S, Step, Told};

/// The expected state of one key.
#[derive(Default)]
pub(super) struct Reference {
    value: Option<u64>,
    expires: u32,
    /// Marked stale in place by a meta delete: withheld, as an item without a value is.
    is_stale: bool,
    is_unfilled: bool,
    is_claimed: bool,
    token: Option<usize>,
    tokens: usize,
    issued: Option<u32>,
    kept: Option<(u64, u32)>,
    in_use: bool,
    is_known: bool,
}

impl Reference {
    fn has_item(&self, now: u32) -> bool {
        (self.value.is_some() || self.is_unfilled) && (self.expires == 0 || self.expires > now)
    }

    fn live(&self, now: u32) -> Option<u64> {
        self.value.filter(|_| self.has_item(now) && !self.is_stale && !self.is_unfilled)
    }

    fn kept(&self, now: u32) -> Option<u64> {
        self.kept.filter(|(_, until)| *until > now).map(|(value, _)| value)
    }

    fn is_due(&self, now: u32) -> bool {
        self.issued.is_none_or(|issued| now >= issued + INTERVAL_S)
    }

    fn put(&mut self, value: u64) {
        let Reference { tokens, issued, in_use, is_known, .. } = *self;
        *self =
            Reference { value: Some(value), tokens, issued, in_use, is_known, ..Self::default() };
    }

    pub(super) fn step(&mut self, step: Step, fresh: u64, now: u32) -> Told {
        match step {
            Step::LeaseGet => self.lease_get(now),
            Step::LeaseSet(back) => self.lease_set(back, fresh, now),
            Step::Get => self.live(now).map_or(Told::Miss, Told::Value),
            Step::Set => {
                self.put(fresh);
                Told::Stored
            }
            Step::Add => {
                let is_refused = self.live(now).is_some();
                self.token = None;
                if is_refused {
                    return Told::NotStored;
                }
                self.put(fresh);
                Told::Stored
            }
            Step::Delete => {
                self.token = None;
                let had = self.has_item(now);
                if let Some(value) = self.live(now).filter(|_| self.in_use) {
                    self.kept = Some((value, now + STALE_S));
                    self.is_known = true;
                }
                (self.value, self.is_stale, self.is_unfilled, self.is_claimed) =
                    (None, false, false, false);
                if had { Told::Deleted } else { Told::NotFound }
            }
            Step::Expire => {
                if self.live(now).is_some() {
                    self.expires = now;
                }
                Told::Done
            }
            Step::Flush => {
                (self.value, self.is_unfilled, self.token, self.kept) = (None, false, None, None);
                (self.is_stale, self.is_claimed) = (false, false);
                Told::Done
            }
            Step::MetaVivify => self.vivify(now),
            Step::MetaStale => {
                self.token = None;
                if self.has_item(now) {
                    (self.is_stale, self.is_claimed) = (true, false);
                    return Told::Deleted;
                }
                Told::NotFound
            }
            Step::Wait(_) => Told::Done,
        }
    }

    fn lease_get(&mut self, now: u32) -> Told {
        if let Some(value) = self.live(now) {
            return Told::Value(value);
        }
        let withheld = self.has_item(now);
        let stale = if withheld && !self.is_unfilled { self.value } else { self.kept(now) };
        let is_fetching = withheld && self.is_claimed;
        self.is_claimed |= withheld;
        (self.in_use, self.is_known) = (true, true);
        if !self.is_due(now) {
            return Told::Wait(stale);
        }
        let is_first = self.issued.is_none();
        self.issued = Some(now);
        if is_fetching && is_first {
            return Told::Wait(stale);
        }
        self.tokens += 1;
        self.token = Some(self.tokens);
        Told::Granted(stale)
    }

    fn lease_set(&mut self, back: usize, fresh: u64, now: u32) -> Told {
        if self.tokens > back && self.token == Some(self.tokens - back) {
            self.put(fresh);
            return Told::Stored;
        }
        if self.live(now).is_some() {
            return Told::Stored;
        }
        if !self.is_known {
            return Told::NotStored;
        }
        self.kept = Some((fresh, now + STALE_S));
        Told::StaleStored
    }

    fn vivify(&mut self, now: u32) -> Told {
        if self.has_item(now) {
            return match self.live(now) {
                Some(value) => Told::Value(value),
                None => Told::Miss,
            };
        }
        let is_ours = !self.is_known || self.is_due(now);
        if self.is_known && is_ours {
            (self.issued, self.token) = (Some(now), None);
        }
        let kept = self.kept(now);
        self.value = kept;
        self.expires = kept.map_or(0, |_| self.kept.map_or(0, |(_, until)| until));
        (self.is_unfilled, self.is_stale, self.is_claimed) = (kept.is_none(), kept.is_some(), true);
        if is_ours { Told::Won(kept) } else { Told::Taken(kept) }
    }
}
