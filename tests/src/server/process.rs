//! Processes, whoever started them.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;

/// The most bytes of a process's memory that were ever resident. `None`: it is gone.
#[must_use]
pub fn peak_bytes_of(pid: u32) -> Option<u64> {
    bytes_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// The same without the pages of files: how much of the program itself is resident depends on how it was built.
#[must_use]
pub fn peak_own_bytes_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(bytes_in(&status, "VmHWM:")?.saturating_sub(bytes_in(&status, "RssFile:")?))
}

fn bytes_in(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Sends `signal` to a process, which may be gone already.
pub fn send_signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Whether each thread of a process is stopped, or the process is gone.
pub(super) fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may hold anything in its parentheses.
        stat.rsplit(") ").next().is_none_or(|rest| !rest.starts_with(['R', 'S', 'D']))
    })
}

/// A program that a test starts by itself; dropped, as by a test that fails, it is killed.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
