//! The memory of the baselines' tables and items: in huge pages as the product's tables are, or in small pages where
//! these are compared.
//!
//! The kernel grants huge pages only if it has some. So the pages of everything collected here are looked up. An
//! experiment whose figures depend on them records the share of huge pages as a circumstance ([`grown`]), and judges
//! only if it got them ([`judged`]).

use crate::Check;
use crate::data::Data;
use guira_index::{advise_pages, collapse_pages};
use std::sync::{Mutex, PoisonError};

/// The size of pages to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

impl Pages {
    /// Collects into memory of such pages.
    pub(crate) fn collect<T>(self, all: impl ExactSizeIterator<Item = T>) -> Box<[T]> {
        let mut room = Vec::with_capacity(all.len());
        advise_pages(&mut room, self == Self::Huge);
        room.extend(all);
        let all_huge = self == Self::Huge && collapse_pages(&room);
        note(&room, all_huge);
        room.into_boxed_slice()
    }
}

/// Returns what `make` makes, and the share in huge pages of the memory that was collected for it; NaN if there was none.
pub(crate) fn grown<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let noted = || *NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = noted();
    let made = make();
    let [all, huge] = noted();
    (made, (huge - before[1]) / (all - before[0]))
}

/// The circumstance of a comparison of tables: the share of their memory that is in huge pages.
pub(crate) const SHARE: &str = "share of the tables' memory in huge pages";

/// Returns checks that compare times of tables, judged only if the tables' memory is in huge pages.
pub(crate) fn judged(checks: Vec<Check>, data: &Data) -> Vec<Check> {
    let share = data.figure(SHARE);
    let why = || format!("{share:.2} of the tables' memory is in huge pages, of at least {ENOUGH}");
    checks.into_iter().map(|check| check.judged_if(share >= ENOUGH, why)).collect()
}

/// Returns what `make` makes, and the share in huge pages of the memory that is mapped for it; NaN if there was none.
/// For the product's tables, which map their memory themselves. Memory that the allocator returns meanwhile isn't part
/// of it.
pub(crate) fn mapped<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let before = mappings();
    let made = make();
    let mut grown = [0.0; 2];
    for now in mappings().iter().filter(|it| it.flags.split_whitespace().any(|flag| flag == "hg")) {
        // A new mapping next to one of the same kind is merged with it.
        let were = before.iter().filter(|it| it.from < now.to && now.from < it.to);
        let were = were.fold([0.0; 2], |sum, it| [sum[0] + it.kib[0], sum[1] + it.kib[1]]);
        let more = [now.kib[0] - were[0], now.kib[1] - were[1]];
        if more[0] * 1024.0 >= NOTED_MIN as f64 {
            grown = [grown[0] + more[0], grown[1] + more[1]];
        }
    }
    (made, grown[1] / grown[0])
}

/// Records the pages of memory that was just filled. If not all of it is in huge pages, the figures are the kernel's
/// for its mapping, which may contain more than that memory.
fn note<T>(filled: &[T], all_huge: bool) {
    let bytes = size_of_val(filled);
    if bytes < NOTED_MIN {
        return;
    }
    let share = if all_huge {
        Some(1.0)
    } else {
        let middle = filled.as_ptr().addr() + bytes / 2;
        let mapping = mappings().into_iter().find(|it| (it.from..it.to).contains(&middle));
        mapping.map(|it| it.kib[1] / it.kib[0])
    };
    if let Some(share) = share {
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        noted[0] += bytes as f64;
        noted[1] += bytes as f64 * share;
    }
}

/// A mapping of this process: its addresses, its memory, and the part of it in huge pages.
struct Mapping {
    from: usize,
    to: usize,
    kib: [f64; 2],
    /// In the kernel's notation.
    flags: String,
}

/// Returns the mappings that aren't of files; none if the kernel doesn't report them.
fn mappings() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut all = Vec::<Mapping>::new();
    for line in text.lines() {
        let range = line.split_whitespace().next().and_then(|word| word.split_once('-'));
        let range = range.map(|(from, to)| [from, to].map(|it| usize::from_str_radix(it, 16)));
        if let Some([Ok(from), Ok(to)]) = range {
            all.push(Mapping { from, to, kib: [0.0; 2], flags: String::new() });
        }
        let Some(mapping) = all.last_mut() else { continue };
        let kib = |name: &str| {
            line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()
        };
        for (place, name) in ["Anonymous:", "AnonHugePages:"].into_iter().enumerate() {
            if let Some(kib) = kib(name) {
                mapping.kib[place] = kib;
            }
        }
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            mapping.flags = flags.into();
        }
    }
    all.retain(|mapping| mapping.kib[0] > 0.0);
    all
}

/// Bytes collected so far, and how many of them are in huge pages.
static NOTED: Mutex<[f64; 2]> = Mutex::new([0.0; 2]);
/// Memory that is smaller has no huge pages.
const NOTED_MIN: usize = 4 << 20;
/// The least share of huge pages for a judgement. The rest may be in small pages, where the kernel had no huge ones.
pub(crate) const ENOUGH: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the kernel's flags: whether it had any huge pages is another matter.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_memory_is_in_the_pages_that_were_asked_for() {
        for (pages, flag) in [(Pages::Small, "nh"), (Pages::Huge, "hg"), (Pages::Small, "nh")] {
            let (all, share) = grown(|| pages.collect((0..3_000_000_u32).map(|n| n ^ 5)));
            assert!(all.iter().zip(0..).all(|(&it, n)| it == n ^ 5), "{pages:?}");
            assert!(!share.is_nan(), "{pages:?}: nothing was noted");
            let middle = (&raw const all[1_500_000]).addr();
            let mapping = mappings().into_iter().find(|it| (it.from..it.to).contains(&middle));
            let flags = mapping.unwrap().flags;
            assert!(flags.split_whitespace().any(|it| it == flag), "{pages:?}: {flags}");
        }
    }
}
