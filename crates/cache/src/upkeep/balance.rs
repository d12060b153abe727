//! Which slab class gets a page from which, while the server runs: Facebook's rule, by the age of the next victims.
//!
//! Nishtala et al., *Scaling Memcache at Facebook* (NSDI 2013), section 6.2: a class needs memory if it evicts and its
//! next victim was used at least a fifth more recently than the next victims of the other classes on the average; it
//! gets a page of the class that holds the oldest. So all classes come to give up items of about the same age, as one
//! LRU over all of them would.
//!
//! # Ages
//! Of a class that evicts: how long what it evicted lately had not been used, averaged over a window. Of one that
//! doesn't: the oldest of a few items looked at. An item's header tells that to two seconds, up to four minutes. That
//! suffices, as only classes that differ by a fifth matter; where it doesn't, we use what is as good: of a class whose
//! victims are all younger or older than the header can tell, the time in which it evicts as many items as it has; of
//! one that doesn't evict, the time since which its oldest was seen to be beyond four minutes.
//!
//! # Spare pages
//! Deletes and expiry leave free chunks in many pages of a class, where no other class can use them. A class that
//! doesn't evict, and for a window had more than two and a half pages of free chunks beside its reserve, gives pages to
//! the pool until it has fewer; this is memcached's rule. So a class that needs a page finds one, and evicts nothing.
//!
//! Both rules hold from when a class first had to evict, or the pool is empty.
//!
//! # Against ping-pong
//! A page moves only if the donor, a page poorer, would still hold the older items. Who got a page gives none for a
//! window, and who gave one gets none. A page moves from class to class a second at most, and one at a time.
//!
//! # Costs
//! Once a second, from then on: a lock per class, 64 headers for each that doesn't evict. Bad at: a class whose one page
//! is too little for a fair sample; items that are deleted and stored again every few windows, whose pages come and go.

use crate::items::{IDLE_MAX_S, ItemRef};
use crate::memory::{Chunks, Class, ClassState};
use crate::orders::{ClassOrder, ItemSlab, Tally};

#[cfg(test)]
mod tests;

/// How pages move by themselves (memcached's `-o slab_automove…`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Automove {
    /// 0 not at all, 1 a page a second at most from class to class, 2 as fast as pages get empty.
    pub level: u32,
    /// How young the next victim of a class must be, beside the others' on the average, for the class to get a page:
    /// 0.8 is the paper's fifth.
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

/// What was seen of the classes so far; the sweeper's.
#[derive(Default)]
pub(crate) struct Balance {
    looked_at: u32,
    /// When memory was full first; what is averaged from then on counts after a window.
    began_at: u32,
    classes: Vec<Seen>,
    /// The class that gives spare pages to the pool, while it does.
    giver: Option<Class>,
}

/// What was seen of a class.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Its counts at the last look.
    tally: Tally,
    /// Victims a second, averaged over the window.
    rate: f64,
    age_s: Option<f64>,
    /// When it last had victims.
    evicted_at: u32,
    /// Since when its oldest item is older than its header can tell; 0 if it isn't.
    old_since: u32,
    /// Since when it has spare pages; 0 if it has none.
    spare_since: u32,
    /// When it last got or gave a page.
    got_at: u32,
    gave_at: u32,
}

/// How a class stands beside the others.
#[derive(Clone, Copy, Debug)]
struct Standing {
    class: Class,
    pages: usize,
    /// How long its next victim was not used, about.
    age_s: f64,
    evicts: bool,
    /// Whether it has more than a page's worth of free chunks, and does not evict.
    has_spare: bool,
    /// Whether it is to give pages to the pool.
    is_giver: bool,
    may_get: bool,
    may_give: bool,
}

impl Balance {
    /// From which class a page is to go to which, or to the pool, if any; none until memory `is_full` once.
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
        // One that gives goes on at once.
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
        // The ages are a window's averages: until that has seen the move, this is how they will be.
        self.seen(to).got_at = now;
        self.seen(from).gave_at = now;
        scale(&mut self.seen(to).age_s, pages(to) + 1, pages(to));
        scale(&mut self.seen(from).age_s, pages(from) - 1, pages(from));
        Some((from, Some(to)))
    }

    /// A page of the class could not be emptied: it gives none to the pool for a window.
    pub(crate) fn rest(&mut self, class: Class, now: u32) {
        self.giver = None;
        if let Some(seen) = self.classes.get_mut(usize::from(class)) {
            seen.spare_since = now;
        }
    }

    fn seen(&mut self, class: Class) -> &mut Seen {
        &mut self.classes[usize::from(class)]
    }

    /// How the classes stand; averages the ages anew if that `is_due`.
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
    /// Takes in what happened in the class since the last look.
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
                // Never on the other side of what the header does tell.
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

/// The rule of the module's head.
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

/// Whether so many chunks of the class are free that pages of it can go to the pool.
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

/// For how long the class's oldest item was not used, of a few that are looked at; 0 if there is none.
fn oldest_idle_s(chunks: &Chunks, state: &ClassState<ClassOrder>, now: u32) -> u32 {
    if let Some(item) = state.order.oldest().and_then(|at| ItemRef::of_chunk(chunks, at)) {
        return item.idle_s(now);
    }
    let mut oldest_s = 0;
    for n in 0..PAGES_SAMPLED {
        // Other pages each second, those far apart together.
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

/// From here on an item's header tells idle times well enough: two of its ticks.
const TOLD_LEAST_S: f64 = 4.0;
/// Up to here it tells them.
const TOLD_MOST_S: f64 = IDLE_MAX_S as f64 - 2.0;
/// Seconds without a victim for which a class keeps the age of its last ones.
const QUIET_S: u32 = 30;
const PAGES_SAMPLED: usize = 4;
const SLOTS_SAMPLED: usize = 16;
