//! The counters and gauges of each source, and of each destination of a source.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::AuditConfig;
use crate::key::Refusal;

/// A counter, which only grows, or a gauge.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counts of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceCounts {
    pub(crate) transactions: Count,
    /// Rows of tables with rules or an outbox.
    pub(crate) rows: Count,
    pub(crate) keys_of_rules: Count,
    pub(crate) keys_of_comments: Count,
    pub(crate) keys_of_outbox: Count,
    refused: [Count; 8],
    /// Tables of rules and of the outbox that the user doesn't see.
    pub(crate) missing: Count,
    /// Marks of this region's writers.
    pub(crate) marks: Count,
    /// Options in comments that have no effect.
    pub(crate) options: Count,
    /// Changes whose keys can't be known.
    pub(crate) unknown: Count,
    pub(crate) connects: Count,
    /// 1 while the log is read.
    pub(crate) is_reading: Count,
    /// The time of the last event, in Unix seconds.
    pub(crate) read_to_s: Count,
    pub(crate) barrier_asked: Count,
    pub(crate) barrier_us: Count,
    /// Entries that were sent unproven, and again once they were proven.
    pub(crate) barrier_passed_by: Count,
    /// XA transactions that are prepared.
    pub(crate) prepared: Count,
    pub(crate) gaps: Count,
    /// Transactions that a new primary lacks; `resent` counts their keys.
    pub(crate) lost: Count,
    pub(crate) resent: Count,
    /// The index of the host that is asked.
    pub(crate) host: Count,
    /// Flushes because of gaps, emptied tables and unknown changes.
    pub(crate) flushes: Count,
}

/// The counts of a destination of a source.
#[derive(Debug, Default)]
pub(crate) struct CourierCounts {
    pub(crate) deletes: Count,
    /// Second deletes, see the setting `again`.
    pub(crate) again: Count,
    pub(crate) batches: Count,
    /// Batches that the router answered with an error.
    pub(crate) failed: Count,
    pub(crate) connects: Count,
    /// Keys that a router refuses. They are tried again.
    pub(crate) parked: Count,
    pub(crate) is_connected: Count,
    /// The milliseconds from the changes of batches to their acknowledgement, in total; `acked` counts the batches.
    pub(crate) ack_ms: Count,
    pub(crate) acked: Count,
    /// Flushes that were acknowledged.
    pub(crate) flushes: Count,
    /// 1 while a flush is due, or waits for its time.
    pub(crate) is_flush_due: Count,
    /// Servers whose turn is still to come.
    pub(crate) flushes_left: Count,
    /// Flushes, or servers of one, that failed and are tried again.
    pub(crate) flushes_failing: Count,
    unmarked: [Count; Unmarked::ALL.len()],
    pub(crate) audit: AuditCounts,
}

/// The counts of the audit of a destination's deletes.
#[derive(Debug, Default)]
pub(crate) struct AuditCounts {
    found: [Count; Found::ALL.len()],
    judged: [[Count; Judged::ALL.len()]; AuditConfig::AT_MAX],
    /// Keys that are followed now.
    pub(crate) followed: Count,
}

/// What was cached for a sampled key, just before its delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Value,
    Nothing,
    Unanswered,
    /// Not looked at: the key is followed since an earlier delete, or too many are.
    LeftOut,
}

/// What was cached for a key some time after its delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Gone,
    /// The cache has another value.
    Refilled,
    /// The cache still has the value that was to be deleted.
    Survived,
    Unanswered,
}

impl Found {
    /// All variants with their labels.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Value, "value"),
        (Self::Nothing, "nothing"),
        (Self::Unanswered, "unanswered"),
        (Self::LeftOut, "left_out"),
    ];
}

impl Judged {
    /// All variants with their labels.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Gone, "gone"),
        (Self::Refilled, "refilled"),
        (Self::Survived, "survived"),
        (Self::Unanswered, "unanswered"),
    ];
}

/// What happened to a mark once its write could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmarked {
    Cleared,
    /// It is one of many marks that end together.
    Crowded,
    /// It wasn't there: it was evicted, flushed, or cleared before.
    Missing,
    /// Its lifetime had ended before.
    Late,
}

impl Unmarked {
    /// All variants with their labels.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Cleared, "cleared"),
        (Self::Crowded, "crowded"),
        (Self::Missing, "missing"),
        (Self::Late, "late"),
    ];
}

impl CourierCounts {
    pub(crate) fn unmarked(&self, how: Unmarked) -> &Count {
        &self.unmarked[how as usize]
    }
}

impl AuditCounts {
    pub(crate) fn found(&self, found: Found) -> &Count {
        &self.found[found as usize]
    }

    /// The counter for the delay with index `at`, which is below [`AuditConfig::AT_MAX`].
    pub(crate) fn judged(&self, at: usize, judged: Judged) -> &Count {
        &self.judged[at][judged as usize]
    }
}

impl SourceCounts {
    pub(crate) fn refuse(&self, why: Refusal) {
        if let Some(count) = self.refused(why) {
            count.add(1);
        }
    }

    pub(crate) fn refused(&self, why: Refusal) -> Option<&Count> {
        let at = Refusal::ALL.iter().position(|(refusal, ..)| *refusal == why)?;
        self.refused.get(at)
    }
}

const _: () = assert!(Refusal::ALL.len() == 8);
