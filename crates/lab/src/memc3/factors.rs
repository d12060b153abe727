//! The contribution of MemC3's steps to a lookup: the tables of figures 5a and 5b, each one step from the next.
//!
//! ```text
//! chaining        one lock, memcmp, small pages
//! + huge pages    the same, in pages of 2 MiB
//! + integer keys  keys compared as two integers
//! + bucket locks  8192 locks instead of one
//! cuckoo          four slots in two buckets, no tags, bucket locks
//! + tags          items read only if the tag matches
//! + optimistic    no lock, a version read before and after: MemC3
//! ```

use crate::Scale;
use crate::baseline::chain::Chain;
use crate::baseline::engine::LOCKS;
use crate::baseline::items::{Compare, Items, Key};
use crate::baseline::pages::{Pages, grown};
use crate::baseline::single_writer::{Design, Reads, SingleWriter};
use guira_index::{Entry as _, Index, Location};
use std::cell::Cell;
use std::sync::Arc;

/// The tables, all with the same keys.
pub(crate) struct Factors {
    small_pages: (Arc<Items>, Chain<Arc<Items>>),
    items: Arc<Items>,
    chain: Chain<Arc<Items>>,
    cuckoo: SingleWriter,
    /// Shares of memory in huge pages: that of the first chains and their items, and the least of the others.
    pub(crate) huge: [f64; 2],
}

impl Factors {
    /// Creates tables that are larger than the processor's caches, with half a GiB of items at the small scale; the
    /// load is 92 % of the slots.
    pub(crate) fn new(scale: Scale, tell: impl Fn(f64, &str)) -> Self {
        Self::of(scale.pick(1 << 23, 1 << 25) / 100 * 92, tell)
    }

    pub(crate) fn of(keys: u32, tell: impl Fn(f64, &str)) -> Self {
        tell(0.0, "building chains with small pages");
        let (small_pages, small) = grown(|| chained(Pages::Small, keys));
        tell(0.1, "building chains");
        let ((items, chain), chains) = grown(|| chained(Pages::Huge, keys));
        tell(0.2, "building cuckoo tables");
        let (cuckoo, cuckoos) = grown(|| {
            let cuckoo = SingleWriter::with_room(keys as usize, Design::MEMC3);
            enter_all(&cuckoo, &items);
            cuckoo
        });
        Self { small_pages, items, chain, cuckoo, huge: [small, chains.min(cuckoos)] }
    }

    /// The number of present keys. Lower numbers are present keys, the others are absent.
    pub(crate) fn keys(&self) -> u32 {
        self.items.count()
    }

    /// The rest of a lookup without a table: see [`Items::known`].
    #[inline]
    pub(crate) fn known(&self, key: &Key) -> Option<Location> {
        self.items.known(key)
    }

    /// Does a lookup with the table after so many steps.
    #[inline]
    pub(crate) fn get(&self, step: usize, key: &Key) -> Option<Location> {
        self.get_noting(step, key, || {})
    }

    /// Returns how many items a lookup reads after so many steps.
    pub(crate) fn items_read(&self, step: usize, key: &Key) -> u32 {
        let read = Cell::new(0);
        self.get_noting(step, key, || read.set(read.get() + 1));
        read.get()
    }

    /// Like [`get`](Self::get), with a call of `note` for each item that is read.
    #[inline]
    fn get_noting(&self, step: usize, key: &Key, note: impl Fn()) -> Option<Location> {
        use Compare::{Bytes, Integers};
        let (hash, note) = (key.hash(), &note);
        let is_key = move |items: &Items, compare, at| {
            note();
            items.is_key_by(compare, at, key)
        };
        let in_items = |compare| move |at| is_key(&self.items, compare, at);
        let cuckoo = |has_tags, reads| {
            let design = Design { has_tags, reads, ..Design::MEMC3 };
            self.cuckoo.get_as(design, hash, in_items(Integers))
        };
        match step {
            0 => {
                let (items, chain) = &self.small_pages;
                chain.get_with_locks(1, hash, |at| is_key(items, Bytes, at))
            }
            1 => self.chain.get_with_locks(1, hash, in_items(Bytes)),
            2 => self.chain.get_with_locks(1, hash, in_items(Integers)),
            3 => self.chain.get(hash, in_items(Integers)),
            4 => cuckoo(false, Reads::Locked),
            5 => cuckoo(true, Reads::Locked),
            6 => cuckoo(true, Reads::Optimistic),
            _ => unreachable!("there are seven steps"),
        }
    }
}

fn chained(pages: Pages, keys: u32) -> (Arc<Items>, Chain<Arc<Items>>) {
    let items = Arc::new(Items::in_pages(pages, keys));
    let chain = Chain::in_pages(pages, keys as usize, LOCKS, items.clone());
    enter_all(&chain, &items);
    (items, chain)
}

fn enter_all(table: &impl Index, items: &Items) {
    for number in 0..items.count() {
        let key = Key::new(number);
        let entry = table.entry(key.hash(), items, |at| items.is_key(at, &key));
        entry.expect("room").put(Location(number));
    }
}

/// The steps, as in the figure.
pub(crate) const STEPS: [&str; 7] = [
    "chaining",
    "+ huge pages",
    "+ integer keys",
    "+ bucket locks",
    "cuckoo",
    "+ tags",
    "+ optimistic",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_finds_the_same_keys() {
        let factors = Factors::of(2000, |_, _| {});
        for step in 0..STEPS.len() {
            let found = |number| factors.get(step, &Key::new(number));
            assert!((0..2000).all(|number| found(number) == Some(Location(number))), "{step}");
            assert!((2000..4000).all(|number| found(number).is_none()), "{step}");
        }
    }
}
