//! Reads that an event loop does itself: the kernel carries them out while the loop serves others.
//!
//! ```text
//! get ─▶ begin ─▶ submitted ─▶ driver: flush ─▶ kernel ─▶ event ─▶ driver: reap ─▶ done
//! ```
//! The driver is a task. It runs while reads are under way, and begins all at once that were submitted while the loop
//! polled its other tasks.
//!
//! # Invariants
//! 1. A read that has begun is answered once, with the bytes or with an error.
//! 2. At most as many reads are under way as was said to [`enter`]. A read above that gets no [`place`], and is left to
//!    [`crate::readers`], where clients have fair parts.
//!
//! # Costs
//! Compared with a thread that reads: two switches between threads less, and half of the processor time of a get that
//! reads the device. Reads that begin together share a system call.
//!
//! # Weaknesses
//! The bytes are checked and unpacked on the loop. So long values are left to threads.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use guira_disk::{Buffer, Reads};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use crate::engine::NextRead;

/// What is done with the bytes that were read.
type Done = Box<dyn FnOnce(io::Result<Buffer>)>;

thread_local! {
    static OWN: RefCell<Option<Rc<OwnReads>>> = const { RefCell::new(None) };
}

/// Whether the kernel has let a loop of this process read.
static ALLOWED: AtomicBool = AtomicBool::new(false);

/// The reads of one event loop.
struct OwnReads {
    state: RefCell<State>,
    event: AsyncFd<OwnedFd>,
    /// A read was submitted while the driver runs.
    is_submitted: Notify,
}

struct State {
    reads: Reads,
    /// Who waits, by the tag of the read.
    waiting: Vec<Option<Done>>,
    free: Vec<usize>,
    is_driven: bool,
}

/// A place among the reads that may be under way. It must be used at once.
#[must_use]
pub(crate) struct Place(Rc<OwnReads>, usize);

/// Lets this thread's event loop read, `depth` reads at once. Returns whether the kernel lets it: containers often forbid
/// `io_uring`. If it doesn't, there is no [`place`]. Must be called in the loop's runtime.
pub(crate) fn enter(depth: usize) -> bool {
    let opened = || -> io::Result<OwnReads> {
        let reads = Reads::by_ring(u32::try_from(depth).unwrap_or(u32::MAX))?;
        let event = reads.event_fd().try_clone_to_owned()?;
        #[expect(deprecated, reason = "the successor is unsafe; an `OwnedFd` keeps its descriptor")]
        let event = AsyncFd::with_interest(event, Interest::READABLE)?;
        let (waiting, free) = ((0..depth).map(|_| None).collect(), (0..depth).collect());
        let state = RefCell::new(State { reads, waiting, free, is_driven: false });
        Ok(OwnReads { state, event, is_submitted: Notify::new() })
    };
    let own = opened().ok().map(Rc::new);
    let is_opened = own.is_some();
    ALLOWED.fetch_or(is_opened, Relaxed);
    OWN.set(own);
    is_opened
}

/// Whether the kernel has let a loop of this process read, for statistics.
pub(crate) fn are_allowed() -> bool {
    ALLOWED.load(Relaxed)
}

/// Ends this thread's reads. Must be called in the loop's runtime.
pub(crate) fn leave() {
    OWN.set(None);
}

/// A place for a read of this thread's loop. `None`: it has no reads of its own, or as many as it may.
pub(crate) fn place() -> Option<Place> {
    let own = OWN.with_borrow(Clone::clone)?;
    let place = own.state.borrow_mut().free.pop()?;
    Some(Place(own, place))
}

impl Place {
    /// Begins a read, and has `done` get the bytes on this thread, in the loop's local tasks.
    pub(crate) fn begin(self, read: NextRead, done: impl FnOnce(io::Result<Buffer>) + 'static) {
        let Self(own, place) = self;
        let mut state = own.state.borrow_mut();
        state.waiting[place] = Some(Box::new(done));
        let NextRead { file, offset, buffer } = read;
        state.reads.submit(place as u64, file, buffer, offset);
        if state.is_driven {
            own.is_submitted.notify_one();
        } else {
            state.is_driven = true;
            drop(state);
            spawn_local(drive(own));
        }
    }
}

/// Drives the reads until none is under way.
async fn drive(own: Rc<OwnReads>) {
    loop {
        // Others that are ready may submit more.
        yield_now().await;
        let flushed = own.state.borrow_mut().reads.flush();
        if flushed.is_err() {
            // The kernel lacks something for a moment. No read is lost.
            sleep(BUSY).await;
            continue;
        }
        tokio::select! {
            ready = own.event.readable() => {
                if let Ok(mut ready) = ready {
                    ready.clear_ready();
                }
            }
            () = own.is_submitted.notified() => continue,
        }
        let ended = own.reap();
        for (done, read) in ended {
            done(read);
        }
        let mut state = own.state.borrow_mut();
        if state.reads.under_way() == 0 {
            state.is_driven = false;
            return;
        }
    }
}

impl OwnReads {
    /// The reads that have ended, with those who wait for them.
    fn reap(&self) -> Vec<(Done, io::Result<Buffer>)> {
        let mut state = self.state.borrow_mut();
        let State { reads, waiting, free, .. } = &mut *state;
        let mut ended = Vec::new();
        // What can't begin now begins with the next flush.
        let _ = reads.reap(&mut |tag, read| {
            let Ok(place) = usize::try_from(tag) else { return };
            if let Some(done) = waiting.get_mut(place).and_then(Option::take) {
                free.push(place);
                ended.push((done, read));
            }
        });
        ended
    }
}

/// How long a kernel that lacks something is left alone.
const BUSY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use guira_disk::{Buffers, Disk, DiskFile, System};
    use tokio::task::LocalSet;

    use super::*;

    fn file(directory: &tempfile::TempDir) -> Arc<dyn DiskFile> {
        let file = System.create(&directory.path().join("file"), false).expect("a file");
        for block in 0..8_u8 {
            file.write_at(&[block; 4096], u64::from(block) * 4096).expect("it is written");
        }
        file
    }

    fn read(file: &Arc<dyn DiskFile>, block: u64) -> NextRead {
        let buffer = Buffers::new(1).take(4096);
        NextRead { file: Arc::clone(file), offset: block * 4096, buffer }
    }

    /// If the kernel refuses its ring, says so.
    fn has_entered(depth: usize) -> bool {
        if enter(depth) {
            assert!(are_allowed());
            return true;
        }
        eprintln!("SKIPPED: an event loop's own reads are not tested, the kernel refuses io_uring");
        assert!(place().is_none());
        false
    }

    #[tokio::test]
    async fn reads_up_to_the_depth_are_taken_and_answered_and_make_room_for_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file(&directory);
        assert!(place().is_none(), "this thread hasn't entered");
        let run = async {
            if !has_entered(4) {
                return;
            }
            let found = Rc::new(RefCell::new(Vec::new()));
            for round in 0..3 {
                for block in 0..4 {
                    let found = Rc::clone(&found);
                    place().expect("there is room").begin(read(&file, block), move |read| {
                        found.borrow_mut().push(read.expect("a block")[0]);
                    });
                }
                assert!(place().is_none(), "round {round}");
                while found.borrow().len() < 4 {
                    sleep(BUSY).await;
                }
                let mut found = found.take();
                found.sort_unstable();
                assert_eq!(found, [0, 1, 2, 3], "round {round}");
            }
            leave();
        };
        let tasks = LocalSet::new();
        tasks.run_until(run).await;
        // The driver has ended: a loop waits for its tasks before it ends.
        tasks.await;
    }

    #[tokio::test]
    async fn a_read_that_fails_is_told_and_one_that_follows_begins_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file(&directory);
        let run = async {
            if !has_entered(1) {
                return;
            }
            let (told, last) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
            let (tells, then, next) = (Rc::clone(&told), Rc::clone(&last), Arc::clone(&file));
            place().expect("there is room").begin(read(&file, 99), move |found| {
                tells.set(found.is_err());
                let place = place().expect("there is room again");
                place.begin(read(&next, 5), move |found| then.set(found.expect("a block")[0]));
            });
            while last.get() == 0 {
                sleep(BUSY).await;
            }
            assert!(told.get());
            assert_eq!(last.get(), 5);
            leave();
        };
        LocalSet::new().run_until(run).await;
    }
}
