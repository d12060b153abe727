//! The command line of `guira lab`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::scale::Scale;

/// Repeat the experiments of the papers behind Guira on this machine
///
/// Each experiment repeats a table or figure. It shows the paper's claim, and the paper's figures next to those measured
/// here. Checks compare ratios and orders rather than times, and the verdict is computed from them.
#[derive(Clone, Debug, Parser)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is asked of the lab.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    List(List),
    Run(Run),
    Report(Report),
    Trace(crate::trace::TraceArgs),
}

/// List the experiments: id, paper, title
#[derive(Clone, Debug, Parser)]
pub(crate) struct List {
    /// Also print each paper's claim and what the experiment checks
    #[arg(long)]
    pub(crate) long: bool,
}

/// Run experiments and write their results
///
/// Each experiment writes three kinds of files: ID.json (all figures, machine, version, command), ID.svg (plots) and ID.md
/// (a page with the paper's figures next to those measured). Experiments run one after the other. Stop other programs
/// that use the processors.
#[derive(Clone, Debug, Parser)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Experiments, papers (memc3, hopscotch, mercury, cf for cuckoo filters, facebook, fawn, silt), "quick" or "all"
    #[arg(required = true, value_name = "ID|PAPER|quick|all")]
    pub(crate) what: Vec<String>,

    /// Size of the experiments
    #[arg(long, value_name = "SCALE", default_value = "small")]
    pub(crate) scale: Scale,

    /// Seed of the random numbers: the same seed gives the same keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Exit with 1 if a check fails, or if it passes on wrong results that were made to test the check. Noisy figures are measured
    /// up to three times, and the median counts
    #[arg(long)]
    pub(crate) check: bool,

    /// Directory for the files
    #[arg(long, value_name = "DIRECTORY", default_value = "lab")]
    pub(crate) out: PathBuf,
}

/// Join results into a page of all verdicts, a page for each paper, and their plots
#[derive(Clone, Debug, Parser)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct Report {
    /// Directory that guira lab run wrote to
    #[arg(long, value_name = "DIRECTORY", default_value = "lab")]
    pub(crate) out: PathBuf,

    /// File for the page of verdicts; the other pages and plots go into a directory next to it, which has the file's name
    /// without ".md" [default: report.md in the directory of the results]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,

    /// Also join results of different runs, builds or machines; the page then says so
    #[arg(long)]
    pub(crate) mixed: bool,
}

const EXAMPLES: &str = "\
Examples:
  guira lab list                       list the experiments
  guira lab run memc3-t2               one experiment; read lab/memc3-t2.md, see lab/memc3-t2.svg
  guira lab run quick --check          the short ones; exit code 1 if a check fails
  guira lab run all --scale small      everything, under 30 minutes on two cores
  guira lab report --to docs/lab.md    the pages of what was run, plots in docs/lab/";

const RUN_EXAMPLES: &str = "\
Examples:
  guira lab run memc3-t2                        one table of MemC3, in lab/memc3-t2.md
  guira lab run hopscotch mercury               all of two papers
  guira lab run hop-load --scale paper --seed 7 at the paper's size, with other keys
  guira lab run quick --check --out target/lab  a check for every change";

const REPORT_EXAMPLES: &str = "\
Examples:
  guira lab run all && guira lab report         lab/report.md
  guira lab report --to docs/lab.md             pages and plots in docs/lab/";
