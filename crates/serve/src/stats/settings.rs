//! `stats settings`: what the server was told, and defaults for what it wasn't.

use super::line;
use crate::settings::Listen;
use crate::shared::Shared;

/// Answers `stats settings`.
pub(crate) fn settings(shared: &Shared, out: &mut Vec<u8>) {
    network(shared, out);
    memory(shared, out);
    tuning(shared, out);
    outside(out);
    own(shared, out);
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn network(shared: &Shared, out: &mut Vec<u8>) {
    let s = &shared.settings;
    let (socket, mode) = match &s.listen {
        Listen::Unix { path, mode } => (path.display().to_string(), *mode),
        Listen::Tcp(_) => ("NULL".to_owned(), 0o700),
    };
    line(out, "maxbytes", shared.cache.memory_limit());
    line(out, "maxconns", s.connections_max);
    line(out, "tcpport", s.tcp_port());
    line(out, "udpport", s.udp_port);
    line(out, "inter", s.inter.as_deref().unwrap_or("NULL"));
    line(out, "verbosity", shared.log.level());
    line(out, "oldest", 0);
    line(out, "evictions", if s.evictions { "on" } else { "off" });
    line(out, "domain_socket", socket);
    line(out, "umask", format!("{mode:o}"));
    line(out, "shutdown_command", yes(s.shutdown_enabled));
}

fn memory(shared: &Shared, out: &mut Vec<u8>) {
    let s = &shared.settings;
    line(out, "growth_factor", format!("{:.2}", s.growth_factor.unwrap_or(1.25)));
    line(out, "chunk_size", s.chunk_bytes_min);
    line(out, "num_threads", s.threads);
    line(out, "num_threads_per_udp", s.threads);
    line(out, "stat_key_prefix", char::from(s.prefix_delimiter));
    line(out, "detail_enabled", yes(shared.detail.is_on()));
    line(out, "reqs_per_event", s.requests_per_turn);
    line(out, "cas_enabled", yes(s.cas_enabled));
    line(out, "tcp_backlog", s.backlog);
    line(out, "binding_protocol", s.protocol.name());
    line(out, "auth_enabled_sasl", "no");
    line(out, "auth_enabled_ascii", "no");
    line(out, "item_size_max", s.item_bytes_max);
    line(out, "maxconns_fast", yes(s.extended.maxconns_fast));
}

fn tuning(shared: &Shared, out: &mut Vec<u8>) {
    let s = &shared.settings;
    let e = &s.extended;
    line(out, "hashpower_init", e.hashpower);
    line(out, "slab_reassign", yes(e.slab_reassign));
    line(out, "slab_automove", e.slab_automove);
    line(out, "slab_automove_ratio", format!("{:.2}", e.slab_automove_ratio));
    line(out, "slab_automove_window", e.slab_automove_window);
    line(out, "slab_chunk_max", e.slab_chunk_bytes_max);
    line(out, "lru_crawler", yes(e.lru_crawler));
    line(out, "lru_crawler_sleep", e.lru_crawler_sleep_us);
    line(out, "lru_crawler_tocrawl", e.lru_crawler_tocrawl);
    line(out, "tail_repair_time", e.tail_repair_time_s);
    line(out, "flush_enabled", yes(s.flush_enabled));
    line(out, "dump_enabled", yes(s.dump_enabled));
    line(out, "hash_algorithm", e.hash_algorithm);
    line(out, "lru_maintainer_thread", yes(e.lru_maintainer));
    line(out, "lru_segmented", yes(e.lru_segmented));
    line(out, "hot_lru_pct", e.hot_lru_pct);
    line(out, "warm_lru_pct", e.warm_lru_pct);
    line(out, "hot_max_factor", format!("{:.2}", e.hot_max_factor));
    line(out, "warm_max_factor", format!("{:.2}", e.warm_max_factor));
    line(out, "temp_lru", yes(e.temporary_ttl_s.is_some()));
    line(out, "temporary_ttl", e.temporary_ttl_s.unwrap_or(61));
    line(out, "idle_timeout", e.idle_timeout_s);
    line(out, "watcher_logbuf_size", e.watcher_logbuf_bytes);
    line(out, "worker_logbuf_size", e.worker_logbuf_bytes);
    line(out, "read_buf_mem_limit", e.read_buf_mem_limit_bytes);
    line(out, "track_sizes", yes(e.track_sizes));
    line(out, "inline_ascii_response", "no");
    line(out, "drop_privileges", yes(e.drop_privileges));
    line(out, "slab_automove_freeratio", format!("{:.3}", e.slab_automove_freeratio));
}

/// Of storage outside memory only the names are there, for readers that count on them.
fn outside(out: &mut Vec<u8>) {
    line(out, "num_napi_ids", 0);
    line(out, "memory_file", "(null)");
    line(out, "client_flags_size", size_of::<u32>());
}

/// What memcached has no choice of.
fn own(shared: &Shared, out: &mut Vec<u8>) {
    line(out, "index", shared.settings.index);
    line(out, "eviction", shared.settings.eviction);
}
