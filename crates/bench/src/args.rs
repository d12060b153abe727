//! The command line of `guira bench`.

use std::num::NonZeroU32;

use clap::{Parser, Subcommand, ValueEnum};

use crate::address::{Address, Target};
pub(crate) use crate::plan::Counting;
pub(crate) use crate::workload::{Distribution, Mix, Preset, Protocol, Sizes};
use crate::workload::{parse_bytes, parse_count};

/// Measures any server that speaks the memcached protocol
///
/// Sends a workload for a bounded time and prints throughput, latency and, given the server's
/// process, its CPU time an operation: the figure to trust on a machine that does other things too.
#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211")]
    pub(crate) server: Address,

    /// The server's process on this machine; its CPU time is reported an operation
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,

    /// A row of docs/performance.md: sets the workload, the connections, and --busy
    #[arg(long, value_name = "ROW")]
    pub(crate) preset: Option<Preset>,

    /// Store all keys before measuring
    #[arg(long)]
    pub(crate) load: bool,

    #[command(flatten)]
    pub(crate) workload: Load,

    #[command(flatten)]
    pub(crate) pace: Pace,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The jobs beside the plain run.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    Compare(Compare),
    Memory(Memory),
}

/// Measures several servers side by side and prints ratios
///
/// Servers take turns, round by round, so that whatever else the machine does hits all alike.
/// Prints medians and, in brackets, the least and the most of the rounds.
#[derive(Clone, Debug, Parser)]
#[command(after_long_help = COMPARE_EXAMPLES)]
pub(crate) struct Compare {
    /// The servers, each [NAME=]ADDRESS[@PID]; ratios are to the first
    #[arg(required = true, value_name = "SERVER")]
    pub(crate) servers: Vec<Target>,

    /// Rows of docs/performance.md to measure, one after the other; `all` for each of them
    #[arg(long, value_name = "ROW,...", value_delimiter = ',', value_parser = parse_rows)]
    pub(crate) preset: Vec<Rows>,

    /// How often each server is measured
    #[arg(long, default_value = "5")]
    pub(crate) rounds: NonZeroU32,

    /// Leave out storing all keys first
    #[arg(long)]
    pub(crate) no_load: bool,

    #[command(flatten)]
    pub(crate) workload: Load,

    #[command(flatten)]
    pub(crate) pace: Pace,

    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Fills a server and reports its memory an item
///
/// Stores distinct items until the server evicts, or up to --items, then divides its resident
/// memory by the items it says it holds. Start the server empty: what was there counts too.
#[derive(Clone, Debug, Parser)]
#[command(after_long_help = MEMORY_EXAMPLES)]
pub(crate) struct Memory {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211")]
    pub(crate) server: Address,

    /// The server's process on this machine
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,

    /// Most items to store
    #[arg(long, default_value = "100m", value_parser = parse_count)]
    pub(crate) items: u64,

    /// Key size in bytes
    #[arg(long, default_value = "16", value_parser = parse_bytes)]
    pub(crate) key_bytes: usize,

    /// Value size in bytes, or with a unit, or a range such as 100-1k
    #[arg(long, default_value = "32")]
    pub(crate) value_bytes: Sizes,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is asked.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct Load {
    /// YCSB mix (e scans, which no cache can), or `set` for writes only [default: b]
    #[arg(long, ignore_case = true)]
    pub(crate) workload: Option<Mix>,

    /// Popularity of keys [default: scrambled; with workload d: latest]
    #[arg(long)]
    pub(crate) distribution: Option<Distribution>,

    /// Exponent of the zipf distributions [default: 0.99]
    #[arg(long, value_name = "EXPONENT")]
    pub(crate) theta: Option<f64>,

    /// Number of keys, such as 250k or 10m [default: 1m]
    #[arg(long, value_parser = parse_count)]
    pub(crate) keys: Option<u64>,

    /// Key size in bytes [default: 16]
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) key_bytes: Option<usize>,

    /// Value size in bytes, or with a unit, or a range such as 100-10k [default: 32]
    #[arg(long)]
    pub(crate) value_bytes: Option<Sizes>,

    /// Keys a read asks for at once [default: 1]
    #[arg(long, value_name = "KEYS")]
    pub(crate) batch: Option<usize>,

    /// Requests each connection has outstanding [default: 1]
    #[arg(long, value_name = "DEPTH")]
    pub(crate) pipeline: Option<NonZeroU32>,

    /// Connections to the server [default: 4]
    #[arg(long, short = 'c')]
    pub(crate) connections: Option<NonZeroU32>,

    /// Wire protocol [default: text]
    #[arg(long)]
    pub(crate) protocol: Option<Protocol>,

    /// Check every value that is read: its key, its length, its checksum; exit 1 if any is wrong
    #[arg(long)]
    pub(crate) verify: bool,

    /// Fixes the sequence of requests
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
}

/// How fast, and for how long.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct Pace {
    /// Measured time of a run in seconds
    #[arg(long, short = 's', default_value = "5")]
    pub(crate) seconds: f64,

    /// Seconds of the same load before measuring starts (0 with --ops)
    #[arg(long, value_name = "SECONDS", default_value = "0.5")]
    pub(crate) warmup: f64,

    /// End after this many requests, if --seconds does not end the run before
    #[arg(long, value_name = "REQUESTS", value_parser = parse_count)]
    pub(crate) ops: Option<u64>,

    /// Build requests beforehand and poll without sleeping, so that the server is the bottleneck
    #[arg(long)]
    pub(crate) busy: bool,

    /// Open loop: this many requests a second; latency counts from when each should have been sent
    #[arg(long, value_name = "REQUESTS", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,

    /// When requests of an open loop fall due
    #[arg(long, default_value = "poisson")]
    pub(crate) arrivals: Arrivals,

    /// How busy mode knows that it has been answered
    #[arg(long, default_value = "auto")]
    pub(crate) count: Counting,

    /// Client threads, each with its share of the connections [default: 1]
    #[arg(long, short = 't')]
    pub(crate) threads: Option<NonZeroU32>,

    /// Keep client threads on these processors, in turn
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub(crate) pin: Vec<usize>,

    /// Memory for requests built beforehand; they are repeated when the run outlasts them
    #[arg(long, value_name = "BYTES", default_value = "128m", value_parser = parse_bytes)]
    pub(crate) stream_bytes: usize,
}

/// When requests of an open loop fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// at equal distances
    Even,
    /// independent of each other, as from many users
    Poisson,
}

/// A word of `compare --preset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    All,
    One(Preset),
}

fn parse_rows(text: &str) -> Result<Rows, String> {
    if text == "all" {
        return Ok(Rows::All);
    }
    Preset::from_str(text, false).map(Rows::One).map_err(|_| {
        let names: Vec<_> = Preset::value_variants().iter().map(|row| row.name()).collect();
        format!("rows are all, {}", names.join(", "))
    })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_count(text).map(|rate| rate as f64)
}

const EXAMPLES: &str = "\
Examples:
  Store a million items, then read and write them for ten seconds, and check what comes back:
    guira bench --load --verify --seconds 10

  CPU time an operation of a server, client on processor 1:
    guira bench --server 127.0.0.1:11211 --server-pid $(pidof memcached) --load \\
        --preset get50 --pin 1

  Latency at 50 000 requests a second over 32 connections, slow replies counted in full:
    guira bench --load --rate 50k --connections 32 --workload b

  Two servers side by side:
    guira bench compare a=127.0.0.1:11211 b=127.0.0.1:11212";

const COMPARE_EXAMPLES: &str = "\
Examples:
  Every row of docs/performance.md, with CPU time:
    guira bench compare --preset all --pin 1 \\
        memcached=127.0.0.1:11212@$(pidof memcached) guira=127.0.0.1:11211@$(pidof guira)

  One row at ten million keys, nine rounds of three seconds:
    guira bench compare --preset get50 --keys 10m --rounds 9 --seconds 3 \\
        a=127.0.0.1:11211@$PID_A b=127.0.0.1:11212@$PID_B

  A workload of your own:
    guira bench compare --workload a --value-bytes 100-1k --pipeline 8 HOST:11211 HOST:11212";

const MEMORY_EXAMPLES: &str = "\
Examples:
  How many items of 16 + 32 bytes a server holds, and what each costs:
    memcached -p 11212 -m 1024 & guira bench memory --server 127.0.0.1:11212 --server-pid $!

  The cost at ten million items, eviction or not:
    guira bench memory --items 10m --server-pid $(pidof guira)";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_comparison_takes_names_processes_and_rows() {
        let line = "bench compare a=127.0.0.1:1@7 127.0.0.1:2 --preset get1,get10k-10 --rounds 3";
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        let Some(Command::Compare(compare)) = args.command else { panic!("not a comparison") };
        assert_eq!(compare.servers[0].name, "a");
        assert_eq!(compare.servers[1].name, "127.0.0.1:2");
        assert_eq!(compare.preset, [Rows::One(Preset::Get1), Rows::One(Preset::Get10k10)]);
        let unknown = "bench compare a --preset get2".split(' ');
        assert!(Args::try_parse_from(unknown).unwrap_err().to_string().contains("rows are all"));
    }
}
