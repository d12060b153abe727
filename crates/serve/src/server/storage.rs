//! The background threads of storage: one writes buffers, one stores idle items, one compacts pages. No
//! other thread waits for them.

use crate::process::Process;
use crate::process::storage::{LIFE_SECONDS, Storage};
use crate::process::watch::Event;
use guira_cache::{ClassCounter, Handle};
use guira_flash::{Action, Compaction};
use guira_proto::WatchKinds;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// A thread's main function, which returns when the server stops.
type Life = fn(&Process);

/// The threads, by name.
pub(super) const LIVES: [(&str, Life); 3] =
    [("ext-write", write), ("ext-idle", store_idle), ("ext-compact", compact)];

/// Writes buffers as they fill.
fn write(process: &Process) {
    let Some(storage) = &process.storage else { return };
    let mut failures = 0u32;
    // The second of the last failure, until the log says that writing works again.
    let mut failed_at: Option<u32> = None;
    while !process.is_stopping.load(Relaxed) {
        tell_written(process, storage);
        let now = process.time.now();
        match storage.tier.write_one(WRITE_PATIENCE) {
            Ok(is_written) => {
                failures = 0;
                // On a full disk, what has room there already can be written now and then.
                if is_written && failed_at.is_some_and(|at| now.saturating_sub(at) >= WELL_S) {
                    failed_at = None;
                    tracing::info!("storage is written again");
                }
            }
            Err(error) => {
                if failed_at.replace(now).is_none() {
                    tell_failure(&error);
                }
                failures = failures.saturating_add(1);
                // Sleeps, so that a failed device doesn't make the thread spin.
                sleep(process, FAILED_REST.min(WRITE_PATIENCE * failures));
            }
        }
    }
}

fn tell_failure(error: &io::Error) {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "Make room on its file system",
        _ => "Look at the device (dmesg)",
    };
    tracing::warn!(
        "storage can't be written: {error}. What was in the buffer is lost, and so are items that find none. {remedy}: it is \
         tried again."
    );
}

/// Reports to watchers what was written to storage.
fn tell_written(process: &Process, storage: &Storage) {
    let is_wanted = process.watch.kinds().meets(WatchKinds::EVICTIONS);
    for written in &storage.written.take(is_wanted) {
        let now = process.time.now();
        process.watch.tell(&Event::ExtWrite { written, now }, &process.mailboxes);
    }
}

/// Stores items that weren't used for a long time.
fn store_idle(process: &Process) {
    let Some(storage) = &process.storage else { return };
    let mut handle = process.cache.handle();
    while !process.is_stopping.load(Relaxed) {
        let age_s = storage.live.item_age_s.load(Relaxed);
        if age_s != u32::MAX {
            for class in 0..process.cache.classes() {
                store_idle_of(process, storage, &mut handle, (class, age_s));
            }
        }
        let rest = Duration::from_micros(storage.live.max_sleep_us.load(Relaxed).into());
        handle.asleep(|| sleep(process, rest.clamp(IDLE_REST_MIN, IDLE_REST_MAX)));
    }
}

/// Stores the idle items of a class.
fn store_idle_of(
    process: &Process,
    storage: &Storage,
    handle: &mut Handle<'_>,
    (class, age_s): (usize, u32),
) {
    let mut walk = handle.walk(class);
    let mut has_more = true;
    while has_more && !process.is_stopping.load(Relaxed) {
        let now = process.time.now();
        let mut is_full = false;
        has_more = handle.list(&mut walk, now, |item| {
            // If all buffers are full, the item waits for the next walk, and this thread for a buffer.
            if !is_full && storage.wants(item) && item.idle_s(now) >= age_s {
                if handle.sink(item) {
                    handle.count_class(ClassCounter::Sunk, item.class());
                }
                is_full = storage.take_no_room();
            }
        });
        handle.quiesce();
        if is_full {
            handle.asleep(|| thread::sleep(NO_ROOM_REST));
        }
    }
}

/// Frees pages, sweeps stale entries from the table, and counts the table's size as memory.
fn compact(process: &Process) {
    let Some(storage) = &process.storage else { return };
    let mut keeper = Keeper::default();
    let mut rest = COMPACT_REST_MIN;
    while !process.is_stopping.load(Relaxed) {
        keeper.step(process, storage);
        let longest = Duration::from_micros(storage.live.max_sleep_us.load(Relaxed).into());
        rest = match free_one(process, storage) {
            true => COMPACT_REST_MIN,
            false => (rest * 2).min(longest),
        };
        sleep(process, rest);
    }
}

/// Sleeps for `rest`, or until the server stops.
fn sleep(process: &Process, mut rest: Duration) {
    while !rest.is_zero() && !process.is_stopping.load(Relaxed) {
        let step = rest.min(SLEEP_STEP);
        thread::sleep(step);
        rest -= step;
    }
}

/// Frees a page if one can be freed. Returns whether it did.
fn free_one(process: &Process, storage: &Storage) -> bool {
    let now = process.time.now();
    let policy = storage.live.policy();
    let tier = &storage.tier;
    let tell = |event: Event<'_>| process.watch.tell(&event, &process.mailboxes);
    if tier.pages().iter().any(|page| page.version != 0) {
        let bytes = tier.page_bytes() as f64 * policy.max_frag;
        tell(Event::CompactFraginfo { ratio: policy.max_frag, bytes });
    }
    match tier.next_action(&policy, now) {
        Action::Rest => false,
        Action::Evict { page, version } => tier.evict(page, version),
        Action::Compact(what) => {
            let Compaction { page, version, .. } = what;
            tell(Event::CompactStart { page, version });
            let is_past = |life: u32| {
                let ends_s = life & LIFE_SECONDS;
                ends_s != 0 && ends_s <= process.time.now()
            };
            match tier.compact(&what, &is_past) {
                Ok(done) => tell(Event::CompactReadEnd { page, done: &done }),
                Err(error) => {
                    tracing::warn!("page {page} of storage can't be read, and is lost: {error}");
                    tell(Event::CompactAbort { page });
                }
            }
            tell(Event::CompactEnd { page });
            true
        }
    }
}

/// The progress of the table's sweep, and which warning was given.
#[derive(Default)]
struct Keeper {
    /// The next stripe, while a sweep is under way.
    stripe: Option<usize>,
    /// Pages that had been allocated when the last sweep began.
    allocs: u64,
    has_told_of_crowd: bool,
}

impl Keeper {
    fn step(&mut self, process: &Process, storage: &Storage) {
        let allocs = storage.tier.page_counts().allocs;
        // A sweep is due every two laps over the pages. Entries store the lap modulo four, so a stale one would
        // look current four laps later.
        if self.stripe.is_none() && allocs >= self.allocs + 2 * storage.tier.pages().len() as u64 {
            (self.stripe, self.allocs) = (Some(0), allocs);
        }
        self.stripe = self.stripe.and_then(|stripe| storage.tier.sweep(stripe));
        process.memory.reserve(storage.tier.index_bytes(), &process.cache);
        let crowded_out = storage.tier.counted().crowded_out;
        if crowded_out > 0 && !self.has_told_of_crowd {
            self.has_told_of_crowd = true;
            tracing::warn!(
                "the table of stored items takes three quarters of -m and is full: storage holds no more items. Raise -m, or \
                 store fewer items by a larger ext_item_size."
            );
        }
    }
}

const WRITE_PATIENCE: Duration = Duration::from_millis(100);
/// After so many seconds without a failure, writing works again.
const WELL_S: u32 = 30;
const FAILED_REST: Duration = Duration::from_secs(5);
/// How soon the threads notice that the server stops.
const SLEEP_STEP: Duration = Duration::from_millis(50);
/// The least pause between two walks over all items, however short `ext_max_sleep` is.
const IDLE_REST_MIN: Duration = Duration::from_millis(50);
const IDLE_REST_MAX: Duration = Duration::from_secs(1);
/// The pause while no write buffer is free.
const NO_ROOM_REST: Duration = Duration::from_millis(5);
const COMPACT_REST_MIN: Duration = Duration::from_millis(1);
