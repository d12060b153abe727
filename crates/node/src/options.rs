//! What `guira store` does, from its flags.

mod replica;
mod tls;
mod flags;

pub use flags::{IndexFlag, Syncing};
pub(crate) use flags::{StoreArgs, VALUE_BYTES_MAX, filter_bits};
pub(crate) use replica::{Joining, ReplicaOptions, ViewSource};
pub(crate) use tls::TlsFiles;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use guira_front::sessions::{ClientLimits, ListenOptions, MemoryLimits, ShutdownFrom};
use guira_store::OpenProgress;
use replica::replica;
use socket2::TcpKeepalive;
use tls::tls;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The store's directory.
    pub directory: PathBuf,
    /// When changes are durable.
    pub syncing: Syncing,
    /// Bytes that the store's files may take.
    pub(crate) disk_max: Option<u64>,
    /// Bytes a second that merges may write.
    pub(crate) merge_bytes_s: Option<u64>,
    /// The kind of the index.
    pub index: IndexFlag,
    /// Bits per key of the last level's filter; 0: none.
    pub(crate) last_level_filter: u8,
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
            disk_max: disk_max(args)?,
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

/// Refuses a limit below which no store takes a value.
fn disk_max(args: &StoreArgs) -> Result<Option<u64>, String> {
    let least = guira_store::Options::default().disk_least();
    match args.disk_max {
        Some(bytes) if bytes < least => Err(format!(
            "--disk-max {bytes}: no value would ever be taken: {}m is the least, most of which stays free for merges",
            least.div_ceil(1 << 20)
        )),
        other => Ok(other),
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

/// Most connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;
