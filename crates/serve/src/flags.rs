//! What was typed: memcached's command line, flag by flag, before anything of it is judged.
//!
//! Short and long names, attached values (`-p5001`), repetition (the last one counts) and
//! comma-joined `-o` lists are memcached's, so that unit files, `/etc/memcached.conf`, container
//! commands and test suites work as they are. [`crate::Settings`] holds what the flags mean.
//!
//! Flags of parts that this build doesn't have are parsed, hidden from the help and refused by
//! `Settings` with a sentence of their own: "unknown flag" would send the reader to the wrong place.

use clap::{ArgAction, Args};

/// The flags of `guira serve`, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = AFTER_HELP)]
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

    /// Memory for items, in megabytes [default: 64]
    #[arg(short = 'm', long, value_name = "NUM", allow_negative_numbers = true)]
    pub memory_limit: Option<i64>,

    /// Answer an error when memory is full, instead of evicting
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Which item goes when memory is full: s3-clock, clock, sieve or lru
    #[arg(long, value_name = "NAME")]
    pub eviction: Option<String>,

    /// How memory is cut into chunks: fine (dense), memcached (its classes), or auto: memcached's below -m 64 and without -m
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub slabs: String,

    /// Which index finds the items: cuckoo (smallest), chained (fastest to write) or hopscotch
    #[arg(long, value_name = "NAME", default_value = "cuckoo")]
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
    #[arg(short = 'B', long, value_name = "NAME")]
    pub protocol: Option<String>,

    /// Largest item: bytes, or with a suffix k or m; 1k to 1024m
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    pub max_item_size: String,

    /// Growth from one slab class to the next; without it classes are as fine as memory asks for
    #[arg(short = 'f', long, value_name = "NUM")]
    #[arg(allow_negative_numbers = true)]
    pub slab_growth_factor: Option<f64>,

    /// Smallest chunk for key, value and flags, in bytes (together with -f)
    #[arg(short = 'n', long, value_name = "NUM", default_value_t = 48)]
    #[arg(allow_negative_numbers = true)]
    pub slab_min_size: i64,

    /// Touch all item memory at the start, in huge pages where the system grants them
    #[arg(short = 'L', long)]
    pub enable_largepages: bool,

    /// Keep the items in this file, over restarts: on tmpfs (/dev/shm) or a DAX mount
    #[arg(short = 'e', long, value_name = "FILE")]
    pub memory_file: Option<String>,

    /// Take sockets and memory file over from the server that has them: no client is refused
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

/// The help of `-l`, apart because its brackets are no link.
const LISTEN_HELP: &str = "\
Addresses to listen on: host, host:port, [v6]:port or * (all), joined by commas or given several \
times; without it only this machine can connect";

/// The end of `--help`. memcached's test suite searches the help for the names of optional parts,
/// so the sub-options of parts that this build lacks stay out of it.
const AFTER_HELP: &str = "\
Settings for -o, as in memcached:
  (no_)maxconns_fast     answer and close when connections run out (default), or let them wait
  idle_timeout=SECONDS   close a TCP connection that has been idle for so long (0: never)
  slab_chunk_max=KB      largest piece of a chained item that is shown in settings
  (no_)lru_crawler       allow \"lru_crawler\" to list items and take out the dead (default)
  read_buf_mem_limit=MB  what connections may make the threads keep, by memcached's account
  watcher_logbuf_size=KB  log lines that wait for a watcher; more are dropped
  lru_crawler_sleep=US   its rest after 1,000 items, in microseconds
  lru_crawler_tocrawl=N  items of a class that its \"crawl\" looks at (0: all)
  track_sizes            count items by size for \"stats sizes\"
  relaxed_privileges     allow \"debugtime\", which shifts the server's clock; for tests only
  no_modern, modern      memcached of version 1.4: strict LRU, and its slab classes at any -m
With -Z:
  ssl_chain_cert=FILE    the server's certificate and those between it and a root, PEM
  ssl_key=FILE           its key, if it isn't in that file; ssl_keyformat=1 is PEM, 2 DER
  ssl_ca_cert=FILE       roots of clients' certificates, PEM
  ssl_verify_mode=N      of clients: 0 nothing, 1 a certificate if any, 2 or 3 a certificate
  ssl_min_version=N      2 is TLS 1.2, 3 is TLS 1.3
  ssl_ciphers=LIST       TLS 1.2's suites in OpenSSL's names, joined by colons
  ssl_session_cache      let clients resume sessions
  ssl_wbuf_size=KB       of a reply that are encrypted before they are sent (16)
Accepted, shown in \"stats settings\", without effect (Guira's index, eviction and memory have no
such part): hashpower=N no_hashexpand (no_)slab_reassign (no_)slab_automove slab_automove_ratio=F
  slab_automove_window=N slab_automove_freeratio=F tail_repair_time=N hash_algorithm=NAME
  (no_)lru_maintainer hot_lru_pct=N
  warm_lru_pct=N hot_max_factor=F warm_max_factor=F temporary_ttl=N
  worker_logbuf_size=KB slab_sizes=A-B-C no_chunked_items
  resp_obj_mem_limit (no_)inline_ascii_resp drop_privileges

Started under the name \"memcached\" this program takes these flags without \"serve\".";
