//! The machine that the figures were measured on.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine and its kernel. What can't be determined is "unknown", or 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Model of the processor.
    pub(crate) cpu: String,
    /// Processors that this process may use.
    pub(crate) cores: usize,
    /// Memory, bytes.
    pub(crate) memory_bytes: u64,
    /// Name and release of the kernel.
    pub(crate) kernel: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub(crate) huge_pages: String,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn this() -> Self {
        let name = rustix::system::uname();
        let kernel =
            [name.sysname(), name.release()].map(|part| part.to_string_lossy().into_owned());
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory.and_then(|it| kib(&it)).map_or(0, |kib| kib * 1024),
            kernel: kernel.join(" "),
            huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled"))
                .unwrap_or_else(unknown),
        }
    }

    /// Describes the machine in a line.
    pub(crate) fn line(&self) -> String {
        let memory_gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{}, {} cores, {memory_gib:.0} GiB, {}, transparent huge pages: {}",
            self.cpu, self.cores, self.kernel, self.huge_pages
        )
    }
}

/// Returns the average number of processes that wanted a processor over the last minute, including those of the lab.
pub(crate) fn load() -> Option<f64> {
    first_number(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn first_number(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// Returns the value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn kib(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse().ok()
}

/// Returns the word in brackets.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Another\n";
        assert_eq!(field(text, "model name").unwrap(), "Some CPU @ 2 GHz");
        assert_eq!(kib("24575 kB"), Some(24575));
        assert_eq!(chosen("always [madvise] never\n").unwrap(), "madvise");
        assert_eq!(first_number("13.48 13.94 10.87 2/200 9999\n"), Some(13.48));
        assert_eq!((field("", "model name"), chosen(""), first_number("")), (None, None, None));
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(Machine::this().cores > 0);
    }
}
