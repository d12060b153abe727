//! What a tree depends on beside its configuration: flags, and what is shared by the process.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// A key whose prefix nobody routes goes the way of keys without one.
    pub send_invalid_route_to_default: bool,
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
            send_invalid_route_to_default: false,
            is_logging_route_enabled: false,
            big_value_split_threshold: 0,
            big_value_batch_size: 10,
        }
    }
}
