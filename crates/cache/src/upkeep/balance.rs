//! Balance between slab classes: which class gets a page, and from which class, while the server runs. This is
//! Facebook's rule, by the age of the next victims.
//!
//! Nishtala et al., *Scaling Memcache at Facebook* (NSDI 2013), section 6.2. A class needs memory if it evicts and
//! its next victim was used at least a fifth more recently than the next victims of the other classes on average. It
//! gets a page from the class whose next victim is the oldest. So all classes come to evict items of about the same
//! age, as one LRU over all of them would.
//!
//! # Ages
//! The age of a class that evicts is how long its recent victims had been idle, averaged over a window. The age of a
//! class that doesn't evict is that of the oldest of a few sampled items. An item's header records idle times to two
//! seconds, up to four minutes. That suffices, since only differences of a fifth between classes matter. Where it
//! doesn't suffice, an equally good measure replaces it:
//! - If a class's victims are all younger or older than the header can record, the age is the time in which the class
//!   evicts as many items as it has.
//! - If a class doesn't evict, it is the time since its oldest item was first seen to be idle for over four minutes.
//!
//! # Spare pages
//! Deletes and expiry leave free chunks in many pages of a class, where no other class can use them. A class gives
//! pages to the pool if it doesn't evict and for a window had more than two and a half pages of free chunks in
//! addition to its reserve. It stops when it has fewer; this is memcached's rule. So a class that needs a page finds
//! one in the pool, and evicts nothing.
//!
//! Both rules apply from the time when some class first had to evict, or when the pool was first empty.
//!
//! # Against ping-pong
//! A page moves only if the donor, with one page less, would still hold the older items. A class that got a page
//! gives none for a window, and a class that gave one gets none. At most one page per second moves from class to
//! class, and only one at a time.
//!
//! # Costs
//! Once per second, from then on: one lock per class, and 64 headers for each class that doesn't evict. Bad at: a
//! class of one page, which is too little for a fair sample; items that are deleted and stored again every few
//! windows, whose pages leave and return.

use crate::items::{IDLE_MAX_S, ItemRef};
use crate::memory::{Chunks, Class, ClassState};
use crate::orders::{ClassOrder, ItemSlab, Tally};

#[cfg(test)]
mod tests;

/// How pages move without being asked for (memcached's `-o slab_automove…`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Automove {
    /// 0: not at all. 1: at most one page per second from class to class. 2: as fast as pages can be emptied.
    pub level: u32,
    /// How young a class's next victim must be, relative to the others' average, for the class to get a page. 0.8 is
    /// the paper's fifth.
    pub ratio: f64,
    /// Seconds over which ages are averaged.
    pub window_s: u32,
}

impl Default for Automove {
    /// Off.
    fn default() -> Self {
        Automove { level: 0, ratio: 0.8, window_s: 10 }
    }
}

/// What the sweeper has observed of the classes so far.
#[derive(Default)]
pub(crate) struct Balance {
    looked_at: u32,
    /// The second at which memory was first full. Averages count after a window from then on.
    began_at: u32,
    classes: Vec<Seen>,
    /// The class that is giving spare pages to the pool, if any.
    giver: Option<Class>,
}

/// The observations of one class.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The class's counts at the last look.
    tally: Tally,
    /// Victims per second, averaged over the window.
    rate: f64,
    age_s: Option<f64>,
    /// The second at which the class last had victims.
    evicted_at: u32,
    /// The second since which the class's oldest item has been older than its header can record; 0 if it isn't.
    old_since: u32,
    /// The second since which the class has had spare pages; 0 if it has none.
    spare_since: u32,
    /// The second at which the class last got a page, and last gave one.
    got_at: u32,
    gave_at: u32,
}

/// The standing of a class among the others.
#[derive(Clone, Copy, Debug)]
struct Standing {
    class: Class,
    pages: usize,
    /// The approximate idle time of the class's next victim, in seconds.
    age_s: f64,
    evicts: bool,
    /// Whether the class has two pages' worth of free chunks, and does not evict.
    has_spare: bool,
    /// Whether the class is to give pages to the pool.
    is_giver: bool,
    may_get: bool,
    may_give: bool,
}

impl Balance {
    /// Chooses a page move: from which class, and to which class or (`None`) to the pool. Chooses none until memory
    /// `is_full` once.
    pub(crate) fn choose(
        &mut self,
        slab: &ItemSlab,
        how: &Automove,
        is_full: bool,
        now: u32,
    ) -> Option<(Class, Option<Class>)> {
        if how.level == 0 {
            return None;
        }
        // A class that is giving pages continues at once.
        self.giver = self.giver.filter(|&class| has_spare_pages(slab, class, &slab.lock(class)));
        if let Some(class) = self.giver {
            return Some((class, None));
        }
        let is_due = now != self.looked_at;
        let has_been_full = self.began_at > 0 || is_full;
        if !has_been_full || (how.level == 1 && !is_due) {
            return None;
        }
        if self.began_at == 0 {
            self.began_at = now;
        }
        let standings = self.look(slab, how, now, is_due);
        if is_due {
            self.looked_at = now;
        }
        if now < self.began_at + how.window_s {
            return None;
        }
        self.giver = standings.iter().find(|s| s.is_giver).map(|s| s.class);
        if let Some(class) = self.giver {
            return Some((class, None));
        }
        if slab.pages_left() > 0 {
            return None;
        }
        let (from, to) = choose(&standings, how.ratio)?;
        let pages = |class| standings.iter().find(|s| s.class == class).map_or(1, |s| s.pages);
        // The ages are averages over a window. Until the window reflects the move, scale them to what they will be.
        self.seen(to).got_at = now;
        self.seen(from).gave_at = now;
        scale(&mut self.seen(to).age_s, pages(to) + 1, pages(to));
        scale(&mut self.seen(from).age_s, pages(from) - 1, pages(from));
        Some((from, Some(to)))
    }

    /// Records that a page of the class could not be emptied: the class gives none to the pool for a window.
    pub(crate) fn rest(&mut self, class: Class, now: u32) {
        self.giver = None;
        if let Some(seen) = self.classes.get_mut(usize::from(class)) {
            seen.spare_since = now;
        }
    }

    fn seen(&mut self, class: Class) -> &mut Seen {
        &mut self.classes[usize::from(class)]
    }

    /// The classes' standings. Updates the averages first if that `is_due`.
    fn look(&mut self, slab: &ItemSlab, how: &Automove, now: u32, is_due: bool) -> Vec<Standing> {
        self.classes.resize(slab.chunks.classes.len(), Seen::default());
        let elapsed_s = f64::from(now.saturating_sub(self.looked_at).max(1));
        let share = (elapsed_s * 2.0 / (f64::from(how.window_s) + 1.0)).min(1.0);
        let mut standings = Vec::new();
        for class in 0..=slab.chunks.classes.largest() {
            let state = slab.lock(class);
            let seen = &mut self.classes[usize::from(class)];
            if state.pages.is_empty() {
                *seen = Seen { tally: state.order.tally, ..Seen::default() };
                continue;
            }
            if is_due {
                seen.take(&slab.chunks, &state, now, (elapsed_s, share));
            }
            let slots = slab.chunks.slots(class) as usize;
            let free = (state.pages.len() * slots).saturating_sub(state.used);
            let is_past = |second: u32| second == 0 || second + how.window_s <= now;
            let evicts = !is_past(seen.evicted_at);
            let may_give = is_past(seen.got_at) && state.pages.len() > 1;
            if !has_spare_pages(slab, class, &state) {
                seen.spare_since = 0;
            } else if seen.spare_since == 0 {
                seen.spare_since = now;
            }
            standings.push(Standing {
                class,
                pages: state.pages.len(),
                age_s: seen.age_s.unwrap_or(0.0),
                evicts,
                has_spare: !evicts && state.pages.len() > 1 && free >= 2 * slots,
                is_giver: !evicts && may_give && seen.spare_since > 0 && is_past(seen.spare_since),
                may_get: is_past(seen.gave_at) && seen.age_s.is_some(),
                may_give,
            });
        }
        standings
    }
}

impl Seen {
    /// Updates the observations with what happened in the class since the last look.
    fn take(
        &mut self,
        chunks: &Chunks,
        state: &ClassState<ClassOrder>,
        now: u32,
        (elapsed_s, share): (f64, f64),
    ) {
        let count = state.order.tally.count - self.tally.count;
        let idle_s = state.order.tally.idle_s - self.tally.idle_s;
        self.tally = state.order.tally;
        #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
        let (count, idle_s, used) = (count as f64, idle_s as f64, state.used as f64);
        self.rate += (count / elapsed_s - self.rate) * share;
        let age_s = if count > 0.0 {
            self.evicted_at = now;
            self.old_since = 0;
            let idle_s = idle_s / count;
            if (TOLD_LEAST_S..TOLD_MOST_S).contains(&idle_s) {
                idle_s
            } else {
                let turnover_s = used / self.rate.max(f64::MIN_POSITIVE);
                // Clamped, so that the estimate does not contradict what the header shows.
                if idle_s < TOLD_LEAST_S {
                    turnover_s.min(TOLD_LEAST_S)
                } else {
                    turnover_s.max(TOLD_MOST_S)
                }
            }
        } else if self.evicted_at + QUIET_S > now && self.evicted_at > 0 {
            return;
        } else {
            let oldest_s = oldest_idle_s(chunks, state, now);
            if oldest_s < IDLE_MAX_S {
                self.old_since = 0;
                f64::from(oldest_s)
            } else {
                if self.old_since == 0 {
                    self.old_since = now;
                }
                f64::from(IDLE_MAX_S + (now - self.old_since))
            }
        };
        let before = self.age_s.unwrap_or(age_s);
        self.age_s = Some(before + (age_s - before) * share);
    }
}

/// The rule in the module's head.
fn choose(standings: &[Standing], ratio: f64) -> Option<(Class, Class)> {
    let sum: f64 = standings.iter().map(|s| s.age_s).sum();
    #[expect(clippy::cast_precision_loss, reason = "a number of classes, or of pages")]
    let float = |n: usize| n as f64;
    let others = float(standings.len().checked_sub(1)?.max(1));
    let spare = standings.iter().filter(|s| s.has_spare && s.may_give).max_by_key(|s| s.pages);
    let needs = |s: &&Standing| {
        let is_young = s.age_s <= (sum - s.age_s) / others * ratio;
        s.evicts && s.may_get && (spare.is_some() || is_young)
    };
    let taker = standings.iter().filter(needs).min_by(|a, b| a.age_s.total_cmp(&b.age_s))?;
    if let Some(spare) = spare.filter(|s| s.class != taker.class) {
        return Some((spare.class, taker.class));
    }
    let donors = standings.iter().filter(|s| s.may_give && s.class != taker.class);
    let donor = donors.max_by(|a, b| a.age_s.total_cmp(&b.age_s))?;
    let poorer_s = donor.age_s * float(donor.pages - 1) / float(donor.pages);
    (poorer_s > taker.age_s).then_some((donor.class, taker.class))
}

/// Whether the class has so many free chunks that it can give pages to the pool.
fn has_spare_pages(slab: &ItemSlab, class: Class, state: &ClassState<ClassOrder>) -> bool {
    let slots = slab.chunks.slots(class) as usize;
    let chunks = state.pages.len() * slots;
    let free = chunks.saturating_sub(state.used);
    state.pages.len() > 2 && 2 * free > 5 * slots + 2 * slab.reserve(chunks)
}

fn scale(age_s: &mut Option<f64>, by: usize, of: usize) {
    #[expect(clippy::cast_precision_loss, reason = "numbers of pages")]
    let factor = by as f64 / of.max(1) as f64;
    *age_s = age_s.map(|age_s| age_s * factor);
}

/// The idle time, in seconds, of the oldest of a few sampled items of the class; 0 if there is none. A list's oldest
/// item is exact.
fn oldest_idle_s(chunks: &Chunks, state: &ClassState<ClassOrder>, now: u32) -> u32 {
    if let Some(item) = state.order.oldest().and_then(|at| ItemRef::of_chunk(chunks, at)) {
        return item.idle_s(now);
    }
    let mut oldest_s = 0;
    for n in 0..PAGES_SAMPLED {
        // Samples different pages each second, spread over the class's list.
        let at = now as usize + n * state.pages.len() / PAGES_SAMPLED;
        let page = state.pages[at % state.pages.len()];
        let slots = chunks.slots_used(page);
        for slot in (0..slots).step_by((slots as usize / SLOTS_SAMPLED).max(1)) {
            if let Some(item) = ItemRef::of_chunk(chunks, chunks.location(page, slot)) {
                oldest_s = oldest_s.max(item.idle_s(now));
            }
        }
    }
    oldest_s
}

/// The shortest idle time that an item's header records well enough: two of its ticks.
const TOLD_LEAST_S: f64 = 4.0;
/// The longest idle time that it records.
const TOLD_MOST_S: f64 = IDLE_MAX_S as f64 - 2.0;
/// Seconds without a victim during which a class keeps the age of its last victims.
const QUIET_S: u32 = 30;
const PAGES_SAMPLED: usize = 4;
const SLOTS_SAMPLED: usize = 16;
