//! The table of the router's flags, in the order of the help.

/// The kind of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagKind {
    /// No value: the flag is on if it is given.
    Switch,
    /// A whole number.
    Number,
    /// Bytes, or a number with a unit: 512k, 4m, 1g.
    Size,
    /// Text.
    Text,
    /// The format of log lines.
    Format,
}

/// A flag's declaration.
#[derive(Debug)]
pub(crate) struct Flag {
    /// The name in statistics, configurations (`mcr_opts-NAME`) and `__mcrouter__.options`.
    pub(crate) name: &'static str,
    pub(super) long: &'static str,
    /// At most one.
    pub(super) short: &'static [char],
    pub(super) kind: FlagKind,
    /// The placeholder for the value in the help; empty: the kind's usual one.
    pub(super) value: &'static str,
    /// The default as a user would type it; empty: none.
    pub(super) default: &'static str,
    pub(super) help: &'static str,
    pub(super) group: &'static str,
}

impl Flag {
    pub(super) fn value_or(&self, usual: &'static str) -> &'static str {
        if self.value.is_empty() { usual } else { self.value }
    }
}

macro_rules! flags {
    ($($group:literal { $($name:ident $long:literal ($($short:literal)?) $kind:ident $(($value:literal))?
        $default:literal $help:literal;)* })*) => {
        /// The flags with an effect.
        pub(crate) const FLAGS: &[Flag] = &[$($(Flag {
            name: stringify!($name),
            long: $long,
            short: &[$($short)?],
            kind: FlagKind::$kind,
            value: concat!($($value)?),
            default: $default,
            help: $help,
            group: $group,
        }),*),*];
    };
}

flags! {
    "Listening" {
        ports "port" ('p') Text("PORT,...") ""
            "TCP ports to listen on, separated by commas; needed unless another flag says where to listen";
        listen_addresses "listen-addresses" () Text("ADDR,...") ""
            "Addresses to listen on at the ports of -p, separated by commas [default: all addresses]";
        listen_sock_fd "listen-sock-fd" () Number("FD") "-1"
            "File descriptor of a listening socket that the router inherits; -1 is none";
        unix_domain_sock "unix-domain-sock" () Text("FILE") ""
            "Unix socket to listen on";
        tcp_listen_backlog "tcp-listen-backlog" () Number "4096"
            "Connections that may wait to be accepted";
        num_proxies "num-proxies" () Number ""
            "Threads that serve clients, each with its own connections to servers [default: one per processor]";
        max_conns "max-conns" () Number "0"
            "Maximum number of connections of clients at a time; further ones are closed (0: as many as file descriptors allow)";
        max_client_outstanding_reqs "max-client-outstanding-reqs" () Number "100"
            "Maximum number of requests of one client that may wait for replies; then the router stops reading from it (0: no limit)";
        client_memory "client-memory" () Size "256m"
            "Memory for the requests and unread replies of all clients together (0: no limit)";
        client_memory_each "client-memory-each" () Size "128m"
            "Memory for the requests and unread replies of each client, and never more than is still free of --client-memory (0: no limit)";
        client_timeout_ms "client-timeout" () Number("MS") "1000"
            "Close a client that reads no replies for this long (0: never)";
        proxy_max_inflight_requests "proxy-max-inflight-requests" () Number "0"
            "Maximum number of requests of all clients that each thread handles at a time; more wait in a queue (0: no limit)";
        proxy_max_throttled_requests "proxy-max-throttled-requests" () Number "0"
            "Maximum number of requests in the queue of each thread; more are answered with SERVER_ERROR 307 busy (0: no limit)";
        waiting_request_timeout_ms "waiting-request-timeout-ms" () Number("MS") "0"
            "Longest time in that queue; then a request is answered with SERVER_ERROR 307 busy (0: no limit)";
        enable_shutdown "enable-shutdown" () Switch ""
            "Let every client end the router with shutdown; always so under the name mcrouter [default: only clients on this machine that run as the router's user or as root]";
        disable_shutdown "disable-shutdown" () Switch ""
            "Let no client end the router with shutdown, even with --enable-shutdown";
        retain_source_ip "retain-source-ip" () Switch ""
            "Pass the clients' addresses to routes that use them";
        keepalive_cnt "keepalive-count" ('K') Number "0"
            "TCP keepalive probes without an answer before a connection is closed (0: no keepalive)";
        keepalive_interval_s "keepalive-interval" ('i') Number("SECONDS") "60"
            "Time between keepalive probes";
        keepalive_idle_s "keepalive-idle" ('I') Number("SECONDS") "300"
            "Silence before the first keepalive probe";
    }
    "TLS and logins" {
        ssl_ports "ssl-port" () Text("PORT,...") ""
            "TCP ports for clients that use TLS, separated by commas, on the addresses of -p";
        pem_cert_path "pem-cert-path" () Text("FILE") ""
            "The router's certificate chain in PEM, shown to servers that ask for one and to clients";
        pem_key_path "pem-key-path" () Text("FILE") ""
            "Key of --pem-cert-path [default: in the same file]";
        pem_ca_path "pem-ca-path" () Text("FILE") ""
            "Root certificates in PEM that servers' certificates are checked against; pools with use_ssl need it";
        ssl_service_identity "ssl-service-identity" () Text("NAME") ""
            "Name that servers' certificates must have [default: the server's host name]";
        server_pem_cert_path "server-pem-cert-path" () Text("FILE") ""
            "Certificate chain shown to clients [default: --pem-cert-path]";
        server_pem_key_path "server-pem-key-path" () Text("FILE") ""
            "Key of --server-pem-cert-path [default: in the same file]";
        server_pem_ca_path "server-pem-ca-path" () Text("FILE") ""
            "Root certificates in PEM; with this flag, a certificate that a client shows is checked";
        ssl_require_peer_certs "ssl-require-peer-certs" () Switch ""
            "Refuse TLS clients without a certificate";
        auth_file "auth-file" () Text("FILE") ""
            "Require clients to log in, as with memcached's -Y; the file has a line user:password for each user";
        server_auth_file "server-auth-file" () Text("FILE") ""
            "Log in at each server with the line user:password in this file";
    }
    "Configuration" {
        config "config" () Text("CONFIG") ""
            "Configuration: PATH or file:PATH, etcd:HOST:PORT/KEY (etcds: over TLS), or the text itself";
        config_file "config-file" ('f') Text("FILE") ""
            "Configuration file, as with --config file:PATH";
        config_str "config-str" () Text("TEXT") ""
            "Text of the configuration, as with --config";
        etcd_cacert "etcd-cacert" () Text("FILE") ""
            "Root certificates in PEM that etcd's certificate is checked against; etcds: needs it";
        etcd_cert "etcd-cert" () Text("FILE") ""
            "The router's certificate chain in PEM, shown to an etcd that asks for one";
        etcd_key "etcd-key" () Text("FILE") ""
            "Key of --etcd-cert [default: in the same file]";
        etcd_auth_file "etcd-auth-file" () Text("FILE") ""
            "Log in at etcd with the line user:password in this file";
        strict "strict" () Switch ""
            "Refuse a configuration with unknown fields or values, at the start and at a reload";
        config_budget "config-budget" () Size "64m"
            "Memory for reading a configuration, and as much again for building its routes; a configuration that needs more is refused";
        default_route "route-prefix" ('R') Text("PREFIX") "/././"
            "Routing prefix of keys without one";
        config_params "config-params" () Text("NAME:VALUE,...") ""
            "Constants for the configuration's macros";
        config_dump_root "config-dump-root" () Text("DIR") "/var/spool/mcrouter/configs"
            "Directory for the last good configuration, which the router uses if it is started with a bad one (empty: keep none)";
        max_dumped_config_age "max-dumped-config-age" () Number("SECONDS") "43200"
            "Longest time for which a kept configuration may be used (0: never use one)";
        runtime_vars_file "runtime-vars-file" () Text("FILE") "/etc/mcrouter/mcrouter.json"
            "Variables that routes read while they run";
        disable_reload_configs "disable-reload-configs" () Switch ""
            "Don't watch the configuration for changes";
        file_observer_poll_period_ms "file-observer-poll-period-ms" () Number("MS") "100"
            "Time between checks of the configuration's files";
        reconfiguration_delay_ms "reconfiguration-delay-ms" () Number("MS") "1000"
            "Time from a change of the configuration to its use";
        reconfiguration_jitter_ms "reconfiguration-jitter-ms" () Number("MS") "0"
            "Longest time to add to that delay, at random";
    }
    "Routes" {
        send_invalid_route_to_default "send-invalid-route-to-default" () Switch ""
            "Treat keys with an unknown routing prefix as keys without one";
        enable_flush_cmd "enable-flush-cmd" () Switch ""
            "Allow flush_all, which flushes all servers of all pools";
        allow_only_gets "allow-only-gets" () Switch ""
            "Execute only gets: other commands are sent nowhere and answered as if the key did not exist";
        group_remote_errors "group-remote-errors" () Switch ""
            "Answer every failure of a server with the same line: SERVER_ERROR remote error";
        big_value_split_threshold "big-value-split-threshold" () Size "0"
            "Cut values longer than this into chunks: bytes, or with a unit, such as 512k (0: never)";
        big_value_batch_size "big-value-batch-size" () Number "10"
            "Maximum number of chunks of a value that are requested at a time (0: all)";
        big_value_hide_reply_flag "big-value-hide-reply-flag" () Switch ""
            "Hide from clients the flag that marks a value as cut into chunks";
        enable_logging_route "enable-logging-route" () Switch ""
            "Log each request (for tests)";
        target_max_shadow_requests "target-max-shadow-requests" () Number "1000"
            "Maximum number of shadow requests under way to each server, per thread";
        proxy_max_inflight_shadow_requests "proxy-max-inflight-shadow-requests" () Number "0"
            "Maximum number of shadow requests under way, per thread; more are dropped (0: no limit)";
        max_shadow_token_map_size "max-shadow-token-map-size" () Number "1024"
            "Maximum number of lease tokens remembered for shadows (0: a million)";
        disable_shard_split_route "disable-shard-split-route" () Switch ""
            "Ignore the field shard_splits of pools";
    }
    "Servers" {
        server_timeout_ms "server-timeout" ('t') Number("MS") "1000"
            "Longest wait for a reply of a server";
        cross_region_timeout_ms "cross-region-timeout-ms" () Number("MS") "0"
            "The same for pools of another region (0: --server-timeout)";
        cross_cluster_timeout_ms "cross-cluster-timeout-ms" () Number("MS") "0"
            "The same for pools of the same region and another cluster (0: --server-timeout)";
        within_cluster_timeout_ms "within-cluster-timeout-ms" () Number("MS") "0"
            "The same for pools of the same cluster (0: --server-timeout)";
        failures_until_tko "timeouts-until-tko" () Number "3"
            "Timeouts in a row after which a server is marked TKO: it gets no requests until a probe succeeds";
        probe_delay_initial_ms "probe-timeout-initial" ('r') Number("MS") "10000"
            "Time to the first probe of a server marked TKO; 5 to 50 % are added at random";
        probe_delay_max_ms "probe-timeout-max" () Number("MS") "60000"
            "Longest time between probes, which grows by half after each; 5 to 50 % are added at random";
        disable_tko_tracking "disable-tko-tracking" () Switch ""
            "Mark no server TKO: keep sending requests to servers that fail";
        reset_inactive_connection_interval "reset-inactive-connection-interval" () Number("MS") "60000"
            "Close a connection to a server after it was idle for this long, or up to twice as long (0: never)";
        enable_qos "enable-qos" () Switch ""
            "Mark packets to servers with the qos of their pool, or with the two flags below";
        default_qos_class "default-qos-class" () Number "0"
            "QoS class, 0 to 4, for pools without qos";
        default_qos_path "default-qos-path" () Number "0"
            "QoS path, 0 to 3, for pools without qos";
        dns_servers "dns-servers" () Text("ADDR,...") ""
            "DNS servers to ask for servers' names, separated by commas [default: those of /etc/resolv.conf]";
        trust_reply_order "trust-reply-order" () Switch ""
            "Match a server's values to the keys asked for by their order, even if they are for other keys; always on under the name mcrouter. Without it the router closes such a connection";
        target_max_inflight_requests "target-max-inflight-requests" () Number "0"
            "Maximum number of requests under way to each server, per thread; more wait in a queue (0: no limit)";
        target_max_pending_requests "target-max-pending-requests" () Number "100000"
            "Maximum number of requests in that queue; more fail at once (0: no limit)";
    }
    "Deletes" {
        async_spool "async-dir" ('a') Text("DIR") "/var/spool/mcrouter"
            "Where failed deletes are written, to be sent again later";
        async_limit "async-limit" () Size "1g"
            "Bytes of files there; a delete that fails when they have as many is answered with its error (0: no limit)";
        asynclog_disable "asynclog-disable" () Switch ""
            "Answer a failed delete with its error, and write no failed deletes";
        use_asynclog_version2 "use-asynclog-version2" () Switch ""
            "Write failed deletes in version 2 of mcrouter's format";
    }
    "Watching" {
        log_file "log-path" ('L') Text("FILE") ""
            "File to append the log to [default: standard error]";
        log_format "log-format" () Format "text"
            "Format of log lines; journald is text with a priority in front";
        verbosity "verbosity" ('v') Number "0"
            "What is logged: 0 errors, warnings and notices; 1 also problems with single clients; 2 also each connection";
        stats_root "stats-root" () Text("DIR") "/var/mcrouter/stats"
            "Where statistics are written as files; nothing is written if the directory does not exist";
        debug_fifo_root "debug-fifo-root" () Text("DIR") ""
            "Where to make named pipes from which mcpiper reads the traffic [default: no pipes]";
        stats_logging_interval "stats-logging-interval" () Number("MS") "10000"
            "Time between writes of the statistics' files (0: none are written)";
        pool_stats_config_file "pool-stats-config-file" () Text("FILE") ""
            "Count requests, errors, connections and times of the pools in this file: {\"stats_enabled_pools\": [\"NAME\"]}";
        sample_families "sample-families" () Text("SHARE") ""
            "Of this share of keys, such as 1e-6, note sizes, gets and clients by family, the part before the first colon [default: none]";
        service_name "service-name" () Text("NAME") "mcrouter"
            "Name of the service in statistics and log files";
        router_name "router-name" () Text("NAME") "0"
            "Name of this router in statistics and log files";
        http "http" () Text("ADDR") ""
            "Serve /metrics, /livez and /readyz over HTTP at this address; with a port alone, only this machine can connect";
    }
}

/// Switches of mcrouter that have no effect here.
pub(super) const SWITCHES_IGNORED: &[&str] = &[
    "use-mux-io-thread-pool",
    "disable-fibers-use-guard-pages",
    "ssl-service-identity-authorization-log",
    "ssl-service-identity-authorization-enforce",
    "ssl-connection-cache",
    "ssl-handshake-offload",
    "ssl-verify-peers",
    "enable-compression",
    "constantly-reload-configs",
    "disable-request-deadline-check",
    "jemalloc-nodump-buffers",
    "disable-failure-logging",
    "test-mode",
    "disable-send-to-main-shard-split",
    "enable-ssl-tfo",
    "force-same-thread",
    "thread-affinity",
    "enable-service-router",
    "enable-axonlog",
    "external-carbon-connection-logging-enabled",
    "delete-carbon-instance-upon-init-failure",
    "dump_preprocessed_config_enabled",
    "ssl-use-ktls12",
    "enable-server-compression",
    "enable-pass-through-mode",
    "acl-checker-enable",
    "acl-checker-enforce",
    "prefix-acl-checker-enable",
    "remote-thread",
    "use-thrift",
    "key-client-binding-enable",
    "key-client-binding-nonlookaside-enable",
];

/// Flags with a number that have no effect here.
pub(super) const NUMBERS_IGNORED: &[&str] = &[
    "fibers-max-pool-size",
    "fibers-stack-size",
    "fibers-record-stack-size-every",
    "file-observer-sleep-before-update-ms",
    "fibers-pool-resize-period-ms",
    "max-no-flush-event-loops",
    "tcp-rto-min",
    "post-reconfiguration-delay-ms",
    "connect-timeout-retries",
    "logging-rtt-outlier-threshold-us",
    "stats-async-queue-length",
    "collect-rxmit-stats-every-hz",
    "rxmit-latency-deviation-us",
    "min-rxmit-reconnect-threshold",
    "max-rxmit-reconnect-threshold",
    "thrift-compression-threshold",
    "xdp-tx-truncate-bytes",
    "external-carbon-connection-log-rate-per-hour",
    "external-carbon-connection-log-max-burst",
    "external-carbon-connection-log-sample-rate",
    "proxy-cpu-interval-s",
    "max_preprocessed_config_history",
    "server-load-interval-ms",
    "tfo-queue-size",
    "tcp-zero-copy-threshold",
    "num-listening-sockets",
    "thrift-port",
    "thrift-listen-sock-fd",
    "core-multiplier-threshold",
    "rss-limit-mb",
];

/// Flags with text that have no effect here.
pub(super) const TEXTS_IGNORED: &[&str] = &[
    "additional-ssl-service-identities",
    "carbon-router-name",
    "tls-ticket-key-seed-path",
    "server-ssl-service-identity",
    "key-client-binding-nonlookaside-verifier",
    "core-multiplier",
    "debug-sr-host-list",
];
