//! The table of the router's flags, in the order of the help.

use super::{Flag, Kind};

macro_rules! flags {
    ($($group:literal { $($name:ident $long:literal ($($short:literal)?) $kind:ident $default:literal
        $help:literal;)* })*) => {
        /// The flags with an effect.
        pub(crate) const FLAGS: &[Flag] = &[$($(Flag {
            name: stringify!($name),
            long: $long,
            short: &[$($short)?],
            kind: Kind::$kind,
            default: $default,
            help: $help,
            group: $group,
        }),*),*];
    };
}

flags! {
    "Listening" {
        ports "port" ('p') Text ""
            "TCP ports to listen on, separated by commas";
        listen_addresses "listen-addresses" () Text ""
            "Addresses to listen on with -p, separated by commas [default: all]";
        listen_sock_fd "listen-sock-fd" () Number "-1"
            "A listening socket to take over, by its descriptor";
        unix_domain_sock "unix-domain-sock" () Text ""
            "A unix socket to listen on";
        tcp_listen_backlog "tcp-listen-backlog" () Number "4096"
            "Connections that may wait to be accepted";
        num_proxies "num-proxies" () Number ""
            "Threads that serve clients, each with its own connections to servers [default: one a processor]";
        max_conns "max-conns" () Number "0"
            "Connections of clients at once; further ones are closed (0: as many as there are descriptors)";
        max_client_outstanding_reqs "max-client-outstanding-reqs" () Number "100"
            "Requests of one client that are under way at once; more are read when these are answered (0: no limit)";
        client_memory "client-memory" () Size "256m"
            "What is held for all clients together: requests, and replies that they haven't taken (0: no limit)";
        client_memory_each "client-memory-each" () Size "128m"
            "The same for one client, which may never hold more than is still free (0: no limit)";
        client_timeout_ms "client-timeout" () Number "1000"
            "Milliseconds after which a client that takes no replies is closed (0: never)";
        proxy_max_inflight_requests "proxy-max-inflight-requests" () Number "0"
            "Requests of all clients under way at once, a thread; more wait their turn (0: no limit)";
        proxy_max_throttled_requests "proxy-max-throttled-requests" () Number "0"
            "Requests that so wait, a thread; more are answered 307 busy (0: no limit)";
        waiting_request_timeout_ms "waiting-request-timeout-ms" () Number "0"
            "Milliseconds one may so wait before it is answered 307 busy, where they are limited (0: for ever)";
        enable_shutdown "enable-shutdown" () Switch ""
            "Let every client end the router with shutdown, as under the name mcrouter [default: those of this machine that are of the router's own user, or root's]";
        disable_shutdown "disable-shutdown" () Switch ""
            "Let no client end the router with shutdown, whatever the flag above says";
        retain_source_ip "retain-source-ip" () Switch ""
            "Let routes know the clients' addresses";
        keepalive_cnt "keepalive-count" ('K') Number "0"
            "TCP keepalive probes before a connection is given up (0: no keepalive)";
        keepalive_interval_s "keepalive-interval" ('i') Number "60"
            "Seconds between keepalive probes";
        keepalive_idle_s "keepalive-idle" ('I') Number "300"
            "Seconds of silence before the first keepalive probe";
    }
    "TLS and logins" {
        ssl_ports "ssl-port" () Text ""
            "TCP ports for clients over TLS, separated by commas, at the addresses of -p";
        pem_cert_path "pem-cert-path" () Text ""
            "The router's certificate chain in PEM, for servers that want one, and for clients";
        pem_key_path "pem-key-path" () Text ""
            "Its key [default: in the file of the certificate]";
        pem_ca_path "pem-ca-path" () Text ""
            "Who signs servers' certificates; pools with use_ssl need it";
        ssl_service_identity "ssl-service-identity" () Text ""
            "The name in servers' certificates, where it isn't their host's";
        server_pem_cert_path "server-pem-cert-path" () Text ""
            "The certificate chain that clients see, if it is another";
        server_pem_key_path "server-pem-key-path" () Text ""
            "Its key";
        server_pem_ca_path "server-pem-ca-path" () Text ""
            "Who signs clients' certificates, which are checked then if there is one";
        ssl_require_peer_certs "ssl-require-peer-certs" () Switch ""
            "Refuse clients over TLS that have no certificate";
        auth_file "auth-file" () Text ""
            "Lines user:password: clients log in first, as with memcached's -Y";
        server_auth_file "server-auth-file" () Text ""
            "A line user:password to log in with at each server";
    }
    "Configuration" {
        config "config" () Text ""
            "The configuration: PATH or file:PATH, etcd:HOST:PORT/KEY (etcds: over TLS), or the text itself";
        config_file "config-file" ('f') Text ""
            "The configuration's path, as --config file:PATH has it";
        config_str "config-str" () Text ""
            "The configuration's text, as --config has it";
        etcd_cacert "etcd-cacert" () Text ""
            "Who signs etcd's certificate, in PEM; etcds: needs it";
        etcd_cert "etcd-cert" () Text ""
            "The router's certificate chain in PEM, for an etcd that wants one";
        etcd_key "etcd-key" () Text ""
            "Its key [default: in the file of the certificate]";
        etcd_auth_file "etcd-auth-file" () Text ""
            "A line user:password to log in with at etcd";
        strict "strict" () Switch ""
            "Refuse a configuration with unknown fields or values, at the start and at a reload";
        config_budget "config-budget" () Size "64m"
            "Memory that reading a configuration may take, and building its routes; a larger one is refused";
        default_route "route-prefix" ('R') Text "/././"
            "The routing prefix of keys without one";
        config_params "config-params" () Text ""
            "Constants for the configuration's macros: name:value,name:value";
        config_dump_root "config-dump-root" () Text "/var/spool/mcrouter/configs"
            "Where the last good configuration is kept, for a start with a bad one (empty: nowhere)";
        max_dumped_config_age "max-dumped-config-age" () Number "43200"
            "Seconds for which a kept configuration may be used (0: never)";
        runtime_vars_file "runtime-vars-file" () Text "/etc/mcrouter/mcrouter.json"
            "Variables that routes look at while they run";
        disable_reload_configs "disable-reload-configs" () Switch ""
            "Don't look whether the configuration has changed";
        file_observer_poll_period_ms "file-observer-poll-period-ms" () Number "100"
            "Milliseconds between looks at the configuration's files";
        reconfiguration_delay_ms "reconfiguration-delay-ms" () Number "1000"
            "Milliseconds from a change of the configuration to its use";
        reconfiguration_jitter_ms "reconfiguration-jitter-ms" () Number "0"
            "Up to so many milliseconds more, at random";
    }
    "Routes" {
        send_invalid_route_to_default "send-invalid-route-to-default" () Switch ""
            "Send keys with an unknown routing prefix where keys without one go";
        enable_flush_cmd "enable-flush-cmd" () Switch ""
            "Allow flush_all, which goes to all servers of all pools";
        allow_only_gets "allow-only-gets" () Switch ""
            "Answer whatever isn't a get as if nothing were there, and send nothing";
        group_remote_errors "group-remote-errors" () Switch ""
            "Answer all failures of servers with one: SERVER_ERROR remote error";
        big_value_split_threshold "big-value-split-threshold" () Size "0"
            "Cut values longer than this into chunks: bytes, or with a unit, such as 512k (0: don't)";
        big_value_batch_size "big-value-batch-size" () Number "10"
            "Chunks under way at once (0: all)";
        big_value_hide_reply_flag "big-value-hide-reply-flag" () Switch ""
            "Don't show the flag that marks a value cut into chunks";
        enable_logging_route "enable-logging-route" () Switch ""
            "Log each request (for tests)";
        target_max_shadow_requests "target-max-shadow-requests" () Number "1000"
            "Shadow requests under way at once, a server and thread";
        proxy_max_inflight_shadow_requests "proxy-max-inflight-shadow-requests" () Number "0"
            "Shadow requests under way at once, a thread; more are dropped (0: no limit)";
        max_shadow_token_map_size "max-shadow-token-map-size" () Number "1024"
            "Lease tokens remembered for shadows";
        disable_shard_split_route "disable-shard-split-route" () Switch ""
            "Ignore shard_splits of pools";
    }
    "Servers" {
        server_timeout_ms "server-timeout" ('t') Number "1000"
            "Milliseconds for a server's reply";
        cross_region_timeout_ms "cross-region-timeout-ms" () Number "0"
            "The same for pools of another region (0: as above)";
        cross_cluster_timeout_ms "cross-cluster-timeout-ms" () Number "0"
            "The same for pools of the same region and another cluster (0: as above)";
        within_cluster_timeout_ms "within-cluster-timeout-ms" () Number "0"
            "The same for pools of the same cluster (0: as above)";
        failures_until_tko "timeouts-until-tko" () Number "3"
            "Timeouts in a row after which a server is not asked until a probe succeeds";
        probe_delay_initial_ms "probe-timeout-initial" ('r') Number "10000"
            "Milliseconds to the first probe of such a server";
        probe_delay_max_ms "probe-timeout-max" () Number "60000"
            "Most milliseconds between probes, which grow by half each time";
        disable_tko_tracking "disable-tko-tracking" () Switch ""
            "Go on asking servers that fail";
        reset_inactive_connection_interval "reset-inactive-connection-interval" () Number "60000"
            "Milliseconds after which, or at most twice that, an idle connection to a server is closed (0: never)";
        enable_qos "enable-qos" () Switch ""
            "Mark packets to servers as pools' qos, or the next two flags, say";
        default_qos_class "default-qos-class" () Number "0"
            "Class of packets to servers of pools without qos, from 0 to 4";
        default_qos_path "default-qos-path" () Number "0"
            "Path of such packets, from 0 to 3";
        dns_servers "dns-servers" () Text ""
            "Who is asked for servers' names, by addresses separated by commas [default: as /etc/resolv.conf says]";
        trust_reply_order "trust-reply-order" () Switch ""
            "Believe a server whose first value is another key's, and tell its values by their order, as under the name mcrouter";
        target_max_inflight_requests "target-max-inflight-requests" () Number "0"
            "Requests under way at once, a server and thread; more wait their turn (0: no limit)";
        target_max_pending_requests "target-max-pending-requests" () Number "100000"
            "Requests that so wait, a server and thread; more fail at once (0: no limit)";
    }
    "Deletes" {
        async_spool "async-dir" ('a') Text "/var/spool/mcrouter"
            "Where deletes that fail are written down to be sent later";
        asynclog_disable "asynclog-disable" () Switch ""
            "Answer the error of a delete that fails, and write nothing down";
        use_asynclog_version2 "use-asynclog-version2" () Switch ""
            "Write deletes down in mcrouter's second format";
    }
    "Watching" {
        log_file "log-path" ('L') Text ""
            "File to append the log to [default: standard error]";
        log_format "log-format" () Format "text"
            "What a line of the log looks like: text, json, or journald (a priority, then the message)";
        verbosity "verbosity" ('v') Number "0"
            "How much is logged: 0 errors, warnings and news; 1 also what goes wrong with single clients; 2 also each that comes";
        stats_root "stats-root" () Text "/var/mcrouter/stats"
            "Where statistics are written as files (a directory that doesn't exist: nowhere)";
        debug_fifo_root "debug-fifo-root" () Text ""
            "Where named pipes for mcpiper are, which shows what goes through [default: no pipes]";
        stats_logging_interval "stats-logging-interval" () Number "10000"
            "Milliseconds between writes of statistics' files (0: none are written)";
        pool_stats_config_file "pool-stats-config-file" () Text ""
            "Count these pools' requests, errors, connections and times: a file {\"stats_enabled_pools\": [\"NAME\"]}";
        service_name "service-name" () Text "mcrouter"
            "The name of the service in statistics and log files";
        router_name "router-name" () Text "0"
            "The name of this router there";
        http "http" () Text ""
            "Serve /metrics, /livez and /readyz over HTTP at this address, or port of 127.0.0.1";
    }
}

/// Switches of mcrouter without an effect here.
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

/// Flags with a number, as above.
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

/// Flags with text, as above.
pub(super) const TEXTS_IGNORED: &[&str] = &[
    "additional-ssl-service-identities",
    "carbon-router-name",
    "tls-ticket-key-seed-path",
    "server-ssl-service-identity",
    "key-client-binding-nonlookaside-verifier",
    "core-multiplier",
    "debug-sr-host-list",
];
