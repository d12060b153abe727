//! How experiments measure: processor time of threads, interleaved rounds, and their medians.
//!
//! On a machine with other load, wall time mostly shows how busy the others were. So the work of one thread is measured
//! by that thread's processor time ([`thread_cpu`]), and variants that are compared take turns ([`rounds`]): whatever
//! slows the machine for a while slows all of them. A comparison is the median of the rounds' ratios, not the ratio of
//! two medians.
//!
//! A thread that sleeps or blocks uses no processor time. So the work of several threads is a rate of wall time
//! ([`Work::rate`]), minus the time in which they could have run and other processes had the processors.
//!
//! Bad at: caches and memory that neighbours use. Their influence is measured with ours.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The work of threads between a common start and the end of the last thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Operations of all threads together.
    pub ops: u64,
    /// Processor time of all threads together.
    pub cpu: Duration,
    /// The time from the start until the last thread ended.
    pub wall: Duration,
    /// The time in which threads could have run and had no processor, of all threads together.
    pub queued: Duration,
    /// The number of processors that the threads could have had at once.
    pub processors: usize,
}

impl Work {
    /// Returns the operations per second of the wall time that other processes left. The time in which threads wait for
    /// each other counts; the time in which they queue for a processor that others have doesn't.
    #[must_use]
    pub(crate) fn rate(&self) -> f64 {
        let (wall, processors) = (self.wall.as_secs_f64(), self.processors.max(1) as f64);
        // A thread also queues behind another one of ours, but then the processor isn't with other processes.
        let with_others = (wall * processors - self.cpu.as_secs_f64()).max(0.0);
        let lost = self.queued.as_secs_f64().min(with_others) / processors;
        self.ops as f64 / (wall - lost).max(f64::MIN_POSITIVE)
    }
}

/// The quartiles of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quartiles {
    /// A quarter of the samples is below.
    pub low: f64,
    /// Half of the samples are below.
    pub median: f64,
    /// A quarter of the samples is above.
    pub high: f64,
}

impl Quartiles {
    /// Computes the quartiles of samples in any order; all are NaN if there are none.
    #[must_use]
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { low: at(&sorted, 0.25), median: at(&sorted, 0.5), high: at(&sorted, 0.75) }
    }
}

/// The figures that [`rounds`] measured, one per variant and round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rounds {
    /// By variant, then by round.
    pub samples: Vec<Vec<f64>>,
}

/// Lets `variants` take turns for `n` rounds; each returns one figure per turn. Each round begins with another variant
/// than the one before, so that no variant always follows the same one.
///
/// # Errors
/// The first error of a variant ends the measurement.
pub(crate) fn rounds(
    n: usize,
    variants: &mut [&mut dyn FnMut() -> anyhow::Result<f64>],
) -> anyhow::Result<Rounds> {
    let mut samples = vec![Vec::with_capacity(n); variants.len()];
    for round in 0..n {
        for turn in 0..variants.len() {
            let variant = (round + turn) % variants.len();
            samples[variant].push(variants[variant]()?);
        }
    }
    Ok(Rounds { samples })
}

/// Like [`rounds`], for variants by number: `one` gets the number and a seed, which differs each turn.
///
/// # Errors
/// None; only [`rounds`] has errors.
pub(crate) fn in_turns(
    variants: usize,
    n: usize,
    seed: u64,
    one: impl Fn(usize, u64) -> f64,
) -> anyhow::Result<Rounds> {
    let (turns, one) = (&std::cell::Cell::new(seed), &one);
    let mut all: Vec<_> = (0..variants)
        .map(|variant| {
            move || {
                turns.set(turns.get() + 1);
                Ok(one(variant, turns.get()))
            }
        })
        .collect();
    let mut all: Vec<&mut dyn FnMut() -> anyhow::Result<f64>> =
        all.iter_mut().map(|it| it as _).collect();
    rounds(n, &mut all)
}

/// Runs `work` on `n` threads that start together. Each gets its number, from 0, and returns how many operations it
/// did. Preparations, such as building its keys, belong outside of `work`.
///
/// # Panics
/// If a thread panics.
pub(crate) fn threads(n: usize, work: impl Fn(usize) -> u64 + Sync) -> Work {
    let start = Barrier::new(n);
    let one = |thread: usize| {
        start.wait();
        let (begun, cpu, queued) = (now(), thread_cpu(), thread_queued());
        let ops = work(thread);
        (ops, thread_cpu() - cpu, begun, now(), thread_queued() - queued)
    };
    let one = &one;
    let done: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..n).map(|thread| scope.spawn(move || one(thread))).collect();
        all.into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let begun = done.iter().map(|it| it.2).min();
    let ended = done.iter().map(|it| it.3).max();
    Work {
        ops: done.iter().map(|it| it.0).sum(),
        cpu: done.iter().map(|it| it.1).sum(),
        wall: ended.zip(begun).map_or(Duration::ZERO, |(ended, begun)| ended - begun),
        queued: done.iter().map(|it| it.4).sum(),
        processors: std::thread::available_parallelism().map_or(1, usize::from).min(n),
    }
}

/// Like [`threads`], for `time` from the moment at which the first thread begins, however long a busy machine takes to
/// start the others: `work` gets a flag that tells it to stop, which it should read every few hundred operations.
pub(crate) fn threads_for(
    n: usize,
    time: Duration,
    work: impl Fn(usize, &AtomicBool) -> u64 + Sync,
) -> Work {
    let (stop, begun) = (AtomicBool::new(false), OnceLock::new());
    std::thread::scope(|scope| {
        let timer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                match begun.get().map(|it: &Instant| time.saturating_sub(it.elapsed())) {
                    None => std::thread::park(),
                    Some(Duration::ZERO) => stop.store(true, Ordering::Relaxed),
                    Some(left) => std::thread::park_timeout(left),
                }
            }
        });
        let end = || {
            stop.store(true, Ordering::Relaxed);
            timer.thread().unpark();
        };
        let done = threads(n, |thread| {
            let _others_must_not_wait = OnPanic(&end);
            if begun.set(now()).is_ok() {
                timer.thread().unpark();
            }
            work(thread, &stop)
        });
        end();
        done
    })
}

/// Returns the processor time of `work` on this thread, in nanoseconds per operation. `work` returns the number of
/// operations.
pub(crate) fn cpu_ns(work: impl FnOnce() -> u64) -> f64 {
    let begun = thread_cpu();
    let ops = work();
    (thread_cpu() - begun).as_nanos() as f64 / ops as f64
}

/// Waits until everything read before has arrived: no later instruction begins earlier.
#[inline]
pub(crate) fn wait() {
    fence(Ordering::SeqCst);
}

/// Returns the processor time that the calling thread has used since it was started.
#[must_use]
pub(crate) fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Returns the time in which the calling thread could have run and had no processor; zero if the system doesn't report
/// it.
#[must_use]
pub(crate) fn thread_queued() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Returns the processor time that all threads of this process have used, including those that have ended.
#[must_use]
pub(crate) fn process_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Reads the wall clock, for measurements of waiting.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the lab is what measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the value below which a `share` of `sorted` lies, interpolated between samples.
#[expect(clippy::cast_possible_truncation, reason = "both are places in a slice")]
fn at(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Calls a function when its thread panics.
struct OnPanic<'a>(&'a (dyn Fn() + Sync));

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_lie_between_samples() {
        let spread = Quartiles::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Quartiles { low: 1.75, median: 2.5, high: 3.25 });
        assert!(Quartiles::of(&[]).median.is_nan());
    }

    #[test]
    fn variants_take_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut drift = 0.0;
        let next = std::cell::Cell::new(0.0);
        let mut a = || {
            order.borrow_mut().push('a');
            drift += 1.0;
            next.set(2.0 * drift);
            Ok(drift)
        };
        let mut b = || {
            order.borrow_mut().push('b');
            Ok(7.0)
        };
        let rounds = rounds(3, &mut [&mut a, &mut b]).unwrap();
        assert_eq!(order.into_inner().iter().collect::<String>(), "abbaab");
        assert_eq!(rounds.samples, [[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]]);
    }

    #[test]
    fn an_error_ends_the_rounds() {
        let mut fails = || anyhow::bail!("no memory");
        assert!(rounds(2, &mut [&mut fails]).is_err());
    }

    #[test]
    fn the_work_of_all_threads_is_added() {
        let work = threads(3, |thread| {
            (0..1000 * (thread as u64 + 1)).map(std::hint::black_box).count() as u64
        });
        assert_eq!(work.ops, 6000);
        assert!(work.cpu > Duration::ZERO && work.wall > Duration::ZERO);
    }

    #[test]
    fn a_rate_leaves_out_what_others_had_of_the_processors_and_nothing_else() {
        let rate = |processors, cpu, queued| {
            let [cpu, queued] = [cpu, queued].map(Duration::from_secs);
            Work { ops: 120, wall: Duration::from_secs(4), cpu, queued, processors }.rate()
        };
        assert_eq!(rate(1, 4, 0), 30.0, "one thread that runs");
        assert_eq!(rate(1, 1, 0), 30.0, "it sleeps");
        assert_eq!(rate(1, 3, 1), 40.0, "another process has its processor for a second");
        assert_eq!(rate(2, 6, 2), 40.0, "and one of two processors for two");
        assert_eq!(rate(2, 8, 8), 30.0, "four threads that queue behind each other");
        assert_eq!(rate(2, 6, 10), 40.0, "and behind others");
    }

    #[test]
    fn a_flag_ends_timed_work() {
        // However late the second thread starts, the time counts from the first one's beginning.
        let work = threads_for(2, Duration::from_millis(1), |_, stop| {
            let mut ops = 0;
            while !stop.load(Ordering::Relaxed) {
                ops += 1;
            }
            ops
        });
        assert!(work.wall >= Duration::from_millis(1));
    }

    #[test]
    #[should_panic(expected = "thread 1 gives up")]
    fn a_panic_in_a_thread_comes_out() {
        threads_for(2, Duration::from_secs(60), |thread, stop| {
            assert!(thread == 0, "thread 1 gives up");
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            0
        });
    }
}
