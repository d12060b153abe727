//! Converts frozen logs into a young run: sorted, with only the newest record of each key.
//!
//! The oldest logs are converted first. Small logs are taken together, up to the size of one full log. Deletes are
//! kept, and entries that `Options::alive` calls dead become deletes, because an older value of the key may exist
//! below. If there is no run below, both are dropped. Entries that the horizon covers are dropped, because it covers
//! all older entries too.

use super::output::{Output, Piece, abandon};
use super::pace::Pace;
use super::task::{Progress, is_alive};
use crate::core::Core;
use crate::entry::{Entry, EntryKind};
use crate::error::StoreError;
use crate::hash::KeyHash;
use crate::log::SortedLog;
use crate::manifest::Edit;
use crate::merge::{Source, Sources};
use crate::run::RunOptions;
use crate::stats;
use crate::version::{HeldLog, Version, YoungRun};

/// The state of the thread that converts.
pub(super) struct Converter {
    pace: Pace,
}

impl Converter {
    /// Creates a converter that writes at this pace.
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace }
    }

    /// Converts the oldest frozen logs.
    pub(super) fn step(&mut self, core: &Core) -> Result<Progress, StoreError> {
        let version = core.versions.load();
        let log_bytes = core.options.log_bytes_at(version.last_bytes());
        let logs = oldest(&version, log_bytes);
        let Some(newest) = logs.last() else { return Ok(Progress::Idle) };
        let seq_max = logs.iter().map(|it| it.log.seq_max()).max().unwrap_or(0);
        let (pieces, dropped) = self.write(core, &logs, (seq_max, &version))?;
        core.point("convert: written");
        let logs_from = newest.id + 1;
        let id = pieces.first().map_or(0, |it| it.id);
        if let Err(error) = core.edit(&[Edit::Young { id, logs_from }], seq_max) {
            abandon(core, &pieces);
            return Err(error);
        }
        core.versions.change(|next| {
            next.logs.retain(|it| it.id >= logs_from);
            for Piece { id, run, .. } in pieces {
                next.young.insert(0, YoungRun { id, run, merged_to: KeyHash(0) });
            }
        });
        logs.iter().for_each(|it| it.log.doom());
        stats::add(&core.tally.conversions, 1);
        stats::add(&core.tally.dropped_by_merges, dropped);
        core.look_at_space();
        core.bell.ring();
        core.point("convert: published");
        Ok(Progress::Worked)
    }

    fn write(
        &mut self,
        core: &Core,
        logs: &[HeldLog],
        (seq_max, version): (u64, &Version),
    ) -> Result<(Vec<Piece>, u64), StoreError> {
        let mut sorted = Vec::new();
        for held in logs {
            let log = SortedLog::of(&held.log, &core.hasher)?;
            sorted.push(Source::Log(log, 0));
        }
        let mut sources = Sources::new(sorted)?;
        let runs_due = core.options.runs_due(version.last_bytes());
        let how = RunOptions::young(&core.options, seq_max, runs_due);
        let counted = (&core.tally.bytes_converted, "convert: half written");
        let mut output = Output::new((core, &mut self.pace), (how, 0), counted);
        let mut dropped = 0;
        // Only this thread creates the first run, so no run can appear below during the conversion.
        let is_lowest = version.runs().next().is_none();
        while let Some(entry) = sources.next()? {
            if is_alive(core, &entry, version.horizon) {
                output.push(&entry)?;
            } else if is_lowest || entry.seq <= version.horizon {
                dropped += 1;
            } else {
                output.push(&Entry { kind: EntryKind::Delete, value: b"", ..entry })?;
            }
        }
        Ok((output.finish()?, dropped))
    }
}

/// The frozen logs to convert, the oldest first.
fn oldest(version: &Version, bytes_max: u64) -> Vec<HeldLog> {
    let mut bytes = 0;
    let fits = |held: &&HeldLog| {
        let is_first = bytes == 0;
        bytes += held.log.written();
        is_first || bytes <= bytes_max
    };
    let sealed = version.logs.iter().rev().take_while(|it| it.log.is_sealed());
    sealed.take_while(fits).cloned().collect()
}
