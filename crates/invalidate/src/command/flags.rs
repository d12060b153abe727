//! What may be typed after `guira invalidate`, and its help.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Command};
use guira_log::Format;

/// Which configuration.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The configuration: JSON, comments allowed
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
}

/// `guira invalidate run`
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Say more in the log; twice, still more
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// Form of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: Format,
}

/// `guira invalidate explain`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).args(["table", "statement"]))]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// A changed row's table, such as shop.users
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub(super) table: Option<String>,
    /// The row before the change, as a JSON object of columns
    #[arg(long, value_name = "JSON", requires = "table")]
    pub(super) old: Option<String>,
    /// The row after the change, as a JSON object of columns
    #[arg(long, value_name = "JSON", requires = "table")]
    pub(super) new: Option<String>,
    /// A statement, for the keys that its comments name
    #[arg(long, value_name = "SQL")]
    pub(super) statement: Option<String>,
}

/// `guira invalidate replay`
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Begin with the first change after this position, as positions prints them: 0-1-5, 0/16B3748 or a set of GTIDs
    #[arg(long, value_name = "POSITION", conflicts_with = "from_time")]
    pub(super) from_position: Option<String>,
    /// Or begin with changes of this time: 2026-07-01T10:00:00Z, Unix seconds, or how long ago, as in 90m
    #[arg(long, value_name = "TIME")]
    pub(super) from_time: Option<String>,
    /// End with changes of this time, those of the same second too
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<String>,
    /// Only of this source
    #[arg(long, value_name = "SOURCE")]
    pub(super) source: Option<String>,
    /// Only to this destination
    #[arg(long, value_name = "DESTINATION")]
    pub(super) to: Option<String>,
    /// Only keys that begin so; no flushes
    #[arg(long = "match", value_name = "PREFIX")]
    pub(super) prefix: Option<String>,
    /// At most so many deletes a second, of all destinations together; without it as many as the routers take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// Print each key and send nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// `guira invalidate clear`
#[derive(Debug, Args)]
pub(super) struct ClearArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// The destination that was given up. Its caches must be flushed after the daemon has ended
    #[arg(value_name = "DESTINATION")]
    pub(super) destination: String,
    /// The daemon flushes all servers of its routers when it starts again; they need --enable-flush-cmd
    #[arg(long)]
    pub(super) flush: bool,
}

/// `guira invalidate flush`
#[derive(Debug, Args)]
pub(super) struct FlushArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// The destination whose servers are flushed: all of its router, which needs --enable-flush-cmd
    #[arg(value_name = "DESTINATION")]
    pub(super) destination: String,
    /// Flush all its servers at once
    #[arg(long)]
    pub(super) at_once: bool,
}

/// Returns the definition of the command line.
#[must_use]
pub fn command() -> Command {
    let about = "Delete cache keys as a database's commit log names them: changed rows, comments in SQL, an outbox";
    Command::new("invalidate")
        .about(about)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with::<RunArgs>("run", "Follow the log and delete, until SIGTERM"))
        .subcommand(with::<FileArgs>(
            "check",
            "Check the configuration, the database's settings and rights, and the routers",
        ))
        .subcommand(with::<ExplainArgs>(
            "explain",
            "Print which keys a change or a statement would delete, and why",
        ))
        .subcommand(with::<FileArgs>(
            "positions",
            "Print how far each log was read, and what each destination has",
        ))
        .subcommand(with::<FileArgs>(
            "audit",
            "Print what of sampled keys survived their deletes, as the running daemon has seen it",
        ))
        .subcommand(with::<ReplayArgs>(
            "replay",
            "Send again what the journal keeps, from a time or a position on; beside a daemon, too",
        ))
        .subcommand(with::<ClearArgs>(
            "clear",
            "Take a destination in again that was given up; while no daemon runs",
        ))
        .subcommand(with::<FlushArgs>(
            "flush",
            "Flush all servers of a destination now; beside a daemon, too",
        ))
        .subcommand(with::<FileArgs>(
            "init",
            "Print the SQL that makes the daemon's user and the outbox",
        ))
}

fn with<A: Args>(name: &'static str, about: &'static str) -> Command {
    A::augment_args(Command::new(name)).about(about)
}
const EXAMPLES: &str = "\
Examples:
  guira invalidate init -c invalidate.json        the SQL for the daemon's user
  guira invalidate check -c invalidate.json       are database and routers as they must be?
  guira invalidate explain -c invalidate.json --table shop.users --old '{\"id\": 1}' --new '{\"id\": 2}'
                                                  which keys would that update delete?
  guira invalidate run -c invalidate.json         follow the log
  guira invalidate positions -c invalidate.json   how far it is
  guira invalidate replay -c invalidate.json --from-time 90m --to c1 --dry-run
                                                  which deletes were there in the last 90 minutes?

A configuration:
  { \"state\": \"/var/lib/guira/invalidate\",
    \"sources\": {\"shop\": {\"kind\": \"mariadb\", \"hosts\": [\"127.0.0.1:3306\"], \"user\": \"guira\",
                         \"password_file\": \"/etc/guira/password\", \"server_id\": 4242}},
    \"rules\": [{\"table\": \"shop.users\", \"keys\": [\"user:{id}\", \"mail:{email|lower|md5}\"]}],
    \"destinations\": {\"main\": {\"routers\": [\"127.0.0.1:5000\"]}} }";
