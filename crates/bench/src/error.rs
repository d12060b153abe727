//! What can go wrong in a run, and whose fault it is.

use std::{fmt, io};

/// Why a run ended without a result, or with a bad one.
#[derive(Debug)]
pub enum BenchError {
    /// The arguments contradict each other or ask for the impossible; the text says which and why.
    Usage(String),
    /// The server cannot be reached at this address.
    Connect {
        /// The address as it was given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The server's process can't be looked at.
    Process {
        /// Its number.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The server closed a connection in the middle of the run.
    Closed,
    /// The server's bytes are not memcached's protocol, or not the reply to what was asked.
    Protocol {
        /// The start of what arrived.
        got: String,
    },
    /// The server refused a request that must succeed for the run to mean anything.
    Refused {
        /// The server's line.
        reply: String,
    },
    /// Replies stopped coming in busy mode, where they are counted by their bytes.
    Stalled {
        /// Bytes still owed on the connection.
        owed: u64,
    },
    /// The user stopped the run before there was anything to report.
    Interrupted,
    /// `--verify` saw values that no write stored.
    Violations(u64),
}

impl BenchError {
    /// Wraps an error of the system with what was being done.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// The system tells nothing of the server's process.
    pub(crate) fn process(pid: u32, source: io::Error) -> Self {
        Self::Process { pid, source }
    }

    /// The server's unexpected bytes, cut to a line that can be printed.
    pub(crate) fn protocol(bytes: &[u8]) -> Self {
        Self::Protocol { got: printable(bytes) }
    }
}

/// The start of `bytes` with everything unprintable escaped.
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

/// Without sources: each sentence has its cause in it, and whoever prints a chain would say it twice.
impl std::error::Error for BenchError {}
