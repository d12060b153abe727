//! The choice of the next page to compact: memcached's rule, as a pure function of the pages.
//!
//! Free and used pages are counted per bucket that they may be given out to. If few are free, the page with the least
//! live data is rewritten, provided that less than `max_frag` of it is alive. If no page is so sparse, the oldest page
//! is rewritten without unread items, if that is configured or there are pages for cold or old items.

use crate::Bucket;
use crate::pages::PageFigures;

/// The parameters of the decision. The names are those of memcached's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionPolicy {
    /// Compact while fewer pages are free than this.
    pub compact_under: u32,
    /// Drop cold items while fewer pages are free than this.
    pub drop_under: u32,
    /// Rewrite a page only if less than this share of it is alive.
    pub max_frag: f64,
    /// Drop items that no get has found on flash.
    pub drop_unread: bool,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Rest,
    /// Free a page with everything in it.
    Evict {
        /// The page.
        page: u32,
        /// The page's version: see [`PageFigures::version`].
        version: u64,
    },
    /// Rewrite the live items of a page.
    Compact(Compaction),
}

/// A page to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The page.
    pub page: u32,
    /// The page's version: see [`PageFigures::version`].
    pub version: u64,
    /// Drop items that no get has found on flash.
    pub drop_unread: bool,
    /// Whether there are pages for items that no get has found on flash.
    pub(crate) has_cold: bool,
    /// Whether live items go to the pages for old items.
    pub(crate) use_old: bool,
}

/// The summary of the pages of a bucket.
#[derive(Clone, Copy, Default)]
struct Found {
    total: u32,
    free: u32,
    /// Version and number of the oldest page that isn't written to.
    oldest: Option<(u64, u32)>,
    /// The page with the most dead bytes: these bytes, its number, and its version.
    sparsest: Option<(u64, u32, u64)>,
}

/// Decides what to do next.
#[must_use]
pub(crate) fn next_action(
    pages: &[PageFigures],
    page_bytes: u64,
    policy: &CompactionPolicy,
) -> Action {
    let mut found = [Found::default(); 6];
    let limit = page_bytes as f64 * policy.max_frag.min(SPARSE_MAX);
    for (number, page) in (0u32..).zip(pages) {
        let of = &mut found[page.free_bucket.number()];
        of.total += 1;
        if page.version == 0 {
            of.free += 1;
        } else if !page.is_active {
            if of.oldest.is_none_or(|(version, _)| page.version < version) {
                of.oldest = Some((page.version, number));
            }
            let dead = page_bytes.saturating_sub(page.bytes);
            let is_sparse = (page.bytes as f64) < limit;
            if is_sparse && of.sparsest.is_none_or(|(most, ..)| dead > most) {
                of.sparsest = Some((dead, number, page.version));
            }
        }
    }
    // One page for cold items and one for old items is always kept free.
    for bucket in [Bucket::ColdCompact, Bucket::Old] {
        let of = &found[bucket.number()];
        if let (0, Some((version, page))) = (of.free, of.oldest) {
            return Action::Evict { page, version };
        }
    }
    let has_cold = found[Bucket::ColdCompact.number()].total > 0;
    let has_old = found[Bucket::Old.number()].total > 0;
    for bucket in Bucket::ALL.into_iter().filter(|&bucket| bucket != Bucket::LowTtl) {
        let of = &found[bucket.number()];
        if of.total == 0 || of.free >= policy.compact_under {
            continue;
        }
        let plain =
            Compaction { page: 0, version: 0, drop_unread: false, has_cold, use_old: false };
        if let Some((_, page, version)) = of.sparsest {
            return Action::Compact(Compaction { page, version, ..plain });
        }
        let is_dropping = of.free < policy.drop_under
            && !matches!(bucket, Bucket::ColdCompact | Bucket::Old)
            && (policy.drop_unread || has_cold || has_old);
        if let (true, Some((version, page))) = (is_dropping, of.oldest) {
            let drop_unread = policy.drop_unread;
            return Action::Compact(Compaction {
                page,
                version,
                drop_unread,
                has_cold,
                use_old: has_old,
            });
        }
    }
    Action::Rest
}

/// A page with a larger live share is never rewritten: that would wear out the device for nothing.
const SPARSE_MAX: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1000;

    fn page(version: u64, bytes: u64, free_bucket: Bucket) -> PageFigures {
        PageFigures {
            version,
            bytes,
            objects: 1,
            bucket: free_bucket,
            free_bucket,
            ..PageFigures::default()
        }
    }

    /// Pages, the policy, and the page to compact with `drop_unread` and `use_old`.
    type Row<'p> = (&'p [PageFigures], CompactionPolicy, Option<(u32, bool, bool)>);

    fn policy(compact_under: u32, drop_under: u32, drop_unread: bool) -> CompactionPolicy {
        CompactionPolicy { compact_under, drop_under, max_frag: 0.8, drop_unread }
    }

    fn compacts(action: Action) -> Option<(u32, bool, bool)> {
        match action {
            Action::Compact(c) => Some((c.page, c.drop_unread, c.use_old)),
            _ => None,
        }
    }

    #[test]
    fn each_state_of_the_pages_has_its_action() {
        use Bucket::{ColdCompact, Default as D, LowTtl, Old};
        let free = page(0, 0, D);
        let active = PageFigures { is_active: true, ..page(9, 10, D) };
        let table: [Row<'_>; 9] = [
            (&[free, free], policy(1, 1, false), None),
            (&[page(3, 900, D), free], policy(1, 1, false), None),
            (&[page(3, 700, D), page(4, 500, D)], policy(1, 1, false), Some((1, false, false))),
            (&[page(3, 700, D), page(4, 500, D), free], policy(1, 1, false), None),
            (
                &[page(3, 700, D), page(4, 500, D), free],
                policy(2, 1, false),
                Some((1, false, false)),
            ),
            (
                &[page(4, 900, D), page(3, 900, D), active],
                policy(1, 1, true),
                Some((1, true, false)),
            ),
            (&[page(4, 900, D), page(3, 900, D), active], policy(1, 1, false), None),
            (&[page(3, 100, LowTtl)], policy(1, 1, true), None),
            (
                &[page(4, 900, D), page(3, 950, D), page(0, 0, Old), page(0, 0, ColdCompact)],
                policy(1, 1, false),
                Some((1, false, true)),
            ),
        ];
        for (pages, policy, want) in table {
            let action = next_action(pages, PAGE, &policy);
            assert_eq!(compacts(action), want, "{pages:?} {policy:?} {action:?}");
        }
    }

    /// A regression test: with a `max_frag` above 1, full pages were rewritten again and again.
    #[test]
    fn a_page_that_is_nearly_full_is_not_rewritten_whatever_is_asked_for() {
        let greedy = CompactionPolicy { max_frag: 5.0, ..policy(u32::MAX, 1, false) };
        let of = |bytes| next_action(&[page(3, bytes, Bucket::Default)], PAGE, &greedy);
        assert_eq!(of(951), Action::Rest);
        assert!(matches!(of(940), Action::Compact(_)));
    }

    #[test]
    fn the_oldest_page_for_cold_items_goes_when_none_is_free() {
        let pages = [page(5, 900, Bucket::ColdCompact), page(4, 999, Bucket::ColdCompact)];
        let action = next_action(&pages, PAGE, &policy(1, 1, false));
        assert_eq!(action, Action::Evict { page: 1, version: 4 });
    }
}
