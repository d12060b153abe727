//! `stats settings`: the settings that were given, and the defaults of the others.
//!
//! Flags have a row here. A setting of `-o` declares its own line (`settings/suboption.rs`), unless
//! commands can change it while the server runs: then it has a row here as well.

use super::row::{Row, Value, View, line, lines, number, rows, text, zero};
use crate::process::Process;
use crate::settings::{Listen, Shown, suboptions};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Replies to `stats settings`: memcached's lines in its order, then Guira's own.
pub(crate) fn settings(process: &Process, now: u32, out: &mut Vec<u8>) {
    let view = View::new(process, now);
    for (rows, suboptions) in SETTINGS {
        lines(rows, &view, "", out);
        for name in suboptions.split_whitespace() {
            suboption(name, &view, out);
        }
    }
    for name in own() {
        suboption(name, &view, out);
    }
}

/// Appends the line of a setting of `-o`.
fn suboption(name: &str, view: &View<'_>, out: &mut Vec<u8>) {
    let is_absent = name.starts_with("ssl_") && !view.settings().tls_enabled
        || name.starts_with("ext_") && view.process.storage.is_none();
    if is_absent {
        return;
    }
    let shown = suboptions().find_map(|suboption| match suboption.shown {
        Shown::As(shown, value) if shown == name => Some(value),
        _ => None,
    });
    if let Some(value) = shown {
        line(out, name, value(&view.settings().extended));
    }
}

/// Settings of `-o` for which memcached has no line.
fn own() -> impl Iterator<Item = &'static str> {
    let is_placed = |name: &str| {
        SETTINGS.iter().any(|(_, names)| names.split_whitespace().any(|placed| placed == name))
    };
    suboptions().filter_map(move |suboption| match suboption.shown {
        Shown::As(name, _) if !is_placed(name) => Some(name),
        _ => None,
    })
}

/// Rows, and the names of the `-o` settings whose lines follow them.
pub(crate) type Lines = (&'static [Row], &'static str);

/// memcached's settings in its order. The last group also has Guira's own.
pub(crate) const SETTINGS: &[Lines] = &[
    (FLAGS, "maxconns_fast hashpower_init slab_reassign"),
    (AUTOMOVE, "slab_chunk_max"),
    (CRAWLER, "tail_repair_time"),
    (REFUSALS, "hash_algorithm"),
    (
        QUEUES,
        "idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit track_sizes \
         inline_ascii_response drop_privileges",
    ),
    (STORAGE_FIRST, "ext_wbuf_size"),
    (STORAGE, "slab_automove_freeratio"),
    (STORAGE_LAST, ""),
    (
        TLS,
        "ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert ssl_wbuf_size \
         ssl_session_cache ssl_kernel_tls ssl_min_version",
    ),
    (LAST, ""),
];

const FLAGS: &[Row] = rows! {
    maxbytes, "-m in bytes, as changed since", |v| number(v.process.memory.limit_bytes());
    maxconns, "-c", |v| number(v.settings().connections_max) => gauge memcached_max_connections;
    tcpport, "-p", |v| text(v.settings().tcp_port());
    udpport, "-U", |v| text(v.settings().udp_port);
    inter, "-l", |v| text(v.settings().inter.as_deref().unwrap_or("NULL"));
    verbosity, "-v, as changed since", |v| number(v.process.log.verbosity());
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
    detail_enabled, "whether stats detail counts", |v| Value::Flag(v.process.detail.is_on());
    reqs_per_event, "-R", |v| number(v.settings().requests_per_turn);
    cas_enabled, "no with -C", |v| Value::Flag(v.settings().cas_enabled);
    tcp_backlog, "-b", |v| text(v.settings().backlog);
    binding_protocol, "-B", |v| text(v.settings().protocol.name());
    auth_enabled_sasl, "-S", |v| Value::Flag(v.settings().sasl);
    auth_enabled_ascii, "the file of -Y, or no", |v| path(v.settings().auth_file.as_deref(), "no");
    item_size_max, "-I", |v| number(v.settings().item_bytes_max);
};

const AUTOMOVE: &[Row] = rows! {
    slab_automove, "-o slab_automove", |v| number(v.process.cache.automove().level);
    slab_automove_ratio, "-o slab_automove_ratio", |v| Value::Fraction(v.process.cache.automove().ratio, 2);
    slab_automove_window, "-o slab_automove_window", |v| number(v.process.cache.automove().window_s);
};

const CRAWLER: &[Row] = rows! {
    lru_crawler, "-o lru_crawler", |v| Value::Flag(v.process.crawler.is_enabled()) => gauge memcached_lru_crawler_enabled;
    lru_crawler_sleep, "-o lru_crawler_sleep, microseconds", |v| number(v.process.crawler.sleep_us()) => gauge memcached_lru_crawler_sleep;
    lru_crawler_tocrawl, "-o lru_crawler_tocrawl", |v| number(v.process.crawler.to_crawl()) => gauge memcached_lru_crawler_to_crawl;
};

const REFUSALS: &[Row] = rows! {
    flush_enabled, "no with -F", |v| Value::Flag(v.settings().flush_enabled);
    dump_enabled, "no with -X", |v| Value::Flag(v.settings().dump_enabled);
};

const QUEUES: &[Row] = rows! {
    lru_maintainer_thread, "-o lru_maintainer", |v| Value::Flag(v.settings().extended.lru_maintainer) => gauge memcached_lru_crawler_maintainer_thread;
    lru_segmented, "-o lru_segmented", |v| Value::Flag(v.process.queues.lock().is_segmented);
    hot_lru_pct, "-o hot_lru_pct", |v| number(v.process.queues.lock().hot_percent) => gauge memcached_lru_crawler_hot_percent;
    warm_lru_pct, "-o warm_lru_pct", |v| number(v.process.queues.lock().warm_percent) => gauge memcached_lru_crawler_warm_percent;
    hot_max_factor, "-o hot_max_factor", |v| Value::Fraction(v.process.queues.lock().hot_factor, 2) => gauge memcached_lru_crawler_hot_max_factor;
    warm_max_factor, "-o warm_max_factor", |v| Value::Fraction(v.process.queues.lock().warm_factor, 2) => gauge memcached_lru_crawler_warm_max_factor;
    temp_lru, "-o temporary_ttl", |v| Value::Flag(v.process.queues.lock().has_temporary);
    temporary_ttl, "-o temporary_ttl", |v| number(v.process.queues.lock().temporary_ttl_s);
};

const STORAGE_FIRST: &[Row] = rows! {
    #[Storage] ext_item_size, "-o ext_item_size, as changed since", |v| number(v.of_storage(|s| s.live.item_bytes_min.load(Relaxed)));
    #[Storage] ext_item_age, "-o ext_item_age, as changed since", |v| number(v.of_storage(|s| s.live.item_age_s.load(Relaxed)));
    #[Storage] ext_low_ttl, "-o ext_low_ttl, as changed since", |v| number(v.of_storage(|s| s.live.low_ttl_s.load(Relaxed)));
    #[Storage] ext_recache_rate, "-o ext_recache_rate, as changed since", |v| number(v.of_storage(|s| s.live.recache_rate.load(Relaxed)));
};

const STORAGE: &[Row] = rows! {
    #[Storage] ext_compact_under, "-o ext_compact_under, as changed since", |v| number(v.of_storage(|s| s.live.compact_under.load(Relaxed)));
    #[Storage] ext_drop_under, "-o ext_drop_under, as changed since", |v| number(v.of_storage(|s| s.live.drop_under.load(Relaxed)));
    #[Storage] ext_max_sleep, "-o ext_max_sleep, as changed since", |v| number(v.of_storage(|s| s.live.max_sleep_us.load(Relaxed)));
    #[Storage] ext_max_frag, "-o ext_max_frag, as changed since", |v| Value::Fraction(v.of_storage(|s| s.live.max_frag()), 2);
};

const STORAGE_LAST: &[Row] = rows! {
    #[Storage] ext_drop_unread, "-o ext_drop_unread, as changed since", |v| Value::Flag(v.of_storage(|s| s.live.drop_unread.load(Relaxed)));
};

const TLS: &[Row] = rows! {
    #[Tls] ssl_enabled, "-Z", |v| Value::Flag(v.settings().tls_enabled);
};

const LAST: &[Row] = rows! {
    num_napi_ids, "-N", zero;
    unfinished_limit, "-o unfinished_limit, in bytes", |v| number(v.process.unfinished.bytes_max());
    unsent_limit, "-o unsent_limit, in bytes", |v| number(v.process.unsent.bytes_max());
    memory_file, "-e", |v| path(v.settings().memory_file.as_deref(), "(null)");
    client_flags_size, "bytes of a client's flags", |_| number(size_of::<u32>());
    transient, "-o transient, in seconds", |v| number(v.settings().transient_s());
    index, "--index", |v| text(v.settings().index);
    log_format, "--log-format", |v| text(v.settings().log_format);
    eviction, "--eviction", |v| text(v.settings().eviction);
};

/// The unix socket's path and mode, or what memcached shows without one.
fn unix_socket(v: &View<'_>) -> (String, u32) {
    match &v.settings().listen {
        Listen::Unix { path, mode } => (path.display().to_string(), *mode),
        Listen::Tcp(_) | Listen::Udp(_) => ("NULL".to_owned(), 0o700),
    }
}

/// Shows a path, or the word for none.
fn path(file: Option<&Path>, none: &str) -> Value {
    text(file.map_or_else(|| none.to_owned(), |file| file.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_commands_change_has_a_row_and_no_name_comes_twice() {
        let rows = || SETTINGS.iter().flat_map(|(rows, _)| *rows);
        for suboption in suboptions().filter(|suboption| matches!(suboption.shown, Shown::Live)) {
            let of = format!("-o {}", suboption.name);
            let is_of = |meaning: &str| meaning.split(',').next() == Some(&of);
            assert!(rows().any(|row| is_of(row.meaning)), "stats settings has no row for {of}");
        }
        let placed = SETTINGS.iter().flat_map(|(_, names)| names.split_whitespace());
        let mut names: Vec<&str> = rows().map(|row| row.name).chain(placed).chain(own()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }
}
