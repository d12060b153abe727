//! `stats`: one table of names, conditions, meanings and values, from which the answer derives.

use super::line;
use crate::shared::{GaugeReading, Shared};
use crate::version::VERSION;
use guira_cache::{ClassCounter, Counter, START_S, Totals};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;

/// One statistic.
pub(super) struct Stat {
    pub(super) name: &'static str,
    /// When it is shown.
    when: When,
    /// What it means, for the documentation.
    pub(super) meaning: &'static str,
    value: fn(&View<'_>) -> Value,
}

/// memcached shows some lines only under some settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    MaxconnsFast,
    IdleTimeout,
    Reassign,
    Crawler,
    Maintainer,
    Segmented,
}

/// What values are computed from.
struct View<'s> {
    shared: &'s Shared,
    totals: Totals,
    gauges: GaugeReading,
    now: u32,
    /// Microseconds in user and system mode.
    cpu_us: [u64; 2],
}

enum Value {
    Number(u64),
    Text(&'static str),
    /// Microseconds, shown as seconds with six digits.
    Seconds(u64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => f.write_str(text),
            Self::Seconds(us) => write!(f, "{}.{:06}", us / 1_000_000, us % 1_000_000),
        }
    }
}

/// Answers `stats`.
pub(crate) fn general(shared: &Shared, now: u32, out: &mut Vec<u8>) {
    answer(STATS, shared, now, out);
}

/// Answers `stats guira`.
pub(crate) fn own(shared: &Shared, now: u32, out: &mut Vec<u8>) {
    answer(OWN, shared, now, out);
}

fn answer(table: &[Stat], shared: &Shared, now: u32, out: &mut Vec<u8>) {
    let view = View {
        shared,
        totals: shared.cache.totals(),
        gauges: shared.gauges.read(),
        now,
        cpu_us: cpu_us(),
    };
    for stat in table.iter().filter(|stat| view.shows(stat.when)) {
        line(out, stat.name, (stat.value)(&view));
    }
}

impl View<'_> {
    fn shows(&self, when: When) -> bool {
        let extended = &self.shared.settings.extended;
        match when {
            When::Always => true,
            When::MaxconnsFast => extended.maxconns_fast,
            When::IdleTimeout => extended.idle_timeout_s > 0,
            When::Reassign => extended.slab_reassign,
            When::Crawler => extended.lru_crawler,
            When::Maintainer => extended.lru_maintainer,
            When::Segmented => extended.lru_segmented,
        }
    }

    fn settings(&self) -> &crate::Settings {
        &self.shared.settings
    }
}

/// CPU time of the process in user and in system mode. The kernel counts both in ticks and their sum
/// in nanoseconds; as getrusage does, the exact sum is divided by the ticks.
fn cpu_us() -> [u64; 2] {
    let sum = clock_gettime(ClockId::ProcessCPUTime);
    let sum_us = u64::try_from(sum.tv_sec * 1_000_000 + sum.tv_nsec / 1_000).unwrap_or(0);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields are counted behind the program's name, which may hold spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut ticks = fields.split_whitespace().skip(11).map(|t| t.parse::<u64>().unwrap_or(0));
    let (user, system) = (ticks.next().unwrap_or(0), ticks.next().unwrap_or(0));
    let user_us = (sum_us * user).checked_div(user + system).unwrap_or(sum_us);
    [user_us, sum_us - user_us]
}

macro_rules! table {
    ($($(#[$when:ident])? $name:ident, $meaning:literal, $value:expr;)*) => {
        &[$(Stat {
            name: stringify!($name),
            when: table!(@when $($when)?),
            meaning: $meaning,
            value: $value,
        }),*]
    };
    (@when) => { When::Always };
    (@when $when:ident) => { When::$when };
}

const fn zero(_: &View<'_>) -> Value {
    Value::Number(0)
}

macro_rules! counter {
    ($counter:ident) => {
        |v| Value::Number(v.totals.get(Counter::$counter))
    };
}

macro_rules! class_counter {
    ($counter:ident) => {
        |v| Value::Number(v.totals.all(ClassCounter::$counter))
    };
}

/// memcached's statistics in its order.
pub(super) const STATS: &[Stat] = table! {
    pid, "process id", |_| Value::Number(u64::from(std::process::id()));
    uptime, "seconds since the start", |v| Value::Number(u64::from(v.now - START_S));
    time, "Unix time by the server's clock", |v| Value::Number(v.shared.clock.unix(v.now).unsigned_abs());
    version, "the memcached spoken, and Guira's own version", |_| Value::Text(VERSION);
    libevent, "none: Guira has its own event loop", |_| Value::Text("none");
    pointer_size, "bits of a pointer", |_| Value::Number(u64::from(usize::BITS));
    rusage_user, "CPU seconds in user mode", |v| Value::Seconds(v.cpu_us[0]);
    rusage_system, "CPU seconds in the kernel", |v| Value::Seconds(v.cpu_us[1]);
    max_connections, "-c", |v| Value::Number(v.settings().connections_max.into());
    curr_connections, "connections now", |v| Value::Number(v.gauges.connections);
    total_connections, "connections accepted", |v| Value::Number(v.gauges.connections_total);
    #[MaxconnsFast] rejected_connections, "connections refused for -c", |v| Value::Number(v.gauges.rejected);
    connection_structures, "connections now", |v| Value::Number(v.gauges.connections);
    response_obj_oom, "0: replies have no objects", zero;
    response_obj_count, "0: replies have no objects", zero;
    response_obj_bytes, "0: replies have no objects", zero;
    read_buf_count, "receive buffers, one a worker", |v| Value::Number(v.settings().threads as u64);
    read_buf_bytes, "bytes of receive buffers", |v| Value::Number(v.settings().threads as u64 * 65_536);
    read_buf_bytes_free, "0", zero;
    read_buf_oom, "0", zero;
    reserved_fds, "descriptors that are no client's", |v| Value::Number(v.settings().threads as u64 * 2 + 10);
    cmd_get, "keys asked for by get, gets, mg", counter!(CmdGet);
    cmd_set, "storage requests", class_counter!(CmdSet);
    cmd_flush, "flush_all requests", counter!(CmdFlush);
    cmd_touch, "keys touched by touch, gat, mg with T", counter!(CmdTouch);
    cmd_meta, "me requests", counter!(CmdMeta);
    get_hits, "keys found", class_counter!(GetHits);
    get_misses, "keys not found", counter!(GetMisses);
    get_expired, "misses of items past their time", counter!(GetExpired);
    get_flushed, "misses of flushed items", counter!(GetFlushed);
    delete_misses, "deletes of nothing", counter!(DeleteMisses);
    delete_hits, "deletes", class_counter!(DeleteHits);
    incr_misses, "incr of nothing", counter!(IncrMisses);
    incr_hits, "incr", class_counter!(IncrHits);
    decr_misses, "decr of nothing", counter!(DecrMisses);
    decr_hits, "decr", class_counter!(DecrHits);
    cas_misses, "cas of nothing", counter!(CasMisses);
    cas_hits, "cas that stored", class_counter!(CasHits);
    cas_badval, "cas with another unique", class_counter!(CasBadval);
    touch_hits, "touches", class_counter!(TouchHits);
    touch_misses, "touches of nothing", counter!(TouchMisses);
    store_too_large, "items over -I", counter!(StoreTooLarge);
    store_no_memory, "items for which there was no memory", counter!(StoreNoMemory);
    auth_cmds, "0: no authentication in this build", counter!(AuthCmds);
    auth_errors, "0: no authentication in this build", counter!(AuthErrors);
    #[IdleTimeout] idle_kicks, "connections closed for idle_timeout", |v| Value::Number(v.gauges.kicked);
    bytes_read, "bytes received", counter!(BytesRead);
    bytes_written, "bytes sent", counter!(BytesWritten);
    limit_maxbytes, "bytes for items, -m at the start", |v| Value::Number(v.shared.cache.memory_limit() as u64);
    accepting_conns, "whether connections are accepted", |v| Value::Number(v.gauges.is_accepting.into());
    listen_disabled_num, "pauses of accepting for want of descriptors", |v| Value::Number(v.gauges.pauses);
    time_in_listen_disabled_us, "microseconds of such pauses", |v| Value::Number(v.gauges.paused_us);
    threads, "-t", |v| Value::Number(v.settings().threads as u64);
    conn_yields, "connections that had their share of a turn", counter!(ConnYields);
    hash_power_level, "log2 of the index's slots", |v| Value::Number(v.shared.cache.index_slots().max(1).ilog2().into());
    hash_bytes, "bytes of the index", |v| Value::Number(v.shared.cache.index_bytes() as u64);
    hash_is_expanding, "0: it grows while it serves", zero;
    #[Reassign] slab_reassign_rescues, "0", zero;
    #[Reassign] slab_reassign_chunk_rescues, "0", zero;
    #[Reassign] slab_reassign_inline_reclaim, "0", zero;
    #[Reassign] slab_reassign_busy_items, "0", zero;
    #[Reassign] slab_reassign_busy_deletes, "0", zero;
    #[Reassign] slab_reassign_busy_nomem, "0", zero;
    #[Reassign] slab_reassign_last_busy_status, "none", |_| Value::Text("none");
    #[Reassign] slab_reassign_running, "0", zero;
    #[Reassign] slabs_moved, "0", zero;
    #[Crawler] lru_crawler_running, "0: there is no crawler", zero;
    #[Crawler] lru_crawler_starts, "0: there is no crawler", zero;
    #[Maintainer] lru_maintainer_juggles, "0: there are no queues to maintain", zero;
    malloc_fails, "0", zero;
    log_worker_dropped, "0: there are no watchers", zero;
    log_worker_written, "0: there are no watchers", zero;
    log_watcher_skipped, "0: there are no watchers", zero;
    log_watcher_sent, "0: there are no watchers", zero;
    log_watchers, "0: there are no watchers", zero;
    unexpected_napi_ids, "0", zero;
    round_robin_fallback, "0", zero;
    bytes, "bytes of items", class_counter!(Bytes);
    curr_items, "items", class_counter!(Items);
    total_items, "items stored since the start", counter!(TotalItems);
    slab_global_page_pool, "0: unused pages are not held", zero;
    expired_unfetched, "items expired and never read", class_counter!(ExpiredUnfetched);
    evicted_unfetched, "items evicted and never read", class_counter!(EvictedUnfetched);
    #[Segmented] evicted_active, "0", zero;
    evictions, "items evicted", class_counter!(Evicted);
    reclaimed, "items stored in the place of expired ones", class_counter!(Reclaimed);
    crawler_reclaimed, "0: there is no crawler", zero;
    crawler_items_checked, "0: there is no crawler", zero;
    lrutail_reflocked, "0: readers hold no references", zero;
    #[Segmented] moves_to_cold, "0: there are no queues", zero;
    #[Segmented] moves_to_warm, "0: there are no queues", zero;
    #[Segmented] moves_within_lru, "0: there are no queues", zero;
    #[Segmented] direct_reclaims, "0", zero;
    #[Segmented] lru_bumps_dropped, "0", zero;
};

/// Guira's own statistics.
pub(super) const OWN: &[Stat] = table! {
    index_slots, "slots of the index", |v| Value::Number(v.shared.cache.index_slots() as u64);
    index_bytes, "bytes of the index", |v| Value::Number(v.shared.cache.index_bytes() as u64);
    index_load_percent, "slots in use of a hundred", |v| {
        let slots = v.shared.cache.index_slots().max(1);
        Value::Number((v.shared.cache.len() * 100 / slots) as u64)
    };
    items_on_probation, "items that are new to S3-CLOCK", class_counter!(OnProbation);
    items_promoted, "items that passed their probation", class_counter!(Promoted);
    probation_percent, "share of items that are to be on probation, chosen by the tuner", |v| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage")]
        let percent = (v.shared.cache.tuned().small * 100.0).round() as u64;
        Value::Number(percent)
    };
    probation_hits, "hits that it takes to pass, chosen by the tuner", |v| Value::Number(v.shared.cache.tuned().promote.into());
    tuner_switches, "how often the tuner chose anew", |v| Value::Number(v.shared.cache.tuned().switches);
    page_bytes, "bytes of a slab page", |v| Value::Number(v.shared.cache.page_bytes() as u64);
    pages_held_bytes, "bytes of the pages in use", |v| Value::Number(v.shared.cache.page_bytes_held() as u64);
    slab_classes, "slab classes", |v| Value::Number(v.shared.cache.classes() as u64);
    udp_dropped, "replies over UDP not sent: over their source's budget, too long, or no room", |v| Value::Number(v.gauges.datagrams_dropped);
    detail_prefixes, "prefixes that stats detail counts", |v| Value::Number(v.shared.detail.len() as u64);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_lines_as_memcached_has() {
        // memcached 1.6.45: 93 by default, 84 without crawler and maintainer; idle_kicks on top.
        let count = |hidden: &[When]| STATS.iter().filter(|s| !hidden.contains(&s.when)).count();
        assert_eq!(count(&[When::IdleTimeout]), 93);
        let flat = [When::IdleTimeout, When::Crawler, When::Maintainer, When::Segmented];
        assert_eq!(count(&flat), 84);
    }

    #[test]
    fn no_name_is_there_twice_and_each_has_a_meaning() {
        for table in [STATS, OWN] {
            let mut names: Vec<_> = table.iter().map(|stat| stat.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count);
            assert!(table.iter().all(|stat| !stat.meaning.is_empty()));
        }
    }

    #[test]
    fn cpu_seconds_have_six_digits_behind_the_point() {
        assert_eq!(Value::Seconds(12_000_034).to_string(), "12.000034");
    }
}
