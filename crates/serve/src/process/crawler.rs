//! The crawler: a thread that walks all items, to list them for a client or to take out the dead.
//!
//! One walk at a time, as in memcached. It goes in steps of some ten microseconds and sleeps in between as
//! `lru_crawler sleep` says. A listing waits where its client doesn't read ([`Feed`]), offline, so that it holds up
//! neither a worker nor memory. Slab pages don't move while it goes on, but when it waits for longer than a second.

use crate::process::Process;
use crate::process::dump::Format;
use crate::process::feed::{Feed, Put};
use crate::settings::Extended;
use guira_cache::{Crawl, Crawled};
use guira_proto::CrawlTarget;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// What all threads see of the crawler.
pub(crate) struct Crawler {
    is_enabled: AtomicBool,
    sleep_us: AtomicU32,
    /// Items that a reaping walk looks at in each class; 0 for all.
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

/// A walk to be done.
pub(crate) struct Order {
    pub(crate) target: CrawlTarget,
    pub(crate) work: Work,
}

/// What a walk is for.
pub(crate) enum Work {
    /// To take out items that are past their time or flushed.
    Reap,
    /// To list the others.
    Dump(Format, Arc<Feed>),
}

/// A walk is under way already.
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

    /// Has a walk done.
    ///
    /// # Errors
    /// Another one is under way.
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

    /// Whether `lru_crawler` commands work.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Lets them work or not; whether that is a change. A walk under way goes on.
    pub(crate) fn enable(&self, on: bool) -> bool {
        self.is_enabled.swap(on, Relaxed) != on
    }

    pub(crate) fn set_sleep(&self, us: u32) {
        self.sleep_us.store(us, Relaxed);
    }

    pub(crate) fn set_to_crawl(&self, items: u32) {
        self.to_crawl.store(items, Relaxed);
    }

    /// Microseconds of sleep after [`ITEMS_PER_SLEEP`] items.
    pub(crate) fn sleep_us(&self) -> u32 {
        self.sleep_us.load(Relaxed)
    }

    pub(crate) fn to_crawl(&self) -> u32 {
        self.to_crawl.load(Relaxed)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.orders.lock().is_running
    }

    /// Walks begun since the start or the last reset.
    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.starts.store(0, Relaxed);
    }
}

/// Does what is ordered, for ever. The thread's whole life.
///
/// # Errors
/// None: it has the type of the other threads' lives.
pub(crate) fn crawl(process: &Process) -> io::Result<()> {
    let crawler = &process.crawler;
    loop {
        let mut orders = crawler.orders.lock();
        let Order { target, work } = loop {
            match orders.next.take() {
                Some(order) => break order,
                None => crawler.ordered.wait(&mut orders),
            }
        };
        drop(orders);
        let mut walk = process.cache.crawl(classes_of(target, process.cache.classes()));
        match work {
            Work::Reap => reap(process, &mut walk),
            Work::Dump(format, feed) => dump(process, &mut walk, format, &feed),
        }
        drop(walk);
        crawler.orders.lock().is_running = false;
    }
}

/// The classes that a command names, which counts them from 1.
fn classes_of(target: CrawlTarget, classes: usize) -> Vec<usize> {
    match target {
        CrawlTarget::All | CrawlTarget::Hash => (0..classes).collect(),
        CrawlTarget::Classes(bits) => {
            (0..classes.min(63)).filter(|class| bits >> (class + 1) & 1 == 1).collect()
        }
    }
}

fn reap(process: &Process, walk: &mut Crawl<'_>) {
    let most = match process.crawler.to_crawl() {
        0 => usize::MAX,
        items => items as usize,
    };
    let mut pace = Pace::default();
    loop {
        let crawled = walk.reap(process.time.now(), most);
        if crawled.is_done {
            break;
        }
        pace.keep(process, walk, crawled);
    }
    // What was taken out shall be free once this walk no longer shows as running.
    for _ in 0..SETTLE_MAX {
        if walk.is_settled() {
            break;
        }
        walk.asleep(|| thread::sleep(SETTLE_STEP));
    }
}

fn dump(process: &Process, walk: &mut Crawl<'_>, format: Format, feed: &Feed) {
    let mut lines = b"OK\r\n".to_vec();
    let mut pace = Pace::default();
    loop {
        let now = process.time.now();
        let crawled = walk.list(now, |item, unique| {
            format.append(&mut lines, item, unique, now, &process.time);
        });
        if crawled.is_done {
            lines.extend_from_slice(format.end());
        }
        if crawled.is_done || lines.len() >= PIECE_BYTES {
            let is_taken = hand_over(process, walk, &mut lines, feed);
            if crawled.is_done || !is_taken {
                break;
            }
        }
        pace.keep(process, walk, crawled);
    }
    feed.end(&process.mailboxes);
}

/// Leaves lines for the client; `false` if it has gone, or reads nothing.
fn hand_over(process: &Process, walk: &mut Crawl<'_>, lines: &mut Vec<u8>, feed: &Feed) -> bool {
    let mailboxes = &process.mailboxes;
    let mut put = walk.asleep(|| feed.put(lines, PROMPT, mailboxes));
    if put == Put::Full {
        walk.let_move(true);
        put = walk.asleep(|| feed.put(lines, PATIENCE, mailboxes));
        walk.let_move(false);
    }
    if put == Put::Full {
        feed.give_up(mailboxes);
    }
    put == Put::Taken
}

/// Sleeps after every so many items.
#[derive(Default)]
struct Pace {
    items: usize,
}

impl Pace {
    fn keep(&mut self, process: &Process, walk: &mut Crawl<'_>, crawled: Crawled) {
        self.items += crawled.items;
        if self.items >= ITEMS_PER_SLEEP {
            self.items = 0;
            let us = process.crawler.sleep_us();
            if us > 0 {
                walk.asleep(|| thread::sleep(Duration::from_micros(us.into())));
            }
        }
    }
}

/// Bytes that a listing may hold for a client that doesn't read.
pub(crate) const FEED_BYTES: usize = 256 << 10;
/// How long slab pages wait for a client to read what it asked for, and how long the walk does. memcached waits half an
/// hour.
const PROMPT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(600);
const PIECE_BYTES: usize = 64 << 10;
const ITEMS_PER_SLEEP: usize = 1000;
const SETTLE_MAX: u32 = 100;
const SETTLE_STEP: Duration = Duration::from_millis(1);
