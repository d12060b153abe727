//! The command line of `guira lab`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::scale::Scale;

/// Reproduces the tables and figures of the papers behind Guira on this machine
///
/// Every experiment has the paper's claim, plots with the paper's axes, the paper's figures next to the measured ones,
/// checks of what must show (ratios and orders rather than times), and a verdict that is computed from them.
#[derive(Clone, Debug, Parser)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is asked of the lab.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    List(List),
    Run(Run),
    Report(Report),
    Trace(crate::trace::Args),
}

/// Lists the experiments: id, paper, title
#[derive(Clone, Debug, Parser)]
pub(crate) struct List {
    /// Also print what each paper claims and what must show
    #[arg(long)]
    pub(crate) long: bool,
}

/// Runs experiments and writes what they found
///
/// For each experiment three kinds of files: ID.json (all figures, machine, version, command), ID.svg (plots) and ID.md
/// (a page with the paper's figures next to the measured ones). Experiments run one after the other; close what else
/// uses the processors.
#[derive(Clone, Debug, Parser)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Experiments, papers (memc3, hopscotch, mercury, cf, facebook, fawn), "quick" or "all"
    #[arg(required = true, value_name = "ID|PAPER|quick|all")]
    pub(crate) what: Vec<String>,

    /// How large: "small" takes under 90 seconds an experiment, "paper" is the paper's size where memory allows
    #[arg(long, value_name = "SCALE", default_value = "small")]
    pub(crate) scale: Scale,

    /// Where random numbers begin: the same seed gives the same keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// End with exit code 1 if a check fails, or holds of planted wrong results too; measures up to three times if
    /// figures are noisy, and the median counts
    #[arg(long)]
    pub(crate) check: bool,

    /// Where to write
    #[arg(long, value_name = "DIRECTORY", default_value = "lab")]
    pub(crate) out: PathBuf,
}

/// Joins the results of a directory: a page of all verdicts, one for each paper, and their plots
#[derive(Clone, Debug, Parser)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct Report {
    /// Where `guira lab run` wrote
    #[arg(long, value_name = "DIRECTORY", default_value = "lab")]
    pub(crate) out: PathBuf,

    /// The page of verdicts; the papers' pages, plots and figures go into a directory next to it, of the same name without
    /// ".md" [default: report.md in the directory of the results]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,

    /// Join results of several runs, builds or machines, and say so on the page
    #[arg(long)]
    pub(crate) mixed: bool,
}

const EXAMPLES: &str = "\
Examples:
  guira lab list                       what there is
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
