//! `guira bench`: a load generator for any server that speaks the memcached protocol.
//!
//! ```text
//! args -> plan -> load -> crew: one watcher, n threads -> outcome -> report
//!                          |  closed  pipeline answered, next pipeline; latency
//!                          |  open    requests at their times; latency from when they fell due
//!                          |  busy    prebuilt requests, polled, replies dropped uncopied
//!                        requests (workload, zipf, value) -> bytes -> reply -> verify
//! ```
//! On a machine that also does other work, the figure to trust is the server's CPU time per operation
//! ([`CpuCost`]), which the kernel accounts to its process. Throughput and latency come second.
//!
//! Bad at: servers on other machines (no CPU time), more connections than one process may open, and
//! detecting stale reads: it checks that a value was stored by some write, not by the last one.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;

pub use address::ServerAddress;
pub use args::BenchArgs;
pub use compare::{Row, Spread, Standing};
pub use error::BenchError;
pub use latency::Summary;
pub use memory::Filling;
pub use rng::{Rng, mix};
pub use verify::Counts;
pub use zipf::Zipf;

use address::Target;
use args::Command;
use crew::Around;
use outcome::RunResult;
use plan::Plan;

mod report;
mod compare;
mod memory;
mod load;
mod outcome;
mod busy;
mod closed;
mod open;
mod connection;
mod crew;
mod plan;
mod args;
mod address;
mod clock;
mod cpu;
mod latency;
mod verify;
mod reply;
mod error;
mod requests;
mod value;
mod workload;
mod zipf;
mod rng;

/// Runs what the arguments ask for and prints the result to standard output. Progress is shown on
/// standard error if that is a terminal.
///
/// The first SIGINT ends the run early, with a summary of what was measured so far; the second one ends the process.
///
/// # Errors
/// [`BenchError::Usage`] before anything is sent. [`BenchError::Violations`] after the result is printed,
/// if values were read that no write stored. The others if the run couldn't be finished.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    let bar = progress();
    let around = Around { pid: None, bar: &bar, interrupted: interruptible()? };
    let violations = match &args.command {
        None => {
            let outcome = plain(args, &around)?;
            bar.finish_and_clear();
            if args.json { report::json(&outcome) } else { report::outcome(&outcome, args.load) }?;
            outcome.violations()
        }
        Some(Command::Compare(compare)) => {
            let rows = compare::run(compare, &around)?;
            bar.finish_and_clear();
            if compare.json { report::json(&rows) } else { report::comparison(&rows) }?;
            rows.iter().flat_map(|row| &row.servers).map(|server| server.violations).sum()
        }
        Some(Command::Memory(memory)) => {
            let filling = memory::run(memory, &around)?;
            bar.finish_and_clear();
            if memory.json { report::json(&filling) } else { report::filling(&filling) }?;
            0
        }
    };
    if violations == 0 { Ok(()) } else { Err(BenchError::Violations(violations)) }
}

/// Returns what `guira bench compare` prints, for programs that compare servers themselves.
///
/// # Errors
/// [`BenchError::Usage`] if the arguments aren't those of a comparison; others if the comparison couldn't be finished.
pub fn compared(args: &BenchArgs) -> Result<Vec<Row>, BenchError> {
    let Some(Command::Compare(compare)) = &args.command else {
        return Err(BenchError::Usage("only `compare` has rows".into()));
    };
    let (bar, interrupted) = (ProgressBar::hidden(), Arc::default());
    compare::run(compare, &Around { pid: None, bar: &bar, interrupted })
}

/// Executes a run without a subcommand.
fn plain(args: &BenchArgs, around: &Around<'_>) -> Result<RunResult, BenchError> {
    let plan = Plan::new(&args.workload, &args.pace, args.preset, false)?;
    let target = Target {
        name: args.server.to_string(),
        address: args.server.clone(),
        pid: args.server_pid,
    };
    if args.load {
        around.bar.set_prefix("loading");
        load::load(&plan.workload, &target.address, plan.threads, around)?;
    }
    around.bar.set_prefix("running");
    outcome::run(&plan, &target, around)
}

/// Returns a flag that SIGINT sets; the next SIGINT then has its default effect.
fn interruptible() -> Result<Arc<AtomicBool>, BenchError> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_default(SIGINT, flag.clone())
        .and_then(|_| signal_hook::flag::register(SIGINT, flag.clone()))
        .map_err(BenchError::io("catching SIGINT"))?;
    Ok(flag)
}

/// A progress bar that is drawn only if standard error is a terminal.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:28} {wide_bar} {percent:>3} %  {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1).with_style(style)
}

#[cfg(test)]
mod tests;
