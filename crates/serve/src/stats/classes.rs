//! `stats items`, `stats slabs` and `stats sizes`: figures by slab class, numbered from 1.
//!
//! A class is listed with all its lines or not at all, because exporters fail on a class that lacks a line.

use super::row::{Row, View, line, lines, number, rows, zero};
use crate::process::Process;
use guira_cache::ClassCounter;

/// Replies to `stats items`: the classes that hold items.
pub(crate) fn items(process: &Process, now: u32, out: &mut Vec<u8>) {
    View::new(process, now).each_class(|class, view| {
        if view.class_count(ClassCounter::Items) > 0 {
            lines(ITEMS, view, &format!("items:{}:", class + 1), out);
        }
    });
}

/// Replies to `stats slabs`: the classes that have or had pages.
pub(crate) fn slabs(process: &Process, now: u32, out: &mut Vec<u8>) {
    let mut active: u32 = 0;
    let mut view = View::new(process, now);
    view.each_class(|class, view| {
        active += u32::from(view.of_class().pages > 0);
        if view.shows_slab() {
            lines(SLABS, view, &format!("{}:", class + 1), out);
        }
    });
    line(out, "active_slabs", active);
    lines(SLABS_ALL, &view, "", out);
}

/// Replies to `stats sizes`: items by size, in steps of 32 bytes. The size is that of the item's chunk,
/// which costs nothing to determine and is a few per cent above the item's own.
pub(crate) fn sizes(process: &Process, now: u32, out: &mut Vec<u8>) {
    if !process.settings.extended.track_sizes {
        line(out, "sizes_status", "disabled");
        return;
    }
    let mut at = 0;
    let mut count = 0;
    View::new(process, now).each_class(|_, view| {
        let size = view.of_class().chunk_bytes.next_multiple_of(STEP_BYTES);
        if size != at && count > 0 {
            line(out, &at.to_string(), count);
            count = 0;
        }
        at = size;
        count += view.class_count(ClassCounter::Items);
    });
    if count > 0 {
        line(out, &at.to_string(), count);
    }
}

macro_rules! of_class {
    ($counter:ident) => {
        |v| number(v.class_count(ClassCounter::$counter))
    };
}

/// The lines of a class in `stats items`. Every item counts as in memcached's cold queue.
pub(crate) const ITEMS: &[Row] = rows! {
    number, "items", of_class!(Items) => gauge memcached_slab_current_items;
    #[Segmented] number_hot, "0: there are no queues", zero => gauge memcached_slab_hot_items;
    #[Segmented] number_warm, "0: there are no queues", zero => gauge memcached_slab_warm_items;
    #[Segmented] number_cold, "items", of_class!(Items) => gauge memcached_slab_cold_items;
    #[Segmented] age_hot, "0: there are no queues", zero => gauge memcached_slab_hot_age_seconds;
    #[Segmented] age_warm, "0: there are no queues", zero => gauge memcached_slab_warm_age_seconds;
    age, "seconds that the item evicted last had not been used", |v| number(v.of_class().evicted_idle_s) => gauge memcached_slab_items_age_seconds;
    mem_requested, "bytes of items", of_class!(Bytes) => counter memcached_slab_mem_requested_bytes;
    evicted, "items evicted", of_class!(Evicted) => counter memcached_slab_items_evicted_total;
    evicted_nonzero, "items with an exptime evicted", of_class!(EvictedNonzero) => counter memcached_slab_items_evicted_nonzero_total;
    evicted_time, "seconds that the item evicted last had not been used", |v| number(v.of_class().evicted_idle_s) => counter memcached_slab_items_evicted_time_seconds;
    outofmemory, "items for which there was no memory", of_class!(OutOfMemory) => counter memcached_slab_items_outofmemory_total;
    tailrepairs, "0: nothing leaks", zero => counter memcached_slab_items_tailrepairs_total;
    reclaimed, "items stored in the place of expired ones", of_class!(Reclaimed) => counter memcached_slab_items_reclaimed_total;
    expired_unfetched, "items expired and never read", of_class!(ExpiredUnfetched) => counter memcached_slab_items_expired_unfetched_total;
    evicted_unfetched, "items evicted and never read", of_class!(EvictedUnfetched) => counter memcached_slab_items_evicted_unfetched_total;
    #[Segmented] evicted_active, "0", zero;
    crawler_reclaimed, "dead items that the crawler took out", of_class!(CrawlerReclaimed) => counter memcached_slab_items_crawler_reclaimed_total;
    crawler_items_checked, "items that the crawler looked at for that", of_class!(CrawlerItemsChecked);
    lrutail_reflocked, "0: readers hold no references", zero;
    #[Segmented] moves_to_cold, "0: there are no queues", zero => counter memcached_slab_items_moves_to_cold;
    #[Segmented] moves_to_warm, "0: there are no queues", zero => counter memcached_slab_items_moves_to_warm;
    #[Segmented] moves_within_lru, "0: there are no queues", zero => counter memcached_slab_items_moves_within_lru;
    #[Segmented] direct_reclaims, "0", zero;
    #[Segmented] hits_to_hot, "0: there are no queues", zero => counter memcached_slab_lru_hits_total(lru = "hot");
    #[Segmented] hits_to_warm, "0: there are no queues", zero => counter memcached_slab_lru_hits_total(lru = "warm");
    #[Segmented] hits_to_cold, "keys found", of_class!(GetHits) => counter memcached_slab_lru_hits_total(lru = "cold");
    #[Segmented] hits_to_temp, "0: there are no queues", zero => counter memcached_slab_lru_hits_total(lru = "temporary");
};

/// The lines of a class in `stats slabs`.
pub(crate) const SLABS: &[Row] = rows! {
    chunk_size, "bytes of a chunk", |v| number(v.of_class().chunk_bytes) => gauge memcached_slab_chunk_size_bytes;
    chunks_per_page, "chunks of a page", |v| number(v.of_class().chunks_per_page) => gauge memcached_slab_chunks_per_page;
    total_pages, "pages", |v| number(v.of_class().pages) => gauge memcached_slab_current_pages;
    total_chunks, "chunks", |v| number(v.of_class().chunks()) => gauge memcached_slab_current_chunks;
    used_chunks, "chunks not free", |v| number(v.of_class().chunks_used) => gauge memcached_slab_chunks_used;
    free_chunks, "chunks free", |v| number(v.of_class().chunks().saturating_sub(v.of_class().chunks_used)) => gauge memcached_slab_chunks_free;
    free_chunks_end, "0: the end of a page is no place of its own", zero => gauge memcached_slab_chunks_free_end;
    get_hits, "keys found", of_class!(GetHits) => counter memcached_slab_commands_total(command = "get", status = "hit");
    cmd_set, "storage requests", of_class!(CmdSet);
    delete_hits, "deletes", of_class!(DeleteHits) => counter memcached_slab_commands_total(command = "delete", status = "hit");
    incr_hits, "incr", of_class!(IncrHits) => counter memcached_slab_commands_total(command = "incr", status = "hit");
    decr_hits, "decr", of_class!(DecrHits) => counter memcached_slab_commands_total(command = "decr", status = "hit");
    cas_hits, "cas that stored", of_class!(CasHits) => counter memcached_slab_commands_total(command = "cas", status = "hit");
    cas_badval, "cas with another unique", of_class!(CasBadval) => counter memcached_slab_commands_total(command = "cas", status = "badval");
    touch_hits, "touches", of_class!(TouchHits) => counter memcached_slab_commands_total(command = "touch", status = "hit");
};

/// The end of `stats slabs`, over all classes.
pub(crate) const SLABS_ALL: &[Row] = rows! {
    total_malloced, "bytes of the pages in use, and of those in the pool", |v| number(v.process.memory.taken_bytes(&v.process.cache)) => gauge memcached_malloced_bytes;
};

const STEP_BYTES: usize = 32;
