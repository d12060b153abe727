//! Reclaims short-lived items in the second in which they expire; see features/transient.rs.

use crate::commands::Actor;
use crate::counters::ClassCounter;
use crate::items::ItemRef;
use crate::orders::ItemSlab;
use crate::time::Now;
use guira_index::Location;

/// Reclaims some of the items whose second has come. Returns whether there are more.
pub(crate) fn reclaim_transients(actor: &Actor<'_>, now: u32) -> bool {
    let (local, transient) = (&actor.local, &actor.features.transient);
    if !transient.is_on() {
        return false;
    }
    let mut due = Vec::new();
    let has_more = transient.take_due(now, STEP, &mut due);
    let moment = local.now(now);
    for at in due {
        let Some(item) = past_item(&local.engine.slab, at, moment) else { continue };
        if local.unlink(&item, local.key(item.key()).hash) {
            transient.count_reclaimed();
            let unfetched = u64::from(!item.was_fetched());
            let class = local.engine.slab.chunks.class_of(at);
            local.counts.add_class(ClassCounter::Reclaimed, class, 1);
            local.counts.add_class(ClassCounter::ExpiredUnfetched, class, unfetched);
        }
    }
    has_more
}

/// The item published at a location that once held an item, if it is expired or flushed. The caller is online.
fn past_item(slab: &ItemSlab, at: Location, moment: Now) -> Option<ItemRef<'_>> {
    let chunks = &slab.chunks;
    let class = chunks.class_of(at);
    let _state = slab.lock(class);
    let item = chunks.is_of(class, at).then(|| ItemRef::of_chunk(chunks, at)).flatten()?;
    item.is_past(moment).then_some(item)
}

/// Entries that the sweeper examines in one step: well under a millisecond.
const STEP: usize = 1024;
