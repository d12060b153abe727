//! `stats` and `stats guira`: tables of rows, from which the replies and the metrics are derived.

use super::row::{Row, Value, View, class_counter, counter, gauge, number, rows, text, zero};
use crate::process::gauges::own_events;
use crate::settings::DESCRIPTORS_RESERVED;
use crate::tls::Tls;
use crate::version::VERSION;
use std::sync::atomic::Ordering::Relaxed;

/// memcached's statistics, in its order.
pub(crate) const STATS: &[Row] = rows! {
    pid, "process id", |_| number(std::process::id());
    uptime, "seconds since the start", |v| number(v.now.saturating_sub(v.process.cache.began_at_s())) => counter memcached_uptime_seconds;
    time, "Unix time by the server's clock", |v| number(v.process.time.unix(v.now).unsigned_abs()) => gauge memcached_time_seconds;
    version, "the memcached spoken, and Guira's own version", |_| text(VERSION);
    libevent, "none: Guira has its own event loop", |_| text("none");
    pointer_size, "bits of a pointer", |_| number(usize::BITS);
    rusage_user, "CPU seconds in user mode", |v| Value::Seconds(v.cpu_us[0]) => counter memcached_process_user_cpu_seconds_total;
    rusage_system, "CPU seconds in the kernel", |v| Value::Seconds(v.cpu_us[1]) => counter memcached_process_system_cpu_seconds_total;
    max_connections, "-c", |v| number(v.settings().connections_max);
    curr_connections, "connections now", gauge!(Connections) => gauge memcached_current_connections;
    total_connections, "connections accepted", gauge!(ConnectionsTotal) => counter memcached_connections_total;
    #[MaxconnsFast] rejected_connections, "connections refused for -c", gauge!(Rejected) => counter memcached_connections_rejected_total;
    connection_structures, "connections now", gauge!(Connections);
    response_obj_oom, "replies refused for read_buf_mem_limit", gauge!(RepliesRefused);
    response_obj_count, "0: replies have no objects", zero;
    response_obj_bytes, "0: replies have no objects", zero;
    read_buf_count, "receive buffers, one per worker", |v| number(v.settings().threads);
    read_buf_bytes, "bytes of receive buffers", |v| number(v.settings().threads as u64 * 65_536);
    read_buf_bytes_free, "0", zero;
    read_buf_oom, "connections closed for read_buf_mem_limit", gauge!(PiecesRefused);
    reserved_fds, "descriptors that are no client's", |_| number(DESCRIPTORS_RESERVED);
    cmd_get, "keys asked for by get, gets, mg", counter!(CmdGet);
    cmd_set, "storage requests", class_counter!(CmdSet);
    cmd_flush, "flush_all requests", counter!(CmdFlush) => counter memcached_commands_total(command = "flush", status = "hit");
    cmd_touch, "keys touched by touch, gat, mg with T", counter!(CmdTouch) => counter guira_touched_keys_total;
    cmd_meta, "me requests", counter!(CmdMeta) => counter guira_meta_debug_total;
    get_hits, "keys found", class_counter!(GetHits) => counter memcached_commands_total(command = "get", status = "hit");
    get_misses, "keys not found", counter!(GetMisses) => counter memcached_commands_total(command = "get", status = "miss");
    get_expired, "misses of items past their time", counter!(GetExpired) => counter guira_get_expired_total;
    get_flushed, "misses of flushed items", counter!(GetFlushed) => counter guira_get_flushed_total;
    #[Storage] get_extstore, "keys answered from storage", |v| number(v.of_storage(|s| s.counts.gets.load(Relaxed))) => counter memcached_extstore_gets_total;
    #[Storage] get_aborted_extstore, "reads of storage whose client had gone", |v| number(v.of_storage(|s| s.counts.aborted.load(Relaxed))) => counter memcached_extstore_gets_aborted_total;
    #[Storage] get_oom_extstore, "stored items for which memory had no room when they were to come back", |v| number(v.of_storage(|s| s.counts.no_memory.load(Relaxed))) => counter memcached_extstore_gets_oom_total;
    #[Storage] recache_from_extstore, "stored items that came back to memory because they were read again", |v| number(v.of_storage(|s| s.counts.recached.load(Relaxed))) => counter memcached_extstore_recaches_total;
    #[Storage] miss_from_extstore, "looks for stored items that found no whole record, or whose page had been freed", |v| number(v.of_storage(|s| s.counts.misses.load(Relaxed))) => counter memcached_extstore_misses_total;
    #[Storage] badcrc_from_extstore, "records read from storage whose checksum was wrong", |v| number(v.storage().tier.bad_crcs) => counter memcached_extstore_bad_crcs_total;
    delete_misses, "deletes of nothing", counter!(DeleteMisses) => counter memcached_commands_total(command = "delete", status = "miss");
    delete_hits, "deletes", class_counter!(DeleteHits) => counter memcached_commands_total(command = "delete", status = "hit");
    incr_misses, "incr of nothing", counter!(IncrMisses) => counter memcached_commands_total(command = "incr", status = "miss");
    incr_hits, "incr", class_counter!(IncrHits) => counter memcached_commands_total(command = "incr", status = "hit");
    decr_misses, "decr of nothing", counter!(DecrMisses) => counter memcached_commands_total(command = "decr", status = "miss");
    decr_hits, "decr", class_counter!(DecrHits) => counter memcached_commands_total(command = "decr", status = "hit");
    cas_misses, "cas of nothing", counter!(CasMisses) => counter memcached_commands_total(command = "cas", status = "miss");
    cas_hits, "cas that stored", class_counter!(CasHits) => counter memcached_commands_total(command = "cas", status = "hit");
    cas_badval, "cas with another unique", class_counter!(CasBadval) => counter memcached_commands_total(command = "cas", status = "badval");
    touch_hits, "touches", class_counter!(TouchHits) => counter memcached_commands_total(command = "touch", status = "hit");
    touch_misses, "touches of nothing", counter!(TouchMisses) => counter memcached_commands_total(command = "touch", status = "miss");
    store_too_large, "items over -I", counter!(StoreTooLarge) => counter memcached_item_too_large_total;
    store_no_memory, "items for which there was no memory", counter!(StoreNoMemory) => counter memcached_item_no_memory_total;
    auth_cmds, "attempts to log in", counter!(AuthCmds) => counter guira_auth_commands_total;
    auth_errors, "attempts that failed", counter!(AuthErrors) => counter guira_auth_errors_total;
    #[IdleTimeout] idle_kicks, "connections closed for idle_timeout", gauge!(Kicked) => counter guira_connections_idle_closed_total;
    bytes_read, "bytes received", counter!(BytesRead) => counter memcached_read_bytes_total;
    bytes_written, "bytes sent", counter!(BytesWritten) => counter memcached_written_bytes_total;
    limit_maxbytes, "bytes that items may take: -m, or what cache_memlimit has set since; a tmpfs that is too small for the memory file gives less", |v| number(v.process.memory.limit_bytes()) => gauge memcached_limit_bytes;
    accepting_conns, "whether connections are accepted", |v| number(u8::from(v.process.gauges.is_accepting())) => gauge memcached_accepting_connections;
    listen_disabled_num, "pauses of accepting because no descriptor was free", gauge!(Pauses) => counter memcached_connections_listener_disabled_total;
    time_in_listen_disabled_us, "microseconds of such pauses", gauge!(PausedUs);
    threads, "-t", |v| number(v.settings().threads) => gauge guira_threads;
    conn_yields, "connections that had their share of a turn", counter!(ConnYields) => counter memcached_connections_yielded_total;
    hash_power_level, "log2 of the index's slots, or what memcached's table begins with", |v| number(hash_power(v));
    hash_bytes, "bytes of the index", |v| number(v.process.cache.index_bytes());
    hash_is_expanding, "0: it grows while it serves", zero;
    #[Reassign] slab_reassign_rescues, "items in one piece that moved with their page", |v| number(v.moves.items);
    #[Reassign] slab_reassign_chunk_rescues, "chained items that moved", |v| number(v.moves.chained);
    #[Reassign] slab_reassign_inline_reclaim, "0: a page that moves hands out no chunks", zero;
    #[Reassign] slab_reassign_busy_items, "items replaced or deleted as they were to move", |v| number(v.moves.busy);
    #[Reassign] slab_reassign_busy_deletes, "items evicted as their page took too long", |v| number(v.moves.evicted);
    #[Reassign] slab_reassign_busy_nomem, "times that a move waited for a free chunk", |v| number(v.moves.no_room);
    #[Reassign] slab_reassign_last_busy_status, "none", |_| text("none");
    #[Reassign] slab_reassign_running, "whether a page is moving", |v| number(u64::from(v.moves.is_running));
    #[Reassign] slabs_moved, "pages moved from class to class, or to the pool", |v| number(v.moves.pages) => counter guira_slab_pages_moved_total;
    #[Crawler] lru_crawler_running, "whether the crawler walks now", |v| number(v.process.crawler.is_running());
    #[Crawler] lru_crawler_starts, "walks of the crawler", |v| number(v.process.crawler.starts()) => counter memcached_lru_crawler_starts_total;
    #[Maintainer] lru_maintainer_juggles, "0: there are no queues to maintain", zero;
    malloc_fails, "0", zero;
    log_worker_dropped, "0: no buffer lies between workers and watchers", zero => counter guira_watcher_lines_dropped_total;
    log_worker_written, "lines written for watchers", |v| number(v.process.watch.written());
    log_watcher_skipped, "lines that a watcher had no room for", |v| number(v.process.watch.skipped());
    log_watcher_sent, "lines left for watchers", |v| number(v.process.watch.sent());
    log_watchers, "watchers", |v| number(v.process.watch.watchers() as u64) => gauge guira_watchers;
    #[TlsSessions] ssl_new_sessions, "sessions that clients can resume", |v| tls(v, |t| t.counts.sessions.load(Relaxed)) => counter guira_tls_sessions_total;
    #[Tls] ssl_handshake_errors, "TLS handshakes that failed or took too long", |v| tls(v, |t| t.counts.handshake_errors.load(Relaxed)) => counter guira_tls_handshake_errors_total;
    #[Tls] ssl_proto_errors, "TLS connections that failed later", |v| tls(v, |t| t.counts.proto_errors.load(Relaxed)) => counter guira_tls_protocol_errors_total;
    #[Tls] time_since_server_cert_refresh, "seconds since certificates were read", |v| tls(v, |t| u64::from(v.now.saturating_sub(t.refreshed_s()))) => gauge guira_tls_certificate_age_seconds;
    unexpected_napi_ids, "0", zero;
    round_robin_fallback, "0", zero;
    bytes, "bytes of items", class_counter!(Bytes) => gauge memcached_current_bytes;
    curr_items, "items", class_counter!(Items) => gauge memcached_current_items;
    total_items, "items stored since the start", counter!(TotalItems) => counter memcached_items_total;
    slab_global_page_pool, "pages in the pool: free for any class, with memory that the process keeps", |v| number(v.process.cache.pages_returned()) => gauge guira_free_pages;
    expired_unfetched, "items expired and never read", class_counter!(ExpiredUnfetched) => counter guira_items_expired_unfetched_total;
    evicted_unfetched, "items evicted and never read", class_counter!(EvictedUnfetched) => counter guira_items_evicted_unfetched_total;
    #[Segmented] evicted_active, "0", zero;
    evictions, "items evicted", class_counter!(Evicted) => counter memcached_items_evicted_total;
    reclaimed, "items stored in the place of expired ones", class_counter!(Reclaimed) => counter memcached_items_reclaimed_total;
    crawler_reclaimed, "dead items that the crawler took out", class_counter!(CrawlerReclaimed) => counter memcached_lru_crawler_reclaimed_total;
    crawler_items_checked, "items that the crawler looked at for that", class_counter!(CrawlerItemsChecked) => counter memcached_lru_crawler_items_checked_total;
    lrutail_reflocked, "0: readers hold no references", zero;
    #[Segmented] moves_to_cold, "0: there are no queues", zero => counter memcached_lru_crawler_moves_to_cold_total;
    #[Segmented] moves_to_warm, "0: there are no queues", zero => counter memcached_lru_crawler_moves_to_warm_total;
    #[Segmented] moves_within_lru, "0: there are no queues", zero => counter memcached_lru_crawler_moves_within_lru_total;
    #[Segmented] direct_reclaims, "0", zero => counter memcached_direct_reclaims_total;
    #[Segmented] lru_bumps_dropped, "0", zero;
    #[Storage] extstore_memory_pressure, "0: an item goes to storage in the store that takes its place", |_| Value::Fraction(0.0, 2);
    #[Storage] extstore_compact_lost, "live items that compaction had no room for", |v| number(v.storage().tier.lost) => counter memcached_extstore_compact_lost_total;
    #[Storage] extstore_compact_rescues, "live items that compaction moved", |v| number(v.storage().tier.rescues) => counter memcached_extstore_compact_rescues_total;
    #[Storage] extstore_compact_resc_cold, "of them, to pages for cold items", |v| number(v.storage().tier.rescues_cold) => counter guira_extstore_compact_rescues_cold_total;
    #[Storage] extstore_compact_resc_old, "of them, to pages for old items", |v| number(v.storage().tier.rescues_old) => counter guira_extstore_compact_rescues_old_total;
    #[Storage] extstore_compact_skipped, "live items that compaction dropped because nobody had read them", |v| number(v.storage().tier.skipped) => counter memcached_extstore_compact_skipped_total;
    #[Storage] extstore_page_allocs, "pages that were given out", |v| number(v.storage().page_counts.allocs) => counter memcached_extstore_page_allocs_total;
    #[Storage] extstore_page_evictions, "pages freed with live items in them", |v| number(v.storage().page_counts.evictions) => counter memcached_extstore_page_evictions_total;
    #[Storage] extstore_page_reclaims, "pages freed, with live items in them or without", |v| number(v.storage().page_counts.reclaims) => counter memcached_extstore_page_reclaims_total;
    #[Storage] extstore_pages_free, "pages free", |v| number(v.storage().pages_free) => gauge memcached_extstore_pages_free;
    #[Storage] extstore_pages_used, "pages in use", |v| number(v.storage().pages_used) => gauge memcached_extstore_pages_used;
    #[Storage] extstore_objects_evicted, "live items in pages that were freed", |v| number(v.storage().page_counts.objects_evicted) => counter memcached_extstore_objects_evicted_total;
    #[Storage] extstore_objects_read, "stored items that were answered", |v| number(v.storage().tier.objects_read) => counter memcached_extstore_objects_read_total;
    #[Storage] extstore_objects_written, "items stored, not counting those that compaction moved", |v| number(v.storage().tier.objects_written) => counter memcached_extstore_objects_written_total;
    #[Storage] extstore_objects_used, "stored items now, estimated: a set doesn't read what it replaces", |v| number(v.storage().objects_used) => gauge memcached_extstore_objects_used;
    #[Storage] extstore_bytes_evicted, "bytes of live items in pages that were freed", |v| number(v.storage().page_counts.bytes_evicted) => counter memcached_extstore_bytes_evicted_total;
    #[Storage] extstore_bytes_written, "bytes of stored and of moved items", |v| number(v.storage().tier.bytes_written) => counter memcached_extstore_bytes_written_total;
    #[Storage] extstore_bytes_read, "bytes read from storage, in whole blocks, and from its write buffers", |v| number(v.storage().tier.bytes_read) => counter memcached_extstore_bytes_read_total;
    #[Storage] extstore_bytes_used, "bytes of stored items now, estimated", |v| number(v.storage().bytes_used) => gauge memcached_extstore_bytes_used;
    #[Storage] extstore_bytes_fragmented, "bytes of used pages that hold nothing live", |v| number(v.storage().bytes_fragmented) => gauge memcached_extstore_bytes_fragmented;
    #[Storage] extstore_limit_maxbytes, "bytes of all pages", |v| number(v.storage().limit_bytes) => gauge memcached_extstore_bytes_limit;
    #[Storage] extstore_io_queue, "reads of storage under way", |v| number(v.of_storage(|s| s.counts.reading.load(Relaxed))) => gauge memcached_extstore_io_queue_depth;
};

/// Guira's own statistics; [`EVENTS`] follow them in the reply.
pub(crate) const OWN: &[Row] = rows! {
    index_slots, "slots of the index", |v| number(v.process.cache.index_slots()) => gauge guira_index_slots;
    index_bytes, "bytes of the index", |v| number(v.process.cache.index_bytes()) => gauge guira_index_bytes;
    index_load_percent, "slots in use of a hundred", |v| {
        let slots = v.process.cache.index_slots().max(1);
        number(v.process.cache.len() * 100 / slots)
    } => gauge guira_index_load_percent;
    items_on_probation, "items that are new to S3-CLOCK", class_counter!(OnProbation) => gauge guira_items_on_probation;
    items_promoted, "items that passed their probation", class_counter!(Promoted) => counter guira_items_promoted_total;
    probation_percent, "share of items that are to be on probation, chosen by the tuner", |v| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage")]
        let percent = (v.process.cache.tuned().small * 100.0).round() as u64;
        number(percent)
    } => gauge guira_probation_percent;
    probation_hits, "hits that it takes to pass, chosen by the tuner", |v| number(v.process.cache.tuned().promote) => gauge guira_probation_hits;
    tuner_switches, "how often the tuner chose anew", |v| number(v.process.cache.tuned().switches) => counter guira_tuner_switches_total;
    page_bytes, "bytes of a slab page", |v| number(v.process.cache.page_bytes()) => gauge guira_page_bytes;
    pages_held_bytes, "bytes of the pages in use", |v| number(v.process.cache.page_bytes_held()) => gauge guira_pages_held_bytes;
    slab_classes, "slab classes", |v| number(v.process.cache.classes()) => gauge guira_slab_classes;
    tls_certificate_ends, "Unix time at which the server's certificate ends; 0 without TLS", |v| tls(v, |t| u64::try_from(t.expiry.ends_s()).unwrap_or(0)) => gauge guira_tls_certificate_end_timestamp_seconds;
    unfinished_bytes, "bytes that requests hold which aren't whole", |v| number(v.process.unfinished.bytes()) => gauge guira_unfinished_bytes;
    unfinished_limit_bytes, "what they may hold, -o unfinished_limit", |v| number(v.process.unfinished.bytes_max()) => gauge guira_unfinished_limit_bytes;
    unfinished_refused, "requests refused for that limit", |v| number(v.process.unfinished.refused()) => counter guira_unfinished_refused_total;
    backlog_bytes, "bytes of requests that were received and wait for their turns, beyond what each connection has free", |v| number(v.process.backlog.bytes()) => gauge guira_backlog_bytes;
    backlog_limit_bytes, "from this on each connection receives little at a time", |v| number(v.process.backlog.bytes_max()) => gauge guira_backlog_limit_bytes;
    unsent_bytes, "bytes of replies that clients have yet to take, beyond what each connection has free", |v| number(v.process.unsent.bytes()) => gauge guira_unsent_bytes;
    unsent_limit_bytes, "what they may come to, -o unsent_limit", |v| number(v.process.unsent.bytes_max()) => gauge guira_unsent_limit_bytes;
    unsent_refused, "connections closed for that limit", |v| number(v.process.unsent.refused()) => counter guira_unsent_refused_total;
    log_dropped, "log lines dropped because nobody read them, or that could not be written", |v| number(v.process.log.dropped()) => counter guira_log_lines_dropped_total;
    log_suppressed, "log lines not made because their event had 100 in the second", |v| number(v.process.log.suppressed()) => counter guira_log_lines_suppressed_total;
    lease_tokens, "lease tokens given", counter!(LeaseTokens) => counter guira_lease_tokens_total;
    lease_waits, "lease-gets told to wait", counter!(LeaseWaits) => counter guira_lease_waits_total;
    lease_sets, "lease-sets that stored", counter!(LeaseSets) => counter guira_lease_sets_total;
    lease_refusals, "lease-sets whose token was void", counter!(LeaseRefusals) => counter guira_lease_refusals_total;
    lease_tokens_evicted, "tokens gone early because lease_keys was used up", |v| number(v.process.cache.leases_evicted()) => counter guira_lease_tokens_evicted_total;
    lease_stale_hits, "stale values given to lease-gets", counter!(LeaseStaleHits) => counter guira_lease_stale_hits_total;
    lease_stale_dropped, "deleted values not kept because lease_stale_size was used up", counter!(LeaseStaleDropped) => counter guira_lease_stale_dropped_total;
    lease_stale_bytes, "bytes of stale values kept", |v| number(v.process.cache.stale_bytes()) => gauge guira_lease_stale_bytes;
    holdoff_deletes, "deletes that hold off adds", counter!(HoldoffDeletes) => counter guira_holdoff_deletes_total;
    holdoff_refusals, "adds refused for a delete before", counter!(HoldoffRefusals) => counter guira_holdoff_refusals_total;
    holdoff_dropped, "keys held off no longer because holdoff_keys was used up", |v| number(v.process.cache.holdoff_dropped()) => counter guira_holdoff_dropped_total;
    transient_entries, "entries of short-lived items, with -o transient", |v| number(v.process.cache.transients().entries) => gauge guira_transient_entries;
    transient_reclaimed, "short-lived items reclaimed when they expired", |v| number(v.process.cache.transients().reclaimed) => counter guira_transient_reclaimed_total;
    transient_dropped, "short-lived items for which there was no entry", |v| number(v.process.cache.transients().dropped) => counter guira_transient_dropped_total;
    #[Storage] flash_index_bytes, "memory of the table of stored items, which counts against -m", |v| number(v.of_storage(|s| s.tier.index_bytes())) => gauge guira_flash_index_bytes;
    #[Storage] flash_entries, "entries of that table, some of them for items that are gone", |v| number(v.of_storage(|s| s.tier.entries())) => gauge guira_flash_entries;
    #[Storage] flash_crowded_out, "stored items that were dropped because the table was full", |v| number(v.storage().tier.crowded_out) => counter guira_flash_crowded_out_total;
    #[Storage] flash_forgotten, "entries that sets and quiet deletes removed unread; 1 in 3,600 was another key's", |v| number(v.storage().tier.forgotten) => counter guira_flash_forgotten_total;
    #[Storage] flash_false_reads, "reads of storage that found another key's item", |v| number(v.storage().tier.false_reads) => counter guira_flash_false_reads_total;
    #[Storage] flash_read_errors, "reads of storage that failed", |v| number(v.storage().tier.read_errors) => counter guira_flash_read_errors_total;
    #[Storage] flash_write_errors, "write buffers that could not be written", |v| number(v.storage().tier.write_errors) => counter guira_flash_write_errors_total;
    #[Storage] flash_parked, "connections that wait for storage now", |v| number(v.of_storage(|s| s.counts.parked.load(Relaxed))) => gauge guira_flash_parked_connections;
    #[Storage] flash_buffer_bytes, "memory of write buffers, beside -m", |v| number(v.of_storage(|s| s.tier.buffer_bytes())) => gauge guira_flash_buffer_bytes;
    #[Storage] flash_buffers_waiting, "full write buffers that wait to be written, of eight", |v| number(v.of_storage(|s| s.tier.buffers_waiting())) => gauge guira_flash_buffers_waiting;
    #[Storage] flash_no_buffer, "items that found no free write buffer; those that memory had no room for were evicted", |v| number(v.of_storage(|s| s.counts.no_buffer.load(Relaxed))) => counter guira_flash_no_buffer_total;
    #[Storage] flash_reads_by, "ring or threads: how workers read storage", |v| text(v.storage().reads_by);
    #[Storage] flash_items_stored, "items that went to storage instead of being evicted", class_counter!(Sunk) => counter guira_flash_items_stored_total;
    detail_prefixes, "prefixes that stats detail counts", |v| number(v.process.detail.len()) => gauge guira_detail_prefixes;
};

/// Guira's own events, as declared in gauges.rs.
pub(crate) const EVENTS: &[Row] = {
    macro_rules! table {
        ($($own:ident: $line:ident, $meaning:literal => $metric:ident;)*) => {
            rows! { $($line, $meaning, gauge!($own) => counter $metric;)* }
        };
    }
    own_events!(table)
};

/// log2 of the index's slots, but at least that of memcached's first table (`-o hashpower`, by default 16).
fn hash_power(view: &View<'_>) -> u32 {
    let given = view.settings().extended.hashpower;
    let first = if given == 0 { HASH_POWER } else { given };
    view.process.cache.index_slots().max(1).ilog2().max(first)
}

/// log2 of the number of slots that memcached's table begins with.
const HASH_POWER: u32 = 16;

/// A figure about TLS; 0 without TLS.
fn tls(view: &View<'_>, figure: impl FnOnce(&Tls) -> u64) -> Value {
    number(view.process.tls.as_ref().map_or(0, figure))
}

#[cfg(test)]
mod tests {
    use super::super::row::When;
    use super::*;

    #[test]
    fn there_are_as_many_lines_as_memcached_has() {
        // memcached 1.6.45 has 93 lines by default, 84 without crawler and maintainer, and idle_kicks in addition.
        let count = |hidden: &[When]| STATS.iter().filter(|s| !hidden.contains(&s.when)).count();
        let tls = [When::Tls, When::TlsSessions, When::Storage];
        assert_eq!(count(&[&tls[..], &[When::IdleTimeout]].concat()), 93);
        let flat = [When::IdleTimeout, When::Crawler, When::Maintainer, When::Segmented];
        assert_eq!(count(&[&tls[..], &flat].concat()), 84);
        assert_eq!(count(&[&flat[..], &[When::TlsSessions, When::Storage]].concat()), 87);
    }

    #[test]
    fn no_name_is_there_twice_and_each_has_a_meaning() {
        for table in [STATS.iter().chain(&[]), OWN.iter().chain(EVENTS)] {
            let mut names: Vec<_> = table.clone().map(|stat| stat.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count);
            assert!(table.clone().all(|stat| !stat.meaning.is_empty()));
        }
    }
}
