//! Processor time and memory of a process, and pinning of the client's threads.
//!
//! The time is read from `/proc/PID/stat`, fields 14 and 15: the sum over all threads of the process,
//! including ended ones, in clock ticks (10 ms on Linux). The kernel scales the two fields to the
//! scheduler's exact sum, so their sum is exact to a tick. The division into user and system time is
//! sampled and less exact.

use std::fs;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::BenchError;

/// Processor time that a process has used, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTime {
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
}

impl CpuTime {
    /// The time that process `pid` has used since its start.
    pub(crate) fn of(pid: u32) -> Result<Self, BenchError> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_err(|source| BenchError::process(pid, source))?;
        let ticks_a_second = rustix::param::clock_ticks_per_second() as f64;
        parse_stat(&stat)
            .map(|(user, system)| Self {
                user_us: user as f64 * 1e6 / ticks_a_second,
                system_us: system as f64 * 1e6 / ticks_a_second,
            })
            .ok_or_else(|| BenchError::Usage(format!("/proc/{pid}/stat has an unknown form")))
    }

    /// The time used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us - earlier.user_us,
            system_us: self.system_us - earlier.system_us,
        }
    }
}

/// Returns the user and the system ticks. The second field is the command in parentheses, which may
/// contain spaces and parentheses itself, so fields are counted from the last parenthesis.
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The memory of process `pid` that is in RAM, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|source| BenchError::process(pid, source))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
        .map(|kib: u64| kib * 1024)
        .ok_or_else(|| BenchError::Usage(format!("process {pid} has no resident memory")))
}

/// Pins the calling thread to processor `cpu`.
pub(crate) fn pin(cpu: usize) -> Result<(), BenchError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(BenchError::Usage(format!("--pin {cpu}: there is no such processor")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|errno| BenchError::Io { doing: "pinning a thread (--pin)", source: errno.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 1234 567 0 0 20";
        assert_eq!(parse_stat(stat), Some((1234, 567)));
        assert_eq!(parse_stat("7 (a) S 1"), None);
    }

    #[test]
    fn our_own_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 100_000);
        let before = CpuTime::of(pid).unwrap();
        assert!(CpuTime::of(pid).unwrap().since(before).user_us >= 0.0);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(CpuTime::of(u32::MAX).is_err());
    }
}
