//! `stats items`, `stats slabs`, `stats sizes`: by slab class, numbered from 1.
//!
//! A class is listed in full or not at all: exporters fail on one that lacks a line.

use super::line;
use crate::shared::Shared;
use guira_cache::{ClassCounter, Totals};

/// Answers `stats items`: the classes that hold items.
pub(crate) fn items(shared: &Shared, out: &mut Vec<u8>) {
    let totals = shared.cache.totals();
    let is_segmented = shared.settings.extended.lru_segmented;
    for class in 0..shared.cache.classes() {
        let count = |counter| totals.class(counter, class);
        let number = count(ClassCounter::Items);
        if number == 0 {
            continue;
        }
        let evicted_idle_s = shared.cache.class_stats(class).evicted_idle_s;
        let mut put = |name: &str, n: u64| line(out, &format!("items:{}:{name}", class + 1), n);
        put("number", number);
        if is_segmented {
            for (name, n) in [("hot", 0), ("warm", 0), ("cold", number)] {
                put(&format!("number_{name}"), n);
            }
            put("age_hot", 0);
            put("age_warm", 0);
        }
        put("age", evicted_idle_s.into());
        put("mem_requested", count(ClassCounter::Bytes));
        put("evicted", count(ClassCounter::Evicted));
        put("evicted_nonzero", count(ClassCounter::EvictedNonzero));
        put("evicted_time", evicted_idle_s.into());
        put("outofmemory", count(ClassCounter::OutOfMemory));
        put("tailrepairs", 0);
        put("reclaimed", count(ClassCounter::Reclaimed));
        put("expired_unfetched", count(ClassCounter::ExpiredUnfetched));
        put("evicted_unfetched", count(ClassCounter::EvictedUnfetched));
        if is_segmented {
            put("evicted_active", 0);
        }
        for name in ["crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked"] {
            put(name, 0);
        }
        if is_segmented {
            for name in ["moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims"] {
                put(name, 0);
            }
        }
        put("hits_to_hot", 0);
        put("hits_to_warm", 0);
        put("hits_to_cold", count(ClassCounter::GetHits));
        put("hits_to_temp", 0);
    }
}

/// Answers `stats slabs`: the classes that have pages.
pub(crate) fn slabs(shared: &Shared, out: &mut Vec<u8>) {
    let totals = shared.cache.totals();
    let mut active = 0;
    for class in 0..shared.cache.classes() {
        let stats = shared.cache.class_stats(class);
        if stats.pages == 0 {
            continue;
        }
        active += 1;
        let chunks = stats.pages * stats.chunks_per_page;
        let mut put = |name: &str, n: u64| line(out, &format!("{}:{name}", class + 1), n);
        put("chunk_size", stats.chunk_bytes as u64);
        put("chunks_per_page", stats.chunks_per_page as u64);
        put("total_pages", stats.pages as u64);
        put("total_chunks", chunks as u64);
        put("used_chunks", stats.chunks_used as u64);
        put("free_chunks", chunks.saturating_sub(stats.chunks_used) as u64);
        put("free_chunks_end", 0);
        for (name, n) in commands(&totals, class) {
            put(name, n);
        }
    }
    line(out, "active_slabs", active);
    line(out, "total_malloced", shared.cache.page_bytes_held());
}

fn commands(totals: &Totals, class: usize) -> [(&'static str, u64); 8] {
    [
        ("get_hits", ClassCounter::GetHits),
        ("cmd_set", ClassCounter::CmdSet),
        ("delete_hits", ClassCounter::DeleteHits),
        ("incr_hits", ClassCounter::IncrHits),
        ("decr_hits", ClassCounter::DecrHits),
        ("cas_hits", ClassCounter::CasHits),
        ("cas_badval", ClassCounter::CasBadval),
        ("touch_hits", ClassCounter::TouchHits),
    ]
    .map(|(name, counter)| (name, totals.class(counter, class)))
}

/// Answers `stats sizes`: items by size in steps of 32 bytes. The size is that of an item's chunk,
/// a few per cent above its own, which costs nothing to know.
pub(crate) fn sizes(shared: &Shared, out: &mut Vec<u8>) {
    if !shared.settings.extended.track_sizes {
        line(out, "sizes_status", "disabled");
        return;
    }
    let totals = shared.cache.totals();
    let mut at = 0;
    let mut count = 0;
    for class in 0..shared.cache.classes() {
        let size = shared.cache.class_stats(class).chunk_bytes.next_multiple_of(STEP_BYTES);
        if size != at && count > 0 {
            line(out, &at.to_string(), count);
            count = 0;
        }
        at = size;
        count += totals.class(ClassCounter::Items, class);
    }
    if count > 0 {
        line(out, &at.to_string(), count);
    }
}

const STEP_BYTES: usize = 32;
