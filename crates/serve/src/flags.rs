//! What was typed: memcached's command line, flag by flag, before anything of it is judged.
//!
//! Short and long names, attached values (`-p5001`), repetition (the last one counts) and
//! comma-joined `-o` lists are memcached's, so that unit files, `/etc/memcached.conf`, container
//! commands and test suites work as they are. [`crate::Settings`] holds what the flags mean.
//!
//! Flags of parts that this build doesn't have are parsed, hidden from the help and refused by
//! `Settings` with a sentence of their own: "unknown flag" would send the reader to the wrong place.

use crate::settings::suboptions_help;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command};
use guira_cache::{Eviction, IndexKind};
use guira_log::Format;
use std::ffi::OsStr;

/// The flags of `guira serve`, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = suboptions_help())]
pub struct Flags {
    /// TCP port; 0 turns TCP off, -1 takes any free port; without it -U's port, or 11211
    #[arg(short = 'p', long, value_name = "NUM")]
    #[arg(allow_negative_numbers = true)]
    pub port: Option<i64>,

    /// Addresses to listen on.
    #[arg(short = 'l', long, value_name = "ADDR", action = ArgAction::Append, help = LISTEN_HELP)]
    pub listen: Vec<String>,

    /// Serve /metrics, /livez and /readyz over HTTP, at an address as -l takes it; a port alone
    /// is this machine's only
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,

    /// Unix socket to listen on; turns TCP off
    #[arg(short = 's', long, value_name = "FILE")]
    pub unix_socket: Option<String>,

    /// Permissions of the unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700")]
    pub unix_mask: String,

    /// UDP port; 0 is none, -1 takes any free port; gets only, unless -o says otherwise
    #[arg(short = 'U', long, value_name = "NUM", default_value_t = 0)]
    #[arg(allow_negative_numbers = true)]
    pub udp_port: i64,

    /// Allow the "shutdown" command
    #[arg(short = 'A', long)]
    pub enable_shutdown: bool,

    /// Memory for items: megabytes, or with a unit, such as 512m or 4g [default: 64]
    #[arg(short = 'm', long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory_limit: Option<String>,

    /// Answer an error when memory is full, instead of evicting
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Which item goes when memory is full.
    #[arg(long, value_name = "NAME", help = EVICTION_HELP)]
    #[arg(value_parser = PossibleValuesParser::new(Eviction::ALL.map(Eviction::name)))]
    pub eviction: Option<String>,

    /// How memory is cut into chunks.
    #[arg(long, value_name = "NAME", help = SLABS_HELP)]
    #[arg(value_parser = PossibleValuesParser::new(["fine", "memcached"]))]
    pub slabs: Option<String>,

    /// Which index finds the items: cuckoo is the smallest, chained the fastest to write
    #[arg(long, value_name = "NAME", default_value = "cuckoo")]
    #[arg(value_parser = PossibleValuesParser::new(IndexKind::ALL.map(IndexKind::name)))]
    pub index: String,

    /// Most connections, counted by file descriptors; raises the limit of open files to match
    #[arg(short = 'c', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub conn_limit: i64,

    /// Threads that serve connections
    #[arg(short = 't', long, value_name = "NUM", default_value_t = 4)]
    #[arg(allow_negative_numbers = true)]
    pub threads: i64,

    /// Requests of one connection before the next connection's turn
    #[arg(short = 'R', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub max_reqs_per_event: i64,

    /// Connections that may wait to be accepted
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub listen_backlog: i64,

    /// Protocol: auto (the default: a connection's first byte decides), ascii or binary
    #[arg(short = 'B', long, value_name = "NAME", value_parser = ProtocolName)]
    pub protocol: Option<String>,

    /// Largest item: bytes, or with a unit; 1k to 1g, at most half of -m
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    pub max_item_size: String,

    /// Growth from one slab class to the next; without it classes are as fine as memory asks for
    #[arg(short = 'f', long, value_name = "NUM")]
    #[arg(allow_negative_numbers = true)]
    pub slab_growth_factor: Option<f64>,

    /// Smallest chunk for key, value and flags: bytes, or with a unit (together with -f)
    #[arg(short = 'n', long, value_name = "SIZE", default_value = "48")]
    #[arg(allow_negative_numbers = true)]
    pub slab_min_size: String,

    /// Touch all item memory at the start, in huge pages where the system grants them
    #[arg(short = 'L', long)]
    pub enable_largepages: bool,

    /// Keep the items in this file, over restarts: on tmpfs (/dev/shm) or a DAX mount
    #[arg(short = 'e', long, value_name = "FILE")]
    pub memory_file: Option<String>,

    /// Take sockets and memory file over from the server that has them: no client is refused, and that server goes on
    /// if this one fails; its open connections are closed, so a client that has just sent may see a reset
    #[arg(long, requires = "memory_file")]
    pub take_over: bool,

    /// Lock memory into RAM
    #[arg(short = 'k', long)]
    pub lock_memory: bool,

    /// Turn cas uniques off: each is 0, and "cas" stores like "replace"
    #[arg(short = 'C', long)]
    pub disable_cas: bool,

    /// Refuse to flush
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,

    /// Refuse the commands that list keys or prefixes
    #[arg(short = 'X', long)]
    pub disable_dumping: bool,

    /// Refuse "watch"
    #[arg(short = 'W', long)]
    pub disable_watch: bool,

    /// Character between a key's prefix and the rest; switches "stats detail" on
    #[arg(short = 'D', value_name = "CHAR")]
    pub prefix_delimiter: Option<String>,

    /// User to run as when started by root
    #[arg(short = 'u', long, value_name = "NAME")]
    pub user: Option<String>,

    /// Run in the background, once the sockets listen
    #[arg(short = 'd', long)]
    pub daemon: bool,

    /// File to write the process id to
    #[arg(short = 'P', long, value_name = "FILE")]
    pub pidfile: Option<String>,

    /// Raise the limit on core files
    #[arg(short = 'r', long)]
    pub enable_coredumps: bool,

    /// Say more on standard error; -vv and -vvv say still more
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// What a line on standard error looks like: text, json, or journald (a priority, then the message)
    #[arg(long, value_name = "FORMAT", default_value_t)]
    #[arg(value_parser = PossibleValuesParser::new(Format::NAMES).try_map(|name| name.parse::<Format>()))]
    pub log_format: Format,

    /// Print the licence and exit
    #[arg(short = 'i', long)]
    pub license: bool,

    /// Further settings, joined by commas; listed below
    #[arg(short = 'o', long, value_name = "LIST", action = ArgAction::Append)]
    pub extended: Vec<String>,

    /// Demand a login over the binary protocol
    #[arg(short = 'S', long, help = SASL_HELP)]
    pub enable_sasl: bool,

    /// Demand a login over the text protocol: a file of lines user:password
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub auth_file: Option<String>,

    /// TLS on every TCP address but those of -l notls:ADDR; certificates are named by -o
    #[arg(short = 'Z', long)]
    pub enable_ssl: bool,

    /// Parts that this build does not have.
    #[command(flatten)]
    pub absent: AbsentFlags,
}

/// memcached's flags for parts that this build does not have yet.
#[derive(Args, Clone, Debug, Default)]
pub struct AbsentFlags {
    /// Threads by NAPI id
    #[arg(short = 'N', long, hide = true, allow_negative_numbers = true)]
    pub napi_ids: Option<i64>,
}

/// The help of `-S`, apart because documentation wants quotes around the name.
const SASL_HELP: &str = "\
Demand a login over the binary protocol; passwords come from the file of user:password lines that \
MEMCACHED_SASL_PWDB in the environment names, and from -Y's";

/// The values of `-B`, for completions. Others get as far as [`crate::Settings`], which refuses them as memcached does:
/// with its sentence, and its exit code.
#[derive(Clone)]
struct ProtocolName;

impl TypedValueParser for ProtocolName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["auto", "ascii", "binary"].into_iter().map(PossibleValue::new)))
    }
}

/// The help of `--eviction`, apart as that of `-S`.
const EVICTION_HELP: &str =
    "Which item goes when memory is full [default: s3-clock, and lru with -o no_modern]";

/// The help of `--slabs`, apart for the same reason.
const SLABS_HELP: &str = "\
How memory is cut into chunks: fine (dense) or memcached (its slab classes) \
[default: fine, and memcached with -o no_modern]";

/// The help of `-l`, apart because its brackets are no link.
const LISTEN_HELP: &str = "\
Addresses to listen on: host, host:port, [v6]:port or * (all), joined by commas or given several \
times; without it only this machine can connect";
