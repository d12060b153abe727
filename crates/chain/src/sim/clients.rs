//! Clients: each has one operation at a time, and repeats it until it gets an answer, a write with the same number.
//!
//! In some worlds they keep values by holds, as a router's hot cache does. A read of a kept value is an operation of no
//! length. There, a read that is repeated has another number.

use super::register::{Asked, Operation};
use super::world::{Happening, World};
use crate::promises::kept_until;
use crate::slot::{ClientId, REPEATED, SlotEvent, Told, WriteKind, WriteVerdict};
use crate::view::Group;
use std::collections::BTreeMap;

/// The number of keys in use at a time, and for how long. Short histories are fast to check. One more key is always in
/// use.
const KEYS: u64 = 3;
const KEYS_LAST: u64 = 2_000_000;
const LASTING: usize = 0;

pub(super) struct Client {
    group: Group,
    number: u64,
    /// The number of the first attempt of the operation under way.
    first_number: u64,
    key: usize,
    is_busy: bool,
    is_repeated: bool,
    tries: u64,
    unique: u64,
    now: Operation,
    /// Its clock's rate, in thousandths.
    rate: u64,
    stopped_until: u64,
    /// The hold that came for the read under way: the attempt's number, and when it ends by the client's clock.
    held: Option<(u64, u64)>,
    /// The answers that it keeps, and until when.
    kept: BTreeMap<usize, (Told, u64)>,
}

impl Client {
    fn clock(&self, now: u64) -> u64 {
        now * self.rate / 1000
    }

    /// Whether this is the number of an attempt of the operation under way.
    fn waits_for(&self, number: u64) -> bool {
        self.is_busy && (self.first_number..=self.number).contains(&number)
    }
}

impl World {
    pub(super) fn add_clients(&mut self, count: ClientId) {
        self.histories = vec![Vec::new(); 18];
        for client in 0..count {
            self.add_client();
            self.at(1_100_000, Happening::Begin(client));
        }
    }

    fn add_client(&mut self) {
        let now = Operation { begun: 0, ended: 0, asked: Asked::Read, told: None };
        let group = self.group().clone();
        let rate = self.luck.of(991..1010);
        self.clients.push(Client {
            group,
            number: 0,
            first_number: 0,
            key: 0,
            is_busy: false,
            is_repeated: false,
            tries: 0,
            unique: 0,
            now,
            rate,
            stopped_until: 0,
            held: None,
            kept: BTreeMap::new(),
        });
    }

    pub(super) fn begin(&mut self, id: ClientId) {
        let fresh = self.now / KEYS_LAST * KEYS + 1 + self.random.of(0..KEYS);
        let key = if self.random.percent(25) { LASTING } else { usize::try_from(fresh).unwrap() };
        if self.is_calm {
            return;
        }
        let open = self.histories[key].iter().filter(|it| it.told.is_none()).count();
        if self.weather.are_kept && self.luck.percent(self.weather.freezes) {
            self.clients[id as usize].stopped_until = self.now + self.luck.of(100_000..2_500_000);
        }
        if self.histories[key].len() > 80 || open > 6 {
            self.at(50_000, Happening::Begin(id));
            return;
        }
        let fresh = self.random.next() % 1_000_000;
        let unique = self.clients[id as usize].unique;
        let new = fresh.to_string().into_bytes();
        // The first client only reads, so it learns of new views only from readers.
        let only_reads = id == 0 || self.now < self.weather.first_write;
        let chance = if only_reads { 0 } else { self.random.of(0..12) };
        let asked = match chance {
            0..=4 => Asked::Read,
            5 => Asked::Write(WriteKind::Add(new)),
            6 => Asked::Write(WriteKind::Cas(unique, new)),
            7 => Asked::Write(WriteKind::Incr(fresh % 10 + 1)),
            8 => {
                let more = (fresh % 10).to_string().into_bytes();
                let is_own = fresh % 20 < 10;
                let wanted = if is_own { WriteKind::Command } else { WriteKind::Append };
                Asked::Write(wanted(more))
            }
            9 => Asked::Write(WriteKind::Delete),
            _ => Asked::Write(WriteKind::Set(new)),
        };
        if asked != Asked::Read || !self.read_kept(id, key) {
            self.start(id, key, asked);
        }
    }

    /// Answers a read from what the client keeps. Returns whether it could.
    fn read_kept(&mut self, id: ClientId, key: usize) -> bool {
        let (now, client) = (self.now, &mut self.clients[id as usize]);
        let clock = client.clock(now);
        client.kept.retain(|_, (_, until)| clock < *until);
        // Some reads go to the cluster, so that clients learn of new views and renew their holds.
        let Some((told, _)) = client.kept.get(&key).filter(|_| self.luck.percent(75)) else {
            return false;
        };
        if let Told::Read(Some((_, unique))) = told {
            client.unique = *unique;
        }
        let told = Some(told.clone());
        self.histories[key].push(Operation { begun: now, ended: now, asked: Asked::Read, told });
        let delay = self.luck.of(1_000..100_000);
        self.at(delay, Happening::Begin(id));
        true
    }

    /// Takes a hold, or a request to drop a value.
    pub(super) fn keep(&mut self, what: Happening) {
        match what {
            Happening::Hold(id, number, term) => {
                let (now, client) = (self.now, &mut self.clients[id as usize]);
                if client.waits_for(number) {
                    let asked = client.clock(client.now.begun);
                    client.held = Some((number, kept_until(asked, client.clock(now), term)));
                }
            }
            Happening::Invalidate(from, node, id, key) => {
                let client = &mut self.clients[from as usize];
                let dropped = usize::from(key[0] - b'a');
                client.kept.remove(&dropped);
                client.held.take_if(|(number, _)| client.key == dropped && *number <= id);
                let told = SlotEvent::Invalidated { from, id, key };
                self.send(100 + from, node, Happening::Client(node, told));
            }
            _ => {}
        }
    }

    /// Returns for how long the client that handles this stands still.
    pub(super) fn is_stopped(&self, what: &Happening) -> Option<u64> {
        let client = &self.clients[what.client()? as usize];
        client.stopped_until.checked_sub(self.now).filter(|rest| *rest > 0)
    }

    /// Begins an operation.
    fn start(&mut self, id: ClientId, key: usize, asked: Asked) {
        let begun = self.now;
        let client = &mut self.clients[id as usize];
        client.number += 1;
        client.first_number = client.number;
        (client.key, client.is_busy, client.is_repeated, client.tries) = (key, true, false, 0);
        client.held = None;
        client.now = Operation { begun, ended: u64::MAX, asked, told: None };
        self.ask(id);
    }

    fn ask(&mut self, id: ClientId) {
        let client = &mut self.clients[id as usize];
        client.tries += 1;
        if self.weather.are_kept && client.tries > 1 && client.now.asked == Asked::Read {
            client.number += 1;
        }
        let (tries, number) = (client.tries, client.number);
        let key = vec![b'a' + u8::try_from(client.key).unwrap()];
        let (epoch, holds) = (client.group.epoch, self.weather.are_kept);
        let (to, event) = match client.now.asked.clone() {
            Asked::Read => {
                let read = SlotEvent::Read { from: id, epoch, id: number, key, holds };
                (client.group.reader(), read)
            }
            Asked::Write(wanted) => {
                let is_repeated = std::mem::replace(&mut client.is_repeated, true);
                let id = (id, number);
                (
                    client.group.head(),
                    SlotEvent::Write { from: id.0, epoch, id, is_repeated, key, wanted },
                )
            }
        };
        let mut to = to.unwrap_or(1);
        if let (SlotEvent::Read { .. }, Some(joiner)) =
            (&event, client.group.joining.first().copied())
            && self.random.percent(20)
        {
            // Clients make mistakes: a node that doesn't serve must refuse.
            to = joiner;
        }
        self.send(100 + id, to, Happening::Client(to, event));
        self.at(400_000, Happening::Retry(id, number, tries));
    }

    /// Makes the next attempt, if the operation still waits after `tries` attempts.
    pub(super) fn retry(&mut self, id: ClientId, number: u64, tries: u64) {
        let now = self.now;
        let client = &self.clients[id as usize];
        if !client.is_busy || client.number != number || client.tries != tries {
            return;
        }
        if now > client.now.begun + REPEATED {
            self.end(id, None);
            return;
        }
        // A read notices a new view later than a write does.
        let chance =
            if matches!(self.clients[id as usize].now.asked, Asked::Read) { 50 } else { 80 };
        if self.random.percent(chance) {
            self.clients[id as usize].group = self.group().clone();
        }
        self.ask(id);
    }

    pub(super) fn answer(&mut self, id: ClientId, number: u64, told: Told) {
        let client = &mut self.clients[id as usize];
        if !client.waits_for(number) {
            return;
        }
        match told {
            Told::Stale | Told::Busy | Told::Refused => {
                let (number, tries) = (client.number, client.tries);
                self.at(60_000, Happening::Retry(id, number, tries));
            }
            Told::Unknown => self.end(id, None),
            Told::Wrote(_) | Told::Read(_) => {
                if let Told::Read(Some((_, unique))) = &told {
                    client.unique = *unique;
                }
                let held = client.held.filter(|(of, _)| *of == number);
                if let (Told::Read(_), Some((_, until))) = (&told, held) {
                    client.kept.insert(client.key, (told.clone(), until));
                }
                self.end(id, Some(told));
            }
        }
    }

    fn end(&mut self, id: ClientId, told: Option<Told>) {
        let now = self.now;
        let client = &mut self.clients[id as usize];
        client.is_busy = false;
        (client.now.told, client.now.ended) = (told.map(understood), now);
        if client.now.asked != Asked::Read || client.now.told.is_some() {
            self.histories[client.key].push(client.now.clone());
        }
        let delay = self.random.of(1_000..100_000);
        self.at(delay, Happening::Begin(id));
    }

    /// The number of operations under way.
    pub(super) fn busy(&self) -> usize {
        self.clients.iter().filter(|it| it.is_busy).count()
    }

    /// Begins the `nth` of the last rounds. Round 0 reads each key that was used, 1 stores to the keys in use, 2 reads
    /// them. Returns whether there is such a round.
    pub(super) fn begin_last(&mut self, nth: u32) -> bool {
        let keys: Vec<usize> = match nth {
            0 => (0..self.histories.len()).filter(|key| !self.histories[*key].is_empty()).collect(),
            1 | 2 => vec![LASTING, self.histories.len() - 1],
            _ => Vec::new(),
        };
        while self.clients.len() < keys.len() {
            self.add_client();
        }
        for (id, key) in (0..).zip(&keys) {
            let group = self.group().clone();
            self.clients[id as usize].group = group;
            let asked = match nth {
                1 => Asked::Write(WriteKind::Set(b"last".to_vec())),
                _ => Asked::Read,
            };
            self.start(id, *key, asked);
        }
        !keys.is_empty()
    }

    /// Records writes that are still under way: their outcome is unknown.
    pub(super) fn end_all(&mut self) {
        for client in self.clients.iter().filter(|it| it.is_busy && it.now.asked != Asked::Read) {
            self.histories[client.key].push(client.now.clone());
        }
    }
}

/// Converts an answer of `Disk`'s only command to that of an ordinary write.
fn understood(told: Told) -> Told {
    let Told::Wrote(WriteVerdict::Said(said)) = &told else { return told };
    let unique = said[..].try_into().map_or(0, u64::from_le_bytes);
    Told::Wrote(if unique == 0 { WriteVerdict::Missing } else { WriteVerdict::Done(unique) })
}
