//! The page mover: a page of one slab class becomes a page of another, and its items are kept where there is room.
//!
//! One page at a time is moved. It takes no new items. The sweeper goes through it in small steps, and copies each
//! live item into a free chunk of the item's own class, or classes if the item is chained. If there is none, the
//! class first evicts what its policy values least; nothing is evicted for a page that goes to the pool unasked. When
//! the grace period of the page's last chunk is over, the page goes to its new class.
//!
//! # A move of an item
//! With its key's place locked, the item is marked as retired, its life word is handed over, and the copy is
//! published in its place. The unique stays: nothing changed that a client could see. Readers of the old item
//! continue until their turns end. A touch that comes too late for the copy sees the mark, and touches again.
//!
//! # Costs
//! Readers and writers: nothing. A move of a 2 MiB page of small items takes some 20 ms of the sweeper's time, in
//! steps of less than a millisecond. Bad at: a page in which a client takes seconds to fill an item; the move is
//! called off.

use super::balance::{Automove, Balance};
use crate::commands::Actor;
use crate::engine::{self, Local};
use crate::items::{ItemRef, Key, Unpublished};
use crate::locks::{Lock, MOVER};
use crate::memory::{Class, Owned};
use crate::orders::ItemSlab;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Why no page will be moved (memcached's `slabs reassign`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmoved {
    /// One page is being moved, and another is waiting.
    Busy,
    /// There is no such class.
    BadClass,
    /// The donor class has fewer than two pages.
    NoSpare,
    /// The page would go from a class to itself.
    Same,
}

/// Counts of the page mover. All except `is_running` count since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Pages moved.
    pub pages: u64,
    /// Items copied that are in one piece.
    pub items: u64,
    /// Chained items copied.
    pub chained: u64,
    /// Items that were replaced or deleted while they were copied.
    pub busy: u64,
    /// Items evicted because the move took too long.
    pub evicted: u64,
    /// How often there was no free chunk for a copy.
    pub no_room: u64,
    /// Whether a page is being moved.
    pub is_running: bool,
}

/// The state that the mover shares with threads that ask for moves.
#[derive(Default)]
pub(crate) struct Mover {
    state: Lock<State, MOVER>,
    /// How many walks require that items stay in place.
    holds: AtomicUsize,
    moved: Counts,
}

#[derive(Default)]
struct State {
    asked: VecDeque<Route>,
    automove: Automove,
    is_running: bool,
}

/// The class that gives a page, and the class that gets it; `None` is the pool.
#[derive(Clone, Copy)]
struct Route {
    from: Class,
    to: Option<Class>,
    /// Whether items may be evicted for the move: not for a page that no class needs yet.
    may_evict: bool,
}

#[derive(Default)]
struct Counts {
    pages: AtomicU64,
    items: AtomicU64,
    chained: AtomicU64,
    busy: AtomicU64,
    evicted: AtomicU64,
    no_room: AtomicU64,
}

/// The page that the sweeper is moving, and how it chooses one.
#[derive(Default)]
pub(crate) struct MoverTask {
    moving: Option<Moving>,
    balance: Balance,
}

/// A page that is being moved.
struct Moving {
    route: Route,
    page: u32,
    /// The slot to examine next.
    slot: u32,
    /// How often the mover had to wait.
    waits: u32,
}

/// The outcome of an attempt to copy an item elsewhere.
enum Carried {
    Moved,
    /// The item was replaced or deleted meanwhile.
    Gone,
    /// There is no free chunk.
    NoRoom,
}

/// Prevents items from moving while it lives. For a walk over memory, which would miss an item that moves or see it
/// twice.
pub(crate) struct Still<'c>(&'c Mover);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Release);
    }
}

impl Mover {
    /// Asks for a page of class `from` to be moved to class `to`. `from` as `None` means the class with the most
    /// pages; `to` as `None` means the pool.
    pub(crate) fn ask(
        &self,
        slab: &ItemSlab,
        from: Option<usize>,
        to: Option<usize>,
    ) -> Result<(), Unmoved> {
        let classes = slab.chunks.classes.len();
        let class = |class: usize| {
            Class::try_from(class).ok().filter(|_| class < classes).ok_or(Unmoved::BadClass)
        };
        let to = to.map(class).transpose()?;
        let from = match from {
            Some(from) => class(from)?,
            None => slab.richest(to).ok_or(Unmoved::NoSpare)?,
        };
        if to == Some(from) {
            return Err(Unmoved::Same);
        }
        let mut state = self.state.lock();
        if state.asked.len() + usize::from(state.is_running) >= ASKED_MAX {
            return Err(Unmoved::Busy);
        }
        if slab.lock(from).pages.len() < 2 {
            return Err(Unmoved::NoSpare);
        }
        state.asked.push_back(Route { from, to, may_evict: true });
        Ok(())
    }

    /// The rule by which pages move without being asked for.
    pub(crate) fn automove(&self) -> Automove {
        self.state.lock().automove
    }

    /// Sets the rule by which pages move without being asked for.
    pub(crate) fn set_automove(&self, automove: Automove) {
        self.state.lock().automove = automove;
    }

    /// The mover's counts.
    pub(crate) fn read(&self) -> Moves {
        let Counts { pages, items, chained, busy, evicted, no_room } = &self.moved;
        Moves {
            pages: pages.load(Relaxed),
            items: items.load(Relaxed),
            chained: chained.load(Relaxed),
            busy: busy.load(Relaxed),
            evicted: evicted.load(Relaxed),
            no_room: no_room.load(Relaxed),
            is_running: self.state.lock().is_running,
        }
    }

    /// Prevents items from moving while the returned value lives, except one whose copy is already being made.
    pub(crate) fn hold(&self) -> Still<'_> {
        self.holds.fetch_add(1, AcqRel);
        Still(self)
    }

    /// The next page to move: one that was asked for, or one that `choose` returns.
    fn next(&self, choose: impl FnOnce(&Automove) -> Option<Route>) -> Option<Route> {
        let (asked, automove) = {
            let mut state = self.state.lock();
            (state.asked.pop_front(), state.automove)
        };
        let route = asked.or_else(|| choose(&automove));
        self.state.lock().is_running = route.is_some();
        route
    }

    /// Resets every count to 0.
    pub(crate) fn reset(&self) {
        let Counts { pages, items, chained, busy, evicted, no_room } = &self.moved;
        for count in [pages, items, chained, busy, evicted, no_room] {
            count.store(0, Relaxed);
        }
    }
}

impl MoverTask {
    /// Moves the page by a step. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, actor: &Actor<'_>, mover: &Mover, now: u32) -> bool {
        let engine = actor.local.engine;
        if mover.holds.load(Acquire) > 0 {
            return false;
        }
        let Some(moving) = &mut self.moving else {
            let balance = &mut self.balance;
            let choose = |how: &Automove| {
                let is_full = engine.dial.is_wanted() || engine.slab.pages_left() == 0;
                let (from, to) = balance.choose(&engine.slab, how, is_full, now)?;
                Some(Route { from, to, may_evict: to.is_some() })
            };
            let Some(route) = mover.next(choose) else { return false };
            let page = engine.slab.set_out(route.from);
            self.moving = page.map(|page| Moving { route, page, slot: 0, waits: 0 });
            return true;
        };
        let Route { from, to, may_evict } = moving.route;
        if engine.slab.arrive(moving.page, to) {
            add(&mover.moved.pages, 1);
            self.moving = None;
            return true;
        }
        // The page went to the pool, because the limit was lowered meanwhile.
        if !engine.slab.is_moving(moving.page) {
            self.moving = None;
            return true;
        }
        let goes_on = empty_slots(actor, &mover.moved, moving, now);
        moving.waits += u32::from(!goes_on);
        if may_evict && moving.waits == WAITS_EVICTING && engine.evictions {
            add(&mover.moved.evicted, actor.local.empty_page(from, moving.page));
            return goes_on;
        }
        let waits_max = if may_evict { WAITS_MAX } else { WAITS_EVICTING };
        if moving.waits > waits_max && engine.slab.call_off(from, moving.page) {
            self.moving = None;
            self.balance.rest(from, now);
        }
        goes_on
    }
}

/// Empties the next few slots of the page. Returns `false` if the mover must wait before it continues.
fn empty_slots(actor: &Actor<'_>, moved: &Counts, moving: &mut Moving, now: u32) -> bool {
    let slab = &actor.local.engine.slab;
    let class = moving.route.from;
    let slots = (STEP_BYTES / slab.chunks.classes.bytes(class)).max(1);
    let slots = u32::try_from(slots).unwrap_or(u32::MAX);
    let end = moving.slot.saturating_add(slots).min(slab.chunks.slots_used(moving.page));
    let moment = actor.local.now(now);
    for item in engine::items_in(slab, class, moving.page, moving.slot..end) {
        let key = actor.local.key(item.key());
        if item.is_past(moment) {
            actor.local.unlink(&item, key.hash);
            continue;
        }
        match carry(actor, &item, &key, now) {
            Carried::Moved if item.shape().extras.chained => add(&moved.chained, 1),
            Carried::Moved => add(&moved.items, 1),
            Carried::Gone => add(&moved.busy, 1),
            Carried::NoRoom => {
                add(&moved.no_room, 1);
                if moving.route.may_evict {
                    make_room(&actor.local, &item, slots, now);
                }
                return false;
            }
        }
    }
    moving.slot = end;
    if end < slab.chunks.slots_used(moving.page) {
        return true;
    }
    // Chunks still in use are in their grace period, or unpublished.
    moving.slot = 0;
    false
}

/// Evicts from the item's classes, so that about `slots` chunks are free when their grace period is over.
fn make_room(local: &Local<'_>, item: &ItemRef<'_>, slots: u32, now: u32) {
    let slab = &local.engine.slab;
    if !local.engine.evictions {
        return;
    }
    let wanted = (slots as usize).max(item.shape().links);
    for chunk in std::iter::once(item.location()).chain(item.links().next()) {
        let class = slab.chunks.class_of(chunk);
        while local.waiting(class) < wanted && local.evict(class, now) {}
    }
}

/// Copies the item into free chunks and puts the copy in its place.
fn carry(actor: &Actor<'_>, item: &ItemRef<'_>, key: &Key<'_>, now: u32) -> Carried {
    let local = &actor.local;
    let Some(chunks) = spare_chunks(&local.engine.slab, item) else { return Carried::NoRoom };
    let new = Unpublished::new(&local.engine.slab.chunks, key.bytes, item.shape(), chunks);
    let Ok(new) = local.filled(new, item.value_parts(), now) else {
        return Carried::NoRoom;
    };
    match local.relocate(item, key, new) {
        Ok(copy) => {
            actor.expect_end(copy.exptime(), copy.location());
            Carried::Moved
        }
        Err(new) => {
            local.discard(new);
            Carried::Gone
        }
    }
}

/// Free chunks for a copy of the item.
fn spare_chunks(slab: &ItemSlab, item: &ItemRef<'_>) -> Option<(Owned, Vec<Owned>)> {
    let head = slab.alloc_spare(slab.chunks.class_of(item.location()))?;
    let largest = slab.chunks.classes.largest();
    let mut links = Vec::with_capacity(item.shape().links);
    while links.len() < item.shape().links {
        match slab.alloc_spare(largest) {
            Some(link) => links.push(link),
            None => {
                slab.free_all(links.into_iter().chain([head]).map(Owned::into_location));
                return None;
            }
        }
    }
    Some((head, links))
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Relaxed);
}

/// How many pages may be moved or wait for it.
const ASKED_MAX: usize = 2;
/// Bytes of chunks that one step examines.
const STEP_BYTES: usize = 32 << 10;
/// Waits after which the rest of the page is evicted: half a second. Writers take the chunks that become free. If
/// nothing may be evicted for the page, it then stays where it is.
const WAITS_EVICTING: u32 = 25;
/// Waits after which the page stays where it is.
const WAITS_MAX: u32 = 400;
