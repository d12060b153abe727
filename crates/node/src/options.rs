//! The flags of `guira store`, and what they mean.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use guira_cluster::{EtcdArgs, host_name};
use guira_front::certificates::{NamedFile, PeerTlsFiles};
use guira_front::sessions::{ClientLimits, ListenOptions, MemoryLimits, ShutdownFrom};
use guira_front::size;
use guira_log::Format;
use guira_store::OpenProgress;
use socket2::TcpKeepalive;

/// The flags of `guira store`.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
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
    /// Threads that read from the device: as many reads as it is given at once
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

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The store's directory.
    pub directory: PathBuf,
    /// When changes are durable.
    pub syncing: Syncing,
    /// Bytes that the store's files may take.
    pub disk_max: Option<u64>,
    /// Bytes a second that merges may write.
    pub merge_bytes_s: Option<u64>,
    /// The kind of the index.
    pub index: IndexFlag,
    /// Bits per key of the last level's filter; 0: none.
    pub last_level_filter: u8,
    /// The longest value, including the fields of the item in front of it.
    pub value_max: usize,
    /// How far the opening has come. Cancelling this ends the opening.
    pub progress: Arc<OpenProgress>,
}

/// What the process does, from its flags.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) listen: ListenOptions,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) clients: ClientLimits,
    pub(crate) threads: usize,
    pub(crate) read_threads: usize,
    pub(crate) is_flush_enabled: bool,
    pub(crate) auth_file: Option<PathBuf>,
    pub(crate) http: Option<String>,
    pub(crate) opening: Opening,
    /// The process's part in a cluster.
    pub(crate) replica: Option<ReplicaOptions>,
    /// The TCP port.
    pub(crate) port: u16,
}

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaOptions {
    pub(crate) source: ViewSource,
    /// The address on which the node listens for others, if that isn't the one in the view.
    pub(crate) peers: Option<String>,
    /// The files for TLS with other nodes.
    pub(crate) tls: Option<PeerTlsFiles>,
}

/// Where a node gets its views from.
#[derive(Clone, Debug)]
pub(crate) enum ViewSource {
    /// A file, and the node's number in it.
    File { path: PathBuf, node: guira_chain::NodeId },
    /// etcd.
    Register(Joining),
}

/// What a node registers with.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) place: String,
    pub(crate) etcd: EtcdArgs,
    pub(crate) name: String,
    pub(crate) zone: String,
    pub(crate) weight: u32,
    /// Where clients reach it, if that is known.
    pub(crate) clients: String,
}

/// Where certificates and keys are.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) chain: NamedFile,
    pub(crate) key: NamedFile,
    pub(crate) authorities: Option<NamedFile>,
}

impl Options {
    /// Gives the flags their meaning.
    ///
    /// # Errors
    /// A sentence: which flag has a value that can't be used.
    pub(crate) fn new(args: &StoreArgs) -> Result<Self, String> {
        let threads = args.threads.map_or_else(processors, usize::from);
        let value_max = usize::try_from(args.max_value_size).unwrap_or(VALUE_BYTES_MAX);
        let opening = Opening {
            directory: args.directory.clone(),
            syncing: args.durability,
            disk_max: args.disk_max,
            merge_bytes_s: args.merge_mbps.map(|mb| mb * 1_000_000),
            index: args.index,
            last_level_filter: args.last_level_filter,
            value_max: value_max + crate::item::HEAD_BYTES_MAX,
            progress: Arc::default(),
        };
        let clients = ClientLimits {
            connections_max: usize::try_from(args.conn_limit).unwrap_or(usize::MAX),
            outstanding_max: usize::try_from(args.max_outstanding).unwrap_or(usize::MAX),
            timeout: Duration::ZERO,
            memory: memory(args, value_max)?,
            shutdown_from: match args.enable_shutdown {
                true => ShutdownFrom::Anybody,
                false => ShutdownFrom::Nobody,
            },
        };
        Ok(Self {
            listen: listen(args),
            tls: args.enable_ssl.then(|| tls(args)).flatten(),
            clients,
            threads,
            read_threads: usize::from(args.read_threads),
            is_flush_enabled: !args.disable_flush_all,
            auth_file: args.auth_file.clone(),
            http: args.http.clone(),
            opening,
            replica: replica(args, value_max)?,
            port: args.port,
        })
    }

    /// Ports that speak TLS.
    pub(crate) fn tls_ports(&self) -> Vec<u16> {
        let has_port = self.tls.is_some() && self.listen.unix.is_none();
        if has_port { vec![self.port] } else { Vec::new() }
    }
}

fn replica(args: &StoreArgs, value_max: usize) -> Result<Option<ReplicaOptions>, String> {
    let has_etcd = args.etcd != EtcdArgs::default();
    if let Some(peers) = args.peers.as_deref().filter(|it| args.cluster.is_some() && is_vague(it)) {
        return Err(format!(
            "--peers {peers}: name the address and the port that other nodes reach"
        ));
    }
    let source = match (&args.cluster, &args.view, args.node) {
        (Some(place), _, _) => ViewSource::Register(Joining {
            place: place.clone(),
            etcd: args.etcd.clone(),
            name: args.name.clone().unwrap_or_else(host_name),
            zone: args.zone.clone().unwrap_or_default(),
            weight: args.weight.unwrap_or(1),
            clients: clients(args),
        }),
        (None, ..) if has_etcd => return Err("--etcd-…: name the --cluster".to_owned()),
        (None, Some(path), Some(node)) => ViewSource::File { path: path.clone(), node },
        (None, ..) if args.peers.is_some() => {
            return Err("--peers: name the --cluster, or --view and --node".to_owned());
        }
        (None, ..) if args.peer_tls_cert.is_some() => {
            return Err("--peer-tls-cert: name the --cluster, or --view and --node".to_owned());
        }
        (None, ..) => return Ok(None),
    };
    if value_max > REPLICATED_BYTES_MAX {
        return Err("-I: values of a replicated store have 8m at most".to_owned());
    }
    Ok(Some(ReplicaOptions { source, peers: args.peers.clone(), tls: peer_tls(args) }))
}

/// The address where clients reach the node, as far as its flags show it. Empty: none.
fn clients(args: &StoreArgs) -> String {
    let is_reached = args.unix_socket.is_none() && args.port != 0;
    let peers = args.peers.as_deref().filter(|_| is_reached);
    peers.map(|peers| clients_at(&args.listen, peers, args.port)).unwrap_or_default()
}

/// At the address that the node listens on, if that is one, else at the host that other nodes reach. A node that listens to
/// its own machine only, and is reached by others from elsewhere, has no address: another program may have it there.
fn clients_at(listen: &str, peers: &str, port: u16) -> String {
    let bare = |host: &str| host.trim().trim_matches(['[', ']']).to_owned();
    let peers = bare(peers.rsplit_once(':').map_or(peers, |(host, _)| host));
    let ip = |host: &String| host.parse::<IpAddr>().ok();
    let is_local =
        |host: &String| *host == "localhost" || ip(host).is_some_and(|it| it.is_loopback());
    let own: Vec<String> = listen.split(',').map(bare).filter(|it| !it.is_empty()).collect();
    let one = own.iter().filter(|it| ip(it).is_some_and(|it| !it.is_unspecified()));
    let mut one = one.filter(|it| is_local(&peers) || !is_local(it));
    let is_everywhere =
        own.is_empty() || own.iter().any(|it| ip(it).is_none_or(|it| it.is_unspecified()));
    match one.next().or(is_everywhere.then_some(&peers)) {
        Some(host) if host.contains(':') => format!("[{host}]:{port}"),
        Some(host) => format!("{host}:{port}"),
        None => String::new(),
    }
}

/// Whether an address means any host or any port, so that other nodes can't use it.
fn is_vague(address: &str) -> bool {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.is_unspecified()) || port.parse().is_ok_and(|port: u16| port == 0)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn listen(args: &StoreArgs) -> ListenOptions {
    let is_plain = !args.enable_ssl && args.unix_socket.is_none();
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY);
    let addresses = args.listen.split(',').filter(|address| !address.trim().is_empty());
    ListenOptions {
        ports: if is_plain { vec![args.port] } else { Vec::new() },
        addresses: addresses.map(str::to_owned).collect(),
        inherited: None,
        unix: args.unix_socket.clone(),
        backlog: BACKLOG,
        keepalive: Some(keepalive.with_retries(KEEPALIVE_PROBES)),
    }
}

fn memory(args: &StoreArgs, value_max: usize) -> Result<MemoryLimits, String> {
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    // A value is in memory twice while it is stored: as it came, and as it is written.
    let least = 2 * value_max + (1 << 20);
    let each = args.client_memory_each.map_or_else(|| least.max(128 << 20), bytes);
    let all = bytes(args.client_memory);
    for (flag, size) in [("--client-memory-each", each), ("--client-memory", all)] {
        if size < least {
            return Err(format!(
                "{flag} {size}: values of up to {value_max} bytes (-I) need {least} at least; raise it, or lower -I"
            ));
        }
    }
    Ok(MemoryLimits { all, each, value: value_max })
}

fn named(flag: &str, path: &Path) -> NamedFile {
    NamedFile { label: format!("{flag} "), path: path.to_path_buf() }
}

fn peer_tls(args: &StoreArgs) -> Option<PeerTlsFiles> {
    let chain = args.peer_tls_cert.as_ref()?;
    let key = args.peer_tls_key.as_ref().unwrap_or(chain);
    Some(PeerTlsFiles {
        chain: named("--peer-tls-cert", chain),
        key: named("--peer-tls-key", key),
        authorities: named("--peer-tls-ca", args.peer_tls_ca.as_ref()?),
    })
}

fn tls(args: &StoreArgs) -> Option<TlsFiles> {
    let chain = named("--ssl-chain-cert", args.ssl_chain_cert.as_ref()?);
    let key = args.ssl_key.as_ref().map(|path| named("--ssl-key", path));
    let key = key.unwrap_or_else(|| NamedFile { label: "--ssl-key ".to_owned(), ..chain.clone() });
    let authorities = args.ssl_ca_cert.as_ref().map(|path| named("--ssl-ca-cert", path));
    Some(TlsFiles { chain, key, authorities })
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
/// The longest value of a replicated store.
const REPLICATED_BYTES_MAX: usize = 8 << 20;
const INTERVAL_MS_MAX: u64 = 60_000;
/// Most connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

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
    fn clients_are_sent_where_the_node_listens() {
        for (listen, peers, wanted) in [
            ("127.0.0.1", "127.0.0.1:9", "127.0.0.1:11311"),
            ("127.0.0.1", "10.0.0.4:9", ""),
            ("0.0.0.0", "10.0.0.4:9", "10.0.0.4:11311"),
            ("", "store-4:9", "store-4:11311"),
            ("127.0.0.1,10.0.0.5", "10.0.0.4:9", "10.0.0.5:11311"),
            ("store-4", "10.0.0.4:9", "10.0.0.4:11311"),
            ("::", "[fd00::4]:9", "[fd00::4]:11311"),
            ("[fd00::5]", "[fd00::4]:9", "[fd00::5]:11311"),
        ] {
            assert_eq!(clients_at(listen, peers, 11311), wanted, "{listen} {peers}");
        }
    }

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!(value_size("64m"), Ok(64 << 20));
        assert!(value_size("65m").is_err() && value_size("1").is_err() && value_size("x").is_err());
        assert!(filter_bits("9").is_err() && filter_bits("8") == Ok(8));
    }
}
