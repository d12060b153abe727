//! Eviction policies: which item of a full class is evicted. A closed set; the policy is chosen when the cache is
//! made.
//!
//! | policy | a hit | state besides the headers | source |
//! |---|---|---|---|
//! | S3-CLOCK | counts to 3 in the header | a ring of probationers, a ghost | `s3clock.rs` |
//! | CLOCK | sets a bit in the header | nothing | `clock.rs` |
//! | SIEVE | sets a bit in the header | a list beside the items | `list.rs` |
//! | LRU | moves the item to the list's head, under its class's lock | a list beside the items | `list.rs` |
//!
//! Only LRU takes a lock on a hit. No hit writes anything once the count is at its maximum.
//!
//! Each class has its own order, under the class's lock. An item enters its class's order when its turn ends
//! (engine/local.rs), so that a batch of stores takes the lock once.

mod s3clock;
mod ring;
mod list;
mod clock;
mod victims;
mod dial;

use crate::items::{Header, ItemRef};
use crate::memory::{Chunks, Class, ClassState, Ledger, Slab};
use crate::time::Now;
use clock::Hand;
pub(crate) use dial::Dial;
pub use dial::Tuned;
use guira_index::{Hash, Location};
use list::List;
use s3clock::Probation;
pub(crate) use s3clock::Shares;
use std::fmt;
use std::str::FromStr;
use victims::Search;
pub(crate) use victims::{Tally, Victim};

/// Which item a full class evicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// New items on probation, before a CLOCK that counts to three; its parameters adapt to the workload.
    #[default]
    S3Clock,
    /// MemC3's CLOCK: one bit, clear on insertion, and a hand.
    Clock,
    /// One bit, and a hand that moves from the oldest item to the newest.
    Sieve,
    /// The least recently used item, strictly: hits take the class's lock.
    Lru,
}

impl Eviction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::S3Clock, Self::Clock, Self::Sieve, Self::Lru];

    /// The policy's name, which [`Eviction::from_str`] parses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::S3Clock => "s3-clock",
            Self::Clock => "clock",
            Self::Sieve => "sieve",
            Self::Lru => "lru",
        }
    }

    /// The maximum of the hit count in an item's header.
    pub(crate) fn hits_max(self) -> u32 {
        match self {
            Self::S3Clock => 3,
            Self::Clock | Self::Sieve => 1,
            Self::Lru => 0,
        }
    }

    /// Whether classes keep their items in a list.
    pub(crate) fn keeps_list(self) -> bool {
        matches!(self, Self::Sieve | Self::Lru)
    }

    /// Whether a hit moves the item in a list, which takes its class's lock.
    pub(crate) fn moves_hits(self) -> bool {
        self == Self::Lru
    }

    /// Whether classes remember the keys of evicted items, and check the keys of new items against them.
    pub(crate) fn remembers_keys(self) -> bool {
        self == Self::S3Clock
    }

    /// The header that a new item starts with. `live` is the header of the live item that it replaces, if any.
    /// `evicts` is whether any class has evicted so far.
    #[inline]
    pub(crate) fn admitted(
        self,
        new: Header,
        on_probation: bool,
        live: Option<Header>,
        evicts: bool,
    ) -> Header {
        match (self, live) {
            // Replacing a value does not show who will ask for it: the item keeps its standing. While there is room
            // for all, it leaves probation, which then serves no purpose and would cost another entry in the ring.
            (Self::S3Clock, Some(live)) => {
                new.with_hits(live.hits()).with_probation(live.is_on_probation() && evicts)
            }
            (Self::S3Clock, None) => new.with_probation(on_probation),
            _ => new,
        }
    }

    /// Whether an item with this header has a place in its class's ring or list.
    pub(crate) fn orders(self, header: Header) -> bool {
        match self {
            Self::S3Clock => header.is_on_probation(),
            Self::Clock => false,
            Self::Sieve | Self::Lru => true,
        }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Eviction {
    type Err = UnknownEviction;

    fn from_str(name: &str) -> Result<Self, UnknownEviction> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownEviction(name.to_owned()))
    }
}

/// The error for a name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEviction(String);

impl fmt::Display for UnknownEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Eviction::ALL.map(Eviction::name).join(", ");
        write!(f, "there is no eviction policy {:?}: take one of {names}", self.0)
    }
}

impl std::error::Error for UnknownEviction {}

/// Figures of one class, read under its lock, for `stats slabs` and `stats items`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassStats {
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
    /// Chunks of a page.
    pub chunks_per_page: usize,
    /// Pages that the class has.
    pub pages: usize,
    /// Chunks that are not free: published, unpublished or retired.
    pub chunks_used: usize,
    /// Seconds since the last access of the item that was evicted last, as of that eviction.
    pub evicted_idle_s: u32,
}

impl ClassStats {
    /// Chunks in all of the class's pages.
    pub fn chunks(&self) -> usize {
        self.pages * self.chunks_per_page
    }
}

/// The slab of a cache's items.
pub(crate) type ItemSlab = Slab<ClassOrder>;

/// A class's state for choosing victims. It is guarded by the class's lock.
pub(crate) struct ClassOrder {
    /// The position of the hand that goes over the chunks.
    hand: Hand,
    kept: Kept,
    pub(crate) tally: Tally,
}

/// A policy's state for a class, besides the items' headers.
enum Kept {
    /// Nothing: the hand goes over the chunks.
    Clock,
    S3Clock(Probation),
    Sieve(List),
    Lru(List),
}

impl ClassOrder {
    /// The order of a class without items.
    pub(crate) fn new(eviction: Eviction) -> ClassOrder {
        let kept = match eviction {
            Eviction::S3Clock => Kept::S3Clock(Probation::default()),
            Eviction::Clock => Kept::Clock,
            Eviction::Sieve => Kept::Sieve(List::default()),
            Eviction::Lru => Kept::Lru(List::default()),
        };
        ClassOrder { hand: Hand::default(), kept, tally: Tally::default() }
    }

    /// Enters a new item of the class, if it is still there. `on_probation` returns how many items of the class are
    /// on probation.
    pub(crate) fn enter(
        &mut self,
        at: Location,
        (chunks, class): (&Chunks, Class),
        on_probation: impl FnOnce() -> usize,
    ) {
        match &mut self.kept {
            Kept::Clock => {}
            Kept::S3Clock(probation) => probation.enter(at, (chunks, class), on_probation),
            Kept::Sieve(list) | Kept::Lru(list) => {
                if chunks.is_of(class, at) && ItemRef::of_chunk(chunks, at).is_some() {
                    list.renew(chunks, at);
                }
            }
        }
    }

    /// Like [`ClassOrder::enter`], for an item from a memory file: it has no place in the order yet.
    pub(crate) fn resume(&mut self, at: Location, chunks: &Chunks) {
        match &mut self.kept {
            Kept::Clock => {}
            Kept::S3Clock(probation) => probation.resume(at),
            Kept::Sieve(list) | Kept::Lru(list) => {
                if ItemRef::of_chunk(chunks, at).is_some() {
                    list.renew(chunks, at);
                }
            }
        }
    }

    /// Remembers keys that failed their probation. `items` is the number of items in the class.
    pub(crate) fn remember(&mut self, failed: impl Iterator<Item = Hash>, items: usize) {
        if let Kept::S3Clock(probation) = &mut self.kept {
            probation.remember(failed, items);
        }
    }

    /// The oldest item's chunk, if the policy keeps a list.
    pub(crate) fn oldest(&self) -> Option<Location> {
        match &self.kept {
            Kept::Sieve(list) | Kept::Lru(list) => list.oldest(),
            Kept::Clock | Kept::S3Clock(_) => None,
        }
    }

    fn list(&mut self) -> Option<&mut List> {
        match &mut self.kept {
            Kept::Sieve(list) | Kept::Lru(list) => Some(list),
            Kept::Clock | Kept::S3Clock(_) => None,
        }
    }
}

impl Ledger for ClassOrder {
    fn taken(&mut self, hash: Hash) -> bool {
        match &mut self.kept {
            Kept::S3Clock(probation) => probation.knows(hash),
            _ => false,
        }
    }

    fn freed(&mut self, chunks: &Chunks, at: Location) {
        if let Some(list) = self.list() {
            list.unlink(chunks, at);
        }
    }

    fn page_left(&mut self, page: u32) {
        if let Some(list) = self.list() {
            list.forget(page);
        }
    }

    fn behind_hand(&self, pages: usize) -> Option<usize> {
        self.hand.next_page(pages)
    }
}

/// Adds up to `want` items of `class` that are to be evicted to `found`. Returns how many items passed their
/// probation meanwhile. The caller is online and unlinks each victim by its location, since a victim may be gone
/// already or occur twice.
pub(crate) fn victims(
    slab: &ItemSlab,
    class: Class,
    want: usize,
    (now, shares): (Now, Shares),
    found: &mut Vec<Victim>,
) -> usize {
    let mut state = slab.lock(class);
    let ClassState { pages, used, order: ClassOrder { hand, kept, tally }, .. } = &mut *state;
    let (chunks, used) = (&slab.chunks, *used);
    if pages.is_empty() || used == 0 {
        return 0;
    }
    let want = if chunks.classes.are_memcacheds() {
        want.min(slab.reserve(pages.len() * chunks.slots(class) as usize)).max(1)
    } else {
        want
    };
    let wanted = found.len() + want;
    let mut search = Search { chunks, class, pages, used, now, wanted, found, tally };
    match kept {
        Kept::S3Clock(probation) => return probation.search(hand, &mut search, shares),
        Kept::Clock => clock::search(hand, &mut search),
        Kept::Sieve(list) => list.search(true, &mut search),
        Kept::Lru(list) => list.search(false, &mut search),
    }
    0
}

/// Gives an item that was copied from `old` to `new`, a chunk of the same class, its old place in the list. If it had
/// none, it becomes the newest.
pub(crate) fn inherit(slab: &ItemSlab, old: Location, new: Location) {
    let chunks = &slab.chunks;
    let class = chunks.class_of(new);
    let mut state = slab.lock(class);
    if !chunks.is_of(class, new) || ItemRef::of_chunk(chunks, new).is_none() {
        return;
    }
    if let Some(list) = state.order.list() {
        list.inherit(chunks, old, new);
    }
}

/// Handles a hit under LRU: the item becomes the newest of its class.
#[cold]
pub(crate) fn renew(slab: &ItemSlab, item: &ItemRef<'_>) {
    let chunks = &slab.chunks;
    for at in std::iter::once(item.location()).chain(item.links().next()) {
        let class = chunks.class_of(at);
        let mut state = slab.lock(class);
        if chunks.is_of(class, at)
            && let Some(list) = state.order.list()
            && list.has(chunks, at)
        {
            list.renew(chunks, at);
        }
    }
}

/// Figures of a class.
pub(crate) fn class_stats(slab: &ItemSlab, class: Class) -> ClassStats {
    let state = slab.lock(class);
    ClassStats {
        chunk_bytes: slab.chunks.classes.bytes(class),
        chunks_per_page: slab.chunks.slots(class) as usize,
        pages: state.pages.len() + state.draining.len(),
        chunks_used: state.used,
        evicted_idle_s: state.order.tally.last_idle_s,
    }
}
