//! What a tree depends on beside its configuration: flags, and what is shared by the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Json;
use crate::route::failover::LeaseTokens;

/// Flags that the tree of routes looks at. Times of zero mean "as the pool says".
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The routing prefix of keys without one: `/region/cluster/`.
    pub default_route: String,
    /// Which host this is, for those who choose by it.
    pub host_id: u32,
    /// The router's name, in statistics and log files.
    pub router_name: String,
    /// The service's name, in statistics and log files.
    pub service_name: String,
    /// Proxy threads of the process.
    pub num_proxies: u32,
    /// `--config-params`: constants that the configuration may name.
    pub config_params: BTreeMap<String, String>,
    /// Flags with numbers and switches, which the configuration sees as `mcr_opts-NAME`.
    pub options: BTreeMap<String, String>,
    /// How long a reply may take where the pool doesn't say.
    pub server_timeout: Duration,
    /// As above, for pools whose region and cluster are the router's.
    pub within_cluster_timeout: Duration,
    /// As above, for pools whose region is the router's.
    pub cross_cluster_timeout: Duration,
    /// As above, for pools of another region.
    pub cross_region_timeout: Duration,
    /// Class and path of the packets' quality of service where the pool doesn't say.
    pub default_qos: (u8, u8),
    /// Deletes that fail are logged, where the pool doesn't forbid it.
    pub is_asynclog_enabled: bool,
    /// Anything but a get is answered as if it had found nothing.
    pub allow_only_gets: bool,
    /// Each error is answered as the router's own, so that a router above counts it against this one.
    pub group_remote_errors: bool,
    /// A key whose prefix nobody routes goes the way of keys without one.
    pub send_invalid_route_to_default: bool,
    /// Leases that were taken on other servers than a key's own. One for all threads and configurations.
    pub lease_tokens: Arc<LeaseTokens>,
    /// Without it a `LoggingRoute` stands aside.
    pub is_logging_route_enabled: bool,
    /// Values longer than this many bytes are cut into chunks; 0: none.
    pub big_value_split_threshold: usize,
    /// How many chunks are under way at once; 0: all.
    pub big_value_batch_size: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_route: "/././".to_owned(),
            host_id: 0,
            router_name: "unknown".to_owned(),
            service_name: "unknown".to_owned(),
            num_proxies: 1,
            config_params: BTreeMap::new(),
            options: BTreeMap::new(),
            server_timeout: Duration::from_secs(1),
            within_cluster_timeout: Duration::ZERO,
            cross_cluster_timeout: Duration::ZERO,
            cross_region_timeout: Duration::ZERO,
            default_qos: (0, 0),
            is_asynclog_enabled: true,
            allow_only_gets: false,
            group_remote_errors: false,
            send_invalid_route_to_default: false,
            lease_tokens: Arc::default(),
            is_logging_route_enabled: false,
            big_value_split_threshold: 0,
            big_value_batch_size: 10,
        }
    }
}

impl Settings {
    /// What a configuration may name between percent signs.
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

    /// The parts of [`Self::default_route`].
    #[must_use]
    pub fn region_and_cluster(&self) -> (&str, &str) {
        let route = self.default_route.trim_matches('/');
        route.split_once('/').unwrap_or((route, ""))
    }
}
