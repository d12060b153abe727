//! What the system knows about this process, for the process's own metrics.
//!
//! The files of /proc are opened at the start and stay open: the figures matter most when the process has run out of
//! descriptors.

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, open, seek};
use rustix::io::pread;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// The process's entries in /proc. On a system without /proc, the figures from there are 0.
#[derive(Debug)]
pub struct Vitals {
    stat: Option<File>,
    /// The directory /proc/self/fd. The lock guards its read position.
    descriptors: Option<Mutex<OwnedFd>>,
    began_unix_s: u64,
}

/// Names, types and meanings of the metrics of a process, as Prometheus's own libraries have them; in the order of
/// [`Vitals::metrics`].
pub const PROCESS_METRICS: [(&str, &str, &str); 5] = [
    ("process_resident_memory_bytes", "gauge", "Bytes of the process in memory."),
    ("process_open_fds", "gauge", "Descriptors in use."),
    ("process_max_fds", "gauge", "The limit of open files."),
    ("process_cpu_seconds_total", "counter", "CPU seconds."),
    ("process_start_time_seconds", "gauge", "Unix time of the start."),
];

impl Vitals {
    /// Opens the files that the figures come from, and records the current time as the start of the process.
    #[must_use]
    pub fn open() -> Vitals {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Vitals {
            stat: File::open("/proc/self/stat").ok(),
            descriptors: open("/proc/self/fd", flags, Mode::empty()).ok().map(Mutex::new),
            began_unix_s: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// The fields of /proc/self/stat after the program's name; the first has the index 0.
    #[must_use]
    pub fn stat(&self) -> Vec<u64> {
        let mut line = [0; 1024];
        let length = self.stat.as_ref().and_then(|stat| pread(stat, &mut line, 0).ok());
        let line = String::from_utf8_lossy(&line[..length.unwrap_or(0)]);
        // The name may contain blanks.
        let fields = line.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
    }

    /// Bytes of the process in memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.stat().get(21).map_or(0, |pages| pages * rustix::param::page_size() as u64)
    }

    /// Descriptors in use.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        let Some(directory) = &self.descriptors else { return 0 };
        let directory = directory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if seek(&*directory, SeekFrom::Start(0)).is_err() {
            return 0;
        }
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&*directory, &mut room);
        let mut count = 0;
        while let Some(Ok(entry)) = entries.next() {
            // The other two entries are `.` and `..`.
            count += u64::from(entry.file_name().to_bytes()[0].is_ascii_digit());
        }
        count
    }

    /// The limit of open files.
    #[must_use]
    pub fn descriptors_max(&self) -> u64 {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    /// The values of [`PROCESS_METRICS`], in the same order.
    #[must_use]
    pub fn metrics(&self) -> [String; 5] {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        [
            self.resident_bytes().to_string(),
            self.descriptors().to_string(),
            self.descriptors_max().to_string(),
            format!("{}.{:06}", cpu.tv_sec, cpu.tv_nsec / 1000),
            self.began_unix_s.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_there() {
        let vitals = Vitals::open();
        assert!(vitals.resident_bytes() > 100 << 10, "{:?}", vitals.stat());
        let before = vitals.descriptors();
        assert!(before >= 3, "the log's and both files: {before}");
        let _more: Vec<_> = (0..300).map(|_| File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close descriptors meanwhile.
        assert!(vitals.descriptors() >= before + 290, "{before}, {}", vitals.descriptors());
    }
}
