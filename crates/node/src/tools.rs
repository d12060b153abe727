//! Subcommands for a store that isn't being served: `verify`, `stats`, `checkpoint`, `compact`; and `plan`, for a store
//! that doesn't exist yet.
//!
//! Each returns a text for standard output, or a sentence that says what went wrong. `verify` and `stats` change nothing:
//! they open the store for reading.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use guira_store::Db;

use crate::directory;
use crate::engine::Engine;
use crate::figures::FIGURES;
use crate::horizon::Horizon;
use crate::node::{Node, now};
use crate::options::{IndexFlag, Opening, Syncing, VALUE_BYTES_MAX};
use crate::silt::{self, figures};
use crate::sizing::{PlanArgs, plan};

/// The subcommands.
pub(crate) fn commands() -> [Command; 5] {
    [
        PlanArgs::augment_args(Command::new("plan")).about(PLAN),
        StoreDir::augment_args(Command::new("verify")).about(VERIFY),
        StoreDir::augment_args(Command::new("stats")).about(STATS),
        CheckpointArgs::augment_args(Command::new("checkpoint")).about(CHECKPOINT),
        StoreDir::augment_args(Command::new("compact")).about(COMPACT),
    ]
}

const PLAN: &str =
    "Tell what a store will take: memory, disk, bytes written, the device's lifetime";
const VERIFY: &str = "Read all of a store and check every checksum; nothing is changed";
const STATS: &str = "Tell what is in a store; nothing is changed";
const CHECKPOINT: &str =
    "Copy a store by hard links, in an instant, into a directory of the same file system";
const COMPACT: &str = "Merge all of a store into its last level, and drop what is replaced, deleted, expired or flushed";

#[derive(Args, Debug)]
struct StoreDir {
    /// Directory of the store
    #[arg(short = 'd', long, value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Args, Debug)]
struct CheckpointArgs {
    #[command(flatten)]
    store: StoreDir,
    /// Directory of the copy; it is made if it does not exist
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Runs the subcommand; `None`: there is none.
pub(crate) fn run(matches: &ArgMatches) -> Option<Result<String, String>> {
    let (name, matches) = matches.subcommand()?;
    Some(match name {
        "plan" => parsed(matches, plan),
        "verify" => parsed(matches, verify),
        "stats" => parsed(matches, stats),
        "checkpoint" => parsed(matches, checkpoint),
        _ => parsed(matches, compact),
    })
}

fn parsed<A: FromArgMatches>(
    matches: &ArgMatches,
    does: fn(&A) -> Result<String, String>,
) -> Result<String, String> {
    does(&A::from_arg_matches(matches).map_err(|error| error.to_string())?)
}

fn read_only(store: &StoreDir) -> Result<Db, String> {
    let mut options = guira_store::Options::default();
    options.read_only = true;
    Db::open(&store.directory, options).map_err(|error| error.to_string())
}

fn verify(store: &StoreDir) -> Result<String, String> {
    let found = read_only(store)?.verify().map_err(|error| error.to_string())?;
    if found.corrupt.is_empty() {
        return Ok(match found.files {
            0 => "nothing is stored yet: sound\n".to_owned(),
            1 => format!("1 file, {} bytes: sound\n", found.bytes),
            files => format!("{files} files, {} bytes: sound\n", found.bytes),
        });
    }
    let mut text = format!("{} of {} files are damaged", found.damaged_files, found.files);
    for damage in &found.corrupt {
        // Writing to a string doesn't fail.
        let _ =
            write!(text, "\n{} at byte {}: {}", damage.path.display(), damage.offset, damage.what);
    }
    if found.unnamed > 0 {
        let _ = write!(text, "\nand at {} more places", found.unnamed);
    }
    Err(text)
}

fn stats(store: &StoreDir) -> Result<String, String> {
    let figures = figures(&read_only(store)?);
    let mut text = String::new();
    for row in FIGURES.iter().filter(|row| AT_REST.contains(&row.name)) {
        let _ = writeln!(text, "{} {}", row.name, (row.read)(&figures));
    }
    Ok(text)
}

/// The figures that mean something for a store that isn't being served.
const AT_REST: [&str; 14] = [
    "entries",
    "disk_bytes",
    "logs",
    "log_bytes",
    "log_memory_bytes",
    "runs",
    "run_bytes",
    "run_index_bytes",
    "run_filter_bytes",
    "partitions",
    "partition_bytes",
    "partition_index_bytes",
    "partition_filter_bytes",
    "seq",
];

fn checkpoint(args: &CheckpointArgs) -> Result<String, String> {
    if directory::has_store(&args.to) {
        let to = args.to.display();
        return Err(format!(
            "{to} has a store already: name a directory that is empty, or does not exist"
        ));
    }
    let node = opened(&args.store)?;
    let was_there = args.to.exists();
    node.engine.checkpoint(&args.to).inspect_err(|_| {
        if !was_there {
            // It stays if a part of the copy is in it.
            let _ = std::fs::remove_dir(&args.to);
        }
    })?;
    Ok(format!("{} is a copy of {}\n", args.to.display(), args.store.directory.display()))
}

fn compact(store: &StoreDir) -> Result<String, String> {
    let node = opened(store)?;
    let before = node.engine.figures();
    node.engine.compact()?;
    let after = node.engine.figures();
    let told = |name, before, after| format!("{name} {before} before, {after} now\n");
    Ok(told("entries", before.entries, after.entries)
        + &told("disk_bytes", before.disk_bytes, after.disk_bytes))
}

/// Opens a store that exists already for changes, with what a `flush_all` left.
fn opened(store: &StoreDir) -> Result<Node<silt::Silt>, String> {
    if !directory::has_store(&store.directory) {
        // Otherwise a store would be made by mistake. Opening it for reading fails, and says what is wrong.
        drop(read_only(store)?);
    }
    let horizon = Arc::new(Horizon::default());
    let opening = Opening {
        directory: store.directory.clone(),
        syncing: Syncing::Always,
        disk_max: None,
        merge_bytes_s: None,
        index: IndexFlag::Fence,
        last_level_filter: 0,
        value_max: VALUE_BYTES_MAX,
        progress: Arc::default(),
    };
    let engine = silt::open(&opening, horizon.keep_rule(now))?;
    let node = Node::new(engine, horizon, (1, VALUE_BYTES_MAX));
    node.map_err(|error| format!("{}: {error}", store.directory.display()))
}
