//! Merges young runs into the last level, one range of hashes (a stretch) after the other.
//!
//! A cycle takes the young runs that exist when it begins, and walks through the partitions. Each step reads one
//! partition, or several small neighbours, and the young runs' entries of the same range, and rewrites the partitions.
//! An edit then replaces the partitions and moves the young runs' mark, `merged_to`: their entries below the mark no
//! longer count. After the last stretch the young runs are dropped. So a step needs the space of one partition, a cycle
//! also that of its runs, and a crash loses one step.
//!
//! # Invariants
//! 1. The runs of a cycle are the oldest young runs: only the last level is older. So deletes, and entries that are
//!    dead by `Options::alive`, are dropped here. A conversion drops them only if there is no run at all.
//! 2. Only this thread changes the last level, and only this thread removes young runs.

use super::output::{Output, Piece, abandon};
use super::pace::Pace;
use super::task::{Progress, is_alive};
use crate::core::Core;
use crate::error::StoreError;
use crate::hash::KeyHash;
use crate::manifest::Edit;
use crate::merge::{Source, Sources};
use crate::run::{Run, RunIter, RunOptions};
use crate::stats;
use crate::version::{Partition, Version, YoungRun};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The state of the thread that merges.
pub(super) struct Merger {
    pace: Pace,
    cycle: Option<Cycle>,
}

/// One pass over all hashes.
#[derive(Clone)]
struct Cycle {
    /// The young runs that take part.
    ids: Vec<u64>,
    /// Where the next stretch to merge begins.
    next: KeyHash,
    /// The latest merge request that the cycle serves: it was made before the cycle began. 0: a former process began it.
    serves: u64,
}

/// The range of hashes that one step reads and replaces.
struct Stretch {
    /// The indexes of the partitions.
    parts: Range<usize>,
    from: KeyHash,
    to: KeyHash,
    old: Vec<Partition>,
    young: Vec<YoungRun>,
    /// Young runs that are newer than the cycle. On a full disk they are read too, so that entries that they replaced
    /// or deleted aren't written again. Otherwise that isn't worth the reads, and the list is cleared.
    newer: Vec<YoungRun>,
}

impl Merger {
    /// Creates a merger that writes at this pace.
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, cycle: None }
    }

    /// Merges one stretch.
    pub(super) fn step(&mut self, core: &Core) -> Result<Progress, StoreError> {
        let version = core.versions.load();
        if self.cycle.is_none() {
            self.cycle = begin(core, &version);
        }
        let Some(cycle) = self.cycle.clone() else { return Ok(Progress::Idle) };
        let mut stretch = Stretch::of(&version, &cycle, core.options.partition_bytes);
        if !core.is_full.load(Relaxed) {
            stretch.newer.clear();
        }
        let (pieces, dropped) = self.write(core, &stretch, version.horizon)?;
        core.point("merge: written");
        let next = stretch.to.0.checked_add(1).map(KeyHash);
        if let Err(error) = core.edit(&stretch.edits(&cycle.ids, next, &pieces), 0) {
            abandon(core, &pieces);
            return Err(error);
        }
        stats::add(&core.tally.partition_merges, pieces.len() as u64);
        stats::add(&core.tally.dropped_by_merges, dropped);
        publish(core, &stretch, (&cycle.ids, next), pieces);
        core.look_at_space();
        self.cycle = next.map(|next| Cycle { next, ..cycle.clone() });
        if self.cycle.is_none() {
            core.merges_done.fetch_max(cycle.serves, Relaxed);
        }
        core.bell.ring();
        core.point("merge: published");
        Ok(Progress::Worked)
    }

    fn write(
        &mut self,
        core: &Core,
        stretch: &Stretch,
        horizon: u64,
    ) -> Result<(Vec<Piece>, u64), StoreError> {
        let (from, to) = (stretch.from, stretch.to);
        let young = stretch.young.iter().map(|it| &it.run);
        let old = stretch.old.iter().filter_map(|it| it.run.as_ref());
        let runs: Vec<_> = young.chain(old).collect();
        let seq_max = runs.iter().map(|it| it.facts().seq_max).max().unwrap_or(0);
        let newer = stretch.newer.iter().map(|it| &it.run);
        let all = runs.iter().copied().chain(newer);
        let inputs = all.map(|it| Source::Run(RunIter::new(Run::clone(it), from, to)));
        let mut sources = Sources::new(inputs)?;
        let bytes = stretch.estimate();
        let count = bytes.div_ceil(core.options.partition_bytes).max(1);
        let split = bytes / count;
        let how = RunOptions::last(&core.options, seq_max);
        let counted = (&core.tally.bytes_merged, "merge: half written");
        let mut output = Output::new((core, &mut self.pace), (how, split.max(4096)), counted);
        let mut dropped = 0;
        while let Some(entry) = sources.next()? {
            // An entry of a newer run stays in that run, where gets find it.
            if entry.seq <= seq_max && is_alive(core, &entry, horizon) {
                output.push(&entry)?;
            } else {
                dropped += 1;
            }
        }
        Ok((output.finish()?, dropped))
    }
}

/// Returns the cycle that is due: one that a former process left unfinished, or a new one.
fn begin(core: &Core, version: &Version) -> Option<Cycle> {
    let begun = version.young.iter().filter(|it| it.merged_to > KeyHash(0));
    if let Some(next) = begun.clone().map(|it| it.merged_to).min() {
        return Some(Cycle { ids: begun.map(|it| it.id).collect(), next, serves: 0 });
    }
    let wanted = core.merges_wanted.load(Relaxed);
    let is_wanted = wanted > core.merges_done.load(Relaxed);
    let may_clean = version.horizon > 0 || core.options.alive.is_some();
    if version.young.is_empty() && !may_clean && is_wanted {
        core.merges_done.fetch_max(wanted, Relaxed);
        core.bell.ring();
        return None;
    }
    let ids = version.young.iter().map(|it| it.id).collect();
    let runs_due = core.options.runs_due(version.last_bytes());
    let enough = if core.is_tight.load(Relaxed) { runs_due.min(2) } else { runs_due };
    let is_due = is_wanted || version.young.len() >= enough;
    is_due.then_some(Cycle { ids, next: KeyHash(0), serves: wanted })
}

fn publish(
    core: &Core,
    stretch: &Stretch,
    (ids, next): (&[u64], Option<KeyHash>),
    pieces: Vec<Piece>,
) {
    let is_part = |it: &YoungRun| ids.contains(&it.id);
    core.versions.change(|version| {
        let fresh = stretch.partitions(pieces);
        version.last.splice(stretch.parts.clone(), fresh);
        match next {
            None => version.young.retain(|it| !is_part(it)),
            Some(next) => {
                version
                    .young
                    .iter_mut()
                    .filter(|it| is_part(it))
                    .for_each(|it| it.merged_to = next);
            }
        }
    });
    stretch.old.iter().filter_map(|it| it.run.as_ref()).for_each(|it| it.doom());
    if next.is_none() {
        stretch.young.iter().for_each(|it| it.run.doom());
    }
}

impl Stretch {
    /// Takes the partition at the cycle's position, and those after it while they fill at most half a partition together.
    fn of(version: &Version, cycle: &Cycle, partition_bytes: u64) -> Self {
        let begin = version.last.partition_point(|it| it.from < cycle.next);
        let begin = begin.min(version.last.len().saturating_sub(1));
        let bytes_of = |it: &Partition| it.run.as_ref().map_or(0, |run| run.facts().bytes);
        let mut end = begin + 1;
        let mut bytes = version.last.get(begin).map_or(0, bytes_of);
        while let Some(more) = version.last.get(end).map(bytes_of) {
            bytes += more;
            if bytes > partition_bytes / 2 {
                break;
            }
            end += 1;
        }
        let (young, newer) =
            version.young.iter().cloned().partition(|it| cycle.ids.contains(&it.id));
        Self {
            parts: begin..end,
            from: version.last.get(begin).map_or(KeyHash(0), |it| it.from),
            to: version.end_of(end - 1),
            old: version.last.get(begin..end).unwrap_or_default().to_vec(),
            young,
            newer,
        }
    }

    /// Estimates the stretch's bytes. Hashes are uniform, so a young run's share follows from the width of the range.
    fn estimate(&self) -> u64 {
        let share = (self.to.0 - self.from.0) as f64 / u128::MAX as f64;
        let bytes = |run: &Run| run.facts().bytes as f64;
        let old = self.old.iter().filter_map(|it| it.run.as_ref()).map(|it| bytes(it));
        let young = self.young.iter().map(|it| bytes(&it.run) * share);
        #[expect(clippy::cast_possible_truncation, reason = "a float's cast saturates")]
        let bytes = old.chain(young).sum::<f64>().ceil() as u64;
        bytes
    }

    /// Returns the new partitions. The first one begins where the stretch begins.
    fn partitions(&self, pieces: Vec<Piece>) -> Vec<Partition> {
        let mut from = Some(self.from);
        let fresh = pieces.into_iter().map(|piece| Partition {
            from: from.take().unwrap_or(piece.from),
            id: piece.id,
            run: Some(piece.run),
        });
        let fresh: Vec<_> = fresh.collect();
        let none = Partition { from: self.from, id: 0, run: None };
        if fresh.is_empty() { vec![none] } else { fresh }
    }

    fn edits(&self, ids: &[u64], next: Option<KeyHash>, pieces: &[Piece]) -> Vec<Edit> {
        let mut places: Vec<_> = pieces.iter().map(|it| (it.from, it.id)).collect();
        match places.first_mut() {
            Some(first) => first.0 = self.from,
            None => places.push((self.from, 0)),
        }
        let replaced = Edit::Partitions {
            from: self.from,
            to: self.to,
            merged: ids.to_vec(),
            merged_to: next.unwrap_or(KeyHash::MAX),
            pieces: places,
        };
        let dropped = (next.is_none() && !ids.is_empty()).then(|| Edit::Dropped(ids.to_vec()));
        std::iter::once(replaced).chain(dropped).collect()
    }
}
