//! A small server that lies in one chosen way, to prove that the checker sees it.
//!
//! One map under one lock, a thread a connection, only the commands that the checker sends. Without a
//! fault it is correct, and the checker must find nothing.
//!
//! # Invariants
//! 1. A fault happens once in a few hundred occasions, so that most answers are right.

use super::random::Random;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the server is correct.
    None,
    /// A read gets half of the new value and half of the old.
    Torn,
    /// A read gets one bit turned.
    Bitflip,
    /// A read gets another key's value.
    WrongKey,
    /// A read is answered under another key's name.
    SwappedReply,
    /// A read gets one byte less, and a length that says so.
    ShortLength,
    /// A store isn't answered.
    DroppedReply,
    /// A read gets the value before the last.
    StaleRead,
    /// A set is acknowledged and not done.
    LostSet,
    /// A delete is acknowledged and not done.
    LostDelete,
    /// A cas stores whatever the number is.
    LostCas,
    /// An incr answers and doesn't store.
    LostIncrement,
    /// An append is acknowledged and not done.
    LostAppend,
    /// An append is done twice.
    DoubleAppend,
    /// A read finds nothing though the item is there, and stays.
    Resurrected,
    /// Items never expire.
    Expired,
}

/// Serves on a unix socket at `path` from threads of its own, until the process ends.
///
/// # Panics
/// If it cannot listen there.
pub fn serve(path: &Path, fault: Fault) {
    let listener = UnixListener::bind(path).expect("a socket's path");
    let map = Arc::new(Mutex::new(Map::default()));
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let map = Arc::clone(&map);
            let random = Random::new(number as u64);
            thread::spawn(move || {
                Session { map, fault, random, out: Vec::new() }.run(&stream).ok()
            });
        }
    });
}

#[derive(Debug)]
struct Item {
    flags: String,
    value: Vec<u8>,
    before: Vec<u8>,
    cas: u64,
    expires: Option<Instant>,
}

#[derive(Debug, Default)]
struct Map {
    items: HashMap<String, Item>,
    cas: u64,
}

impl Map {
    fn live(&mut self, key: &str, fault: Fault) -> Option<&mut Item> {
        let expired = self.items.get(key)?.expires.is_some_and(|at| at <= super::now());
        if expired && fault != Fault::Expired {
            self.items.remove(key);
        }
        self.items.get_mut(key)
    }

    fn store(&mut self, key: &str, flags: &str, seconds: u64, value: Vec<u8>) {
        self.cas += 1;
        let before = self.items.remove(key).map_or_else(|| value.clone(), |item| item.value);
        let expires = (seconds > 0).then(|| super::now() + Duration::from_secs(seconds));
        let item = Item { flags: flags.into(), value, before, cas: self.cas, expires };
        self.items.insert(key.into(), item);
    }
}

struct Session {
    map: Arc<Mutex<Map>>,
    fault: Fault,
    random: Random,
    out: Vec<u8>,
}

impl Session {
    fn run(mut self, stream: &UnixStream) -> io::Result<()> {
        let mut input = BufReader::new(stream);
        let mut output = stream;
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["mn"] => self.say("MN"),
                ["gets", ..] => self.gets(&words[1..]),
                ["mg", key, .., opaque] => self.meta_get(key, opaque),
                ["delete", key] => self.delete(key),
                ["incr", key, _] => self.increment(key),
                ["ms", key, bytes, time] => {
                    let value = body(&mut input, bytes)?;
                    self.store("ms", key, ["0", &time[1..]], value);
                }
                [verb, key, flags, time, bytes, ref more @ ..] => {
                    let value = body(&mut input, bytes)?;
                    match (verb, more) {
                        ("cas", [cas]) => self.swap(key, flags, value, cas),
                        ("set", ["noreply"]) => self.store("noreply", key, [flags, time], value),
                        _ => self.store(verb, key, [flags, time], value),
                    }
                }
                _ => self.say("ERROR"),
            }
            if input.buffer().is_empty() {
                output.write_all(&std::mem::take(&mut self.out))?;
            }
            line.clear();
        }
        Ok(())
    }

    /// Whether this occasion is one for the planted fault.
    fn lies(&mut self, fault: Fault) -> bool {
        self.fault == fault && self.random.one_in(200)
    }

    fn say(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn gets(&mut self, keys: &[&str]) {
        for key in keys {
            if let Some((flags, value, cas)) = self.look(key) {
                let other = if self.lies(Fault::SwappedReply) { "r0.0x" } else { key };
                self.say(&format!("VALUE {other} {flags} {} {cas}", value.len()));
                self.out.extend_from_slice(&value);
                self.say("");
            }
        }
        self.say("END");
    }

    fn meta_get(&mut self, key: &str, opaque: &str) {
        match self.look(key) {
            Some((_, value, cas)) => {
                self.say(&format!("VA {} k{key} c{cas} {opaque}", value.len()));
                self.out.extend_from_slice(&value);
                self.say("");
            }
            None => self.say(&format!("EN k{key} {opaque}")),
        }
    }

    /// What a read gets: flags, value, cas.
    fn look(&mut self, key: &str) -> Option<(String, Vec<u8>, u64)> {
        let lies = self.random.one_in(200);
        let at = self.random.below(1 << 20);
        let fault = self.fault;
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if lies && fault == Fault::WrongKey {
            let other = map.items.values().nth(at % map.items.len().max(1))?;
            return Some((other.flags.clone(), other.value.clone(), other.cas));
        }
        let item = map.live(key, fault)?;
        let mut value = item.value.clone();
        match fault {
            Fault::Torn if lies => {
                let half = item.before.len().min(value.len()) / 2;
                value[..half].copy_from_slice(&item.before[..half]);
            }
            Fault::Bitflip if lies && !value.is_empty() => {
                let at = at % value.len();
                value[at] ^= 1 << (at % 8);
            }
            Fault::ShortLength if lies => {
                value.pop();
            }
            Fault::StaleRead if lies => value.clone_from(&item.before),
            Fault::Resurrected if lies => return None,
            _ => {}
        }
        Some((item.flags.clone(), value, item.cas))
    }

    fn store(&mut self, verb: &str, key: &str, [flags, time]: [&str; 2], value: Vec<u8>) {
        let fault = self.fault;
        let lost = match verb {
            "append" => self.lies(Fault::LostAppend),
            _ => verb != "add" && self.lies(Fault::LostSet),
        };
        let twice = verb == "append" && self.lies(Fault::DoubleAppend);
        let evict = self.random.one_in(100);
        let stored = {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            if evict {
                let any = map.items.keys().next().cloned();
                any.and_then(|key| map.items.remove(&key));
            }
            let there = map.live(key, fault).map(|item| (item.flags.clone(), item.value.clone()));
            match (verb, there) {
                ("add", Some(_)) | ("append", None) => false,
                ("append", Some((old_flags, mut old))) => {
                    for _ in 0..if lost { 0 } else { 1 + usize::from(twice) } {
                        old.extend_from_slice(&value);
                    }
                    map.store(key, &old_flags, 0, old);
                    true
                }
                _ => {
                    if !lost {
                        map.store(key, flags, time.parse().unwrap_or(0), value);
                    }
                    true
                }
            }
        };
        let dropped = self.lies(Fault::DroppedReply);
        match verb {
            _ if dropped => {}
            "noreply" => {}
            "ms" => self.say("HD"),
            _ => self.say(if stored { "STORED" } else { "NOT_STORED" }),
        }
    }

    fn swap(&mut self, key: &str, flags: &str, value: Vec<u8>, cas: &str) {
        let lies = self.fault == Fault::LostCas;
        let answer = {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            match map.live(key, self.fault).map(|item| item.cas.to_string() == cas) {
                None => "NOT_FOUND",
                Some(same) if same || lies => {
                    map.store(key, flags, 0, value);
                    "STORED"
                }
                Some(_) => "EXISTS",
            }
        };
        self.say(answer);
    }

    fn delete(&mut self, key: &str) {
        let lost = self.lies(Fault::LostDelete);
        let found = {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            let found = map.live(key, self.fault).is_some();
            if !lost {
                map.items.remove(key);
            }
            found
        };
        self.say(if found { "DELETED" } else { "NOT_FOUND" });
    }

    fn increment(&mut self, key: &str) {
        let lost = self.lies(Fault::LostIncrement);
        let answer = {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            let number = map.live(key, self.fault).map(|item| {
                let old: u64 = String::from_utf8_lossy(&item.value).trim_end().parse().unwrap_or(0);
                (item.flags.clone(), old + 1)
            });
            match number {
                None => "NOT_FOUND".to_owned(),
                Some((flags, number)) => {
                    if !lost {
                        map.store(key, &flags, 0, number.to_string().into_bytes());
                    }
                    number.to_string()
                }
            }
        };
        self.say(&answer);
    }
}

/// A value of `bytes` bytes and its line end.
fn body(input: &mut impl Read, bytes: &str) -> io::Result<Vec<u8>> {
    let bytes: usize = bytes.parse().map_err(io::Error::other)?;
    let mut value = vec![0; bytes + 2];
    input.read_exact(&mut value)?;
    value.truncate(bytes);
    Ok(value)
}
