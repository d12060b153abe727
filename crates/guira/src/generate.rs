//! `guira generate`: man pages, shell completions and the list of statistics, made from the tables
//! that the program itself runs by.

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use guira_serve::Meaning;
use std::io;
use std::path::{Path, PathBuf};

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("generate")
        .about("Write man pages, shell completions or the list of statistics")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("man")
                .about("Write one man page a subcommand into a directory")
                .arg(Arg::new("directory").required(true).value_parser(value_parser!(PathBuf))),
        )
        .subcommand(
            Command::new("completions")
                .about("Print the completions for a shell")
                .arg(Arg::new("shell").required(true).value_parser(value_parser!(Shell))),
        )
        .subcommand(Command::new("stats").about("Print what each statistic means, in Markdown"))
}

/// Does what `matches` ask.
pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("man", matches)) => {
            let directory: &PathBuf = matches.get_one("directory").context("no directory")?;
            man_pages(directory)
        }
        Some(("completions", matches)) => {
            let shell: &Shell = matches.get_one("shell").context("no shell")?;
            clap_complete::generate(*shell, &mut crate::tree(), "guira", &mut io::stdout());
            Ok(())
        }
        Some(("stats", _)) => {
            println!("| name | meaning | metric |\n|---|---|---|");
            for Meaning { name, meaning, metric } in guira_serve::stat_meanings() {
                let metric = metric.map(|(name, kind)| format!("`{name}` {kind}"));
                let metric = metric.unwrap_or_default();
                println!("| `{name}` | {meaning} | {metric} |");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn man_pages(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    clap_mangen::generate_to(crate::tree(), directory)
        .with_context(|| format!("cannot write man pages into {}", directory.display()))
}
