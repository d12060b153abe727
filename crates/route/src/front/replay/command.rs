//! `guira replay`: sends the deletes that routers wrote down and couldn't send.
//!
//! Each file's deletes go to their servers in the order in which they were written. What a server took is marked
//! beside the file, so that the command may be ended and started again; a file whose deletes are all sent is removed,
//! unless a router may still write to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use guira_client::{Connection, ConnectionOptions};
use tokio::runtime;

use super::{Wait, files, pending, remove_if_done, send_again, servers};
use crate::Server;
use crate::front::spool::is_old;

/// The subcommand.
#[must_use]
pub fn command() -> Command {
    Command::new("replay")
        .about("Send again the deletes that guira route or mcrouter wrote down when servers failed")
        .arg(
            Arg::new("async-dir")
                .long("async-dir")
                .short('a')
                .value_name("DIR")
                .default_value("/var/spool/mcrouter")
                .value_parser(value_parser!(PathBuf))
                .help("The directory of the spool, as the router has it"),
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
                .help("Deletes a second and server [default: as fast as the server answers]"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Only say how many deletes wait for which server"),
        )
}

/// Does what the command line asks.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    let Some(dir) = matches.get_one::<PathBuf>("async-dir") else { return ExitCode::FAILURE };
    let wanted: BTreeSet<&String> = matches.get_many("server").into_iter().flatten().collect();
    let rate = matches.get_one::<u32>("rate").copied();
    let replay = Replay { dir, wanted, rate, is_dry: matches.get_flag("dry-run") };
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("guira replay: no event queue: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(replay.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("guira replay: {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

struct Replay<'m> {
    dir: &'m Path,
    wanted: BTreeSet<&'m String>,
    rate: Option<u32>,
    is_dry: bool,
}

impl Replay<'_> {
    /// True: nothing waits any more.
    async fn run(&self) -> io::Result<bool> {
        let files = files(self.dir)?;
        let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
        for file in &files {
            for server in servers(file)?.iter().filter(|server| self.wants(server)) {
                *waiting.entry(server.clone()).or_default() += pending(file, server)?.len();
            }
        }
        waiting.retain(|_, count| *count > 0);
        if self.is_dry {
            waiting.iter().for_each(|(server, count)| println!("{server}: {count} deletes wait"));
            return Ok(true);
        }
        let mut is_done = true;
        for server in waiting.keys() {
            is_done = self.send(server, &files).await && is_done;
        }
        for file in files.iter().filter(|file| is_old(file)) {
            remove_if_done(file);
        }
        Ok(is_done)
    }

    fn wants(&self, server: &String) -> bool {
        self.wanted.is_empty() || self.wanted.contains(server)
    }

    /// Sends a server's deletes, file after file; false: it failed or refused some, and the rest waits.
    async fn send(&self, server: &str, files: &[PathBuf]) -> bool {
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
        for file in files {
            match send_again(&connection, server, file, self.rate).await {
                Ok(count) => sent += count,
                Err(wait @ Wait::Refused { sent: count, .. }) => {
                    sent += count;
                    is_done = false;
                    eprintln!("guira replay: {server}: of {}, {wait}", file.display());
                }
                Err(error) => {
                    println!("{server}: {sent} deletes sent");
                    eprintln!("guira replay: {server}: {error}; the rest waits");
                    return false;
                }
            }
        }
        println!("{server}: {sent} deletes sent");
        is_done
    }
}
