//! `stats settings`: what the server was told, and defaults for what it wasn't.

use super::lines;
use super::row::{Row, Value, View, number, rows, text, zero};
use crate::settings::{Listen, TlsSettings};
use crate::shared::Shared;
use std::path::Path;

/// Answers `stats settings`.
pub(crate) fn settings(shared: &Shared, now: u32, out: &mut Vec<u8>) {
    lines(SETTINGS, &View::new(shared, now), "", out);
}

/// memcached's settings in its order, then what it has no choice of.
pub(crate) const SETTINGS: &[Row] = rows! {
    maxbytes, "-m in bytes, as changed since", |v| number(v.shared.memory.limit_bytes());
    maxconns, "-c", |v| number(v.settings().connections_max) => gauge memcached_max_connections;
    tcpport, "-p", |v| text(v.settings().tcp_port());
    udpport, "-U", |v| text(v.settings().udp_port);
    inter, "-l", |v| text(v.settings().inter.as_deref().unwrap_or("NULL"));
    verbosity, "-v, as changed since", |v| number(v.shared.log.level());
    oldest, "0", zero;
    evictions, "off with -M", |v| text(if v.settings().evictions { "on" } else { "off" });
    domain_socket, "-s", |v| text(unix_socket(v).0);
    umask, "-a", |v| text(format_args!("{:o}", unix_socket(v).1));
    shutdown_command, "-A", |v| Value::Flag(v.settings().shutdown_enabled);
    growth_factor, "-f", |v| Value::Fraction(v.settings().growth_factor.unwrap_or(1.25), 2);
    chunk_size, "-n", |v| number(v.settings().chunk_bytes_min);
    num_threads, "-t", |v| number(v.settings().threads);
    num_threads_per_udp, "-t", |v| number(v.settings().threads);
    stat_key_prefix, "-D", |v| text(char::from(v.settings().prefix_delimiter));
    detail_enabled, "whether stats detail counts", |v| Value::Flag(v.shared.detail.is_on());
    reqs_per_event, "-R", |v| number(v.settings().requests_per_turn);
    cas_enabled, "no with -C", |v| Value::Flag(v.settings().cas_enabled);
    tcp_backlog, "-b", |v| text(v.settings().backlog);
    binding_protocol, "-B", |v| text(v.settings().protocol.name());
    auth_enabled_sasl, "-S", |v| Value::Flag(v.settings().sasl);
    auth_enabled_ascii, "the file of -Y, or no", |v| path(v.settings().auth_file.as_deref(), "no");
    item_size_max, "-I", |v| number(v.settings().item_bytes_max);
    maxconns_fast, "-o maxconns_fast", |v| Value::Flag(v.settings().extended.maxconns_fast);
    hashpower_init, "-o hashpower", |v| number(v.settings().extended.hashpower);
    slab_reassign, "-o slab_reassign", |v| Value::Flag(v.settings().extended.slab_reassign);
    slab_automove, "-o slab_automove", |v| number(v.shared.cache.automove().level);
    slab_automove_ratio, "-o slab_automove_ratio", |v| Value::Fraction(v.shared.cache.automove().ratio, 2);
    slab_automove_window, "-o slab_automove_window", |v| number(v.shared.cache.automove().window_s);
    slab_chunk_max, "-o slab_chunk_max, in bytes", |v| number(v.settings().extended.slab_chunk_bytes_max);
    lru_crawler, "-o lru_crawler", |v| Value::Flag(v.shared.crawler.is_enabled()) => gauge memcached_lru_crawler_enabled;
    lru_crawler_sleep, "-o lru_crawler_sleep, microseconds", |v| number(v.shared.crawler.sleep_us()) => gauge memcached_lru_crawler_sleep;
    lru_crawler_tocrawl, "-o lru_crawler_tocrawl", |v| number(v.shared.crawler.to_crawl()) => gauge memcached_lru_crawler_to_crawl;
    tail_repair_time, "-o tail_repair_time", |v| number(v.settings().extended.tail_repair_time_s);
    flush_enabled, "no with -F", |v| Value::Flag(v.settings().flush_enabled);
    dump_enabled, "no with -X", |v| Value::Flag(v.settings().dump_enabled);
    hash_algorithm, "-o hash_algorithm", |v| text(v.settings().extended.hash_algorithm);
    lru_maintainer_thread, "-o lru_maintainer", |v| Value::Flag(v.settings().extended.lru_maintainer) => gauge memcached_lru_crawler_maintainer_thread;
    lru_segmented, "-o lru_segmented", |v| Value::Flag(v.shared.queues.read().is_segmented);
    hot_lru_pct, "-o hot_lru_pct", |v| number(v.shared.queues.read().hot_percent) => gauge memcached_lru_crawler_hot_percent;
    warm_lru_pct, "-o warm_lru_pct", |v| number(v.shared.queues.read().warm_percent) => gauge memcached_lru_crawler_warm_percent;
    hot_max_factor, "-o hot_max_factor", |v| Value::Fraction(v.shared.queues.read().hot_factor, 2) => gauge memcached_lru_crawler_hot_max_factor;
    warm_max_factor, "-o warm_max_factor", |v| Value::Fraction(v.shared.queues.read().warm_factor, 2) => gauge memcached_lru_crawler_warm_max_factor;
    temp_lru, "-o temporary_ttl", |v| Value::Flag(v.shared.queues.read().has_temporary);
    temporary_ttl, "-o temporary_ttl", |v| number(v.shared.queues.read().temporary_ttl_s);
    idle_timeout, "-o idle_timeout", |v| number(v.settings().extended.idle_timeout_s);
    watcher_logbuf_size, "-o watcher_logbuf_size, in bytes", |v| number(v.settings().extended.watcher_logbuf_bytes);
    worker_logbuf_size, "-o worker_logbuf_size, in bytes", |v| number(v.settings().extended.worker_logbuf_bytes);
    read_buf_mem_limit, "-o read_buf_mem_limit, in bytes", |v| number(v.settings().extended.read_buf_mem_limit_bytes);
    track_sizes, "-o track_sizes", |v| Value::Flag(v.settings().extended.track_sizes);
    inline_ascii_response, "no", |_| Value::Flag(false);
    drop_privileges, "-o drop_privileges", |v| Value::Flag(v.settings().extended.drop_privileges);
    slab_automove_freeratio, "-o slab_automove_freeratio", |v| Value::Fraction(v.settings().extended.slab_automove_freeratio, 3);
    #[Tls] ssl_enabled, "-Z", |v| Value::Flag(v.settings().tls_enabled);
    #[Tls] ssl_chain_cert, "-o ssl_chain_cert", |v| path(tls(v).chain_cert.as_deref(), "(null)");
    #[Tls] ssl_key, "-o ssl_key", |v| path(tls(v).key.as_deref(), "(null)");
    #[Tls] ssl_verify_mode, "-o ssl_verify_mode", |v| number(tls(v).verify as u64);
    #[Tls] ssl_keyformat, "-o ssl_keyformat", |v| number(tls(v).key_format as u64);
    #[Tls] ssl_ciphers, "-o ssl_ciphers", |v| text(tls(v).ciphers.as_deref().unwrap_or("NULL"));
    #[Tls] ssl_ca_cert, "-o ssl_ca_cert", |v| path(tls(v).ca_cert.as_deref(), "NULL");
    #[Tls] ssl_wbuf_size, "-o ssl_wbuf_size, in bytes", |v| number(tls(v).wbuf_bytes);
    #[Tls] ssl_session_cache, "-o ssl_session_cache", |v| Value::Flag(tls(v).session_cache);
    #[Tls] ssl_kernel_tls, "no: records are encrypted in the process", |_| Value::Flag(false);
    #[Tls] ssl_min_version, "-o ssl_min_version", |v| text(tls(v).min_version());
    num_napi_ids, "-N", zero;
    memory_file, "-e", |v| path(v.settings().memory_file.as_deref(), "(null)");
    client_flags_size, "bytes of a client's flags", |_| number(size_of::<u32>());
    index, "--index", |v| text(v.settings().index);
    eviction, "--eviction", |v| text(v.settings().eviction);
};

/// The unix socket's path and mode, and what memcached shows without one.
fn unix_socket(v: &View<'_>) -> (String, u32) {
    match &v.settings().listen {
        Listen::Unix { path, mode } => (path.display().to_string(), *mode),
        Listen::Tcp(_) => ("NULL".to_owned(), 0o700),
    }
}

fn tls<'s>(view: &View<'s>) -> &'s TlsSettings {
    &view.settings().extended.tls
}

/// A file, or the word for none.
fn path(file: Option<&Path>, none: &str) -> Value {
    text(file.map_or_else(|| none.to_owned(), |file| file.display().to_string()))
}
