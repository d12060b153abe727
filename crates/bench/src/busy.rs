//! Busy mode: a closed loop in which the client never becomes the bottleneck.
//!
//! Each connection's requests are built beforehand, in steps of one pipeline, and repeated when they are
//! used up. The thread polls its sockets without sleeping. Replies are counted by their bytes, which the
//! kernel drops (`MSG_TRUNC`) instead of copying them; so every read must hit, and the length of its
//! reply be known. If reads may miss, replies are received and parsed instead.
//!
//! Nothing is verified in this mode: a reading pass in the closed loop does that before and after.
//!
//! # Costs
//! One send and one receive per step, and as many empty polls as the server takes time.

use std::io::ErrorKind;
use std::ops::Range;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;

use crate::address::ServerAddress;
use crate::connection::lost;
use crate::crew::{Tally, Watch};
use crate::error::{BenchError, printable};
use crate::plan::Plan;
use crate::reply::{self, Reply};
use crate::requests::{Asked, Requests};

/// Does the work of thread `thread`; `by_bytes` tells whether replies are counted by their bytes.
pub(crate) fn run(
    plan: &Plan,
    address: &ServerAddress,
    by_bytes: bool,
    thread: usize,
    watch: &Watch,
) -> Result<Tally, BenchError> {
    let mut lanes = plan
        .lanes_of(thread)
        .map(|lane| Lane::open(plan, address, lane, by_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    let mut quota = plan.quota_of(thread);
    let mut scratch = vec![0; SCRATCH_BYTES];
    let mut operations = 0;
    watch.ready();
    for lane in &mut lanes {
        lane.begin(&mut quota)?;
    }
    let mut answered_ns = watch.clock.now_ns();
    loop {
        let before = operations;
        for _ in 0..SWEEPS {
            for lane in &mut lanes {
                if lane.poll(&mut scratch)? {
                    operations += lane.steps[lane.step].operations;
                    lane.begin(&mut quota)?;
                }
            }
        }
        watch.report(thread, operations);
        let now = watch.clock.now_ns();
        if operations != before {
            answered_ns = now;
        }
        if watch.is_over() || lanes.iter().all(|lane| !lane.waits) {
            return Ok(Tally::default());
        }
        if let Some(lane) = lanes.iter().find(|_| now - answered_ns > STALL_NS) {
            return Err(BenchError::Stalled { owed: lane.owed });
        }
    }
}

/// The prebuilt requests of one pipeline.
struct Step {
    /// The end of its bytes, which begin at the end of the former step.
    end: usize,
    requests: u64,
    /// Keys read and items written.
    operations: u64,
    /// What its replies must bring: bytes, or a number of replies.
    owed: u64,
}

/// A connection and its prebuilt requests.
struct Lane {
    socket: Socket,
    bytes: Vec<u8>,
    steps: Vec<Step>,
    step: usize,
    unsent: Range<usize>,
    owed: u64,
    /// Whether a step is under way.
    waits: bool,
    /// The bytes received and not yet parsed, if replies are counted.
    replies: Option<Vec<u8>>,
}

impl Lane {
    fn open(
        plan: &Plan,
        address: &ServerAddress,
        lane: usize,
        by_bytes: bool,
    ) -> Result<Self, BenchError> {
        let (bytes, steps) = build(plan, lane, by_bytes);
        let step = steps.len() - 1;
        let replies = (!by_bytes).then(Vec::new);
        let socket = address.connect()?;
        Ok(Self { socket, bytes, steps, step, unsent: 0..0, owed: 0, waits: false, replies })
    }

    /// Begins the next step, unless the quota is used up.
    fn begin(&mut self, quota: &mut u64) -> Result<(), BenchError> {
        self.waits = *quota > 0;
        if !self.waits {
            return Ok(());
        }
        self.step = (self.step + 1) % self.steps.len();
        let start = if self.step == 0 { 0 } else { self.steps[self.step - 1].end };
        let step = &self.steps[self.step];
        self.unsent = start..step.end;
        self.owed = step.owed;
        *quota = quota.saturating_sub(step.requests);
        self.send()
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.socket, &self.bytes[self.unsent.clone()], flags) {
            Ok(n) => self.unsent.start += n,
            Err(errno) => ignore_busy(errno, "sending requests")?,
        }
        Ok(())
    }

    /// Polls once. Returns true when the step is answered.
    fn poll(&mut self, scratch: &mut [u8]) -> Result<bool, BenchError> {
        if !self.waits {
            return Ok(false);
        }
        if !self.unsent.is_empty() {
            self.send()?;
        }
        let drop = if self.replies.is_none() { RecvFlags::TRUNC } else { RecvFlags::empty() };
        let n = match recv(&self.socket, &mut *scratch, RecvFlags::DONTWAIT | drop) {
            Ok((_, 0)) => return Err(BenchError::Closed),
            Ok((_, n)) => n,
            Err(errno) => {
                ignore_busy(errno, "receiving replies")?;
                return Ok(false);
            }
        };
        let answered = match &mut self.replies {
            None => n as u64,
            Some(received) => {
                received.extend_from_slice(&scratch[..n]);
                cut(received)?
            }
        };
        self.owed = self.owed.checked_sub(answered).ok_or_else(|| BenchError::Protocol {
            got: format!("{} more than was owed", answered - self.owed),
        })?;
        Ok(self.owed == 0 && self.unsent.is_empty())
    }
}

fn ignore_busy(errno: rustix::io::Errno, doing: &'static str) -> Result<(), BenchError> {
    let error = std::io::Error::from(errno);
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(lost(error, doing)),
    }
}

/// Builds the steps of connection `lane` within its share of the memory; at least one step.
fn build(plan: &Plan, lane: usize, by_bytes: bool) -> (Vec<u8>, Vec<Step>) {
    let share = plan.stream_bytes / plan.connections;
    let needed = plan.requests_max.unwrap_or(u64::MAX);
    let mut built = 0;
    let mut requests = Requests::new(&plan.workload, (lane, plan.connections), plan.seed);
    let (mut bytes, mut steps) = (Vec::new(), Vec::new());
    let mut asked = Asked::default();
    while steps.is_empty() || bytes.len() + steps.len() * size_of::<Step>() < share {
        asked.clear();
        requests.append_batch(&mut bytes, &mut asked, 0);
        let count = asked.requests.len() as u64;
        steps.push(Step {
            end: bytes.len(),
            requests: count,
            operations: asked.numbers.len() as u64,
            owed: if by_bytes { requests.wire.reply_bytes(&asked) } else { count },
        });
        built += count;
        // Enough requests that in a repetition nothing of the former round is left in the processor's caches.
        if built >= needed || built * plan.connections as u64 > REQUESTS_MAX {
            break;
        }
    }
    (bytes, steps)
}

/// Removes complete replies from `received`. Returns how many requests they answer.
fn cut(received: &mut Vec<u8>) -> Result<u64, BenchError> {
    let (mut used, mut answered) = (0, 0);
    while let Some((reply, length)) = reply::first(&received[used..])? {
        match reply {
            // Only the value of a single meta get has no key and ends its reply.
            Reply::Value { key: Some(_), .. } => {}
            Reply::Value { key: None, .. } | Reply::NoMore | Reply::Stored | Reply::Refused(_) => {
                answered += 1;
            }
            Reply::Unexpected(line) => return Err(BenchError::Refused { reply: printable(line) }),
        }
        used += length;
    }
    received.drain(..used);
    Ok(answered)
}

/// The size of a receive. With `MSG_TRUNC` over TCP its pages are never touched.
const SCRATCH_BYTES: usize = 1 << 20;

/// The most prebuilt requests, over all connections.
const REQUESTS_MAX: u64 = 4_000_000;

/// Sweeps over the connections between two readings of the clock.
const SWEEPS: usize = 64;

/// If no reply arrives for this long, none is expected any more.
const STALL_NS: u64 = 5_000_000_000;
