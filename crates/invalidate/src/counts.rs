//! What is counted: of each source, and of each destination of a source.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::AuditConfig;
use crate::key::Refusal;

/// A number that only grows, or a gauge.
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

/// Of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceCounts {
    pub(crate) transactions: Count,
    /// Rows of tables that a rule or the outbox is about.
    pub(crate) rows: Count,
    pub(crate) keys_of_rules: Count,
    pub(crate) keys_of_comments: Count,
    pub(crate) keys_of_outbox: Count,
    refused: [Count; 7],
    /// Marks of this region's writers.
    pub(crate) marks: Count,
    /// Options of comments that have no effect.
    pub(crate) options: Count,
    /// Changes whose keys can't be known.
    pub(crate) unknown: Count,
    pub(crate) connects: Count,
    /// 1: the log is read.
    pub(crate) is_reading: Count,
    /// Unix seconds of the last event.
    pub(crate) read_to_s: Count,
    pub(crate) barrier_asked: Count,
    pub(crate) barrier_us: Count,
    /// Entries that were sent without the barrier's word, and again after it.
    pub(crate) barrier_passed_by: Count,
    /// XA transactions that are prepared.
    pub(crate) prepared: Count,
    pub(crate) gaps: Count,
    /// Transactions that a new primary lacks, and their keys.
    pub(crate) lost: Count,
    pub(crate) resent: Count,
    /// Which of the hosts is followed.
    pub(crate) host: Count,
    /// Flushes that gaps and emptied tables called for.
    pub(crate) flushes: Count,
}

/// Of a destination of a source.
#[derive(Debug, Default)]
pub(crate) struct CourierCounts {
    pub(crate) deletes: Count,
    /// Second deletes, see `again`.
    pub(crate) again: Count,
    pub(crate) batches: Count,
    /// Batches that were answered with an error.
    pub(crate) failed: Count,
    pub(crate) connects: Count,
    /// Keys that a router refuses, which are tried again.
    pub(crate) parked: Count,
    pub(crate) is_connected: Count,
    /// Milliseconds from an entry's coming into the journal to its acknowledgement, and how many.
    pub(crate) ack_ms: Count,
    pub(crate) acked: Count,
    /// Flushes that were acknowledged.
    pub(crate) flushes: Count,
    /// 1 while one is to be sent.
    pub(crate) is_flush_due: Count,
    unmarked: [Count; Unmarked::ALL.len()],
    pub(crate) audit: AuditCounts,
}

/// Of the audit of a destination's deletes.
#[derive(Debug, Default)]
pub(crate) struct AuditCounts {
    found: [Count; Found::ALL.len()],
    judged: [[Count; Judged::ALL.len()]; AuditConfig::AT_MAX],
    /// Keys that are looked at again.
    pub(crate) followed: Count,
}

/// What was cached of a sampled key, just before its delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Value,
    Nothing,
    Unanswered,
    /// It is followed since an earlier delete, or too many are.
    LeftOut,
}

/// What was cached of it some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Gone,
    /// Another value.
    Refilled,
    /// The value that was to be deleted.
    Survived,
    Unanswered,
}

impl Found {
    /// Each with its label.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Value, "value"),
        (Self::Nothing, "nothing"),
        (Self::Unanswered, "unanswered"),
        (Self::LeftOut, "left_out"),
    ];
}

impl Judged {
    /// Each with its label.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Gone, "gone"),
        (Self::Refilled, "refilled"),
        (Self::Survived, "survived"),
        (Self::Unanswered, "unanswered"),
    ];
}

/// What became of a mark whose write can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmarked {
    Cleared,
    /// It is one of many, which end together.
    Crowded,
    /// It wasn't there: evicted, flushed, or cleared before.
    Missing,
    /// Its life was over before.
    Late,
}

impl Unmarked {
    /// Each with its label.
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

    /// After the delay of that number, of at most [`AuditConfig::AT_MAX`].
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

const _: () = assert!(Refusal::ALL.len() == 7);
