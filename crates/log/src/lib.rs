//! Log lines that no thread ever waits for: `tracing`'s events, one line each, to standard error or a file.
//!
//! ```text
//! worker ── tracing::info!(…) ─▶ level? ─▶ rate? ─▶ a line ─▶ queue of bounded length ─▶ a thread of its own ─▶ fd
//!                                                              └ full: dropped and counted
//! ```
//! # Invariants
//! 1. An event never blocks and never panics, whatever becomes of the descriptor: closed, full, or read by nobody.
//! 2. A line that isn't written is counted ([`Log::dropped`], [`Log::suppressed`]).
//! 3. One event (a place in the source) has at most [`LINES_A_SECOND`] lines a second; the next line says how many more
//!    there were.
//!
//! # Costs
//! An event that the level lets out: a load. A line: a lock for its rate, an allocation, a place in the queue.
//!
//! Bad at: a process that is killed. What is in the queue then is lost; [`Log::flush`] before an orderly end writes it.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a log has a clock of its own, by which nothing else goes"
)]

mod format;
mod rate;
mod seldom;
mod sink;

pub use format::Format;
pub use rate::LINES_A_SECOND;
pub use seldom::Seldom;

use parking_lot::Mutex;
use rate::Rates;
use sink::Sink;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A log; clones are the same one.
#[derive(Clone)]
pub struct Log(Arc<State>);

struct State {
    format: Format,
    verbosity: AtomicU8,
    rates: Mutex<Rates<Identifier>>,
    suppressed: AtomicU64,
    /// `None`: nothing is written.
    sink: Option<Sink>,
}

impl Log {
    /// A log on standard error.
    #[must_use]
    pub fn to_stderr(format: Format, verbosity: u8) -> Log {
        Log::new(format, verbosity, Some(Sink::to_stderr()))
    }

    /// A log in a file.
    #[must_use]
    pub fn to_file(file: File, format: Format, verbosity: u8) -> Log {
        Log::new(format, verbosity, Some(Sink::to_file(file)))
    }

    /// A log that writes nothing.
    #[must_use]
    pub fn silent(verbosity: u8) -> Log {
        Log::new(Format::Text, verbosity, None)
    }

    fn new(format: Format, verbosity: u8, sink: Option<Sink>) -> Log {
        Log(Arc::new(State {
            format,
            verbosity: AtomicU8::new(verbosity),
            rates: Mutex::new(Rates::default()),
            suppressed: AtomicU64::new(0),
            sink,
        }))
    }

    /// Has the events of all threads come here, and panics too, before the thread unwinds. The first log of a process
    /// that is installed stays.
    pub fn install(&self) {
        // Another one is installed: that one stays.
        let _ = tracing::subscriber::set_global_default(
            tracing_subscriber::registry().with(Lines(self.clone())),
        );
        let log = self.clone();
        // The usual hook writes to standard error, and waits for whoever reads it.
        panic::set_hook(Box::new(move |panic| {
            let trace = Backtrace::capture();
            match trace.status() {
                BacktraceStatus::Captured => tracing::error!("{panic} {trace}"),
                _ => tracing::error!("{panic}"),
            }
            log.flush();
        }));
    }

    /// How often `-v` was given, or what was set since.
    #[must_use]
    pub fn verbosity(&self) -> u8 {
        self.0.verbosity.load(Relaxed)
    }

    /// Says more or less from here on: at 0 errors, warnings and news, at 1 what goes wrong with single clients, at 2
    /// and above everything.
    pub fn set_verbosity(&self, verbosity: u8) {
        self.0.verbosity.store(verbosity, Relaxed);
    }

    /// Lines that found the queue full, or that could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.sink.as_ref().map_or(0, Sink::dropped)
    }

    /// Lines not made because their event had its lines of the second.
    #[must_use]
    pub fn suppressed(&self) -> u64 {
        self.0.suppressed.load(Relaxed)
    }

    /// Waits until what was said is written, but not for a reader that doesn't read.
    pub fn flush(&self) {
        if let Some(sink) = &self.0.sink {
            sink.flush();
        }
    }

    fn says(&self, metadata: &Metadata<'_>) -> bool {
        let most = match self.verbosity() {
            0 => LevelFilter::INFO,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        // Libraries have events of their own, which say nothing to an operator.
        *metadata.level() <= most && metadata.target().starts_with("guira")
    }

    fn write(&self, event: &Event<'_>) {
        let Some(sink) = &self.0.sink else { return };
        let passed = self.0.rates.lock().pass(event.metadata().callsite(), Instant::now());
        let Some(more) = passed else {
            self.0.suppressed.fetch_add(1, Relaxed);
            return;
        };
        sink.line(&self.0.format.line(event, more));
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("format", &self.0.format).finish_non_exhaustive()
    }
}

/// Says on standard error why a program doesn't start or go on: at once, as the log's lines look; as text it is the
/// bare sentence.
pub fn refuse(format: Format, words: &str) {
    // Nothing can be done about a standard error that takes nothing.
    let _ = io::stderr().lock().write_all(format.refusal(words).as_bytes());
}

/// What `tracing` hands events to.
struct Lines(Log);

impl<S: Subscriber> Layer<S> for Lines {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level may change at any time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.says(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.write(event);
    }
}

#[cfg(test)]
mod tests;
