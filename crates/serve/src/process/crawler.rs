//! The crawler as commands see it: what it has to walk, and how fast. As in memcached, one walk runs at a time.
//!
//! The crawler's thread does the walk itself (`server/crawl.rs`).

use super::dump::Format;
use super::feed::Feed;
use crate::settings::Extended;
use guira_proto::CrawlTarget;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The crawler's state that all threads share.
pub(crate) struct Crawler {
    is_enabled: AtomicBool,
    sleep_us: AtomicU32,
    /// Items that a reaping walk visits in each class; 0: all.
    to_crawl: AtomicU32,
    starts: AtomicU64,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Default)]
struct Orders {
    next: Option<Order>,
    is_running: bool,
}

/// A walk to do.
pub(crate) struct Order {
    pub(crate) target: CrawlTarget,
    pub(crate) work: Work,
}

/// The purpose of a walk.
pub(crate) enum Work {
    /// Remove items that are expired or flushed.
    Reap,
    /// List the items that are not.
    Dump(Format, Arc<Feed>),
}

/// A walk is already under way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl Crawler {
    pub(crate) fn new(extended: &Extended) -> Crawler {
        Crawler {
            is_enabled: AtomicBool::new(extended.lru_crawler),
            sleep_us: AtomicU32::new(extended.lru_crawler_sleep_us),
            to_crawl: AtomicU32::new(extended.lru_crawler_tocrawl),
            starts: AtomicU64::new(0),
            orders: Mutex::default(),
            ordered: Condvar::new(),
        }
    }

    /// Orders a walk.
    ///
    /// # Errors
    /// Another walk is under way.
    pub(crate) fn start(&self, order: Order) -> Result<(), Busy> {
        let mut orders = self.orders.lock();
        if orders.is_running {
            return Err(Busy);
        }
        orders.is_running = true;
        orders.next = Some(order);
        self.starts.fetch_add(1, Relaxed);
        self.ordered.notify_one();
        Ok(())
    }

    /// Waits for an order and returns it.
    pub(crate) fn next(&self) -> Order {
        let mut orders = self.orders.lock();
        loop {
            match orders.next.take() {
                Some(order) => return order,
                None => self.ordered.wait(&mut orders),
            }
        }
    }

    /// Notes that the walk has ended, so that another one may start.
    pub(crate) fn is_done(&self) {
        self.orders.lock().is_running = false;
    }

    /// Whether `lru_crawler` commands work.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Enables or disables the commands. Returns whether that is a change. A walk under way continues.
    pub(crate) fn enable(&self, on: bool) -> bool {
        self.is_enabled.swap(on, Relaxed) != on
    }

    pub(crate) fn set_sleep(&self, us: u32) {
        self.sleep_us.store(us, Relaxed);
    }

    pub(crate) fn set_to_crawl(&self, items: u32) {
        self.to_crawl.store(items, Relaxed);
    }

    /// Microseconds of sleep after 1,000 items.
    pub(crate) fn sleep_us(&self) -> u32 {
        self.sleep_us.load(Relaxed)
    }

    pub(crate) fn to_crawl(&self) -> u32 {
        self.to_crawl.load(Relaxed)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.orders.lock().is_running
    }

    /// Walks started since the start of the server or the last reset.
    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.starts.store(0, Relaxed);
    }
}

/// Bytes that a listing may hold for a client that doesn't read.
pub(crate) const FEED_BYTES: usize = 256 << 10;
