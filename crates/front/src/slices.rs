//! Short turns at a processor for the threads that answer clients.
//!
//! Where more threads want to run than there are processors, Linux lets each run for a slice of some milliseconds. A thread
//! that wakes up for a client then waits for the slices of others. Since Linux 6.12 a thread may ask for another slice. With
//! a short one it runs sooner and gives way sooner, and its share of the processor stays what it was. That takes no
//! privilege.
//!
//! A router on two processors, beside 1,000 clients that each send 20 gets at a time: of a calm client's requests, one in
//! a hundred took 12 to 15 ms, and takes 7 to 8. The crowd's own requests are as many as before.
//! (`cargo bench -p guira-tests --bench crowds -- route --attack gets-20`)
//!
//! Cost: two system calls when a thread starts. Weaknesses: older kernels ignore it; a thread with a real-time policy keeps
//! what it has.

use std::io;

/// The slice that is asked for: the shortest that Linux gives.
const SLICE_NANOSECONDS: u64 = 100_000;

/// Asks for short slices for this thread. Where the system forbids that or doesn't know it, nothing changes.
pub fn ask_for_short_slices() {
    if let Ok(mut now) = attributes()
        && matches!(now.sched_policy.cast_signed(), libc::SCHED_OTHER | libc::SCHED_BATCH)
    {
        now.sched_runtime = SLICE_NANOSECONDS;
        let _ = set_attributes(&now);
    }
}

/// Returns how the kernel schedules this thread.
fn attributes() -> io::Result<libc::sched_attr> {
    let mut found = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let (this_thread, no_flags) = (0, 0);
    // SAFETY: the kernel writes at most `size_of` bytes of integers to `found`, which is borrowed for the call alone.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            this_thread,
            &raw mut found,
            size_of::<libc::sched_attr>(),
            no_flags,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
}

/// Has the kernel schedule this thread as `wanted` says. Its `size` is what [`attributes`] found.
fn set_attributes(wanted: &libc::sched_attr) -> io::Result<()> {
    let (this_thread, no_flags) = (0, 0);
    // SAFETY: the kernel reads the `size` bytes that it wrote itself; they are no more than `sched_attr` has.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const *wanted, no_flags)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// The first Linux whose threads may ask.
    fn is_known() -> bool {
        let system = rustix::system::uname();
        let mut numbers =
            system.release().to_str().unwrap().split(['.', '-']).map(str::parse::<u32>);
        let mut number = || numbers.next().unwrap().unwrap();
        (number(), number()) >= (6, 12)
    }

    #[test]
    fn a_thread_has_short_slices_and_the_priority_that_it_had() {
        let [before, after] = thread::spawn(|| {
            rustix::process::nice(3).unwrap();
            let before = attributes().unwrap();
            ask_for_short_slices();
            [before, attributes().unwrap()]
        })
        .join()
        .unwrap();
        assert_eq!((before.sched_nice, after.sched_nice), (3, 3));
        assert_eq!(before.sched_policy, after.sched_policy);
        assert_ne!(before.sched_runtime, SLICE_NANOSECONDS);
        assert_eq!(after.sched_runtime == SLICE_NANOSECONDS, is_known(), "{}", after.sched_runtime);
    }

    #[test]
    fn other_threads_keep_their_slices() {
        thread::spawn(ask_for_short_slices).join().unwrap();
        assert_ne!(attributes().unwrap().sched_runtime, SLICE_NANOSECONDS);
    }
}
