//! The crawler's thread: walks all items, to list them for a client or to remove expired and flushed ones.
//!
//! The walk proceeds in steps of some ten microseconds and sleeps in between as `lru_crawler sleep` says.
//! If the client doesn't read its listing, the walk waits ([`Feed`]) offline, so that it blocks neither a
//! worker nor the reclaiming of memory. Slab pages don't move during a walk, except while it waits for
//! longer than a second.

use crate::process::Process;
use crate::process::crawler::{Order, Work};
use crate::process::dump::Format;
use crate::process::feed::{Feed, Put};
use guira_cache::{Crawl, Crawled};
use guira_proto::CrawlTarget;
use std::io;
use std::thread;
use std::time::Duration;

/// Executes the crawler's orders. The main function of the thread; it never returns.
///
/// # Errors
/// Never: the result has the type that all threads' functions have.
pub(super) fn crawl(process: &Process) -> io::Result<()> {
    let crawler = &process.crawler;
    loop {
        let Order { target, work } = crawler.next();
        let mut walk = process.cache.crawl(classes_of(target, process.cache.classes()));
        match work {
            Work::Reap => reap(process, &mut walk),
            Work::Dump(format, feed) => dump(process, &mut walk, format, &feed),
        }
        drop(walk);
        crawler.is_done();
    }
}

/// Returns the classes that a command names, which counts them from 1.
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
    // What was removed must be free before this walk is shown as ended.
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

/// Leaves lines for the client. Returns `false` if the client has gone or doesn't read.
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

/// Makes the walk sleep after each [`ITEMS_PER_SLEEP`] items.
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

/// How long slab pages wait for a client to read its listing (`PROMPT`), and how long the walk waits
/// (`PATIENCE`). memcached waits half an hour.
const PROMPT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(600);
const PIECE_BYTES: usize = 64 << 10;
const ITEMS_PER_SLEEP: usize = 1000;
const SETTLE_MAX: u32 = 100;
const SETTLE_STEP: Duration = Duration::from_millis(1);
