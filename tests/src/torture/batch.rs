//! One pipeline of requests: its bytes, and what each answer is judged against.

use super::ledger::{Bound, Place, Sort};
use super::random::Random;
use super::{Shared, value};
use std::fmt::Write as _;

/// A request whose answer is awaited.
#[derive(Debug)]
pub(super) enum Awaited {
    /// `get` or `gets` of several keys.
    Get { asked: Vec<(Place, Bound)> },
    /// `mg <key> k v c O<opaque>`.
    MetaGet { place: Place, bound: Bound, opaque: u64 },
    /// A register's set, by text or meta; `seconds` until it expires, 0 for never.
    Set { place: Place, seq: u64, seconds: u64 },
    /// A register's delete.
    Delete { place: Place, seq: u64 },
    /// `add` of a counter or cell, `set` of a list.
    Create { place: Place, seq: u64 },
    /// `incr`.
    Increment { place: Place, bound: Bound },
    /// `append` of a token.
    Append { place: Place, bound: Bound, token: String },
    /// `cas` of a cell.
    Swap { place: Place, seq: u64 },
}

/// A cell as this connection saw it last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) place: Place,
    pub(super) seq: u64,
    pub(super) cas: u64,
}

/// Requests to be sent in one piece.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) awaited: Vec<Awaited>,
}

/// Makes batches for one connection.
pub(super) struct Maker<'a> {
    pub(super) shared: &'a Shared,
    pub(super) me: usize,
    pub(super) random: Random,
    /// Cells seen, to be swapped in the next batch.
    pub(super) sights: Vec<Sight>,
    appends: u64,
}

impl<'a> Maker<'a> {
    pub(super) fn new(shared: &'a Shared, me: usize) -> Self {
        let random = Random::new(shared.options.seed * 1_000 + me as u64);
        Self { shared, me, random, sights: Vec::new(), appends: 0 }
    }

    /// The next batch, ended by a no-op.
    pub(super) fn batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        for sight in std::mem::take(&mut self.sights) {
            self.swap(&mut batch, sight);
        }
        let depth = 1 + self.random.below(self.shared.options.depth);
        for _ in 0..depth {
            if batch.bytes.len() > BYTES_MAX {
                break;
            }
            match self.random.below(100) {
                0..30 => self.get(&mut batch),
                30..40 => self.meta_get(&mut batch),
                40..60 => self.set(&mut batch),
                60..66 => self.delete(&mut batch),
                66..72 => self.create(&mut batch),
                72..85 => self.increment(&mut batch),
                _ => self.append(&mut batch),
            }
        }
        batch.bytes.extend_from_slice(b"mn\r\n");
        batch
    }

    fn get(&mut self, batch: &mut Batch) {
        let count = if self.random.one_in(3) { 1 + self.random.below(20) } else { 1 };
        let now = self.shared.now_ms();
        let mut asked: Vec<(Place, Bound)> = Vec::new();
        for _ in 0..count {
            let place = self.any_place();
            if asked.iter().all(|(other, _)| *other != place) {
                asked.push((place, self.shared.ledger.mark(place).bound(now)));
            }
        }
        batch.bytes.extend_from_slice(b"gets");
        for (place, _) in &asked {
            batch.bytes.extend_from_slice(format!(" {}", place.key()).as_bytes());
        }
        batch.bytes.extend_from_slice(b"\r\n");
        batch.awaited.push(Awaited::Get { asked });
    }

    fn meta_get(&mut self, batch: &mut Batch) {
        let place = self.any_place();
        let bound = self.shared.ledger.mark(place).bound(self.shared.now_ms());
        let opaque = self.random.next() >> 32;
        batch.line(&format!("mg {} k v c O{opaque}", place.key()));
        batch.awaited.push(Awaited::MetaGet { place, bound, opaque });
    }

    fn set(&mut self, batch: &mut Batch) {
        let place = self.own_register();
        let seq = self.shared.ledger.mark(place).issue();
        let seconds = if self.random.one_in(20) { 1 } else { 0 };
        let value = value::encode(&place.key(), seq, self.length());
        let key = place.key();
        match self.random.below(10) {
            0 => {
                batch.line(&format!("set {key} {seq} {seconds} {} noreply", value.len()));
                batch.body(&value);
            }
            1..4 => {
                batch.line(&format!("ms {key} {} T{seconds}", value.len()));
                batch.body(&value);
                batch.awaited.push(Awaited::Set { place, seq, seconds });
            }
            _ => {
                let flags = seq & 0xffff;
                batch.line(&format!("set {key} {flags} {seconds} {}", value.len()));
                batch.body(&value);
                batch.awaited.push(Awaited::Set { place, seq, seconds });
            }
        }
    }

    fn delete(&mut self, batch: &mut Batch) {
        let place = self.own_register();
        let seq = self.shared.ledger.mark(place).issue();
        batch.line(&format!("delete {}", place.key()));
        batch.awaited.push(Awaited::Delete { place, seq });
    }

    /// The owner makes a counter, list or cell; only it does, so that incarnations have an order.
    fn create(&mut self, batch: &mut Batch) {
        let sort = match self.random.below(10) {
            0 => Sort::List,
            1..5 => Sort::Cell,
            _ => Sort::Counter,
        };
        let number = self.random.below(self.shared.options.shared);
        let place = self.shared.ledger.place(sort, self.me, number);
        let mark = self.shared.ledger.mark(place);
        let key = place.key();
        let (verb, seq, body) = match sort {
            Sort::List => {
                let epoch = mark.issue();
                ("set", epoch, format!("{epoch};").into_bytes())
            }
            Sort::Cell => {
                let seq = next_epoch(mark.issued());
                mark.issue_at_least(seq);
                ("add", seq, value::encode(&key, seq, self.length().min(1_000)))
            }
            _ => {
                let seq = next_epoch(mark.issued());
                mark.issue_at_least(seq | 0xffff_ffff);
                ("add", seq, seq.to_string().into_bytes())
            }
        };
        batch.line(&format!("{verb} {key} 0 0 {}", body.len()));
        batch.body(&body);
        batch.awaited.push(Awaited::Create { place, seq });
    }

    fn increment(&mut self, batch: &mut Batch) {
        let place = self.anyones(Sort::Counter);
        let bound = self.shared.ledger.mark(place).bound(self.shared.now_ms());
        batch.line(&format!("incr {} 1", place.key()));
        batch.awaited.push(Awaited::Increment { place, bound });
    }

    fn append(&mut self, batch: &mut Batch) {
        let place = self.anyones(Sort::List);
        let bound = self.shared.ledger.mark(place).bound(self.shared.now_ms());
        self.appends += 1;
        let token = format!("{}.{}", self.me, self.appends);
        batch.line(&format!("append {} 0 0 {}", place.key(), token.len() + 1));
        batch.body(format!("{token};").as_bytes());
        batch.awaited.push(Awaited::Append { place, bound, token });
    }

    fn swap(&mut self, batch: &mut Batch, sight: Sight) {
        let Sight { place, seq, cas } = sight;
        let next = seq + 1;
        self.shared.ledger.mark(place).issue_at_least(next);
        let value = value::encode(&place.key(), next, self.length().min(1_000));
        batch.line(&format!("cas {} 0 0 {} {cas}", place.key(), value.len()));
        batch.body(&value);
        batch.awaited.push(Awaited::Swap { place, seq: next });
    }

    /// Half of the registers asked for are few and hot, the others fill the cache.
    fn register_number(&mut self) -> usize {
        let hot = self.random.one_in(2);
        let count = self.shared.options.registers;
        self.random.below(if hot { count.min(10) } else { count })
    }

    fn own_register(&mut self) -> Place {
        let number = self.register_number();
        self.shared.ledger.place(Sort::Register, self.me, number)
    }

    fn anyones(&mut self, sort: Sort) -> Place {
        let owner = self.random.below(self.shared.options.connections);
        let number = match sort {
            Sort::Register => self.register_number(),
            _ => self.random.below(self.shared.options.shared),
        };
        self.shared.ledger.place(sort, owner, number)
    }

    fn any_place(&mut self) -> Place {
        let sort = match self.random.below(10) {
            0 => Sort::Counter,
            1 => Sort::List,
            2 | 3 => Sort::Cell,
            _ => Sort::Register,
        };
        self.anyones(sort)
    }

    /// A length: as many below 100 bytes as above 1,000.
    fn length(&mut self) -> usize {
        let most = self.shared.options.value_bytes_max;
        let limit = [100, 1_000, most][self.random.below(3)];
        self.random.below(limit.min(most))
    }
}

impl Batch {
    fn line(&mut self, line: &str) {
        let mut text = String::with_capacity(line.len() + 2);
        write!(text, "{line}\r\n").expect("a string takes all");
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn body(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Bytes after which a batch is long enough: less than a socket's buffer, so that sending never waits for
/// a server that waits for us to read.
const BYTES_MAX: usize = 48 * 1024;

/// Counters and cells number their incarnations in the upper half, their steps in the lower.
fn next_epoch(issued: u64) -> u64 {
    ((issued >> 32) + 1) << 32
}
