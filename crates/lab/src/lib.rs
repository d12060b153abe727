//! `guira lab`: every table and figure of the papers, measured on the reader's own machine.
//!
//! An `Experiment` is declared once: id, paper, claim, shape, a function that measures and a function that judges.
//! The list, the documents and the checks are derived from that. Measuring yields a `Data`. Judging makes
//! `Findings`: plots with the paper's axes, tables with the paper's figures next to ours, `Check`s of shapes
//! (ratios and orders, never absolute times), and a sentence that sums up. The `Verdict` is computed from the checks,
//! and planted wrong results show that the checks can fail.
//!
//! ```text
//! args ─▶ list                    what is declared: experiment, catalogue
//!      ─▶ run ─▶ select, attempts ─▶ data ─▶ record (ID.json)
//!                                    data ─▶ outcome ─▶ verdict, plot (ID.svg), page (ID.md)
//!                                    data ─▶ plants: falsified, it must fail
//!      ─▶ report                  records joined: a page of verdicts by contents, one for each paper
//!      ─▶ trace                   recorded requests, replayed
//!
//! memc3 …     a file for each experiment  baseline  what the papers compare with
//! measure     rounds, medians, CPU time   scale     how large
//! drive       what drives tables          figures   short ways to say what an outcome consists of
//! live        fleets of processes
//! ```

#![forbid(unsafe_code)]

mod catalogue;
mod cuckoo_filter;
mod facebook;
mod fawn;
mod hopscotch;
mod list;
mod mercury;
mod memc3;
mod silt;
mod figures;
mod live;
mod report;
mod contents;
mod run;
mod args;
mod page;
mod plants;
mod record;
mod machine;
mod select;
mod experiment;
mod scale;
mod trace;
pub mod policies;
#[cfg(test)]
mod planted;
mod console;
mod plot;
mod number;
mod verdict;
mod ycsb;
mod drive;
mod baseline;
mod data;
mod measure;
mod outcome;

pub use args::LabArgs;

pub(crate) use experiment::{Experiment, Paper, Run};
pub(crate) use outcome::{Axis, Bound, Check, Findings, Plot, Series, Table};
pub(crate) use scale::Scale;

use args::Command;
use catalogue::EXPERIMENTS;

/// Runs the command that the arguments name: results go to standard output, progress to standard error.
///
/// # Errors
/// If a name is unknown; if results can't be read or written; if an experiment could not be finished, or with `--check`
/// if a check failed, after all have run.
pub fn run(args: &LabArgs) -> anyhow::Result<()> {
    let declared: Vec<&Experiment> = EXPERIMENTS.iter().copied().flatten().collect();
    match &args.command {
        Command::List(args) => Ok(console::print(&list::list(&declared, args.long))?),
        Command::Run(args) => run::run(args, &declared),
        Command::Report(args) => report::report(args, &declared),
        Command::Trace(args) => trace::run(args),
    }
}
