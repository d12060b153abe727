//! Paths to the youngest buckets within two moves of two full ones.
//!
//! Costs: a few cache lines for a path of one move; otherwise a dozen more, whose entries are then compared by age.
//! At 95 % load in a growing table, 3 of 4 searches end after the first step, and 1 in 80 finds nothing in the
//! second.

use super::moves::{Path, Source};
use crate::Items;
use crate::bucket::SLOTS;
use crate::cuckoo::address::Size;
use crate::cuckoo::table::Cuckoo;
use crate::mapping::prefetch;

/// A path of one or two moves to one of the youngest buckets, if one of those has room.
pub(super) fn path(
    table: &Cuckoo,
    size: Size,
    roots: [u32; 2],
    items: &impl Items,
) -> Option<Path> {
    let near = Near { table, size };
    let mut youngest = Youngest::default();
    for (i, root) in (0..).zip(roots) {
        near.add_entries(root, i, &mut youngest);
    }
    let one = near.first_with_room(youngest, &roots, roots, items);
    if let Some((i, slot, end)) = one {
        return Some(Path::new(&[Source { bucket: roots[i], slot }], end));
    }
    let mut middles = [0; SLOTS];
    let sources = near.alternates(roots, &mut middles);
    let mut youngest = Youngest::default();
    for (i, middle) in (0..).zip(middles).take(sources.iter().flatten().count()) {
        near.add_entries(middle, i, &mut youngest);
    }
    let (i, slot, end) = near.first_with_room(youngest, &middles, roots, items)?;
    Some(Path::new(&[sources[i]?, Source { bucket: middles[i], slot }], end))
}

struct Near<'a> {
    table: &'a Cuckoo,
    size: Size,
}

impl Near<'_> {
    fn add_entries(&self, bucket: u32, origin: u32, youngest: &mut Youngest) {
        let tags = self.table.bucket(bucket).tags();
        for (slot, place) in (0..SLOTS).zip(0..) {
            if let Some(tag) = tags.get(slot) {
                youngest.add(self.size.age_of_alternate(bucket, tag), origin, place);
            }
        }
    }

    /// The first of these entries whose other bucket has room: origin, slot, and that bucket.
    fn first_with_room(
        &self,
        youngest: Youngest,
        origins: &[u32],
        roots: [u32; 2],
        items: &impl Items,
    ) -> Option<(usize, usize, u32)> {
        let found = youngest.0.map(|packed| {
            let (origin, slot) = Youngest::unpack(packed)?;
            let bucket = self.table.bucket(origins[origin]);
            let entry = (origins[origin], bucket.tags().get(slot)?, bucket.location(slot));
            let [one, other] = self.size.alternates(entry.0, entry.1);
            prefetch(self.table.bucket(one));
            if one != other {
                prefetch(self.table.bucket(other));
                items.prefetch(entry.2);
            }
            Some((origin, slot, entry))
        });
        found.into_iter().flatten().find_map(|(origin, slot, entry)| {
            let to = self.table.other_bucket(entry, self.size, items)?;
            let is_new = !roots.contains(&to) && to != entry.0;
            (is_new && self.table.has_room(to)).then_some((origin, slot, to))
        })
    }

    /// The other buckets of the roots' entries, if they follow from the tag, and the entries' places.
    fn alternates(&self, roots: [u32; 2], into: &mut [u32; SLOTS]) -> [Option<Source>; SLOTS] {
        let mut sources = [None; SLOTS];
        let mut places = into.iter_mut().zip(&mut sources);
        for slot in 0..SLOTS {
            for root in roots {
                let tag = self.table.bucket(root).tags().get(slot);
                let other = tag.and_then(|tag| self.size.alternate(root, tag));
                let Some(to) = other.filter(|to| !roots.contains(to)) else { continue };
                let Some((bucket, source)) = places.next() else { return sources };
                prefetch(self.table.bucket(to));
                *bucket = to;
                *source = Some(Source { bucket: root, slot });
            }
        }
        sources
    }
}

/// The few youngest of the entries added. Age, origin and slot are packed in one word, so that words compare as ages
/// do.
#[derive(Clone, Copy)]
struct Youngest([u64; KEPT]);

impl Default for Youngest {
    fn default() -> Self {
        Self([u64::MAX; KEPT])
    }
}

impl Youngest {
    #[inline]
    fn add(&mut self, age: u32, origin: u32, slot: u32) {
        let mut packed = u64::from(age) << 32 | u64::from(origin << 8 | slot);
        for kept in &mut self.0 {
            (*kept, packed) = (packed.min(*kept), packed.max(*kept));
        }
    }

    fn unpack(packed: u64) -> Option<(usize, usize)> {
        let [slot, origin, ..] = packed.to_le_bytes();
        (packed != u64::MAX).then_some((origin.into(), slot.into()))
    }
}

/// How many buckets are tried.
const KEPT: usize = if cfg!(loom) { 1 } else { 3 };
