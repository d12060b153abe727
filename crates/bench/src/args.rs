//! The command line of `guira bench`.

use std::num::NonZeroU32;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use guira_front::size::parse_count;

use crate::address::{ServerAddress, Target};
use crate::workload::parse_bytes;
pub(crate) use crate::workload::{Distribution, Mix, Preset, Protocol, Sizes};

/// Measure any server that speaks memcached's protocol
///
/// Sends requests for a bounded time and prints throughput and latency. With --server-pid it also prints
/// the server's CPU time per operation, the figure that other work on the machine disturbs least.
#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, after_long_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211")]
    pub(crate) server: ServerAddress,

    /// Process id of the server, if it runs on this machine: prints its CPU time per operation
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,

    /// Measure a row of docs/performance.md: sets the workload, the connections, and --busy
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

/// Compare several servers, which take turns, and print ratios
///
/// In each round, one server is measured after the other, so that other work on the machine disturbs all
/// of them. Prints the median of the rounds and, in brackets, the lowest and the highest figure.
#[derive(Clone, Debug, Parser)]
#[command(after_long_help = COMPARE_EXAMPLES)]
pub(crate) struct Compare {
    /// The servers, each [NAME=]ADDRESS[@PID]; ratios compare with the first
    #[arg(required = true, value_name = "SERVER")]
    pub(crate) servers: Vec<Target>,

    /// Rows of docs/performance.md to measure, or all
    #[arg(long, value_name = "ROW,...", value_delimiter = ',', value_parser = rows())]
    pub(crate) preset: Vec<Rows>,

    /// Rounds; each measures every server once
    #[arg(long, default_value = "5", value_parser = parse_one_or_more)]
    pub(crate) rounds: NonZeroU32,

    /// Don't store all keys before measuring
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

/// Fill a server and report its memory per item
///
/// Stores distinct items until the server evicts or --items are stored. Then it divides the server's
/// resident memory by the number of items it holds. Start with an empty server: older items count too.
#[derive(Clone, Debug, Parser)]
#[command(after_long_help = MEMORY_EXAMPLES)]
pub(crate) struct Memory {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211")]
    pub(crate) server: ServerAddress,

    /// Process id of the server, which must run on this machine
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,

    /// Maximum number of items to store
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
    /// Mix of requests: a, b, c, d or f of the benchmark YCSB, or set for writes only [default: b]
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

    /// Keys in each get [default: 1]
    #[arg(long, value_name = "KEYS")]
    pub(crate) batch: Option<usize>,

    /// Requests that each connection sends before it waits for a reply [default: 1]
    #[arg(long, value_name = "DEPTH", value_parser = parse_one_or_more)]
    pub(crate) pipeline: Option<NonZeroU32>,

    /// Connections to the server [default: 4]
    #[arg(long, short = 'c', value_parser = parse_one_or_more)]
    pub(crate) connections: Option<NonZeroU32>,

    /// Wire protocol [default: text]
    #[arg(long)]
    pub(crate) protocol: Option<Protocol>,

    /// Check key, length and checksum of every value that is read; exit with 1 if one is wrong
    #[arg(long)]
    pub(crate) verify: bool,

    /// The same seed gives the same sequence of requests
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
}

/// How fast, and for how long.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct Pace {
    /// Length of the measurement in seconds
    #[arg(long, short_alias = 's', value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub(crate) seconds: f64,

    /// Seconds of the same load before the measurement starts (0 with --ops)
    #[arg(long, value_name = "SECONDS", default_value = "0.5")]
    pub(crate) warmup: f64,

    /// End after this many requests, or after --seconds, whichever comes first
    #[arg(long, value_name = "REQUESTS", value_parser = parse_count)]
    pub(crate) ops: Option<u64>,

    /// Build requests beforehand and never sleep, so that the server is the bottleneck
    #[arg(long)]
    pub(crate) busy: bool,

    /// Send this many requests per second, even if replies are late; latency counts from the time a request was due
    #[arg(long, value_name = "REQUESTS", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,

    /// How the requests of --rate are spread over time
    #[arg(long, default_value = "poisson")]
    pub(crate) arrivals: Arrivals,

    /// How --busy counts replies
    #[arg(long, default_value = "auto")]
    pub(crate) count: Counting,

    /// Client threads, each with its share of the connections [default: 1]
    #[arg(long, short = 't', value_parser = parse_one_or_more)]
    pub(crate) threads: Option<NonZeroU32>,

    /// Keep client threads on these processors, in turn
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub(crate) pin: Vec<usize>,

    /// Memory for requests built beforehand; when all are sent, they are sent again
    #[arg(long, value_name = "BYTES", default_value = "128m", value_parser = parse_bytes)]
    pub(crate) stream_bytes: usize,
}

/// When requests of an open loop fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// at equal intervals
    Even,
    /// at random, as from many independent users
    Poisson,
}

/// How busy mode knows that a pipeline is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counting {
    /// by bytes if a trial has no misses, else by replies
    Auto,
    /// by bytes, without looking at them: costs the client least, but every read must hit
    Bytes,
    /// by replies, which the client reads and parses
    Replies,
}

/// A value of `compare --preset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    All,
    One(Preset),
}

/// Returns a parser for `all` or a preset's name.
fn rows() -> impl TypedValueParser<Value = Rows> {
    let presets = Preset::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let all = PossibleValue::new("all").help("all of them");
    PossibleValuesParser::new(presets.chain([all]))
        .map(|name| Preset::from_str(&name, false).map_or(Rows::All, Rows::One))
}

/// Parses the seconds of `-s`. In `guira ping` and similar commands `-s` names the server, so the error
/// explains the difference.
fn parse_seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| "a number of seconds, such as 5 or 0.5; --server names the server".into())
}

fn parse_one_or_more(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "a whole number, 1 or more".into())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_count(text).map(|rate| rate as f64)
}

const EXAMPLES: &str = "\
Examples:
  Store a million items, then read and write them for ten seconds, and check what comes back:
    guira bench --load --verify --seconds 10

  CPU time per operation of a server, with the client on processor 1:
    guira bench --server 127.0.0.1:11211 --server-pid $(pidof memcached) --load \\
        --preset get50 --pin 1

  Latency at 50,000 requests per second over 32 connections, with slow replies counted in full:
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
    memcached -p 11212 -m 1024 & pid=$!
    guira ping -s 127.0.0.1:11212 --wait 5s
    guira bench memory --server 127.0.0.1:11212 --server-pid $pid

  The cost at ten million items, on a server whose -m holds them all:
    guira bench memory --items 10m --server-pid $(pidof guira)";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        BenchArgs::command().debug_assert();
    }

    #[test]
    fn a_comparison_takes_names_processes_and_rows() {
        let line = "bench compare a=127.0.0.1:1@7 127.0.0.1:2 --preset get1,get10k-10 --rounds 3";
        let args = BenchArgs::try_parse_from(line.split(' ')).unwrap();
        let Some(Command::Compare(compare)) = args.command else { panic!("not a comparison") };
        assert_eq!(compare.servers[0].name, "a");
        assert_eq!(compare.servers[1].name, "127.0.0.1:2");
        assert_eq!(compare.preset, [Rows::One(Preset::Get1), Rows::One(Preset::Get10k10)]);
        let all = BenchArgs::try_parse_from("bench compare a --preset all".split(' ')).unwrap();
        let Some(Command::Compare(compare)) = all.command else { panic!("not a comparison") };
        assert_eq!(compare.preset, [Rows::All]);
        let unknown = "bench compare a --preset get1,get2".split(' ');
        let words = BenchArgs::try_parse_from(unknown).unwrap_err().to_string();
        assert!(words.contains("'get2'") && words.contains("get1, get50, "), "{words}");
    }
}
