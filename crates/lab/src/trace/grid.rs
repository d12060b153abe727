//! One trace under every policy at every size, and summaries of several traces.

use anyhow::{Context, Result};

use super::args::Size;
use super::parallel::in_parallel;
use super::recorded::Trace;
use super::simulate::{Player, Replayed, simulate};
use crate::policies::PolicyKind;

/// What every policy does with a trace, at every size.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// The trace.
    pub(super) name: String,
    /// Its requests.
    pub(super) requests: u64,
    /// Its objects, or their bytes where bytes are counted.
    pub(super) footprint: u64,
    /// Sizes, as given and as what they mean for this trace.
    pub(super) sizes: Vec<(Size, u64)>,
    /// A row for each policy, as many cells as sizes.
    pub(super) rows: Vec<(Player, Vec<Replayed>)>,
}

/// What is replayed.
pub(super) struct Replay<'a> {
    pub(super) name: String,
    pub(super) trace: &'a Trace,
    pub(super) players: &'a [Player],
    pub(super) sizes: &'a [Size],
    pub(super) is_sized: bool,
}

impl Replay<'_> {
    /// Replays on as many threads as there are processors; `progress` hears the share that is done.
    pub(super) fn run(&self, progress: &dyn Fn(f64)) -> Result<Grid> {
        let sizes = self
            .sizes
            .iter()
            .map(|&size| Ok((size, size.capacity(self.trace, self.is_sized)?)))
            .collect::<Result<Vec<_>>>()
            .with_context(|| self.name.clone())?;
        let cells = self.cells(&sizes, progress);
        let rows = cells.chunks(sizes.len().max(1)).map(<[Replayed]>::to_vec);
        let footprint = if self.is_sized { self.trace.footprint_bytes() } else { None };
        Ok(Grid {
            name: self.name.clone(),
            requests: self.trace.len() as u64,
            footprint: footprint.unwrap_or_else(|| u64::from(self.trace.footprint())),
            rows: self.players.iter().copied().zip(rows).collect(),
            sizes,
        })
    }

    fn cells(&self, sizes: &[(Size, u64)], progress: &dyn Fn(f64)) -> Vec<Replayed> {
        let cell = |place: usize| {
            let (row, column) = (place / sizes.len(), place % sizes.len());
            simulate(self.trace, self.players[row], sizes[column].1, self.is_sized)
        };
        in_parallel(self.players.len() * sizes.len(), cell, progress)
    }
}

impl Grid {
    /// LRU's cell at a size.
    pub(super) fn lru(&self, size: usize) -> Replayed {
        let is_lru =
            |(player, _): &&(Player, Vec<Replayed>)| *player == Player::Kind(PolicyKind::Lru);
        self.rows.iter().find(is_lru).map(|(_, cells)| cells[size]).unwrap_or_default()
    }
}

/// How a policy compares with LRU over several traces, at one size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) player: Player,
    pub(super) size: Size,
    /// Traces on which the cache is of at least [`OBJECTS_MIN`] objects.
    pub(super) traces: usize,
    /// Mean over those of LRU's misses avoided, of a hundred.
    pub(super) mean: f64,
    /// The least of them, and on which trace.
    pub(super) worst: (f64, String),
}

/// Sums up: a row for each policy and size, sizes together.
pub(super) fn summarize(grids: &[Grid], is_sized: bool) -> Vec<Summary> {
    let Some(first) = grids.first() else { return Vec::new() };
    let mut summaries = Vec::new();
    for (place, &(size, _)) in first.sizes.iter().enumerate() {
        let counts = |grid: &&Grid| is_sized || grid.sizes[place].1 >= OBJECTS_MIN;
        let grids: Vec<&Grid> = grids.iter().filter(counts).collect();
        for (row, &(player, _)) in first.rows.iter().enumerate() {
            let reductions: Vec<(f64, &str)> = grids
                .iter()
                .map(|grid| {
                    let cell = grid.rows[row].1[place];
                    (cell.reduction_percent(grid.lru(place)), grid.name.as_str())
                })
                .collect();
            let worst = reductions.iter().min_by(|a, b| a.0.total_cmp(&b.0));
            let Some(&(least, name)) = worst else { continue };
            let sum: f64 = reductions.iter().map(|(reduction, _)| reduction).sum();
            summaries.push(Summary {
                player,
                size,
                traces: reductions.len(),
                mean: sum / reductions.len() as f64,
                worst: (least, name.to_owned()),
            });
        }
    }
    summaries
}

/// Caches of fewer objects say little: chance rules them.
pub(super) const OBJECTS_MIN: u64 = 48;
