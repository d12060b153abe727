//! What a tree depends on besides its configuration: flags, and state that the process shares.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use guira_etcd::EtcdFlags;
use parking_lot::RwLock;

use crate::hot_cache::Stripes;
use crate::tokens::{LeaseTokens, ShadowTokens};
use guira_config::budget::BUDGET_BYTES;
use guira_config::{Json, Object, Value};

/// Flags that the tree of routes reads. A timeout of zero means that the pool's applies.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The routing prefix of keys without one: `/region/cluster/`.
    pub(crate) default_route: String,
    /// The number of this host, for routes that choose by host.
    pub(crate) host_id: u32,
    /// The memory for a configuration, see [`Budget`](guira_config::budget::Budget).
    pub(crate) config_budget_bytes: usize,
    /// The router's name, in statistics and log files.
    pub(crate) router_name: String,
    /// The service's name, in statistics and log files.
    pub(crate) service_name: String,
    /// The number of proxy threads.
    pub(crate) num_proxies: u32,
    /// `--config-params`: constants that the configuration can read.
    pub(crate) config_params: BTreeMap<String, String>,
    /// The values of all flags, which the configuration reads as `mcr_opts-NAME`.
    pub(crate) options: BTreeMap<String, String>,
    /// The time limit of a reply, if the pool sets none.
    pub(crate) server_timeout: Duration,
    /// The limit for pools in the router's region and cluster, which overrides theirs.
    pub(crate) within_cluster_timeout: Duration,
    /// The limit for pools in the router's region, but another cluster.
    pub(crate) cross_cluster_timeout: Duration,
    /// The limit for pools in another region.
    pub(crate) cross_region_timeout: Duration,
    /// The default class and path of the packets' quality of service. `None`: packets aren't marked.
    pub(crate) qos: Option<(u8, u8)>,
    /// Whether failed deletes are logged, unless the pool forbids it.
    pub(crate) is_asynclog_enabled: bool,
    /// Whether the field `shard_splits` of pools is ignored.
    pub(crate) ignores_shard_splits: bool,
    /// Whether all requests except gets are answered as a miss, without being sent.
    pub(crate) allow_only_gets: bool,
    /// Whether every error is answered as a remote error, so that a router above attributes it to this one.
    pub(crate) group_remote_errors: bool,
    /// Whether a key with an unknown routing prefix is routed like one without.
    pub(crate) send_invalid_route_to_default: bool,
    /// Leases from other servers than a key's own. Shared by all threads and configurations.
    pub(crate) lease_tokens: Arc<LeaseTokens>,
    /// Leases of shadows, by the clients' leases. Shared by all threads and configurations.
    pub(crate) shadow_tokens: Arc<ShadowTokens>,
    /// Detects writes for hot caches. Shared by all threads and configurations.
    pub(crate) stripes: Stripes,
    /// The current runtime variables.
    pub(crate) runtime_variables: RuntimeVariables,
    /// The time of day.
    pub(crate) clock: Clock,
    /// The log that a `LoggingRoute` writes to.
    pub(crate) log: LogSink,
    /// The number of this proxy thread.
    pub(crate) proxy_index: u32,
    /// Whether connections to servers can use TLS.
    pub(crate) has_tls: bool,
    /// The credentials and certificates for the etcd of a `ClusterRoute`.
    pub(crate) etcd: EtcdFlags,
    /// Whether a `LoggingRoute` is above the root.
    pub(crate) is_logging_route_enabled: bool,
    /// Values longer than this many bytes are cut into chunks; 0: none.
    pub(crate) big_value_split_threshold: usize,
    /// The number of chunks under way at once; 0: all.
    pub(crate) big_value_batch_size: usize,
    /// Whether clients don't see the flag of a value in chunks.
    pub(crate) hides_big_value_flag: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_route: "/././".to_owned(),
            host_id: 0,
            config_budget_bytes: BUDGET_BYTES,
            router_name: "unknown".to_owned(),
            service_name: "unknown".to_owned(),
            num_proxies: 1,
            config_params: BTreeMap::new(),
            options: BTreeMap::new(),
            server_timeout: Duration::from_secs(1),
            within_cluster_timeout: Duration::ZERO,
            cross_cluster_timeout: Duration::ZERO,
            cross_region_timeout: Duration::ZERO,
            qos: None,
            is_asynclog_enabled: true,
            ignores_shard_splits: false,
            allow_only_gets: false,
            group_remote_errors: false,
            send_invalid_route_to_default: false,
            lease_tokens: Arc::default(),
            shadow_tokens: Arc::default(),
            stripes: Stripes::new(),
            runtime_variables: RuntimeVariables::default(),
            clock: Clock::default(),
            log: LogSink::default(),
            proxy_index: 0,
            has_tls: false,
            etcd: EtcdFlags::default(),
            is_logging_route_enabled: false,
            big_value_split_threshold: 0,
            big_value_batch_size: 10,
            hides_big_value_flag: false,
        }
    }
}

impl Settings {
    /// The constants that a configuration can write between percent signs.
    pub(crate) fn constants(&self) -> BTreeMap<String, Json> {
        let (region, cluster) = self.region_and_cluster();
        let named: [(&str, Json); 9] = [
            ("default-route", self.default_route.as_str().into()),
            ("default-region", region.into()),
            ("default-cluster", cluster.into()),
            ("hostid", i64::from(self.host_id).into()),
            ("router-name", self.router_name.as_str().into()),
            ("service-name", self.service_name.as_str().into()),
            ("service-router-capable", 0_i64.into()),
            ("router-info-name", "Memcache".into()),
            ("num-proxies", i64::from(self.num_proxies).into()),
        ];
        let mut constants: BTreeMap<String, Json> =
            named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in &self.config_params {
            constants.entry(name.clone()).or_insert_with(|| value.as_str().into());
        }
        for (name, value) in &self.options {
            constants.insert(format!("mcr_opts-{name}"), value.as_str().into());
        }
        constants
    }

    /// The constants as a JSON object, sorted by name.
    pub(crate) fn global_params(&self) -> String {
        let mut members = Object::default();
        self.constants().into_iter().for_each(|(name, value)| members.insert(name, value));
        Json::from(Value::Object(members)).to_pretty()
    }

    /// The parts of [`Self::default_route`].
    #[must_use]
    pub(crate) fn region_and_cluster(&self) -> (&str, &str) {
        let route = self.default_route.trim_matches('/');
        route.split_once('/').unwrap_or((route, ""))
    }
}

/// Variables that can change while the router runs, by name: mcrouter's `--runtime-vars-file`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuntimeVariables {
    values: Arc<RwLock<Option<Json>>>,
    /// The variables that routes read, with the form that each must have.
    wanted: Arc<RwLock<BTreeMap<String, Wanted>>>,
}

/// A check whether a variable's value is usable, and a description of usable values.
type Wanted = (fn(&Json) -> bool, &'static str);

impl RuntimeVariables {
    /// Replaces all variables by the members of an object.
    pub(crate) fn set(&self, values: Json) {
        *self.values.write() = Some(values);
    }

    /// Whether a file with variables has been read.
    pub(crate) fn is_set(&self) -> bool {
        self.values.read().is_some()
    }

    /// Records that a route reads a variable, and which form it must have.
    pub(crate) fn want(&self, name: &str, wanted: Wanted) {
        self.wanted.write().insert(name.to_owned(), wanted);
    }

    /// A sentence for each variable whose value its route can't use.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let wanted = self.wanted.read();
        let mistake = |(name, (is_fit, words)): (&String, &Wanted)| {
            let is = self.get(name).filter(|value| !is_fit(value))?;
            Some(format!(
                "'{name}' is of type {}, not {words}: its route goes on without it",
                is.type_name()
            ))
        };
        wanted.iter().filter_map(mistake).collect()
    }

    /// The value of a variable.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<Json> {
        self.values.read().as_ref()?.get(name).cloned()
    }
}

/// The time of day, for routes that depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: fn() -> SystemTime,
}

impl Clock {
    /// Creates a clock that shows the time that `now` returns.
    #[must_use]
    pub(crate) const fn new(now: fn() -> SystemTime) -> Self {
        Self { now }
    }

    /// Seconds since 1970.
    #[must_use]
    pub(crate) fn unix_s(&self) -> i64 {
        i64::try_from(self.since_1970().as_secs()).unwrap_or(i64::MAX)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub(crate) fn unix_ms(&self) -> u64 {
        u64::try_from(self.since_1970().as_millis()).unwrap_or(u64::MAX)
    }

    fn since_1970(&self) -> Duration {
        (self.now)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

/// A receiver of log lines.
#[derive(Clone)]
pub(crate) struct LogSink {
    write: Arc<dyn Fn(&str) + Send + Sync>,
}

impl LogSink {
    /// Creates a log that passes each line to `write`.
    pub(crate) fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { write: Arc::new(write) }
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &str) {
        (self.write)(line);
    }
}

/// Discards all lines.
impl Default for LogSink {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}
