//! One connection of the checker: sends batches, reads the answers in step, judges them.

use super::batch::{Awaited, Batch, Maker, Sight};
use super::ledger::{Bound, Place, Sort};
use super::wire::Wire;
use super::{Kind, Report, Shared, value};
use crate::server::Address;
use std::collections::HashMap;
use std::io;

/// Why a batch's answers could not all be taken.
enum Wrong {
    /// An answer that may not be.
    Answer(Kind, String),
    /// No answer.
    Silence(io::Error),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Silence(error)
    }
}

impl From<(Kind, String)> for Wrong {
    fn from((kind, detail): (Kind, String)) -> Self {
        Self::Answer(kind, detail)
    }
}

/// Runs one connection until the time is over or a violation is found.
pub(super) fn run(shared: &Shared, address: &Address, me: usize) -> Report {
    let mut worker = Worker {
        shared,
        maker: Maker::new(shared, me),
        wire: Wire::connect(address).expect("the server accepts"),
        report: Report::default(),
        acknowledged: HashMap::new(),
    };
    while !shared.is_over() {
        if worker.maker.random.one_in(4_000) && shared.ledger.may_retire(me) {
            worker.drop_connection(address);
            continue;
        }
        let batch = worker.maker.batch();
        if let Err(wrong) = worker.exchange(batch) {
            let (kind, detail) = match wrong {
                Wrong::Answer(kind, detail) => (kind, detail),
                Wrong::Silence(error) => (Kind::Silent, error.to_string()),
            };
            shared.violation(kind, format!("connection {me}: {detail}"));
        }
    }
    worker.report
}

struct Worker<'a> {
    shared: &'a Shared,
    maker: Maker<'a>,
    wire: Wire,
    report: Report,
    /// Own stores acknowledged in this batch: what a later answer of the batch must not be older than.
    acknowledged: HashMap<String, u64>,
}

impl Worker<'_> {
    /// Sends half of a batch and goes away, for good as far as its own keys are concerned.
    fn drop_connection(&mut self, address: &Address) {
        self.maker.sights.clear();
        let batch = self.maker.batch();
        let half = self.maker.random.below(batch.bytes.len());
        self.wire.send(&batch.bytes[..half]).ok();
        self.shared.ledger.retire_keys(self.maker.me);
        self.maker.sights.clear();
        self.report.drops += 1;
        match Wire::connect(address) {
            Ok(wire) => self.wire = wire,
            Err(error) => self.shared.violation(Kind::Silent, format!("reconnecting: {error}")),
        }
    }

    fn exchange(&mut self, batch: Batch) -> Result<(), Wrong> {
        self.acknowledged.clear();
        if self.maker.random.one_in(4) {
            let cut = self.maker.random.below(batch.bytes.len());
            self.wire.send(&batch.bytes[..cut])?;
            self.wire.send(&batch.bytes[cut..])?;
        } else {
            self.wire.send(&batch.bytes)?;
        }
        for awaited in batch.awaited {
            self.report.requests += 1;
            self.answer(awaited)?;
        }
        let end = self.wire.line()?;
        if end != "MN" {
            return Err(out_of_step("mn", &end));
        }
        Ok(())
    }

    fn answer(&mut self, awaited: Awaited) -> Result<(), Wrong> {
        match awaited {
            Awaited::Get { asked } => self.answer_get(&asked),
            Awaited::MetaGet { place, bound, opaque } => self.answer_meta(place, &bound, opaque),
            Awaited::Set { place, seq, seconds } => self.answer_set(place, seq, seconds),
            Awaited::Delete { place, seq } => {
                let line = self.wire.line()?;
                match line.as_str() {
                    "DELETED" | "NOT_FOUND" => {
                        self.acknowledge(place, seq);
                        Ok(())
                    }
                    _ => Err(out_of_step("delete", &line)),
                }
            }
            Awaited::Create { place, seq } => self.answer_create(place, seq),
            Awaited::Increment { place, bound } => self.answer_increment(place, &bound),
            Awaited::Append { place, bound, token } => {
                let line = self.wire.line()?;
                match line.as_str() {
                    "STORED" => self.shared.ledger.mark(place).append(token, &bound),
                    "NOT_STORED" => {}
                    _ => self.refusal("append", &line)?,
                }
                Ok(())
            }
            Awaited::Swap { place, seq } => self.answer_swap(place, seq),
        }
    }

    fn answer_set(&mut self, place: Place, seq: u64, seconds: u64) -> Result<(), Wrong> {
        let line = self.wire.line()?;
        if line != "STORED" && line != "HD" {
            return self.refusal("set", &line);
        }
        if seconds > 0 {
            self.shared.ledger.mark(place).expires(seq, self.shared.now_ms(), seconds);
        }
        self.acknowledge(place, seq);
        Ok(())
    }

    fn answer_create(&mut self, place: Place, seq: u64) -> Result<(), Wrong> {
        let line = self.wire.line()?;
        match line.as_str() {
            "STORED" => {
                if place.sort == Sort::List {
                    self.shared.ledger.mark(place).begin_list(seq);
                }
                self.acknowledge(place, seq);
                Ok(())
            }
            "NOT_STORED" => Ok(()),
            _ => self.refusal("add", &line),
        }
    }

    fn answer_increment(&mut self, place: Place, bound: &Bound) -> Result<(), Wrong> {
        let line = self.wire.line()?;
        if line == "NOT_FOUND" {
            return Ok(());
        }
        let Ok(number) = line.parse::<u64>() else {
            return self.refusal("incr", &line);
        };
        let mark = self.shared.ledger.mark(place);
        let key = place.key();
        let bound = self.with_own(&key, *bound);
        if number <= bound.shown || !mark.take_once(number) {
            let detail = format!("{key}: incr answered {number}, {bound:?}");
            return Err(Wrong::Answer(Kind::LostIncrement, detail));
        }
        mark.judge(&key, number, &bound)?;
        self.acknowledged.insert(key, number);
        Ok(())
    }

    fn answer_swap(&mut self, place: Place, seq: u64) -> Result<(), Wrong> {
        let line = self.wire.line()?;
        match line.as_str() {
            "STORED" => {
                if !self.shared.ledger.mark(place).take_once(seq) {
                    let detail = format!("{}: step {seq} was stored twice", place.key());
                    return Err(Wrong::Answer(Kind::LostCas, detail));
                }
                self.acknowledge(place, seq);
                Ok(())
            }
            "EXISTS" | "NOT_FOUND" => Ok(()),
            _ => self.refusal("cas", &line),
        }
    }

    fn answer_get(&mut self, asked: &[(Place, Bound)]) -> Result<(), Wrong> {
        let mut open = asked.iter();
        loop {
            let line = self.wire.line()?;
            if line == "END" {
                break;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let ["VALUE", key, _, bytes, cas] = words[..] else {
                return Err(out_of_step("gets", &line));
            };
            let (Ok(bytes), Ok(cas)) = (bytes.parse::<usize>(), cas.parse::<u64>()) else {
                return Err(out_of_step("gets", &line));
            };
            let found = loop {
                let Some((place, bound)) = open.next() else {
                    return Err(out_of_step("gets: a key not asked for", &line));
                };
                if place.key() == key {
                    break (*place, *bound);
                }
                self.miss(*place, bound);
            };
            self.value(found.0, &found.1, bytes, cas)?;
        }
        for (place, bound) in open {
            self.miss(*place, bound);
        }
        Ok(())
    }

    fn answer_meta(&mut self, place: Place, bound: &Bound, opaque: u64) -> Result<(), Wrong> {
        let line = self.wire.line()?;
        let key = place.key();
        let words: Vec<&str> = line.split(' ').collect();
        let echoes = |k: &str, o: &str| {
            k.strip_prefix('k') == Some(&key) && o.strip_prefix('O') == Some(&opaque.to_string())
        };
        match words[..] {
            ["EN", k, o] if echoes(k, o) => {
                self.miss(place, bound);
                Ok(())
            }
            ["VA", bytes, k, cas, o] if echoes(k, o) => {
                match (bytes.parse(), cas.strip_prefix('c').map(str::parse)) {
                    (Ok(bytes), Some(Ok(cas))) => self.value(place, bound, bytes, cas),
                    _ => Err(out_of_step("mg", &line)),
                }
            }
            _ => Err(out_of_step(&format!("mg {key} O{opaque}"), &line)),
        }
    }

    /// Takes a value's bytes and judges them.
    fn value(&mut self, place: Place, bound: &Bound, bytes: usize, cas: u64) -> Result<(), Wrong> {
        let (bytes, ended) = self.wire.value(bytes)?;
        self.report.hits += 1;
        let key = place.key();
        if !ended {
            let detail = format!("{key}: no line end behind {}", value::show(&bytes));
            return Err(Wrong::Answer(Kind::OutOfStep, detail));
        }
        let mark = self.shared.ledger.mark(place);
        let bound = self.with_own(&key, *bound);
        match place.sort {
            Sort::Register => mark.judge(&key, value::decode(&key, &bytes)?, &bound)?,
            Sort::Cell => {
                let seq = value::decode(&key, &bytes)?;
                mark.judge(&key, seq, &bound)?;
                if self.maker.sights.len() < 4 {
                    self.maker.sights.push(Sight { place, seq, cas });
                }
            }
            Sort::Counter => {
                let text = String::from_utf8_lossy(&bytes);
                let number = text.trim_end().parse().map_err(|_| torn(&key, &bytes))?;
                mark.judge(&key, number, &bound)?;
            }
            Sort::List => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.strip_suffix(';').ok_or_else(|| torn(&key, &bytes))?;
                let mut entries = text.split(';');
                let epoch = entries.next().and_then(|e| e.parse().ok());
                let epoch = epoch.ok_or_else(|| torn(&key, &bytes))?;
                mark.judge(&key, epoch, &bound)?;
                mark.judge_list(&key, epoch, &entries.collect::<Vec<_>>(), &bound)?;
            }
        }
        Ok(())
    }

    fn miss(&mut self, place: Place, bound: &Bound) {
        self.report.misses += 1;
        self.shared.ledger.mark(place).miss(bound);
    }

    /// An own store was acknowledged: nobody may see anything older from now on.
    fn acknowledge(&mut self, place: Place, seq: u64) {
        self.shared.ledger.mark(place).show(seq);
        self.acknowledged.insert(place.key(), seq);
    }

    /// The bound of a request that followed the own stores of this batch on the same connection.
    fn with_own(&self, key: &str, bound: Bound) -> Bound {
        let own = self.acknowledged.get(key).copied().unwrap_or(0);
        Bound { shown: bound.shown.max(own), ..bound }
    }

    /// A store may be refused for want of memory, and for nothing else.
    fn refusal(&mut self, request: &str, line: &str) -> Result<(), Wrong> {
        if line.starts_with("SERVER_ERROR out of memory") {
            self.report.refusals += 1;
            return Ok(());
        }
        Err(out_of_step(request, line))
    }
}

fn out_of_step(request: &str, line: &str) -> Wrong {
    Wrong::Answer(Kind::OutOfStep, format!("{request} was answered {line:?}"))
}

fn torn(key: &str, bytes: &[u8]) -> Wrong {
    Wrong::Answer(Kind::Torn, format!("{key} holds {}", value::show(bytes)))
}
