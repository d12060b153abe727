//! `guira generate`: man pages, shell completions and the reference, generated from the tables that the
//! program itself uses.

use crate::reference;
use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("generate")
        .about("Write man pages, shell completions, or the pages of docs/reference")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("man")
                .about("Write a man page for each subcommand into a directory")
                .arg(directory()),
        )
        .subcommand(
            Command::new("completions").about("Print the completions for a shell").arg(
                Arg::new("shell")
                    .required(true)
                    .value_name("SHELL")
                    .value_parser(value_parser!(Shell))
                    .help("Shell to print them for"),
            ),
        )
        .subcommand(
            Command::new("reference")
                .about("Write the pages of docs/reference into a directory")
                .arg(directory()),
        )
}

fn directory() -> Arg {
    Arg::new("directory")
        .required(true)
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Directory to write into; it is made if it does not exist")
}

/// Executes the subcommand in `matches`, for the program whose command line is `tree`.
pub(crate) fn run(matches: &ArgMatches, mut tree: Command) -> Result<()> {
    match matches.subcommand() {
        Some(("man", matches)) => {
            let directory: &PathBuf = matches.get_one("directory").context("no directory")?;
            man_pages(directory, tree)
        }
        Some(("reference", matches)) => {
            let directory: &PathBuf = matches.get_one("directory").context("no directory")?;
            reference::write(directory, tree)
        }
        Some(("completions", matches)) => {
            let shell: &Shell = matches.get_one("shell").context("no shell")?;
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut tree, "guira", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn man_pages(directory: &Path, tree: Command) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    clap_mangen::generate_to(tree, directory)
        .with_context(|| format!("cannot write man pages into {}", directory.display()))
}

#[cfg(test)]
mod tests;
