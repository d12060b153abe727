//! A host that lacks what was read at another: the keys of the lost transactions are deleted again.
//!
//! A primary dies with transactions that its replica never got, and the replica becomes the primary. In its tables the rows are as
//! they were before those transactions. Caches may have been refilled with what is lost. The journal knows its keys.
//!
//! ```text
//! login ─▶ does its log have what was read? ─ yes ─▶ the dump
//!            └ no ─▶ the journal, from before what is lost: entries that its log lacks, again ─▶ position, rewound ─▶ the dump
//! ```
//! # Invariants
//! 1. The rewound position is stored after the entries are on the device once more. A crash in between finds the same again.
//! 2. What was read includes what the journal has beyond the stored position: a crash may have come before the next one was stored.
//! 3. If the journal doesn't reach back to before what is lost, or nothing is common to both logs, it is a gap.
//!
//! # Costs
//! The newest segments are read twice, mostly the last one alone.
//!
//! Bad at: what is lost beyond the stored position while an XA transaction was prepared and the daemon crashed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::follower::{Follower, Stopped};
use crate::entry::{Entry, LogPlace, Origin, unix_seconds};
use crate::history::{History, Witness};
use crate::position::GtidPosition;
use crate::segment::{self, SegmentReader};

/// A host that was logged into.
pub(super) struct Standing {
    pub(super) history: History,
    /// It is read-only: what it lacks may still come.
    pub(super) is_replica: bool,
    /// The end of its log, no earlier than the history.
    pub(super) place: LogPlace,
}

/// Where in the journal it begins.
struct Reach {
    /// The segment that has all that is lost, together with those after it.
    from: u64,
    /// Of each domain the last transaction that the host has.
    last_known: BTreeMap<u32, (u32, u64)>,
}

impl Follower {
    /// Sees whether the log of a host goes on from what was read, and makes up for what it lacks.
    ///
    /// # Errors
    /// It is a gap; it lags behind; the journal can't be written or read.
    pub(super) fn settle<T: From<io::Error>>(&self, standing: &Standing) -> Result<(), Stopped<T>> {
        let Standing { history, is_replica, place } = standing;
        let line = &self.line;
        let read = self.read_so_far().map_err(Stopped::Journal)?;
        if history.has(&read) {
            line.follow_host(self.turn, |before| moved(history, before, place));
            line.settle(None);
            return Ok(());
        }
        if *is_replica && !history.is_other(&read) {
            let words = format!("it lags behind: it doesn't have all that was read up to '{read}'");
            return Err(io::Error::other(words).into());
        }
        let lacks = format!("the host {} doesn't have all that was read", self.config.host);
        let reach = self.reach(history, &read).map_err(Stopped::Journal)?;
        let Some(Reach { from, last_known }) = reach else {
            let words =
                format!("{lacks}, and the journal doesn't reach back to what is common to both");
            return Err(Stopped::Gap(words));
        };
        let Some(rewound) = history.rewound(&line.read_position(), &last_known) else {
            let words = format!(
                "{lacks}, and its log has nothing in common with it: it is another database"
            );
            return Err(Stopped::Gap(words));
        };
        line.follow_host(self.turn, |before| moved(history, before, place));
        let origin = Origin {
            place: place.clone(),
            stamp: rewound.to_string().into(),
            at_s: unix_seconds(),
        };
        let (transactions, keys) =
            self.resend(history, &read, from, &origin).map_err(Stopped::Journal)?;
        line.settle(Some(&rewound));
        line.store().map_err(Stopped::Journal)?;
        line.counts.lost.add(transactions);
        line.counts.resent.add(keys);
        tracing::error!(
            "source {}: {lacks}, up to '{read}': it was made the primary without {transactions} transactions that changed something \
             cached. Their {keys} keys are deleted again, and it goes on from '{rewound}'",
            self.config.name
        );
        Ok(())
    }

    /// The position, and what the journal has beyond the stored one.
    pub(super) fn read_so_far(&self) -> io::Result<GtidPosition> {
        let (mut read, unsettled) = self.line.read_so_far();
        let Some(unsettled) = unsettled else { return Ok(read) };
        for entry in segment::entries(self.line.folder(), unsettled)? {
            if let Some(stamp) = stamp(&entry?) {
                read.add_all(&stamp);
            }
        }
        Ok(read)
    }

    /// Looks from the journal's end for what the host has, before what it lacks. `None`: the journal doesn't reach back so far.
    fn reach(&self, history: &History, read: &GtidPosition) -> io::Result<Option<Reach>> {
        let folder = self.line.folder();
        let mut witnesses = history.witnesses(read);
        let mut last_known = BTreeMap::new();
        let (firsts, since) = (segment::firsts(folder)?, self.line.since());
        for first in firsts.iter().rev() {
            let mut here: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
            let mut reader = match SegmentReader::open(&segment::path(folder, *first)) {
                Ok(reader) => reader,
                // It was older than what must be kept.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut found: BTreeSet<Witness> = BTreeSet::new();
            while let Some(entry) = reader.read()? {
                // Another daemon was active meanwhile.
                if entry.number < since {
                    continue;
                }
                let Some(stamp) = stamp(&entry).filter(|stamp| history.has(stamp)) else {
                    continue;
                };
                let is = |witness: &&Witness| History::is_witness(witness, &stamp);
                found.extend(witnesses.iter().filter(is).cloned());
                if let GtidPosition::Domains(domains) = stamp {
                    here.extend(domains);
                }
            }
            for (domain, last) in here {
                last_known.entry(domain).or_insert(last);
            }
            witnesses.retain(|witness| !found.contains(witness));
            if witnesses.is_empty() {
                return Ok(Some(Reach { from: *first, last_known }));
            }
            if *first <= since {
                break;
            }
        }
        // Before the first entry there was none.
        let from = firsts.first().copied().filter(|first| *first == 1 && since == 0);
        Ok(from.map(|from| Reach { from, last_known }))
    }

    /// Appends what the host lacks once more: how many transactions, and keys.
    fn resend(
        &self,
        history: &History,
        read: &GtidPosition,
        from: u64,
        origin: &Origin,
    ) -> io::Result<(u64, u64)> {
        let (folder, until) = (self.line.folder(), self.line.figures().0);
        let (mut transactions, mut keys, mut last) = (0, 0, None);
        for entry in segment::entries(folder, from)? {
            let entry = entry?;
            // The rest was appended here.
            if entry.number >= until {
                break;
            }
            // What an older version wrote doesn't say what it is of.
            let is_lost = stamp(&entry).is_none_or(|stamp| {
                let is_read = matches!(stamp, GtidPosition::Domains(_)) || read.includes(&stamp);
                is_read && !history.has(&stamp)
            });
            if !is_lost {
                continue;
            }
            keys += entry.deletes().len() as u64;
            transactions += u64::from(last.as_ref() != Some(&entry.origin.stamp));
            last = Some(entry.origin.stamp);
            self.line.append(origin.clone(), entry.errand)?;
        }
        Ok((transactions, keys))
    }
}

/// Where a place of another host's log is in this one's. A transaction of MySQL's has its name everywhere; one that is lost can be
/// read by nobody, and nobody waits for it.
fn moved(history: &History, before: &LogPlace, place: &LogPlace) -> Option<LogPlace> {
    let is_lost = match (history, before.gtid()) {
        (History::Set(set), Some((source, number))) => !set.contains(&source, number),
        (History::Set(_), None) => !before.is_of_gtids(),
        (History::Domains(_), _) => true,
    };
    is_lost.then(|| place.clone())
}

fn stamp(entry: &Entry) -> Option<GtidPosition> {
    let stamp = &entry.origin.stamp;
    (!stamp.is_empty()).then(|| stamp.parse().ok())?
}

#[cfg(test)]
mod tests;
