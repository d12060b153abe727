//! What `flush_all` leaves: the horizon, a number below which no record counts any more.
//!
//! The horizon is a record of the store under a key that no client can send. So it is as durable as any other record, and
//! in order with all others: the record's own number is the horizon. `flush_all N` writes a record that names the present
//! horizon and the second at which the next one begins; the server then writes that one.
//!
//! A flush is visible once it is submitted, as each change is, so flushes share a sync, however many wait. Merges drop
//! nothing because of a flush before it is durable.
//!
//! ```text
//! CONTROL u8 │ horizon u64, 0: this record's own number │ second u32, 0: none
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use guira_proto::KEY_BYTES_MAX;
use parking_lot::{Mutex, MutexGuard};

use crate::engine::{EngineError, KeepRule, Landing, Record};
use crate::item::{CONTROL, expiry_of};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    seq: AtomicU64,
    /// The horizon of flushes that would outlive a loss of power.
    durable_seq: AtomicU64,
    /// The second at which the next flush begins; 0: none is planned.
    planned_at: AtomicU32,
    /// The order of flush records: each one is made when those before are submitted.
    order: Mutex<()>,
}

impl Horizon {
    /// Whether a record with this number was flushed.
    pub(crate) fn is_flushed(&self, seq: u64) -> bool {
        seq < self.seq.load(Relaxed)
    }

    /// The second at which all is to be flushed; 0: none.
    pub(crate) fn planned_at(&self) -> u32 {
        self.planned_at.load(Relaxed)
    }

    /// Locks the order of flush records. Hold it from when a record is made until it is submitted, without waiting for
    /// anything.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// The value of a flush record: at once if `at` is 0, otherwise at this second.
    pub(crate) fn record(&self, at: u32) -> Bytes {
        let seq = if at == 0 { 0 } else { self.seq.load(Relaxed) };
        [&[CONTROL][..], &seq.to_le_bytes(), &at.to_le_bytes()].concat().into()
    }

    /// Undoes a flush that wasn't written: what it hid is seen again.
    fn give_up(&self) {
        self.seq.store(self.durable_seq.load(Relaxed), Relaxed);
    }

    /// Applies a flush record that was written or found.
    pub(crate) fn take(&self, record: &Record) {
        let fields = || {
            let (mark, rest) = record.value.split_first()?;
            let (seq, at) = rest.split_first_chunk()?;
            let at = u32::from_le_bytes(at.try_into().ok()?);
            (*mark == CONTROL).then_some((u64::from_le_bytes(*seq), at))
        };
        let Some((seq, at)) = fields() else { return };
        let seq = if seq == 0 && at == 0 { record.seq } else { seq };
        self.durable_seq.fetch_max(seq, Relaxed);
        self.seq.fetch_max(seq, Relaxed);
        self.planned_at.store(at, Relaxed);
    }

    /// The rule for merges: keep everything except what was flushed, and what expired [`KEPT_S`] ago or earlier. `now`
    /// returns the Unix second.
    pub(crate) fn keep_rule(self: &Arc<Self>, now: fn() -> u32) -> KeepRule {
        let this = Arc::clone(self);
        Arc::new(move |seq, value| match expiry_of(value) {
            // A record of the server's own, or of unknown origin.
            None => true,
            Some(expiry) => {
                let is_over = expiry != 0 && now() >= expiry.saturating_add(KEPT_S);
                !is_over && seq >= this.durable_seq.load(Relaxed)
            }
        })
    }
}

/// A flush under way. Its record is applied when it lands, whether its client is still there or not.
pub(crate) struct Flush {
    horizon: Arc<Horizon>,
    value: Bytes,
    /// The flush's number. It is locked during the submission: the flush may land before its number is returned.
    seq: Mutex<u64>,
    /// What waits for the flush.
    waiting: Arc<dyn Landing>,
}

impl Flush {
    /// Submits a flush, at once or for a second, by calling `submit`.
    pub(crate) fn submit(
        horizon: &Arc<Horizon>,
        (value, waiting): (Bytes, Arc<dyn Landing>),
        submit: impl FnOnce(Arc<dyn Landing>) -> Result<u64, EngineError>,
    ) -> Result<u64, EngineError> {
        let (horizon, is_planned) = (Arc::clone(horizon), horizon.record(0) != value);
        let flush = Arc::new(Self { horizon, value, seq: Mutex::new(0), waiting });
        let mut number = flush.seq.lock();
        let seq = submit(Arc::clone(&flush) as Arc<dyn Landing>)?;
        *number = seq;
        if !is_planned {
            flush.horizon.seq.fetch_max(seq, Relaxed);
        }
        Ok(seq)
    }
}

impl Landing for Flush {
    fn landed(&self, result: Result<(), EngineError>) {
        let seq = *self.seq.lock();
        match &result {
            Ok(()) => self.horizon.take(&Record { seq, value: self.value.clone() }),
            Err(_) => self.horizon.give_up(),
        }
        self.waiting.landed(result);
    }
}

/// The key of the record: longer than a client's may be.
pub(crate) fn key() -> Bytes {
    let mut key = b"guira: flush_all".to_vec();
    key.resize(KEY_BYTES_MAX + 1, b'.');
    key.into()
}

/// Merges keep expired items for this many seconds, in case the clock was wrong.
pub(crate) const KEPT_S: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;

    fn item(expiry: u32) -> Bytes {
        Item { expiry, value: "x".into(), ..Item::default() }.encode()
    }

    #[test]
    fn a_flush_takes_what_is_older_and_a_planned_one_nothing_until_it_is_written() {
        let horizon = Arc::new(Horizon::default());
        horizon.take(&Record { seq: 5, value: horizon.record(0) });
        assert_eq!([4, 5].map(|seq| horizon.is_flushed(seq)), [true, false]);
        horizon.take(&Record { seq: 9, value: horizon.record(1234) });
        assert_eq!((horizon.planned_at(), horizon.is_flushed(8)), (1234, false));
        let after = Horizon::default();
        after.take(&Record { seq: 9, value: horizon.record(1234) });
        assert!(after.is_flushed(4) && !after.is_flushed(5), "the horizon before stays");
        horizon.take(&Record { seq: 12, value: horizon.record(0) });
        assert_eq!((horizon.planned_at(), horizon.is_flushed(11)), (0, true));
        horizon.take(&Record { seq: 99, value: "nonsense".into() });
        assert!(!horizon.is_flushed(12));
    }

    struct Nobody;

    impl Landing for Nobody {
        fn landed(&self, _: Result<(), EngineError>) {}
    }

    #[test]
    fn a_flush_is_visible_at_once_merges_wait_until_it_is_durable_and_one_that_fails_is_undone() {
        let horizon = Arc::new(Horizon::default());
        let alive = horizon.keep_rule(|| 1000);
        let flush = |seq, at| {
            let mut submitted = None;
            let what = (horizon.record(at), Arc::new(Nobody) as Arc<dyn Landing>);
            let told = Flush::submit(&horizon, what, |landing| {
                submitted = Some(landing);
                Ok(seq)
            });
            assert_eq!(told, Ok(seq));
            submitted.expect("it was submitted")
        };
        let (first, second) = (flush(5, 0), flush(7, 0));
        assert!(horizon.is_flushed(6) && alive(4, &item(0)));
        first.landed(Ok(()));
        assert!(horizon.is_flushed(6) && alive(6, &item(0)) && !alive(4, &item(0)));
        second.landed(Err(EngineError::ReadOnly));
        assert!(!horizon.is_flushed(6) && horizon.is_flushed(4));
        let planned = flush(9, 1234);
        assert_eq!(horizon.planned_at(), 0, "not before it is written");
        planned.landed(Ok(()));
        assert_eq!((horizon.planned_at(), horizon.is_flushed(8)), (1234, false));
    }

    #[test]
    fn merges_keep_what_counts() {
        let horizon = Arc::new(Horizon::default());
        horizon.take(&Record { seq: 5, value: horizon.record(0) });
        let alive = horizon.keep_rule(|| 1000);
        for (seq, value, is_kept) in [
            (4, item(0), false),
            (5, item(0), true),
            (6, item(940), false),
            (6, item(941), true),
            (6, item(2000), true),
            (1, horizon.record(0), true),
        ] {
            assert_eq!(alive(seq, &value), is_kept, "{seq} {value:?}");
        }
    }

    #[test]
    fn no_client_can_send_the_key() {
        assert!(key().len() > KEY_BYTES_MAX);
    }
}
