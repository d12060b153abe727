//! The errors of a run, and who causes them.

use std::{fmt, io};

/// The reason why a run ended without a valid result.
#[derive(Debug)]
pub enum BenchError {
    /// The arguments contradict each other or are impossible; holds an explanation.
    Usage(String),
    /// The server can't be reached at this address.
    Connect {
        /// The address as it was given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused an operation.
    Io {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server's process can't be examined.
    Process {
        /// The process id.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The server closed a connection during the run.
    Closed,
    /// The server's bytes aren't of memcached's protocol, or aren't the reply to the request.
    Protocol {
        /// The start of what arrived.
        got: String,
    },
    /// The server refused a request without which the run has no meaning.
    Refused {
        /// The server's line.
        reply: String,
    },
    /// Replies stopped arriving in busy mode, where they are counted by their bytes.
    Stalled {
        /// Bytes that are still missing on the connection.
        owed: u64,
    },
    /// The user interrupted the run before there was anything to report.
    Interrupted,
    /// `--verify` found values that no write stored.
    Violations(u64),
}

impl BenchError {
    /// Returns a function that wraps an error of the system, with the operation that failed.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Wraps an error of the system about the server's process.
    pub(crate) fn process(pid: u32, source: io::Error) -> Self {
        Self::Process { pid, source }
    }

    /// The server's unexpected bytes, as one printable line.
    pub(crate) fn protocol(bytes: &[u8]) -> Self {
        Self::Protocol { got: printable(bytes) }
    }
}

/// The first bytes of `bytes`, with all unprintable ones escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(80)].escape_ascii().to_string()
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => f.write_str(why),
            Self::Connect { address, source } => {
                write!(
                    f,
                    "cannot connect to {address}: {source}; does a server run there (--server)?"
                )
            }
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Process { pid, source } => {
                write!(
                    f,
                    "no CPU time or memory of the server's process {pid} can be read: {source}"
                )
            }
            Self::Closed => f.write_str(
                "the server closed a connection during the run; look at its connection limit \
                 and its log",
            ),
            Self::Protocol { got } => {
                write!(f, "the server's reply is not the memcached protocol: \"{got}\"")
            }
            Self::Refused { reply } => write!(f, "the server refused a request: \"{reply}\""),
            Self::Stalled { owed } => write!(
                f,
                "no reply for 5 s with {owed} bytes owed: some reads missed, or values have \
                 other sizes than this run's; preload with --load, give the server more memory, \
                 or count with --count replies"
            ),
            Self::Interrupted => f.write_str("stopped before anything was measured"),
            Self::Violations(count) => {
                write!(f, "{count} reads returned what no write stored; see the table")
            }
        }
    }
}

/// Has no sources: each sentence contains its cause, which printing a chain would repeat.
impl std::error::Error for BenchError {}
