//! A host that lacks what was read at another host: the keys of the lost transactions are deleted again.
//!
//! A primary dies with transactions that its replica never got, and the replica becomes the primary. Its tables have
//! the rows from before those transactions. Caches may have been refilled with lost values. The journal has their keys.
//!
//! ```text
//! login ─▶ does its log have what was read? ─ yes ─▶ the dump
//!            └ no ─▶ the journal, from before the loss: entries that its log lacks, again ─▶ rewound position ─▶ dump
//! ```
//! # Invariants
//! 1. The rewound position is stored after the entries are on the device once more. A crash in between finds the same
//!    loss again.
//! 2. What was read includes what the journal has beyond the stored position: a crash may have come before the next
//!    store.
//! 3. If the journal doesn't reach back to before the loss, or the logs have nothing in common, it is a gap. So it is if
//!    a host that takes changes lacks what it made itself: it gives the numbers again.
//!
//! # Costs
//! The newest segments are read twice; mostly that is only the last one.
//!
//! # Bad at
//! Losses beyond the stored position, if an XA transaction was prepared and the daemon crashed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::follower::{Follower, Stopped};
use crate::entry::{Entry, LogPlace, Origin, unix_seconds};
use crate::history::{History, OwnName, Witness};
use crate::position::GtidPosition;
use crate::segment::{self, SegmentReader};

/// What is known about a host after the login.
pub(super) struct Standing {
    pub(super) history: History,
    pub(super) own: OwnName,
    /// It is read-only: what it lacks may still come.
    pub(super) is_replica: bool,
    /// The end of its log, asked for after the history.
    pub(super) place: LogPlace,
}

/// Where in the journal the resending begins.
pub(super) struct Reach {
    /// The first segment to read: with the later ones it has everything that is lost.
    from: u64,
    /// The journal has transactions of the host's own that its log lacks.
    pub(super) has_repeats: bool,
    /// The last transaction of each domain that the host has.
    pub(super) last_known: BTreeMap<u32, (u32, u64)>,
}

/// Why a host's own transactions that it lacks are a gap.
pub(super) const REPEATS: &str = "and made the missing transactions itself: its log was reset (RESET MASTER), or lost its end in a crash \
                 (sync_binlog). It gives their numbers again, so what it changed since isn't known";

impl Follower {
    /// Checks whether a host's log goes on from what was read, and resends what the host lacks.
    ///
    /// # Errors
    /// It is a gap; the host lags behind; the journal can't be written or read.
    pub(super) fn settle<T: From<io::Error>>(&self, standing: &Standing) -> Result<(), Stopped<T>> {
        let Standing { history, own, is_replica, place } = standing;
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
        let journal = (line.folder(), line.since());
        let reach = Self::reach(journal, (history, own), &read).map_err(Stopped::Journal)?;
        let in_journal = reach.as_ref().is_some_and(|reach| reach.has_repeats);
        if !is_replica && (in_journal || history.repeats(&read, own)) {
            return Err(Stopped::Gap(format!("{lacks}, {REPEATS}")));
        }
        let Some(Reach { from, last_known, .. }) = reach else {
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

    /// Returns the read position, together with what the journal has beyond the stored position.
    pub(super) fn read_so_far(&self) -> io::Result<GtidPosition> {
        let (mut read, unsettled) = self.line.read_so_far();
        let Some(unsettled) = unsettled else { return Ok(read) };
        read_beyond(&mut read, self.line.folder(), unsettled)?;
        Ok(read)
    }

    /// Searches a journal, without what is before an entry, from its end for transactions that the host has, from before
    /// what it lacks. `None`: the journal doesn't reach back that far. Entries before `since` are another term's.
    pub(super) fn reach(
        (folder, since): (&Path, u64),
        (history, own): (&History, &OwnName),
        read: &GtidPosition,
    ) -> io::Result<Option<Reach>> {
        let mut has_repeats = false;
        let mut witnesses = history.witnesses(read);
        let mut last_known = BTreeMap::new();
        let firsts = segment::firsts(folder)?;
        for first in firsts.iter().rev() {
            let mut here: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
            let mut reader = match SegmentReader::open(&segment::path(folder, *first)) {
                Ok(reader) => reader,
                // The segment is gone: it was older than what must be kept.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut found: BTreeSet<Witness> = BTreeSet::new();
            while let Some(entry) = reader.read()? {
                // Another daemon was active after these entries.
                if entry.number < since {
                    continue;
                }
                let Some(stamp) = stamp(&entry) else { continue };
                if !history.has(&stamp) {
                    has_repeats |= history.repeats(&stamp, own);
                    continue;
                }
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
                return Ok(Some(Reach { from: *first, has_repeats, last_known }));
            }
            if *first <= since {
                break;
            }
        }
        // No entry was ever before the first one.
        let from = firsts.first().copied().filter(|first| *first == 1 && since == 0);
        Ok(from.map(|from| Reach { from, has_repeats, last_known }))
    }

    /// Appends again what the host lacks. Returns the number of transactions, and of keys.
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
            // The rest was appended by this function.
            if entry.number >= until {
                break;
            }
            // An entry without a stamp may be of any transaction: it counts as lost.
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

/// Adds what the journal has from an entry on.
pub(super) fn read_beyond(read: &mut GtidPosition, folder: &Path, from: u64) -> io::Result<()> {
    for entry in segment::entries(folder, from)? {
        if let Some(stamp) = stamp(&entry?) {
            read.add_all(&stamp);
        }
    }
    Ok(())
}

/// Returns where a place in another host's log is in this host's log; `None` if it is the same there. A transaction of
/// MySQL has the same name everywhere. A lost one can be read nowhere, so nothing waits for it.
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
