//! Log lines for which no thread ever waits: `tracing`'s events, one line each, on standard error or in a file.
//!
//! ```text
//! worker ── tracing::info!(…) ─▶ level? ─▶ rate? ─▶ a line ─▶ queue of bounded length ─▶ a thread of its own ─▶ fd
//!                                                              └ full: dropped and counted
//! ```
//! # Invariants
//! 1. An event never blocks and never panics, whatever state the descriptor is in: closed, full, or never
//!    read.
//! 2. A line that isn't written is counted ([`Log::dropped`], [`Log::suppressed`]).
//! 3. An event (a place in the source) gets at most `LINES_A_SECOND` lines per second; the next line
//!    tells how many were suppressed.
//!
//! # Costs
//! An event below the level's threshold: a load. A line: a lock for its rate, an allocation, a place in the queue.
//!
//! Bad at: a process that is killed. The lines in the queue are then lost; [`Log::flush`] writes them
//! before an orderly end.
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

/// A log; its clones share the same state.
#[derive(Clone)]
pub struct Log(Arc<State>);

struct State {
    format: Format,
    verbosity: AtomicU8,
    rates: Mutex<Rates<Identifier>>,
    suppressed: AtomicU64,
    /// `None` for a log that writes nothing.
    sink: Option<Sink>,
}

impl Log {
    /// Creates a log on standard error.
    #[must_use]
    pub fn to_stderr(format: Format, verbosity: u8) -> Log {
        Log::new(format, verbosity, Some(Sink::to_stderr()))
    }

    /// Creates a log in a file.
    #[must_use]
    pub fn to_file(file: File, format: Format, verbosity: u8) -> Log {
        Log::new(format, verbosity, Some(Sink::to_file(file)))
    }

    /// Creates a log that writes nothing.
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

    /// Sends the events of all threads to this log, and panics too, before the thread unwinds. If a log
    /// of this process is installed already, events and panics stay with that one.
    pub fn install(&self) {
        let lines = tracing_subscriber::registry().with(Lines(self.clone()));
        if tracing::subscriber::set_global_default(lines).is_err() {
            return;
        }
        let log = self.clone();
        // The default hook writes to standard error, and waits for its reader.
        panic::set_hook(Box::new(move |panic| {
            let trace = Backtrace::capture();
            match trace.status() {
                BacktraceStatus::Captured => tracing::error!("{panic} {trace}"),
                _ => tracing::error!("{panic}"),
            }
            log.flush();
        }));
    }

    /// How often `-v` was given, or the value set since.
    #[must_use]
    pub fn verbosity(&self) -> u8 {
        self.0.verbosity.load(Relaxed)
    }

    /// Sets how much is logged from now on. 0: errors, warnings and news; 1: also problems of single
    /// clients; 2 and above: everything.
    pub fn set_verbosity(&self, verbosity: u8) {
        self.0.verbosity.store(verbosity, Relaxed);
    }

    /// The number of lines that found the queue full, or couldn't be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.sink.as_ref().map_or(0, Sink::dropped)
    }

    /// The number of lines suppressed because their event had used up its lines of the second.
    #[must_use]
    pub fn suppressed(&self) -> u64 {
        self.0.suppressed.load(Relaxed)
    }

    /// Waits until all former lines are written, but not for a reader that doesn't read.
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
        // Libraries have events of their own, which don't help an operator.
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

/// Prints on standard error why a program doesn't start or continue: at once, in the log's format; as
/// text, the bare sentence.
pub fn refuse(format: Format, words: &str) {
    // If standard error can't be written, nothing can be done.
    let _ = io::stderr().lock().write_all(format.refusal(words).as_bytes());
}

/// The layer that receives `tracing`'s events.
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
