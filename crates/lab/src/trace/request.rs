//! One request of a trace, whatever format it stood in.

/// What a trace says of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceRequest {
    /// The object, as a number; text keys are hashed to 64 bits.
    pub key: u64,
    /// What is asked.
    pub op: TraceOp,
    /// Size of key and value together, in bytes, or 0 where the format says nothing of sizes.
    pub bytes: u32,
    /// When, in seconds since some beginning; 0 where the format says nothing of time.
    pub time_s: u32,
    /// The time to live of what is stored, in seconds; 0 is forever.
    pub ttl_s: u32,
}

impl TraceRequest {
    /// A get of `key`, of which nothing else is known.
    pub(super) fn get(key: u64) -> Self {
        Self { key, op: TraceOp::Get, bytes: 0, time_s: 0, ttl_s: 0 }
    }
}

/// What is asked of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceOp {
    /// A read; a client that misses stores the object.
    Get,
    /// A write of the object, present or not.
    Set,
    /// Its removal.
    Delete,
}

/// The part of a trace that can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadError {
    /// Where it stands.
    pub at: Place,
    /// What is wrong there, and what would be right.
    pub what: String,
}

/// A place in a trace, as its format counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line, from 1.
    Line(u64),
    /// Bytes from the start of the (decompressed) file.
    Byte(u64),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Place::Line(line) => write!(f, "line {line}: {}", self.what),
            Place::Byte(byte) => write!(f, "byte {byte}: {}", self.what),
        }
    }
}

impl std::error::Error for ReadError {}
