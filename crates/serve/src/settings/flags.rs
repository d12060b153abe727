//! The flags as typed: memcached's command line, flag by flag, before any of it is checked.
//!
//! Short and long names, attached values (`-p5001`), repetition (the last one counts) and comma-joined
//! `-o` lists work as in memcached. Unit files, `/etc/memcached.conf`, container commands and test suites
//! therefore work unchanged. [`super::ServerSettings`] holds what the flags mean.
//!
//! Flags for parts that this build doesn't have are parsed and hidden from the help. `ServerSettings`
//! refuses them with a sentence of their own: "unknown flag" would mislead the reader.

use super::suboption;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command, ValueEnum};
use guira_cache::{Eviction, IndexKind};
use guira_log::Format;
use std::ffi::OsStr;
use std::str::FromStr;

/// The flags of `guira serve`, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = suboption::help())]
pub struct Flags {
    /// TCP port; 0 turns TCP off, -1 takes any free port [default: the port of -U if given, else 11211]
    #[arg(short = 'p', long, value_name = "NUM")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) port: Option<i64>,

    /// Addresses to listen on.
    #[arg(short = 'l', long, value_name = "ADDR", action = ArgAction::Append, help = LISTEN_HELP)]
    pub(crate) listen: Vec<String>,

    /// Serve /metrics, /livez and /readyz over HTTP at this address; with a port alone, only this
    /// machine can connect
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,

    /// Unix socket to listen on; turns TCP off
    #[arg(short = 's', long, value_name = "FILE")]
    pub(crate) unix_socket: Option<String>,

    /// Permissions of the unix socket, as an octal number
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700")]
    pub(crate) unix_mask: String,

    /// UDP port.
    #[arg(short = 'U', long, value_name = "NUM", default_value_t = 0, help = UDP_HELP)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) udp_port: i64,

    /// Allow the "shutdown" command
    #[arg(short = 'A', long)]
    pub(crate) enable_shutdown: bool,

    /// Memory for items: megabytes, or with a unit, such as 512m or 4g [default: 64]
    #[arg(short = 'm', long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory_limit: Option<String>,

    /// When memory is full, answer sets with an error instead of evicting items
    #[arg(short = 'M', long)]
    pub(crate) disable_evictions: bool,

    /// Which item goes when memory is full.
    #[arg(long, value_name = "NAME", help = EVICTION_HELP)]
    #[arg(value_parser = named::<Eviction>(Eviction::ALL.map(Eviction::name)))]
    pub(crate) eviction: Option<Eviction>,

    /// How memory is cut into chunks.
    #[arg(long, value_name = "NAME", help = SLABS_HELP)]
    pub(crate) slabs: Option<SlabsName>,

    /// Hash table that finds items by key: cuckoo takes the least memory, chained is the fastest to write
    #[arg(long, value_name = "NAME", default_value_t)]
    #[arg(value_parser = named::<IndexKind>(IndexKind::ALL.map(IndexKind::name)))]
    pub(crate) index: IndexKind,

    /// Maximum number of connections at a time; the limit on open files is raised to match
    #[arg(short = 'c', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) conn_limit: i64,

    /// Threads that serve connections
    #[arg(short = 't', long, value_name = "NUM", default_value_t = 4)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) threads: i64,

    /// Requests that one connection may have served before the next connection has its turn; at most 256 that change items
    #[arg(short = 'R', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_reqs_per_event: i64,

    /// Connections that may wait to be accepted
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) listen_backlog: i64,

    /// Protocol that clients must speak; auto accepts both, by a connection's first byte [default: auto]
    #[arg(short = 'B', long, value_name = "NAME", value_parser = ProtocolName)]
    pub(crate) protocol: Option<String>,

    /// Largest item, from 1k to 1g and at most half of -m: bytes, or with a unit
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    pub(crate) max_item_size: String,

    /// Each slab class is this many times larger than the one below [default: --slabs decides]
    #[arg(short = 'f', long, value_name = "NUM")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) slab_growth_factor: Option<f64>,

    /// Room for key, value and flags in the smallest chunk, with -f or --slabs memcached: bytes, or with a unit
    #[arg(short = 'n', long, value_name = "SIZE", default_value = "48")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) slab_min_size: String,

    /// Allocate all item memory at the start, in huge pages where the system grants them
    #[arg(short = 'L', long)]
    pub(crate) enable_largepages: bool,

    /// Keep the items in this file, so that they survive restarts: put it on tmpfs, such as /dev/shm, or on a DAX mount (persistent memory)
    #[arg(short = 'e', long, value_name = "FILE")]
    pub(crate) memory_file: Option<String>,

    /// Replace the running server that has the same memory file: take over its sockets and items, so that no client
    /// is refused. Its open connections are closed, and a client that has just sent a request may see a reset. If
    /// this start fails, the running server goes on
    #[arg(long, requires = "memory_file")]
    pub(crate) take_over: bool,

    /// Lock all memory in RAM, so that none is swapped out
    #[arg(short = 'k', long)]
    pub(crate) lock_memory: bool,

    /// Turn cas off: the cas unique of each item is 0, and "cas" stores like "replace"
    #[arg(short = 'C', long)]
    pub(crate) disable_cas: bool,

    /// Refuse to flush.
    #[arg(short = 'F', long, help = "Refuse \"flush_all\"")]
    pub(crate) disable_flush_all: bool,

    /// Refuse the commands that list keys or prefixes
    #[arg(short = 'X', long)]
    pub(crate) disable_dumping: bool,

    /// Refuse "watch"
    #[arg(short = 'W', long)]
    pub(crate) disable_watch: bool,

    /// Character that ends a key's prefix, for "stats detail", which this flag turns on
    #[arg(short = 'D', value_name = "CHAR")]
    pub(crate) prefix_delimiter: Option<String>,

    /// User to run as, if root starts the server [default: memcache, or nobody if that user doesn't exist]
    #[arg(short = 'u', long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Run in the background, once the sockets listen
    #[arg(short = 'd', long)]
    pub(crate) daemon: bool,

    /// File to write the process id to
    #[arg(short = 'P', long, value_name = "FILE")]
    pub(crate) pidfile: Option<String>,

    /// Allow core dumps: raise the limit on their size
    #[arg(short = 'r', long)]
    pub(crate) enable_coredumps: bool,

    /// Log more to standard error; -vv and -vvv log still more
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Format of the lines on standard error; journald is text with a priority in front
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,

    /// Print the licence and exit
    #[arg(short = 'i', long)]
    pub license: bool,

    /// Further settings, separated by commas; listed below
    #[arg(short = 'o', long, value_name = "LIST", action = ArgAction::Append)]
    pub(crate) extended: Vec<String>,

    /// Require a login over the binary protocol
    #[arg(short = 'S', long, help = SASL_HELP)]
    pub(crate) enable_sasl: bool,

    /// Require a login over the text protocol, and speak only that unless -S is given too; the file has a line user:password for each user
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub(crate) auth_file: Option<String>,

    /// Require TLS.
    #[arg(short = 'Z', long, help = TLS_HELP)]
    pub(crate) enable_ssl: bool,

    /// Parts that this build does not have.
    #[command(flatten)]
    pub(crate) absent: AbsentFlags,
}

/// The values of `--slabs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
// The help of --slabs explains them, and would list doc comments again.
pub(crate) enum SlabsName {
    Fine,
    Memcached,
}

/// Returns a parser for one of a closed set of names.
fn named<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

/// memcached's flags for parts that this build does not have yet.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AbsentFlags {
    /// Threads by NAPI id
    #[arg(short = 'N', long, hide = true, allow_negative_numbers = true)]
    pub(crate) napi_ids: Option<i64>,
}

/// The help of `-U`. It isn't a doc comment, because documentation wants quotes around the name.
const UDP_HELP: &str = "\
UDP port; 0 turns UDP off, -1 takes any free port. UDP serves only gets, except with -o udp_writes";

/// The help of `-Z`, kept apart like that of `-U`.
const TLS_HELP: &str = "\
Require TLS on every TCP address except -l notls:ADDR; -o ssl_chain_cert names the certificate";

/// The help of `-S`, kept apart like that of `-U`.
const SASL_HELP: &str = "\
Require a login over the binary protocol, and speak only that unless -Y is given too; users are those of -Y, and those of the file that the \
variable MEMCACHED_SASL_PWDB names (a line user:password for each)";

/// The parser of `-B`, which lists its values for completions. It accepts others too, so that
/// [`super::ServerSettings`] can refuse them as memcached does: with its sentence and its exit code.
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

/// The help of `--eviction`, kept apart like that of `-S`.
const EVICTION_HELP: &str = "How to choose the item to evict when memory is full; docs/explained/eviction.md compares the policies [default: s3-clock; lru with -o no_modern]";

/// The help of `--slabs`, kept apart for the same reason.
const SLABS_HELP: &str = "\
Sizes of the chunks that hold items: fine wastes the least, memcached has memcached's slab classes \
[default: fine; memcached with -o no_modern]";

/// The help of `-l`. It isn't a doc comment, because its brackets aren't a link.
const LISTEN_HELP: &str = "\
Addresses to listen on, separated by commas or given several times: host, host:port, [v6]:port, or \
* for all; with -Z, notls:ADDR serves ADDR without TLS [default: 127.0.0.1 and ::1, so that only this machine can connect]";
