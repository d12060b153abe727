//! A client that does one operation after the other on keys that others use too.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::history::{History, Outcome};
use super::wire::{Act, Deed, answer};
use crate::torture::random::Random;

/// Keys that are used at once. Few: then they meet.
const KEYS: usize = 4;

/// What clients do with their time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// For so long a set of keys is used. Each unknown outcome makes the check of its key longer.
    pub(super) generation: Duration,
    /// Microseconds that a client rests at most after an operation.
    pub(super) rest: usize,
}

/// Routers answer within nine seconds and a try; they may be frozen for some.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module's head.
pub(super) struct Caller<'h> {
    number: usize,
    /// Where routers listen, and which of them is asked.
    ports: Vec<u16>,
    at: usize,
    link: Option<BufReader<TcpStream>>,
    history: &'h History,
    random: Random,
    habits: Habits,
    is_meta: bool,
    /// The unique that each key was last seen with.
    uniques: BTreeMap<String, u64>,
    writes: u64,
}

impl<'h> Caller<'h> {
    pub(super) fn new(
        number: usize,
        ports: &[u16],
        history: &'h History,
        (seed, habits): (u64, Habits),
    ) -> Self {
        Self {
            number,
            at: number % ports.len(),
            ports: ports.to_vec(),
            link: None,
            history,
            random: Random::new(seed * 1000 + number as u64),
            habits,
            is_meta: number % 2 == 1,
            uniques: BTreeMap::new(),
            writes: 0,
        }
    }

    /// Does operations until it is told to end.
    pub(super) fn run(&mut self, is_over: impl Fn() -> bool) {
        while !is_over() {
            let act = self.act();
            self.perform(&act);
            if self.random.one_in(30) {
                self.move_on();
            }
            thread::sleep(Duration::from_micros(self.random.below(self.habits.rest) as u64));
        }
    }

    /// Reads a key until there is an answer, within a minute. What was acknowledged must still be there.
    pub(super) fn look(&mut self, key: &str) -> bool {
        let act = Act { op: Deed::Get, key: key.to_owned(), value: String::new(), token: 0 };
        let end = self.history.now() + 60_000_000_000;
        while self.history.now() < end {
            if self.perform(&act) {
                return true;
            }
        }
        false
    }

    /// The keys that were used until now.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let last = self.generation();
        (0..=last).flat_map(|generation| (0..KEYS).map(move |key| name(generation, key)))
    }

    fn generation(&self) -> u64 {
        Duration::from_nanos(self.history.now()).as_secs() / self.habits.generation.as_secs()
    }

    fn act(&mut self) -> Act {
        let key = name(self.generation(), self.random.below(KEYS));
        let token = self.uniques.get(&key).copied().unwrap_or_default();
        let op = match self.random.below(100) {
            0..40 => Deed::Get,
            40..58 => Deed::Set,
            58..73 if token > 0 => Deed::Cas,
            58..73 => Deed::Get,
            73..85 => Deed::Incr,
            85..92 => Deed::Append,
            _ => Deed::Delete,
        };
        self.writes += 1;
        let (me, nth) = (self.number as u64 + 1, self.writes);
        let value = match op {
            Deed::Get | Deed::Delete => String::new(),
            Deed::Incr => (1 + self.random.below(9)).to_string(),
            Deed::Append => format!("+{me}.{nth}"),
            // No two writes have one value: increments don't reach the next one.
            Deed::Set | Deed::Cas if self.random.one_in(2) => {
                (me * 1_000_000_000 + nth * 1000).to_string()
            }
            Deed::Set | Deed::Cas => format!("v{me}.{nth}"),
        };
        Act { op, key, value, token: if op == Deed::Cas { token } else { 0 } }
    }

    /// Does an operation and records it. Returns whether there was an answer.
    fn perform(&mut self, act: &Act) -> bool {
        let Some(mut link) = self.link.take().or_else(|| self.connect()) else {
            self.move_on();
            thread::sleep(Duration::from_millis(20));
            return false;
        };
        let request = act.request(self.is_meta);
        let call = self.history.now();
        let told = link.get_mut().write_all(request.as_bytes());
        let told = told.and_then(|()| answer(act.op, &mut link));
        let outcome = match told {
            Ok(Ok(answer)) => {
                if answer.unique > 0 {
                    self.uniques.insert(act.key.clone(), answer.unique);
                }
                self.link = Some(link);
                Outcome::Told(answer)
            }
            Ok(Err(words)) => {
                self.link = Some(link);
                failed(act, &words)
            }
            Err(error) => {
                let is_late =
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                let words = if is_late { "no answer in time" } else { "the router hung up" };
                Outcome::Unknown(words.to_owned())
            }
        };
        let is_told = matches!(outcome, Outcome::Told(_));
        self.history.note(self.number, act, call, outcome);
        if self.link.is_none() {
            self.move_on();
        }
        is_told
    }

    fn connect(&self) -> Option<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.ports[self.at])).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(BufReader::new(stream))
    }

    /// Asks the next router from now on.
    fn move_on(&mut self) {
        if self.ports.len() > 1 {
            self.at = (self.at + 1) % self.ports.len();
            self.link = None;
        }
    }
}

/// What an error says about the operation. What isn't known to be harmless may have happened.
fn failed(act: &Act, words: &str) -> Outcome {
    let kind = words.split(' ').map(|word| if word.contains(DIGITS) { "N" } else { word });
    let kind = kind.collect::<Vec<_>>().join(" ");
    let is_harmless = HARMLESS.iter().any(|part| words.contains(part));
    if act.is_get() || is_harmless && !words.contains("outcome unknown") {
        Outcome::Nothing(kind)
    } else {
        Outcome::Unknown(kind)
    }
}

const DIGITS: [char; 10] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

/// Errors after which nothing has changed, and nothing will.
const HARMLESS: [&str; 4] =
    [": no node answers: ", ": no head", ": fewer copies than writes need", ": no view yet: "];

fn name(generation: u64, key: usize) -> String {
    format!("key-{generation}-{key}")
}
