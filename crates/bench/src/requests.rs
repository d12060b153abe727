//! The requests of one connection: draws operations, encodes them, and remembers what was requested.
//!
//! Busy mode calls it beforehand and keeps the bytes; the other modes call it during the run. The
//! requests are a function of the workload, the seed and the connection's number.
//!
//! Inserted items have numbers above the preloaded ones, and each connection has its own residue class. A
//! connection that reads what it has just inserted therefore reads after its own write in the pipeline.

use std::collections::VecDeque;
use std::io::Write;

use crate::rng::{Rng, mix};
use crate::value::{append_key, append_value};
use crate::workload::{Operation, Pick, Picker, Protocol, Workload};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// How many keys it has.
    pub(crate) keys: u32,
    /// When it was sent or, in the open loop, when it was due.
    pub(crate) at_ns: u64,
}

/// The requests of a connection that wait for replies, oldest first, and the items that they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) requests: VecDeque<Request>,
    /// The item numbers of all these requests, in order.
    pub(crate) numbers: VecDeque<u64>,
    /// How many keys of the oldest request are settled.
    pub(crate) settled: u32,
}

impl Asked {
    fn push(&mut self, kind: Kind, at_ns: u64, numbers: &[u64]) {
        let keys = u32::try_from(numbers.len()).expect("a batch is bounded by the arguments");
        self.requests.push_back(Request { kind, keys, at_ns });
        self.numbers.extend(numbers);
    }

    /// Removes the oldest request and its items.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.numbers.drain(..request.keys as usize);
        self.settled = 0;
        Some(request)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.numbers.clear();
        self.settled = 0;
    }
}

/// The encoding of requests, and the length of their replies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    workload: Workload,
}

impl Wire {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self { workload: *workload }
    }

    /// Appends a read of `numbers`. In the meta protocol, several keys are read by quiet reads and a no-op.
    pub(crate) fn get(&self, out: &mut Vec<u8>, numbers: &[u64]) {
        let key_bytes = self.workload.key_bytes;
        match (self.workload.protocol, numbers) {
            (Protocol::Text, numbers) => {
                out.extend_from_slice(b"get");
                for &number in numbers {
                    out.push(b' ');
                    append_key(out, number, key_bytes);
                }
                out.extend_from_slice(b"\r\n");
            }
            (Protocol::Meta, &[number]) => {
                out.extend_from_slice(b"mg ");
                append_key(out, number, key_bytes);
                out.extend_from_slice(b" v\r\n");
            }
            (Protocol::Meta, numbers) => {
                for &number in numbers {
                    out.extend_from_slice(b"mg ");
                    append_key(out, number, key_bytes);
                    out.extend_from_slice(b" k v q\r\n");
                }
                out.extend_from_slice(b"mn\r\n");
            }
        }
    }

    /// Appends write `sequence` of item `number`; a quiet one has no reply if it succeeds.
    pub(crate) fn set(&self, out: &mut Vec<u8>, number: u64, sequence: u64, quiet: bool) {
        let bytes = self.value_bytes(number, sequence);
        let verb: &[u8] = if self.workload.protocol == Protocol::Text { b"set " } else { b"ms " };
        out.extend_from_slice(verb);
        append_key(out, number, self.workload.key_bytes);
        match (self.workload.protocol, quiet) {
            (Protocol::Text, false) => write!(out, " 0 0 {bytes}\r\n"),
            (Protocol::Text, true) => write!(out, " 0 0 {bytes} noreply\r\n"),
            (Protocol::Meta, false) => write!(out, " {bytes}\r\n"),
            (Protocol::Meta, true) => write!(out, " {bytes} q\r\n"),
        }
        .expect("writing to memory does not fail");
        append_value(out, number, sequence, bytes);
        out.extend_from_slice(b"\r\n");
    }

    fn value_bytes(&self, number: u64, sequence: u64) -> usize {
        let sequence = if self.workload.sizes_by_write { sequence } else { 0 };
        self.workload.value.pick(mix(mix(number) ^ sequence))
    }

    /// Bytes of the replies to everything in `asked`, if every read hits and every write stores.
    pub(crate) fn reply_bytes(&self, asked: &Asked) -> u64 {
        let mut numbers = asked.numbers.iter();
        let mut total = 0;
        for request in &asked.requests {
            let hits = numbers.by_ref().take(request.keys as usize).map(|&n| self.hit_bytes(n));
            let hits: usize = hits.sum();
            total += match (request.kind, self.workload.protocol) {
                (Kind::Write, Protocol::Text) => "STORED\r\n".len(),
                (Kind::Write, Protocol::Meta) => "HD\r\n".len(),
                (Kind::Read, Protocol::Text) => hits + "END\r\n".len(),
                (Kind::Read, Protocol::Meta) if request.keys == 1 => hits,
                (Kind::Read, Protocol::Meta) => hits + "MN\r\n".len(),
            };
        }
        total as u64
    }

    fn hit_bytes(&self, number: u64) -> usize {
        let bytes = self.value_bytes(number, 0);
        let digits = bytes.checked_ilog10().map_or(1, |log| log as usize + 1);
        let head = match self.workload.protocol {
            Protocol::Text => "VALUE  0 \r\n".len() + self.workload.key_bytes,
            Protocol::Meta if self.workload.batch == 1 => "VA \r\n".len(),
            Protocol::Meta => "VA  k\r\n".len() + self.workload.key_bytes,
        };
        head + digits + bytes + "\r\n".len()
    }
}

/// The endless sequence of one connection's requests.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    pub(crate) wire: Wire,
    workload: Workload,
    picker: Picker,
    rng: Rng,
    /// This connection's number, and the number of connections.
    lane: (u64, u64),
    inserted: u64,
    sequence: u64,
    numbers: Vec<u64>,
}

impl Requests {
    /// The requests of connection `lane.0` of `lane.1`; equal seeds give equal requests.
    pub(crate) fn new(workload: &Workload, lane: (usize, usize), seed: u64) -> Self {
        let lane = (lane.0 as u64, lane.1 as u64);
        Self {
            wire: Wire::new(workload),
            workload: *workload,
            picker: Picker::new(workload),
            rng: Rng::new(mix(seed ^ mix(lane.0))),
            lane,
            inserted: 0,
            // Sequences of different runs and connections differ, so that a value torn between their
            // writes is detected; zero is the preload's.
            sequence: mix(seed ^ mix(lane.0 + 1)) & !u64::from(u32::MAX),
            numbers: Vec::with_capacity(workload.batch),
        }
    }

    /// Appends the requests of one pipeline, all sent at `at_ns`.
    pub(crate) fn append_batch(&mut self, out: &mut Vec<u8>, asked: &mut Asked, at_ns: u64) {
        let depth = asked.requests.len() + self.workload.pipeline;
        while asked.requests.len() < depth {
            self.append(out, asked, at_ns);
        }
    }

    /// Appends one operation: one request, or two for a read-modify-write.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>, asked: &mut Asked, at_ns: u64) {
        let operation = self.workload.mix.draw(&mut self.rng);
        match operation {
            Operation::Read => {
                self.numbers.clear();
                for _ in 0..self.workload.batch {
                    let number = self.pick();
                    self.numbers.push(number);
                }
                self.wire.get(out, &self.numbers);
                asked.push(Kind::Read, at_ns, &self.numbers);
            }
            Operation::Update => {
                let number = self.pick();
                self.write(out, asked, at_ns, number);
            }
            Operation::Insert => {
                let number = self.inserted_number(self.inserted);
                self.inserted += 1;
                self.write(out, asked, at_ns, number);
            }
            Operation::Modify => {
                let number = self.pick();
                self.wire.get(out, &[number]);
                asked.push(Kind::Read, at_ns, &[number]);
                self.write(out, asked, at_ns, number);
            }
        }
    }

    /// The kinds of the next operation's requests, of one that isn't sent any more.
    pub(crate) fn next_kinds(&mut self) -> &'static [Kind] {
        match self.workload.mix.draw(&mut self.rng) {
            Operation::Read => &[Kind::Read],
            Operation::Update | Operation::Insert => &[Kind::Write],
            Operation::Modify => &[Kind::Read, Kind::Write],
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, asked: &mut Asked, at_ns: u64, number: u64) {
        self.sequence += 1;
        self.wire.set(out, number, self.sequence, false);
        asked.push(Kind::Write, at_ns, &[number]);
    }

    fn pick(&mut self) -> u64 {
        match self.picker.pick(&mut self.rng) {
            Pick::Item(number) => number,
            Pick::FromNewest(age) if age < self.inserted => {
                self.inserted_number(self.inserted - 1 - age)
            }
            Pick::FromNewest(age) => (self.workload.keys - 1).saturating_sub(age - self.inserted),
        }
    }

    fn inserted_number(&self, nth: u64) -> u64 {
        self.workload.keys + nth * self.lane.1 + self.lane.0
    }
}
