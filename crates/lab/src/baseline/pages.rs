//! Memory of the baselines' tables and items: in huge pages as the product's tables are, or in small ones where that is
//! what is compared.
//!
//! The kernel gives huge pages as it finds them. So an experiment whose figures depend on them measures what it got
//! ([`grown`]), stores that as a circumstance, and judges only where it got them ([`judged`]).

use crate::Check;
use crate::data::Data;
use guira_index::advise_pages;

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
        room.into_boxed_slice()
    }
}

/// What `make` makes, and which share of the memory that this took is in huge pages.
pub(crate) fn grown<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let before = ["Anonymous:", "AnonHugePages:"].map(bytes);
    let made = make();
    let [all, huge] = ["Anonymous:", "AnonHugePages:"].map(bytes);
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

/// Bytes of this process, by the kernel's name for them.
fn bytes(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

/// What is left may be in small pages: the ends of a table that are less than a huge page, and what is small.
pub(crate) const ENOUGH: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has noted it: whether it had any is another matter.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_memory_is_in_the_pages_that_were_asked_for() {
        for (pages, flag) in [(Pages::Small, "nh"), (Pages::Huge, "hg"), (Pages::Small, "nh")] {
            let all = pages.collect((0..3_000_000_u32).map(|n| n ^ 5));
            assert!(all.iter().zip(0..).all(|(&it, n)| it == n ^ 5), "{pages:?}");
            let flags = flags_at(&raw const all[1_500_000]);
            assert!(flags.split_whitespace().any(|it| it == flag), "{pages:?}: {flags}");
        }
    }

    /// What the kernel was told of the memory at this address.
    #[cfg(target_os = "linux")]
    fn flags_at<T>(at: *const T) -> String {
        let is_there = |line: &str| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            let [from, to] = [from, to].map(|it| usize::from_str_radix(it, 16));
            Some((from.ok()?..to.ok()?).contains(&at.addr()))
        };
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| is_there(line) != Some(true));
        lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap().to_owned()
    }
}
