//! Measures what a process uses: CPU time, and bytes read from and written to the device. Also keeps the page cache
//! empty.

use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// What the process had used at a moment.
#[derive(Clone, Copy)]
pub struct Used {
    at: Instant,
    cpu_us: u64,
    read_bytes: u64,
    write_bytes: u64,
}

/// What the process used between two moments.
#[derive(Clone, Copy)]
pub struct Spent {
    pub seconds: f64,
    pub cpu_us: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
}

impl Used {
    pub fn now() -> Self {
        let io = std::fs::read_to_string("/proc/self/io").expect("a kernel that counts I/O");
        let field = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.trim().parse().expect("a number")
        };
        Self {
            at: Instant::now(),
            cpu_us: cpu_us(ClockId::ProcessCPUTime),
            read_bytes: field("read_bytes:"),
            write_bytes: field("write_bytes:"),
        }
    }

    /// Returns what was used since `self`.
    pub fn spent(self) -> Spent {
        let now = Self::now();
        let between = |now: u64, before: u64| now.saturating_sub(before) as f64;
        Spent {
            seconds: now.at.duration_since(self.at).as_secs_f64(),
            cpu_us: between(now.cpu_us, self.cpu_us),
            read_bytes: between(now.read_bytes, self.read_bytes),
            write_bytes: between(now.write_bytes, self.write_bytes),
        }
    }
}

fn cpu_us(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// A thread that drops the files' pages from the page cache ten times a second.
pub struct Cold {
    ends: Arc<AtomicBool>,
    cpu_us: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Cold {
    pub fn keep(dir: &Path) -> Self {
        let (ends, cpu) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_ends, its_cpu, dir) = (ends.clone(), cpu.clone(), dir.to_owned());
        drop_pages(&dir);
        let thread = std::thread::spawn(move || {
            while !its_ends.load(Relaxed) {
                sleep(Duration::from_millis(100));
                drop_pages(&dir);
                its_cpu.store(cpu_us(ClockId::ThreadCPUTime), Relaxed);
            }
        });
        Self { ends, cpu_us: cpu, thread: Some(thread) }
    }

    /// CPU time of the thread, which isn't the engine's.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_us.load(Relaxed) as f64
    }
}

impl Drop for Cold {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread that drops pages ends well");
        }
    }
}

fn drop_pages(dir: &Path) {
    for path in files(dir) {
        // A file may have been removed since it was listed.
        if let Ok(file) = File::open(path) {
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
    }
}

/// Bytes of the device that a folder's files occupy.
pub fn disk_bytes(dir: &Path) -> u64 {
    files(dir).iter().filter_map(|it| it.metadata().ok()).map(|it| it.blocks() * 512).sum()
}

/// All files in a folder and in those below it.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
