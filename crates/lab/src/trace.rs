//! `guira lab trace`: recorded requests, replayed through any eviction policy.
//!
//! ```text
//! args ─▶ source ─┬─ format, read    a file: ARC, LIRS, CSV …, decompressed as it is read
//!                 └─ synthetic       a rule: zipf, with objects asked for once, with drift
//!            │ requests
//!         recorded                   objects numbered, 4 bytes a request
//!            ├─ simulate ─▶ grid     policies × sizes, by keys alone; several traces summed up
//!            └─ wire                 any server that speaks memcached, beside the simulation
//!                                    show: tables, JSON, plots
//! ```
//! Bad at: traces that outgrow memory, and times to live over the wire.

pub(crate) mod sampled;
pub(crate) mod gray;
mod show;
mod grid;
mod args;
pub(crate) mod parallel;
mod simulate;
mod source;
mod read;
mod format;
mod synthetic;
mod wire;
mod recorded;
mod request;
mod zstd;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use guira_bench::ServerAddress;

use crate::{console, measure, plot};
use args::Size;
use grid::{Replay, summarize};

pub(crate) use args::TraceArgs;
pub(crate) use recorded::Trace;
pub(crate) use simulate::{Player, Replayed};
pub(crate) use source::TraceSource;

/// Does what the arguments ask and prints the result to standard output.
///
/// # Errors
/// A trace that can't be read, sizes that it can't have, a plot that can't be written, a server that fails.
pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let players = args.players();
    if let Some(address) = &args.server {
        return args
            .traces
            .iter()
            .try_for_each(|source| over_the_wire(args, &players, source, address));
    }
    let mut grids = Vec::new();
    for (number, source) in args.traces.iter().enumerate() {
        let progress = console::Progress::new(&source.to_string(), number + 1, args.traces.len());
        let trace = load(source, args, &progress)?;
        let replay = Replay {
            name: source.to_string(),
            trace: &trace,
            players: &players,
            sizes: &args.size,
            is_sized: args.sized,
        };
        let grid = replay.run(&|share| progress.at(share, "replaying"))?;
        progress.end("replayed");
        if let Some(path) = &args.plot {
            let path = plot_path(path, &grid.name, args.traces.len());
            let svg = plot::svg(&show::plot(&grid, args.sized));
            std::fs::write(&path, svg)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if !args.json {
            console::print(&show::table(&grid, args.sized))?;
        }
        grids.push(grid);
    }
    let summaries = if grids.len() > 1 { summarize(&grids, args.sized) } else { Vec::new() };
    if args.json {
        console::print(&serde_json::to_string_pretty(&show::json(&grids, &summaries))?)?;
    } else if !summaries.is_empty() {
        console::print(&show::summary_table(&summaries))?;
    }
    Ok(())
}

/// Where a plot goes: with several traces each name gets the trace's behind it.
fn plot_path(path: &Path, name: &str, traces: usize) -> PathBuf {
    if traces == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.svg", name.replace([':', '/'], "-")))
}

fn load(source: &TraceSource, args: &TraceArgs, progress: &console::Progress) -> Result<Trace> {
    let trace = source.load(&args.reading(), &|read| {
        progress.at(0.0, &format!("reading: {read} requests"));
    })?;
    anyhow::ensure!(!trace.is_empty(), "the trace {source} has no requests");
    Ok(trace)
}

/// Replays one trace over the wire, then through the policies at as many items as the server held.
fn over_the_wire(
    args: &TraceArgs,
    players: &[Player],
    source: &TraceSource,
    address: &ServerAddress,
) -> Result<()> {
    let name = source.to_string();
    let progress = console::Progress::new(&name, 1, 1);
    let trace = load(source, args, &progress)?;
    let began = measure::now();
    let replayed = wire::replay(&trace, address, args.value_bytes, &|done| {
        progress.at(done as f64 / trace.len() as f64, "replaying over the wire");
    })
    .with_context(|| format!("cannot replay {name} against {address}"))?;
    let seconds = began.elapsed().as_secs_f64();
    let sizes = [Size::Objects(replayed.items.max(1))];
    let replay = Replay { name, trace: &trace, players, sizes: &sizes, is_sized: false };
    let grid = replay.run(&|share| progress.at(share, "simulating"))?;
    progress.end("replayed");
    if args.json {
        let shown = show::wire_json(&replayed, seconds, &grid);
        return Ok(console::print(&serde_json::to_string_pretty(&shown)?)?);
    }
    Ok(console::print(&show::wire_table(&replayed, seconds, &grid))?)
}
