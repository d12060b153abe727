//! Messages on standard error: plain lines, as many as `-v` asks for.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much is said; the `verbosity` command changes it while the server runs.
pub(crate) struct Log(AtomicU8);

impl Log {
    pub(crate) fn new(level: u8) -> Log {
        Log(AtomicU8::new(level))
    }

    pub(crate) fn level(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, level: u8) {
        self.0.store(level, Ordering::Relaxed);
    }

    /// Prints `line` when `-v` was given at least `level` times.
    pub(crate) fn say(&self, level: u8, line: fmt::Arguments<'_>) {
        if self.level() >= level {
            eprintln!("{line}");
        }
    }
}
