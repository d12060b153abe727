//! Statistics of the pools listed in `--pool-stats-config-file`, counted as mcrouter does.
//!
//! ```text
//! {"stats_enabled_pools": ["app", …]}         a pool counts for the longest entry that is a prefix of its name
//! ```
//! A client's request counts for the pool that it reached first, even if it failed over to another.
//!
//! # Costs
//! None if no pool is listed. Otherwise a few shared counters and one small allocation per request.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use guira_client::Reply;
use parking_lot::Mutex;

use super::link::Link;
use guira_config as json;

/// The listed pools, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct PoolStats {
    pools: Vec<(String, PoolTotals)>,
}

/// The counters of one pool, for all threads.
#[derive(Debug, Default)]
pub(crate) struct PoolTotals {
    replies: Mean,
    finals: Mean,
    final_errors: AtomicU64,
    links: Mutex<Vec<Weak<Link>>>,
}

/// The number of values, and their sum.
#[derive(Debug, Default)]
struct Mean {
    count: AtomicU64,
    took_us: AtomicU64,
}

impl Mean {
    fn add(&self, took: Duration) {
        self.count.fetch_add(1, Relaxed);
        self.took_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    fn average_us(&self) -> u64 {
        self.took_us.load(Relaxed) / self.count.load(Relaxed).max(1)
    }
}

/// The number of the pool that a request reached first; `None` before that.
pub(crate) type FirstPool = Rc<Cell<Option<usize>>>;

impl PoolStats {
    /// Reads the names of pools from the file.
    pub(crate) fn read(path: &str) -> Result<Vec<String>, String> {
        let of = |what: String| format!("--pool-stats-config-file {path}: {what}");
        let text = std::fs::read_to_string(path).map_err(|error| of(error.to_string()))?;
        let config = json::parse(&text).map_err(|error| of(error.to_string()))?;
        let named = config.get("stats_enabled_pools").and_then(|named| named.as_array());
        let named =
            named.ok_or_else(|| of("write {\"stats_enabled_pools\": [\"POOL\"]}".into()))?;
        Ok(named.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
    }

    pub(crate) fn new(names: &[String]) -> Self {
        Self { pools: names.iter().map(|name| (name.clone(), PoolTotals::default())).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The number of the entry for which a pool counts.
    pub(crate) fn number(&self, pool: &str) -> Option<usize> {
        let named =
            self.pools.iter().enumerate().filter(|(_, (name, _))| pool.starts_with(&name[..]));
        named.max_by_key(|(_, (name, _))| name.len()).map(|(number, _)| number)
    }

    /// Adds a link to a pool's count of connections, until the link is dropped.
    pub(crate) fn enter_link(&self, number: usize, link: &Arc<Link>) {
        let mut links = self.pools[number].1.links.lock();
        links.retain(|known| known.strong_count() > 0 && known.as_ptr() != Arc::as_ptr(link));
        links.push(Arc::downgrade(link));
    }

    /// Counts a reply of one of the pool's servers.
    pub(crate) fn replied(&self, number: usize, took: Duration) {
        self.pools[number].1.replies.add(took);
    }

    /// Counts the reply to a client's request.
    pub(crate) fn finished(&self, first: &FirstPool, reply: &Reply, took: Duration) {
        let Some(number) = first.get() else { return };
        let totals = &self.pools[number].1;
        totals.finals.add(took);
        if reply.outcome.is_error() {
            totals.final_errors.fetch_add(1, Relaxed);
        }
    }

    /// The names and values of all statistics.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let of_pool = |(name, totals): &(String, PoolTotals)| {
            LINES.map(|(what, _, value)| (format!("{name}.{what}"), value(totals).to_string()))
        };
        self.pools.iter().flat_map(of_pool).collect()
    }
}

impl PoolTotals {
    fn connections(&self) -> u64 {
        let is_up =
            |link: &Weak<Link>| link.upgrade().is_some_and(|link| link.stats.is_up.load(Relaxed));
        self.links.lock().iter().filter(|link| is_up(link)).count() as u64
    }
}

/// The part after the pool's name, its meaning, and the function that reads it.
type Line = (&'static str, &'static str, fn(&PoolTotals) -> u64);

const LINES: [Line; 5] = [
    ("requests.sum", "replies of the pool's servers", |of| of.replies.count.load(Relaxed)),
    ("final_result_error.sum", "clients' requests that failed", |of| of.final_errors.load(Relaxed)),
    ("connections", "open connections to the pool's servers", PoolTotals::connections),
    ("duration_us.avg", "microseconds that a server's reply took, on average", |of| {
        of.replies.average_us()
    }),
    ("total_duration_us.avg", "microseconds that a client's request took, on average", |of| {
        of.finals.average_us()
    }),
];

/// The name and meaning of each line.
pub(crate) fn meanings() -> impl Iterator<Item = (String, String)> {
    LINES.into_iter().map(|(what, meaning, _)| (format!("POOL.{what}"), meaning.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_counts_for_the_longest_name_that_its_own_begins_with() {
        let stats = PoolStats::new(&["app".to_owned(), "app.west".to_owned(), "b".to_owned()]);
        for (pool, number) in [
            ("app", Some(0)),
            ("app.east", Some(0)),
            ("app.west.1", Some(1)),
            ("b", Some(2)),
            ("c", None),
        ] {
            assert_eq!(stats.number(pool), number, "{pool}");
        }
    }
}
