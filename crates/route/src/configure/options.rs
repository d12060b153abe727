//! The meaning of the flags: numbers in their units, paths, and the settings for building a tree.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use guira_front::sessions::{ClientLimits, ListenOptions, MemoryLimits, ShutdownFrom};
use guira_log::Format;
use socket2::TcpKeepalive;

use super::etcd::{self, Place};
use super::flags::{self, FLAGS, Typed, Validate};
use super::source::{From, Shelf, Source};
use super::tls::TlsOptions;
use crate::servers::names::{DnsServers, dns_servers};
use crate::servers::{PermitLimits, PoolStats, ServersOptions, TkoOptions};
use crate::settings::Settings;
use crate::tokens::ShadowTokens;

/// All options of the process.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) listen: ListenOptions,
    /// At least one.
    pub(crate) proxies: usize,
    pub(crate) clients: ClientLimits,
    /// Whether routes may know a client's address.
    pub(crate) keeps_address: bool,
    pub(crate) tls: TlsOptions,
    pub(crate) dns_servers: DnsServers,
    /// The users that may log in.
    pub(crate) auth_file: Option<PathBuf>,
    /// The login for servers that require one.
    pub(crate) server_auth_file: Option<PathBuf>,
    pub(crate) config: Source,
    pub(crate) servers: ServersOptions,
    /// The limits per proxy thread.
    pub(crate) routed: PermitLimits,
    pub(crate) spool: Option<(PathBuf, u64)>,
    pub(crate) is_spool_version_2: bool,
    pub(crate) is_flush_enabled: bool,
    /// Whether replies of servers are matched by their order alone.
    pub(crate) trusts_order: bool,
    pub(crate) log: LogOptions,
    pub(crate) stats_root: PathBuf,
    pub(crate) stats_interval: Duration,
    /// The directory of pipes that show the traffic.
    pub(crate) fifo_root: Option<PathBuf>,
    /// Pools that have statistics of their own.
    pub(crate) counted_pools: Vec<String>,
    /// Of keys, whose families are sampled.
    pub(crate) sampled_share: Option<f64>,
    pub(crate) http: Option<String>,
    pub(crate) validates: Option<Validate>,
    /// Settings that the tree of routes depends on.
    pub(crate) settings: Settings,
    /// The file of runtime variables.
    pub(crate) runtime_variables_path: PathBuf,
    /// Whether the flag names that file. The default one may be missing.
    pub(crate) wants_runtime_variables: bool,
    /// Each flag with its value, as text.
    pub(crate) shown: Vec<(&'static str, String)>,
    /// Flags that were given but have no effect.
    pub(crate) without_effect: Vec<&'static str>,
}

/// What is logged, and where.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// `None`: standard error.
    pub(crate) file: Option<PathBuf>,
    pub(crate) format: Format,
    pub(crate) verbosity: i64,
    /// Whether a line tells users that the router is ready, and what to type. Not under mcrouter's name.
    pub(crate) says_ready: bool,
}

impl LogOptions {
    fn new(typed: &Typed) -> Self {
        let file = Some(typed.text("log_file")).filter(|text| !text.is_empty()).map(PathBuf::from);
        let verbosity = typed.number("verbosity").unwrap_or_default();
        Self { file, format: typed.log_format(), verbosity, says_ready: true }
    }
}

impl Options {
    /// Converts the flags.
    ///
    /// # Errors
    /// A sentence about a flag whose value is impossible.
    pub(crate) fn new(typed: &Typed) -> Result<Self, String> {
        let proxies = match typed.number("num_proxies") {
            None => std::thread::available_parallelism().map_or(1, usize::from),
            Some(n) => usize::try_from(n)
                .ok()
                .filter(|n| (1..=1024).contains(n))
                .ok_or_else(|| format!("--num-proxies {n}: there may be 1 to 1024 threads"))?,
        };
        let default_route = typed.text("default_route");
        let parts: Vec<&str> = default_route.split('/').collect();
        if !matches!(parts[..], ["", region, cluster, ""] if !region.is_empty() && !cluster.is_empty())
        {
            return Err(format!("--route-prefix {default_route}: write /region/cluster/"));
        }
        let tls = TlsOptions::new(typed)?;
        let mut settings = Settings { default_route, ..settings(typed)? };
        settings.has_tls = tls.knows_authorities();
        settings.etcd = etcd::flags(typed);
        settings.num_proxies = u32::try_from(proxies).unwrap_or(u32::MAX);
        let spool_bytes_max = at_most(typed, "async_limit")? as u64;
        let path = |name: &str| Some(typed.text(name)).filter(|t| !t.is_empty()).map(PathBuf::from);
        Ok(Self {
            listen: listen(typed)?,
            tls,
            dns_servers: dns_servers(&typed.text("dns_servers"))?,
            proxies,
            clients: ClientLimits {
                outstanding_max: at_most(typed, "max_client_outstanding_reqs")?,
                timeout: milliseconds(typed, "client_timeout_ms")?,
                connections_max: at_most(typed, "max_conns")?,
                memory: memory(typed)?,
                shutdown_from: shutdown_from(typed),
            },
            keeps_address: typed.switch("retain_source_ip"),
            auth_file: path("auth_file"),
            server_auth_file: path("server_auth_file"),
            config: source(typed)?,
            servers: servers(typed)?,
            routed: routed(typed)?,
            spool: path("async_spool")
                .filter(|_| !typed.switch("asynclog_disable"))
                .map(|dir| (dir, spool_bytes_max)),
            is_spool_version_2: typed.switch("use_asynclog_version2"),
            is_flush_enabled: typed.switch("enable_flush_cmd"),
            trusts_order: typed.switch("trust_reply_order"),
            log: LogOptions::new(typed),
            stats_root: PathBuf::from(typed.text("stats_root")),
            fifo_root: path("debug_fifo_root"),
            stats_interval: milliseconds(typed, "stats_logging_interval")?,
            validates: typed.validates(),
            counted_pools: match &typed.text("pool_stats_config_file")[..] {
                "" => Vec::new(),
                path => PoolStats::read(path)?,
            },
            sampled_share: share(&typed.text("sample_families"))?,
            http: Some(typed.text("http")).filter(|text| !text.is_empty()),
            shown: FLAGS.iter().map(|flag| (flag.name, typed.shown(flag))).collect(),
            settings,
            runtime_variables_path: typed.text("runtime_vars_file").into(),
            wants_runtime_variables: typed.is_given("runtime_vars_file"),
            without_effect: typed.without_effect(),
        })
    }
}

/// A share of keys; `None`: nothing is sampled.
fn share(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    let refused =
        || format!("--sample-families {text}: a share of keys, above 0 and up to 1, such as 1e-6");
    share.map(Some).ok_or_else(refused)
}

fn shutdown_from(typed: &Typed) -> ShutdownFrom {
    match (typed.switch("disable_shutdown"), typed.switch("enable_shutdown")) {
        (true, _) => ShutdownFrom::Nobody,
        (false, true) => ShutdownFrom::Anybody,
        (false, false) => ShutdownFrom::Owner,
    }
}

fn servers(typed: &Typed) -> Result<ServersOptions, String> {
    Ok(ServersOptions {
        tko: TkoOptions {
            is_tracked: !typed.switch("disable_tko_tracking"),
            timeouts: u32::try_from(count(typed, "failures_until_tko")?.max(1)).unwrap_or(u32::MAX),
            probe_first: milliseconds(typed, "probe_delay_initial_ms")?,
            probe_most: milliseconds(typed, "probe_delay_max_ms")?,
            idle_max: milliseconds(typed, "reset_inactive_connection_interval")?,
        },
        at_servers: PermitLimits {
            under_way: count(typed, "target_max_inflight_requests")?,
            waiting: at_most(typed, "target_max_pending_requests")?,
            patience: Duration::ZERO,
        },
        shadows_max: at_most(typed, "target_max_shadow_requests")?,
        all_shadows_max: at_most(typed, "proxy_max_inflight_shadow_requests")?,
    })
}

/// The limits of requests that a thread has under way, and of those that wait.
fn routed(typed: &Typed) -> Result<PermitLimits, String> {
    let waiting = at_most(typed, "proxy_max_throttled_requests")?;
    let patience = milliseconds(typed, "waiting_request_timeout_ms")?;
    Ok(PermitLimits {
        under_way: count(typed, "proxy_max_inflight_requests")?,
        waiting,
        patience: if waiting == usize::MAX { Duration::ZERO } else { patience },
    })
}

fn settings(typed: &Typed) -> Result<Settings, String> {
    let params = typed.text("config_params");
    let params = params.split(',').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part
            .split_once(':')
            .ok_or_else(|| format!("--config-params {part}: write name:value,name:value"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let config_params = params.collect::<Result<BTreeMap<_, _>, String>>()?;
    let options = FLAGS.iter().map(|flag| (flag.name.to_owned(), typed.shown(flag)));
    let server_timeout = milliseconds(typed, "server_timeout_ms")?;
    if server_timeout.is_zero() {
        return Err("--server-timeout: a reply takes more than 0 milliseconds".to_owned());
    }
    Ok(Settings {
        host_id: host_id(),
        config_budget_bytes: count(typed, "config_budget")?,
        router_name: typed.text("router_name"),
        qos: qos(typed)?,
        service_name: typed.text("service_name"),
        config_params,
        options: options.collect(),
        server_timeout,
        within_cluster_timeout: milliseconds(typed, "within_cluster_timeout_ms")?,
        cross_cluster_timeout: milliseconds(typed, "cross_cluster_timeout_ms")?,
        cross_region_timeout: milliseconds(typed, "cross_region_timeout_ms")?,
        is_asynclog_enabled: !typed.switch("asynclog_disable"),
        ignores_shard_splits: typed.switch("disable_shard_split_route"),
        shadow_tokens: Arc::new(ShadowTokens::new(count(typed, "max_shadow_token_map_size")?)),
        send_invalid_route_to_default: typed.switch("send_invalid_route_to_default"),
        allow_only_gets: typed.switch("allow_only_gets"),
        group_remote_errors: typed.switch("group_remote_errors"),
        is_logging_route_enabled: typed.switch("enable_logging_route"),
        big_value_split_threshold: count(typed, "big_value_split_threshold")?,
        big_value_batch_size: count(typed, "big_value_batch_size")?,
        hides_big_value_flag: typed.switch("big_value_hide_reply_flag"),
        ..Settings::default()
    })
}

/// The default class and path, if packets are marked at all.
fn qos(typed: &Typed) -> Result<Option<(u8, u8)>, String> {
    let part = |name: &str, most: usize| -> Result<u8, String> {
        let n = count(typed, name)?;
        let part = u8::try_from(n).ok().filter(|_| n <= most);
        part.ok_or_else(|| format!("{} {n}: from 0 to {most}", flags::typed_as(name)))
    };
    let default = (part("default_qos_class", 4)?, part("default_qos_path", 3)?);
    Ok(typed.switch("enable_qos").then_some(default))
}

fn listen(typed: &Typed) -> Result<ListenOptions, String> {
    let ports = typed.text("ports");
    let ports = ports.split(',').filter(|port| !port.is_empty()).map(|port| {
        port.trim().parse().map_err(|_| format!("-p {port}: a port is a number up to 65535"))
    });
    let addresses = typed.text("listen_addresses");
    Ok(ListenOptions {
        ports: ports.collect::<Result<_, String>>()?,
        addresses: addresses.split(',').filter(|a| !a.is_empty()).map(str::to_owned).collect(),
        inherited: typed
            .number("listen_sock_fd")
            .and_then(|fd| i32::try_from(fd).ok())
            .filter(|&fd| fd >= 0),
        unix: Some(typed.text("unix_domain_sock")).filter(|p| !p.is_empty()).map(PathBuf::from),
        backlog: i32::try_from(count(typed, "tcp_listen_backlog")?).unwrap_or(i32::MAX),
        keepalive: keepalive(typed)?,
    })
}

fn keepalive(typed: &Typed) -> Result<Option<TcpKeepalive>, String> {
    let probes = u32::try_from(count(typed, "keepalive_cnt")?).unwrap_or(u32::MAX);
    if probes == 0 {
        return Ok(None);
    }
    let idle = Duration::from_secs(count(typed, "keepalive_idle_s")? as u64);
    let interval = Duration::from_secs(count(typed, "keepalive_interval_s")? as u64);
    Ok(Some(TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(probes)))
}

fn source(typed: &Typed) -> Result<Source, String> {
    let (config, file, text) =
        (typed.text("config"), typed.text("config_file"), typed.text("config_str"));
    let from = if let Some(path) = config.strip_prefix("file:") {
        From::File(path.into())
    } else if config.starts_with("etcd:") || config.starts_with("etcds:") {
        From::Etcd(Place::parse(&config, typed)?.into())
    } else if config.contains('{') {
        From::Text(config)
    } else if !config.is_empty() {
        // A configuration contains a brace, so text without one is a path.
        From::File(config.into())
    } else if !text.is_empty() {
        From::Text(text)
    } else if !file.is_empty() {
        From::File(file.into())
    } else {
        let stray = typed.stray().map(|word| format!("; {word} stands alone: write -f before it"));
        return Err(format!(
            "no configuration: give --config PATH, --config TEXT, --config etcd:HOST:PORT/KEY or -f PATH{}",
            stray.unwrap_or_default()
        ));
    };
    let root = typed.text("config_dump_root");
    let kept = Some(root).filter(|root| !root.is_empty()).map(|root| {
        let (service, router) = (typed.text("service_name"), typed.text("router_name"));
        Shelf::new(PathBuf::from(root).join(service).join(router), &from)
    });
    Ok(Source {
        from,
        kept,
        kept_age_max: Duration::from_secs(count(typed, "max_dumped_config_age")? as u64),
        poll: milliseconds(typed, "file_observer_poll_period_ms")?.max(Duration::from_millis(10)),
        delay: milliseconds(typed, "reconfiguration_delay_ms")?,
        jitter: milliseconds(typed, "reconfiguration_jitter_ms")?,
        is_watched: !typed.switch("disable_reload_configs"),
        is_strict: typed.switch("strict") || typed.validates().is_some(),
    })
}

/// A number that identifies this host: a hash of its name.
fn host_id() -> u32 {
    let name = rustix::system::uname();
    let mut hasher = DefaultHasher::new();
    name.nodename().to_bytes().hash(&mut hasher);
    // Folded to 32 bits, whose decimal digits mcrouter's users see.
    let hash = hasher.finish();
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).unwrap_or_default()
}

fn count(typed: &Typed, name: &str) -> Result<usize, String> {
    let n = typed.number(name).unwrap_or_default();
    usize::try_from(n).map_err(|_| format!("{} {n}: not below 0", flags::typed_as(name)))
}

/// A limit; 0 means that there is none.
fn at_most(typed: &Typed, name: &str) -> Result<usize, String> {
    Ok(match count(typed, name)? {
        0 => usize::MAX,
        n => n,
    })
}

fn memory(typed: &Typed) -> Result<MemoryLimits, String> {
    let all = at_most(typed, "client_memory")?;
    let each = at_most(typed, "client_memory_each")?;
    Ok(MemoryLimits { all, each, value: usize::MAX })
}

fn milliseconds(typed: &Typed, name: &str) -> Result<Duration, String> {
    Ok(Duration::from_millis(count(typed, name)? as u64))
}
