//! Memory of the baselines' tables and items: in huge pages as the product's tables are, or in small ones where that is
//! what is compared.
//!
//! The kernel gives huge pages as it finds them. So what it gave is looked up for everything collected here; an experiment
//! whose figures depend on it stores that as a circumstance ([`grown`]), and judges only where it got them ([`judged`]).

use crate::Check;
use crate::data::Data;
use guira_index::{advise_pages, collapse_pages};
use std::sync::{Mutex, PoisonError};

/// How large the pages are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

impl Pages {
    /// Collects, in memory of such pages.
    pub(crate) fn collect<T>(self, all: impl ExactSizeIterator<Item = T>) -> Box<[T]> {
        let mut room = Vec::with_capacity(all.len());
        advise_pages(&mut room, self == Self::Huge);
        room.extend(all);
        if self == Self::Huge {
            collapse_pages(&room);
        }
        note(&room);
        room.into_boxed_slice()
    }
}

/// What `make` makes, and which share of the memory collected for it is in huge pages; not a number if there was none.
pub(crate) fn grown<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let noted = || *NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = noted();
    let made = make();
    let [all, huge] = noted();
    (made, (huge - before[1]) / (all - before[0]))
}

/// The circumstance under which tables are compared: the share of their memory that is in huge pages.
pub(crate) const SHARE: &str = "share of the tables' memory in huge pages";

/// Checks that compare times of tables, judged if their memory is in huge pages.
pub(crate) fn judged(checks: Vec<Check>, data: &Data) -> Vec<Check> {
    let share = data.figure(SHARE);
    let why = || format!("{share:.2} of the tables' memory is in huge pages, of at least {ENOUGH}");
    checks.into_iter().map(|check| check.judged_if(share >= ENOUGH, why)).collect()
}

/// Adds what was just filled to what is known of pages.
fn note<T>(filled: &[T]) {
    let bytes = size_of_val(filled);
    if bytes < NOTED_MIN {
        return;
    }
    let mapping = mapping_at(filled.as_ptr().addr() + bytes / 2);
    let kib = |name: &str| {
        let line = mapping.iter().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()
    };
    if let (Some(all), Some(huge)) = (kib("Anonymous:"), kib("AnonHugePages:")) {
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        noted[0] += bytes as f64;
        noted[1] += bytes as f64 * huge / all;
    }
}

/// What the kernel says of the mapping at this address: nothing, if it doesn't say such things.
fn mapping_at(address: usize) -> Vec<String> {
    let range = |line: &str| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let [from, to] = [from, to].map(|it| usize::from_str_radix(it, 16).ok());
        Some(from?..to?)
    };
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let is_there = |line: &&str| range(line).is_some_and(|range| range.contains(&address));
    let lines = text.lines().skip_while(|line| !is_there(line)).skip(1);
    lines.take_while(|line| range(line).is_none()).map(Into::into).collect()
}

/// Bytes collected so far, and those of them that are in huge pages.
static NOTED: Mutex<[f64; 2]> = Mutex::new([0.0; 2]);
/// What is smaller has no huge page.
const NOTED_MIN: usize = 4 << 20;
/// What is left may be in small pages, where the kernel had no huge ones.
pub(crate) const ENOUGH: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has noted it: whether it had any is another matter.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_memory_is_in_the_pages_that_were_asked_for() {
        for (pages, flag) in [(Pages::Small, "nh"), (Pages::Huge, "hg"), (Pages::Small, "nh")] {
            let (all, share) = grown(|| pages.collect((0..3_000_000_u32).map(|n| n ^ 5)));
            assert!(all.iter().zip(0..).all(|(&it, n)| it == n ^ 5), "{pages:?}");
            assert!(!share.is_nan(), "{pages:?}: nothing was noted");
            let mapping = mapping_at((&raw const all[1_500_000]).addr());
            let flags = mapping.iter().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
            assert!(flags.split_whitespace().any(|it| it == flag), "{pages:?}: {flags}");
        }
    }
}
