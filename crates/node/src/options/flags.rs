//! The flags of `guira store`, and the values that they take.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use guira_cluster::EtcdArgs;
use guira_front::size;
use guira_log::Format;

/// The flags of `guira store`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Directory of the store; it is made if it does not exist
    #[arg(short = 'd', long, value_name = "DIR", help_heading = "Store")]
    pub directory: PathBuf,
    /// When a change is answered: always, once it would outlive a loss of power; interval:MS, at once, and it is made durable
    /// within MS milliseconds; os, at once, and the kernel writes it when it likes. A process that is killed loses nothing
    /// that was answered
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = Syncing::parse, help_heading = "Store")]
    pub durability: Syncing,
    /// Longest value; at most 64m
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m", value_parser = value_size, help_heading = "Store")]
    pub max_value_size: u64,
    /// Bytes that the store's files may take [default: what the file system has]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Store")]
    pub disk_max: Option<u64>,
    /// Megabytes a second that merges may write [default: no limit]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Store")]
    pub merge_mbps: Option<u64>,
    /// Index of blocks: fence, the faster one; ef, which takes half of its memory, and now and then a second read
    #[arg(long, value_name = "KIND", default_value = "fence", help_heading = "Store")]
    pub index: IndexFlag,
    /// Bits per key of a filter for the last level, which saves most reads for keys that are not there; 0: none
    #[arg(long, value_name = "BITS", default_value = "0", value_parser = filter_bits, help_heading = "Store")]
    pub last_level_filter: u8,
    /// Threads that read long values from the device. The kernel reads as many short ones at once, where it allows that
    #[arg(long, value_name = "NUM", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Store")]
    pub read_threads: u16,

    /// Port
    #[arg(short, long, value_name = "NUM", default_value_t = 11311, help_heading = "Clients")]
    pub port: u16,
    /// Addresses to listen on, joined by commas
    #[arg(
        short,
        long,
        visible_alias = "listen-addresses",
        value_name = "ADDR",
        default_value = "127.0.0.1",
        help_heading = "Clients"
    )]
    pub listen: String,
    /// Path of a unix socket to listen on instead
    #[arg(short = 's', long, value_name = "PATH", help_heading = "Clients")]
    pub unix_socket: Option<PathBuf>,
    /// Threads that serve clients [default: one per processor]
    #[arg(short, long, value_name = "NUM", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Clients")]
    pub threads: Option<u16>,
    /// Clients at once
    #[arg(short = 'c', long, visible_alias = "max-conns", value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Clients")]
    pub conn_limit: u32,
    /// Requests of one client under way at once
    #[arg(short = 'R', long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Clients")]
    pub max_outstanding: u32,
    /// Memory for requests and unread replies of all clients
    #[arg(long, value_name = "SIZE", default_value = "256m", value_parser = size::parse, help_heading = "Clients")]
    pub client_memory: u64,
    /// Memory for those of one client [default: 128m, or room for two of the longest values]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Clients")]
    pub client_memory_each: Option<u64>,
    /// Refuse to flush.
    #[arg(short = 'F', long, help = "Refuse flush_all", help_heading = "Clients")]
    pub disable_flush_all: bool,
    /// Take the command shutdown from every client
    #[arg(short = 'A', long, help_heading = "Clients")]
    pub enable_shutdown: bool,

    /// File of users that may log in, a line user:password for each
    #[arg(short = 'Y', long, value_name = "PATH", help_heading = "Security")]
    pub auth_file: Option<PathBuf>,
    /// Speak TLS on the port
    #[arg(short = 'Z', long, requires = "ssl_chain_cert", help_heading = "Security")]
    pub enable_ssl: bool,
    /// Certificates that clients are shown, in PEM
    #[arg(long, value_name = "PATH", requires = "enable_ssl", help_heading = "Security")]
    pub ssl_chain_cert: Option<PathBuf>,
    /// Their key [default: it is in the file of the certificates]
    #[arg(long, value_name = "PATH", requires = "enable_ssl", help_heading = "Security")]
    pub ssl_key: Option<PathBuf>,
    /// Authorities that sign clients' certificates: every client then needs one
    #[arg(long, value_name = "PATH", requires = "enable_ssl", help_heading = "Security")]
    pub ssl_ca_cert: Option<PathBuf>,

    /// Replicate with the other nodes of this cluster, etcd:HOST:PORT/NAME, which guira cluster init has made; experimental
    #[arg(
        long,
        value_name = "PLACE",
        requires = "peers",
        conflicts_with = "view",
        help_heading = "Cluster"
    )]
    pub cluster: Option<String>,
    /// Name of this node, for people [default: the host's]
    #[arg(long, value_name = "NAME", requires = "cluster", help_heading = "Cluster")]
    pub name: Option<String>,
    /// Where it stands: a slot's copies are put into different zones
    #[arg(long, value_name = "ZONE", requires = "cluster", help_heading = "Cluster")]
    pub zone: Option<String>,
    /// Its part of the slots, beside other nodes' [default: 1]
    #[arg(long, value_name = "NUM", requires = "cluster", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Cluster")]
    pub weight: Option<u32>,
    #[command(flatten, next_help_heading = "Cluster")]
    /// How etcd lets it in
    pub etcd: EtcdArgs,
    /// Replicate with other nodes, by the view in this file; experimental. The file is read again when it changes
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Cluster")]
    pub view: Option<PathBuf>,
    /// This node's number in the view
    #[arg(
        long,
        value_name = "NUM",
        requires = "view",
        conflicts_with = "cluster",
        help_heading = "Cluster"
    )]
    pub node: Option<u32>,
    /// Address and port to listen on for other nodes, where they reach it [default with --view: the node's in the view]
    #[arg(long, value_name = "ADDR", help_heading = "Cluster")]
    pub peers: Option<String>,
    /// Speak TLS with other nodes only: the certificate that they are shown, in PEM, for the host at which they reach this
    /// node
    #[arg(long, value_name = "PATH", requires = "peer_tls_ca", help_heading = "Cluster")]
    pub peer_tls_cert: Option<PathBuf>,
    /// Its key [default: it is in the file of the certificate]
    #[arg(long, value_name = "PATH", requires = "peer_tls_cert", help_heading = "Cluster")]
    pub peer_tls_key: Option<PathBuf>,
    /// Authorities that sign the nodes' certificates
    #[arg(long, value_name = "PATH", requires = "peer_tls_cert", help_heading = "Cluster")]
    pub peer_tls_ca: Option<PathBuf>,

    /// Serve metrics and probes over HTTP: a port, ADDRESS:PORT, or *:PORT for all addresses
    #[arg(long, value_name = "PLACE", help_heading = "Operation")]
    pub http: Option<String>,
    /// Say more in the log; twice, still more
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Operation")]
    pub verbose: u8,
    /// Form of the log
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Operation")]
    pub log_format: Format,
}

/// How changes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// Each before it is answered; many share a sync.
    Always,
    /// At intervals of this length.
    Interval(Duration),
    /// When the kernel chooses.
    Os,
}

/// Indexes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IndexFlag {
    /// Fences: the faster one.
    Fence,
    /// Elias-Fano: the smaller one.
    Ef,
}

impl Syncing {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let usage = || "write always, interval:MS or os".to_owned();
        match text.split_once(':') {
            None if text == "always" => Ok(Self::Always),
            None if text == "os" => Ok(Self::Os),
            None if text == "interval" => {
                Err("write how often: interval:100 is each 100 milliseconds".to_owned())
            }
            Some(("interval", time)) => {
                let (number, unit) = match (time.strip_suffix("ms"), time.strip_suffix('s')) {
                    (Some(number), _) => (number, 1),
                    (None, Some(number)) => (number, 1000),
                    (None, None) => (time, 1),
                };
                let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
                let ms = ms.filter(|ms| (1..=INTERVAL_MS_MAX).contains(ms));
                let ms = ms.ok_or("an interval is from 1 to 60000 milliseconds: interval:100")?;
                Ok(Self::Interval(Duration::from_millis(ms)))
            }
            _ => Err(usage()),
        }
    }
}

impl fmt::Display for Syncing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(every) => write!(f, "interval:{}", every.as_millis()),
            Self::Os => f.write_str("os"),
        }
    }
}

fn value_size(text: &str) -> Result<u64, String> {
    let is_good = |size: &u64| (1 << 10..=VALUE_BYTES_MAX as u64).contains(size);
    Some(size::parse(text)?).filter(is_good).ok_or_else(|| "from 1k to 64m".to_owned())
}

pub(crate) fn filter_bits(text: &str) -> Result<u8, String> {
    let bits = text.parse().ok().filter(|bits| [0, 8, 12, 16].contains(bits));
    bits.ok_or_else(|| "0, 8, 12 or 16".to_owned())
}

/// The longest value that `-I` allows.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 20;
const INTERVAL_MS_MAX: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_is_a_word_or_an_interval() {
        for (text, syncing) in [
            ("always", Syncing::Always),
            ("os", Syncing::Os),
            ("interval:100", Syncing::Interval(Duration::from_millis(100))),
            ("interval:100ms", Syncing::Interval(Duration::from_millis(100))),
            ("interval:2s", Syncing::Interval(Duration::from_secs(2))),
        ] {
            assert_eq!(Syncing::parse(text), Ok(syncing), "{text}");
        }
        for bad in [
            "",
            "never",
            "interval",
            "interval:",
            "interval:0",
            "interval:x",
            "always:1",
            "interval:61s",
        ] {
            assert!(Syncing::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!(value_size("64m"), Ok(64 << 20));
        assert!(value_size("65m").is_err() && value_size("1").is_err() && value_size("x").is_err());
        assert!(filter_bits("9").is_err() && filter_bits("8") == Ok(8));
    }
}
