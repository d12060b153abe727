//! `guira replay`: sends deletes that routers logged and couldn't send.
//!
//! Each file's deletes go to their servers in the order in which they were written. Deletes that a server accepts are
//! marked in a second file, so the command may be stopped and repeated. Files that a running router holds are left to
//! it. A file whose deletes are all sent is removed, unless mcrouter may still write to it. A file with other contents
//! is renamed and kept.
//!
//! The exit code: 0 if nothing waits any more, 1 if something failed, [`LEFT`] if a router holds the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use guira_client::{Connection, ConnectionOptions};
use tokio::runtime;

use super::exit::raise_descriptor_limit;
use crate::deletes::counted;
use crate::deletes::file::{
    Held, Listing, Tidied, files, is_locked_by_its_writer, is_old, survey, tidy,
};
use crate::deletes::pay::{self, Sent, Wait};
use crate::server::Server;

/// The subcommand.
#[must_use]
pub fn command() -> Command {
    Command::new("replay")
        .about("Send the failed deletes that guira route or mcrouter wrote to disk")
        .arg(
            Arg::new("async-dir")
                .long("async-dir")
                .short('a')
                .value_name("DIR")
                .default_value("/var/spool/mcrouter")
                .value_parser(value_parser!(PathBuf))
                .help("The router's --async-dir: where the deletes are"),
        )
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("HOST:PORT")
                .action(ArgAction::Append)
                .help("Only deletes for this server; may be given several times [default: all]"),
        )
        .arg(
            Arg::new("rate")
                .long("rate")
                .value_name("NUM")
                .value_parser(value_parser!(u32).range(1..))
                .help("Maximum number of deletes per second to each server [default: as fast as the server answers]"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Send nothing: print how many deletes wait for each server"),
        )
        .after_help(EXAMPLES)
}

/// Runs the command.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    let Some(dir) = matches.get_one::<PathBuf>("async-dir") else { return ExitCode::FAILURE };
    let typed = matches.get_many::<String>("server").into_iter().flatten();
    let wanted = match typed.map(|text| host_port(text)).collect() {
        Ok(wanted) => wanted,
        Err(words) => {
            eprintln!("guira replay: --server: {words}");
            return ExitCode::FAILURE;
        }
    };
    let rate = matches.get_one::<u32>("rate").copied();
    let replay = Replay { dir, wanted, rate, is_dry: matches.get_flag("dry-run") };
    // Each file is kept open.
    raise_descriptor_limit();
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("guira replay: no event queue: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(replay.run()) {
        Ok(Outcome { failed: true, .. }) => ExitCode::FAILURE,
        Ok(Outcome { left, .. }) if left > 0 => ExitCode::from(LEFT),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            let dir = dir.display();
            eprintln!(
                "guira replay: --async-dir {dir}: {error}; name the directory of the router's --async-dir"
            );
            ExitCode::FAILURE
        }
    }
}

/// A server's name as in spool files.
fn host_port(text: &str) -> Result<String, String> {
    Server::parse(text, &Server::default()).map(|server| server.host_port())
}

struct Replay<'m> {
    dir: &'m Path,
    wanted: BTreeSet<String>,
    rate: Option<u32>,
    is_dry: bool,
}

/// The result of a replay.
#[derive(Default)]
struct Outcome {
    /// Something could not be read or sent.
    failed: bool,
    /// Files that a router holds.
    left: usize,
}

impl Replay<'_> {
    async fn run(&self) -> io::Result<Outcome> {
        let Listing { files, unread } = files(self.dir)?;
        let mut outcome = Outcome { failed: !unread.is_empty(), left: 0 };
        for (path, error) in unread {
            eprintln!("guira replay: {}: {error}", path.display());
        }
        let held = Held::default();
        let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
        let mut ours = Vec::new();
        for file in files {
            match self.look(&file, &held, &mut waiting) {
                Ok(Looked::Surveyed) => {}
                Ok(Looked::Held(lock)) => ours.push((file, lock)),
                Ok(Looked::Left) => outcome.left += 1,
                Err(error) => {
                    outcome.failed = true;
                    eprintln!("guira replay: {}: {error}", file.display());
                }
            }
        }
        // Report servers without deletes: their names may be mistyped. Files that a router holds were already reported.
        let elsewhere = if outcome.left == 0 { "" } else { " in the other files" };
        for server in self.wanted.iter().filter(|server| !waiting.contains_key(*server)) {
            println!("{server}: no deletes wait{elsewhere}");
        }
        if waiting.is_empty() && self.wanted.is_empty() && !outcome.failed {
            println!("{}: no deletes wait{elsewhere}", self.dir.display());
        }
        if self.is_dry {
            for (server, count) in &waiting {
                let deletes_wait = if *count == 1 { "delete waits" } else { "deletes wait" };
                println!("{server}: {count} {deletes_wait}");
            }
            return Ok(outcome);
        }
        for server in waiting.keys() {
            outcome.failed |= !self.send(server, &ours).await;
        }
        ours.iter().for_each(|(file, _)| put_away(file));
        Ok(outcome)
    }

    /// Counts the waiting deletes of a file, and holds the file unless this is a dry run.
    fn look(
        &self,
        file: &Path,
        held: &Held,
        waiting: &mut BTreeMap<String, usize>,
    ) -> io::Result<Looked> {
        let lock = if self.is_dry { None } else { held.hold(file)? };
        if lock.is_none() && !self.is_dry {
            eprintln!(
                "guira replay: {}: a router writes to it or sends it; left to that",
                file.display()
            );
            return Ok(Looked::Left);
        }
        for (server, (count, _)) in survey(file)?.waiting {
            if self.wanted.is_empty() || self.wanted.contains(&server) {
                *waiting.entry(server).or_default() += count;
            }
        }
        Ok(lock.map_or(Looked::Surveyed, Looked::Held))
    }

    /// Sends a server's deletes, file after file. `false`: the server failed or refused some, or some can't be marked.
    async fn send(&self, server: &str, files: &[(PathBuf, Arc<File>)]) -> bool {
        let address = match Server::parse(server, &Server::default()) {
            Ok(address) => address.address(),
            Err(words) => {
                eprintln!("guira replay: {words}");
                return false;
            }
        };
        let options = ConnectionOptions { backoff: None, ..ConnectionOptions::default() };
        let connection = Connection::new(address, options);
        let (mut sent, mut is_done) = (0, true);
        for (file, _) in files {
            match pay::send(&connection, server, file, self.rate, |_| ()).await {
                Ok(Sent { count, unmarked, .. }) => {
                    sent += count;
                    if let Some(error) = unmarked {
                        is_done = false;
                        eprintln!(
                            "guira replay: {}: sent, but can't be marked: {error}",
                            file.display()
                        );
                    }
                }
                Err(wait @ Wait::Refused { sent: count, .. }) => {
                    sent += count;
                    is_done = false;
                    eprintln!("guira replay: {server}: of {}, {wait}", file.display());
                }
                Err(error) => {
                    println!("{server}: {} sent", counted(sent, [""; 2]));
                    eprintln!("guira replay: {server}: {error}; the rest waits");
                    return false;
                }
            }
        }
        println!("{server}: {} sent", counted(sent, [""; 2]));
        is_done
    }
}

/// The result of looking at a file.
enum Looked {
    /// Its deletes are counted, and none will be sent.
    Surveyed,
    /// Its deletes are counted, and this process holds the file.
    Held(Arc<File>),
    /// A router holds it.
    Left,
}

/// Removes a file without waiting deletes, or explains why it is kept.
fn put_away(file: &Path) {
    let shown = file.display();
    if survey(file).is_ok_and(|survey| !survey.waiting.is_empty()) {
        return;
    }
    if !(is_old(file) || is_locked_by_its_writer(file)) {
        eprintln!(
            "guira replay: {shown}: kept, as mcrouter may still write to it; the next replay removes it"
        );
        return;
    }
    if let Tidied::SetAside(lines, path) = tidy(file) {
        let path = path.display();
        eprintln!("guira replay: {shown}: {lines} lines are no deletes; kept as {path}");
    }
}

/// The exit code if files are left to a router that holds them.
const LEFT: u8 = 2;

/// Each exit code of `guira replay` with its meaning, for the documentation.
pub const EXIT_CODES: [(u8, &str); 3] = [
    (0, "no deletes wait any more, of those that were asked for"),
    (1, "some could not be read or sent: they wait, and a sentence says why"),
    (LEFT, "some are left to a router that runs: it writes or sends them itself"),
];
const EXAMPLES: &str = "\
Examples:
  guira replay --dry-run                     how many deletes wait for each server
  guira replay --server 10.0.0.1:11211       send those for one server

Exit code: 0 nothing waits any more, 1 some could not be read or sent and still wait, or a mistake on
the command line, 2 some are left to a running router, which sends them itself.";
