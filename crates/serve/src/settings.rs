//! The meaning of the flags: checked values, from which the server is built.
//!
//! # Layout
//! `flags.rs` has the flags as typed, this module their meaning, `listen.rs` addresses, `suboption.rs`
//! the settings of `-o`.

mod flags;
mod listen;
mod suboption;
#[cfg(test)]
mod tests;

pub(crate) use crate::options::{
    EXIT_SYSTEM, EXIT_VALUE, Extended, KeyFormat, Refusal, Shown, TlsSettings, Verify,
};
pub use flags::Flags;
pub(crate) use flags::SlabsName;
pub(crate) use listen::{ClientCerts, Host, ListenAddress};
pub(crate) use suboption::all as suboptions;
pub use suboption::markdown as suboptions_markdown;

use crate::options::{GB, MB, parse_size, shown_size};
use guira_cache::{Eviction, IndexKind, Slabs};
use guira_log::Format;
use std::path::PathBuf;

/// Everything that is decided before the server starts.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    /// The sockets to open.
    pub(crate) listen: Listen,
    /// The address at which metrics are served over HTTP.
    pub(crate) http: Option<ListenAddress>,
    /// memcached's `inter`: the `-l` values joined by commas, if any.
    pub(crate) inter: Option<String>,
    /// The UDP port; 0: none, -1: any free one.
    pub(crate) udp_port: i32,
    /// Bytes of memory for items.
    pub(crate) memory_bytes: usize,
    /// The kind of the index that finds the items.
    pub(crate) index: IndexKind,
    /// Whether a full cache evicts.
    pub(crate) evictions: bool,
    /// The policy by which it chooses the item to evict.
    pub(crate) eviction: Eviction,
    /// How memory is cut into chunks.
    pub(crate) slabs: Slabs,
    /// The limit of connections: refused from file descriptor `connections_max - 1` on.
    pub(crate) connections_max: u32,
    /// Worker threads.
    pub(crate) threads: usize,
    /// Requests that a connection may have executed before it is the next one's turn.
    pub(crate) requests_per_turn: u32,
    /// The length of the accept queue.
    pub(crate) backlog: i32,
    /// `auto`, `ascii` or `binary`.
    pub(crate) protocol: WireProtocol,
    /// Whether binary connections must log in.
    pub(crate) sasl: bool,
    /// The users of text logins; with one, text connections must log in.
    pub(crate) auth_file: Option<PathBuf>,
    /// Whether TCP connections use TLS.
    pub(crate) tls_enabled: bool,
    /// The largest item in bytes, as memcached counts them.
    pub(crate) item_bytes_max: usize,
    /// The growth factor of slab classes, if one was given.
    pub(crate) growth_factor: Option<f64>,
    /// memcached's `-n`.
    pub(crate) chunk_bytes_min: usize,
    /// Whether all memory is touched at startup.
    pub(crate) preallocate: bool,
    /// Whether all memory is locked.
    pub(crate) lock_memory: bool,
    /// The file in which items survive the process, as typed.
    pub(crate) memory_file: Option<PathBuf>,
    /// Whether to take over from the server that uses the memory file.
    pub(crate) take_over: bool,
    /// Whether `cas` works.
    pub(crate) cas_enabled: bool,
    /// Whether `flush_all` works.
    pub(crate) flush_enabled: bool,
    /// Whether commands that list keys work.
    pub(crate) dump_enabled: bool,
    /// Whether `watch` works.
    pub(crate) watch_enabled: bool,
    /// Whether `shutdown` works.
    pub(crate) shutdown_enabled: bool,
    /// The character that ends a key's prefix for `stats detail`.
    pub(crate) prefix_delimiter: u8,
    /// Whether `stats detail` counts from the start.
    pub(crate) detail_enabled: bool,
    /// The user to switch to when started by root.
    pub(crate) user: Option<String>,
    /// Whether to run in the background.
    pub(crate) daemon: bool,
    /// The file to write the process id to.
    pub(crate) pidfile: Option<PathBuf>,
    /// Whether to raise the limit on core files.
    pub(crate) core_dumps: bool,
    /// How much is logged to standard error: 0 to 3, or more.
    pub(crate) verbosity: u8,
    /// The format of the log's lines.
    pub(crate) log_format: Format,
    /// The sub-options of `-o`.
    pub(crate) extended: Extended,
}

/// The sockets that the server opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// One socket in the file system.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// TCP addresses. If there is a UDP port, UDP listens at them too.
    Tcp(Vec<ListenAddress>),
    /// Addresses for UDP, if it has a port: TCP is turned off by `-p 0`.
    Udp(Vec<ListenAddress>),
}

/// memcached's `-B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireProtocol {
    /// The first byte of a connection decides.
    Auto,
    /// Text and meta only.
    Ascii,
    /// Binary only.
    Binary,
}

impl WireProtocol {
    /// The protocol's name in `stats settings`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

impl ServerSettings {
    /// Checks `flags`.
    ///
    /// # Errors
    /// The first error found, with memcached's exit code for it.
    pub(crate) fn new(flags: &Flags) -> Result<ServerSettings, Refusal> {
        refuse_absent_parts(flags)?;
        let mut extended = suboption::extended(&flags.extended)?;
        refuse_tls_settings_without_tls(flags, &extended)?;
        let memory_bytes = memory_bytes(flags.memory_limit.as_deref().unwrap_or("64"))?;
        let item_bytes_max = item_bytes_max(&flags.max_item_size, memory_bytes)?;
        extended.settle_chunk_max(item_bytes_max)?;
        extended.settle_stale_size(memory_bytes);
        extended.storage.check(item_bytes_max, flags.udp_port != 0)?;
        let eviction = if extended.is_modern { Eviction::default() } else { Eviction::Lru };
        let inter = (!flags.listen.is_empty()).then(|| flags.listen.join(","));
        Ok(ServerSettings {
            listen: listen(flags, inter.as_deref())?,
            http: flags.http.as_deref().map(listen::parse_http).transpose()?,
            inter,
            udp_port: udp_port(flags)?,
            memory_bytes,
            index: flags.index,
            evictions: !flags.disable_evictions,
            eviction: flags.eviction.unwrap_or(eviction),
            slabs: slabs(flags, item_bytes_max, &extended),
            connections_max: positive(
                flags.conn_limit,
                "Maximum connections must be greater than 0 (-c)",
            )?,
            threads: positive(flags.threads, "Number of threads must be greater than 0 (-t)")? as usize,
            requests_per_turn: positive(
                flags.max_reqs_per_event,
                "Number of requests per event must be greater than 0 (-R)",
            )?,
            backlog: i32::try_from(flags.listen_backlog)
                .map_err(|_| Refusal::value("The listen backlog (-b) must be a 32-bit number"))?,
            protocol: protocol(flags)?,
            sasl: flags.enable_sasl,
            tls_enabled: flags.enable_ssl,
            auth_file: flags.auth_file.as_deref().map(|p| PathBuf::from(p.trim_start())),
            item_bytes_max,
            growth_factor: growth_factor(flags.slab_growth_factor)?,
            chunk_bytes_min: parse_size(&flags.slab_min_size, 1)
                .ok()
                .filter(|bytes| (1..=GB).contains(bytes))
                .ok_or_else(|| {
                    Refusal::value(format!(
                        "Chunk size must be greater than 0: -n {} is no size such as 48 or 1k, up to 1g",
                        flags.slab_min_size
                    ))
                })?,
            preallocate: flags.enable_largepages,
            lock_memory: flags.lock_memory,
            memory_file: flags.memory_file.as_deref().map(|p| PathBuf::from(p.trim_start())),
            take_over: flags.take_over,
            cas_enabled: !flags.disable_cas,
            flush_enabled: !flags.disable_flush_all,
            dump_enabled: !flags.disable_dumping,
            watch_enabled: !flags.disable_watch,
            shutdown_enabled: flags.enable_shutdown,
            prefix_delimiter: prefix_delimiter(flags.prefix_delimiter.as_deref())?,
            detail_enabled: flags.prefix_delimiter.is_some(),
            user: flags.user.as_deref().map(|u| u.trim().to_owned()),
            daemon: flags.daemon,
            pidfile: flags.pidfile.as_deref().map(|p| PathBuf::from(p.trim_start())),
            core_dumps: flags.enable_coredumps,
            verbosity: flags.verbose,
            log_format: flags.log_format,
            extended,
        })
    }

    /// Items that live no longer than this many seconds are reclaimed as they expire. The default is a
    /// minute if memory is cut as in memcached, where the crawler removes such items, and 0 otherwise.
    pub(crate) fn transient_s(&self) -> u32 {
        let is_crawled = self.slabs != Slabs::Fine && self.extended.is_modern;
        let otherwise = if is_crawled { TRANSIENT_S } else { 0 };
        self.extended.transient_s.unwrap_or(otherwise)
    }

    /// The TCP port as `stats settings` shows it: the first address's; 0 if there is none.
    pub(crate) fn tcp_port(&self) -> i32 {
        match &self.listen {
            Listen::Unix { .. } | Listen::Udp(_) => 0,
            Listen::Tcp(addresses) => addresses.first().map_or(0, |a| i32::from(a.port)),
        }
    }
}

/// Refuses TLS settings without `-Z`: operators who set them expect encryption.
fn refuse_tls_settings_without_tls(flags: &Flags, extended: &Extended) -> Result<(), Refusal> {
    match extended.tls_given {
        Some(name) if !flags.enable_ssl => Err(Refusal::usage(format!(
            "-o {name} without -Z: clients would be served in plain text. Add -Z for TLS, or remove {name}."
        ))),
        _ => Ok(()),
    }
}

/// Refuses parts that a later version will bring, so that no operator relies on them.
fn refuse_absent_parts(flags: &Flags) -> Result<(), Refusal> {
    let absent = &flags.absent;
    let part = if absent.napi_ids.is_some_and(|n| n != 0) {
        "-N: choosing threads by NAPI id"
    } else {
        return Ok(());
    };
    Err(Refusal::usage(format!("{part} is absent in Guira. Remove the flag to start without it.")))
}

fn listen(flags: &Flags, inter: Option<&str>) -> Result<Listen, Refusal> {
    // As in memcached, the UDP port is also the TCP port if only `-U` is given.
    let typed = flags.port.unwrap_or(if flags.udp_port == 0 { PORT } else { flags.udp_port });
    let flag = if flags.port.is_none() && flags.udp_port != 0 { "-U" } else { "-p" };
    let port = match typed {
        // The system takes 0 for any free port.
        -1 => 0,
        port => u16::try_from(port).map_err(|_| Refusal::usage(invalid_port(flag, port)))?,
    };
    if let Some(path) = &flags.unix_socket {
        let mode = u32::from_str_radix(flags.unix_mask.trim(), 8).map_err(|_| {
            Refusal::value("The unix socket's mask (-a) must be an octal number such as 700")
        })?;
        return Ok(Listen::Unix { path: PathBuf::from(path.trim_start()), mode });
    }
    if typed == 0 && flags.enable_ssl {
        let message = "ERROR: You cannot enable SSL without a TCP port.";
        return Err(Refusal::usage(message));
    }
    let tls = flags.enable_ssl.then_some(ClientCerts::AsSet);
    let addresses = match inter {
        None => vec![ListenAddress { host: Host::Loopback, port, tls }],
        Some(list) => listen::parse(list, port, tls)?,
    };
    Ok(if typed == 0 { Listen::Udp(addresses) } else { Listen::Tcp(addresses) })
}

fn udp_port(flags: &Flags) -> Result<i32, Refusal> {
    match flags.udp_port {
        _ if flags.unix_socket.is_some() => Ok(0),
        port @ -1..=65535 => Ok(i32::try_from(port).expect("the range is checked")),
        port => Err(Refusal::usage(invalid_port("-U", port))),
    }
}

fn invalid_port(flag: &str, port: i64) -> String {
    format!(
        "ERROR: Invalid port number {port}. ({flag} takes 0 to 65535, or -1 for any that is free)"
    )
}

fn memory_bytes(text: &str) -> Result<usize, Refusal> {
    let bytes = parse_size(text, MB).ok();
    bytes.filter(|bytes| (MB..=isize::MAX as usize).contains(bytes)).ok_or_else(|| {
        Refusal::value(format!(
            "The memory limit (-m {text}) must be a number of megabytes or a size such as 512m or 4g, at least 1m"
        ))
    })
}

fn item_bytes_max(text: &str, memory_bytes: usize) -> Result<usize, Refusal> {
    let bytes = parse_size(text, 1).map_err(|error| {
        Refusal::value(format!(
            "-I {text}: {error}: the largest item is a number of bytes or a size such as 512k or 2m"
        ))
    })?;
    let usage = |message: &str| Err(Refusal::usage(message));
    if bytes < 1024 {
        return usage("Item max size cannot be less than 1024 bytes. (-I)");
    }
    if bytes > memory_bytes / 2 {
        let half = shown_size((memory_bytes / 2).min(GB));
        return usage(&format!(
            "Cannot set item size limit higher than 1/2 of memory max. (-I, -m): -m {} needs -I {half} or less",
            shown_size(memory_bytes)
        ));
    }
    if bytes > 1 << 30 {
        return usage("Cannot set item size limit higher than a gigabyte. (-I)");
    }
    Ok(bytes)
}

fn growth_factor(factor: Option<f64>) -> Result<Option<f64>, Refusal> {
    match factor {
        Some(f) if f.is_nan() || f <= 1.0 => {
            Err(Refusal::value("Factor must be greater than 1 (-f)"))
        }
        other => Ok(other),
    }
}

fn prefix_delimiter(text: Option<&str>) -> Result<u8, Refusal> {
    match text {
        None => Ok(b':'),
        Some(t) => t.bytes().next().ok_or_else(|| Refusal::value("No delimiter specified (-D)")),
    }
}

/// Chooses the protocol. If logins are demanded, only a protocol that has them is spoken.
fn protocol(flags: &Flags) -> Result<WireProtocol, Refusal> {
    let usage = |message: String| Err(Refusal::usage(message));
    let (sasl, file) = (flags.enable_sasl, flags.auth_file.is_some());
    if (sasl || file) && flags.udp_port != 0 {
        return usage("ERROR: Cannot enable UDP while logins are demanded (-S, -Y)".to_owned());
    }
    let typed = match flags.protocol.as_deref().map(str::trim) {
        None => None,
        Some("auto") => Some(WireProtocol::Auto),
        Some("ascii") => Some(WireProtocol::Ascii),
        Some("binary") => Some(WireProtocol::Binary),
        Some(other) => {
            return usage(format!(
                "Invalid value for binding protocol: {other}\n -- should be one of auto, binary, or ascii"
            ));
        }
    };
    match (sasl, file, typed) {
        (true, _, Some(WireProtocol::Auto | WireProtocol::Ascii)) => {
            usage("ERROR: You cannot allow the ASCII protocol while using SASL.".to_owned())
        }
        (false, true, Some(WireProtocol::Auto | WireProtocol::Binary)) => usage(
            "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens."
                .to_owned(),
        ),
        (_, _, Some(typed)) => Ok(typed),
        (true, false, None) => Ok(WireProtocol::Binary),
        (false, true, None) => Ok(WireProtocol::Ascii),
        (_, _, None) => Ok(WireProtocol::Auto),
    }
}

fn positive(number: i64, message: &str) -> Result<u32, Refusal> {
    u32::try_from(number).ok().filter(|&n| n > 0).ok_or_else(|| Refusal::value(message))
}

fn slabs(flags: &Flags, item_bytes_max: usize, extended: &Extended) -> Slabs {
    // The head of the largest chained item must have room for the locations of its links.
    let chunk_bytes_min = (4 * item_bytes_max.isqrt()).next_power_of_two();
    let chunk_bytes_max = extended.slab_chunk_bytes_max.max(chunk_bytes_min);
    // With memcached 1.4's defaults come its slab classes.
    let default = if extended.is_modern { SlabsName::Fine } else { SlabsName::Memcached };
    match flags.slabs.unwrap_or(default) {
        SlabsName::Fine => Slabs::Fine,
        SlabsName::Memcached => Slabs::Memcached { chunk_bytes_max },
    }
}

const TRANSIENT_S: u32 = 60;
/// memcached's port.
const PORT: i64 = 11211;

/// Descriptors in addition to those of `-c`, which clients don't get: for the HTTP port and files.
pub(crate) const DESCRIPTORS_RESERVED: u64 = 16;
