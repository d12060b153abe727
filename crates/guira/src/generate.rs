//! `guira generate`: man pages, shell completions and the reference, made from the tables that the program itself runs
//! by.

use crate::reference;
use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use std::fmt::Write as _;
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

/// Does what `matches` ask.
pub(crate) fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("man", matches)) => {
            let directory: &PathBuf = matches.get_one("directory").context("no directory")?;
            man_pages(directory)
        }
        Some(("reference", matches)) => {
            let directory: &PathBuf = matches.get_one("directory").context("no directory")?;
            reference::write(directory)
        }
        Some(("completions", matches)) => {
            let shell: &Shell = matches.get_one("shell").context("no shell")?;
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut crate::tree(), "guira", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A command's flags as a table.
pub(crate) fn flags(mut command: Command) -> String {
    command.build();
    let mut text = "| flag | default | meaning |\n|---|---|---|\n".to_owned();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let short = arg.get_short().map(|short| format!("`-{short}`"));
        let long = arg.get_long().map(|long| format!("`--{long}`"));
        let place = arg.is_positional().then(|| format!("`{arg}`"));
        let names: Vec<String> = short.into_iter().chain(long).chain(place).collect();
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let is_switch = !arg.get_action().takes_values();
        let default = defaults.filter(|_| !is_switch).collect::<Vec<_>>().join(" ");
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        // What has no value of its own until it is given says so in its help.
        let (help, default) = match help.strip_suffix(']').and_then(|h| h.split_once(" [default: "))
        {
            Some((help, default)) => (help.to_owned(), default.to_owned()),
            None => (help, default),
        };
        let choices = if is_switch { Vec::new() } else { arg.get_possible_values() };
        let choices: Vec<&str> = choices.iter().map(PossibleValue::get_name).collect();
        let help = match choices[..] {
            [] => help,
            _ if arg.get_value_delimiter().is_some() => {
                format!("{help}; some of {}", choices.join(", "))
            }
            _ => format!("{help}; one of {}", choices.join(", ")),
        };
        let _ =
            writeln!(text, "| {} | {default} | {} |", names.join(", "), help.replace('|', "\\|"));
    }
    text
}

fn man_pages(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    clap_mangen::generate_to(crate::tree(), directory)
        .with_context(|| format!("cannot write man pages into {}", directory.display()))
}

#[cfg(test)]
mod tests;
