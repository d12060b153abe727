//! Matches replies with requests: counts hits, misses and refusals and, with `--verify`, checks the content.
//!
//! Misses are allowed (a cache may forget) and counted. A value that no write stored is a violation: it
//! belongs to another key, has another length, or consists of two writes. It isn't checked whether a read
//! is older than an acknowledged write.

use serde::Serialize;

use crate::error::{BenchError, printable};
use crate::reply::{self, Reply};
use crate::requests::{Asked, Kind, Request};
use crate::value::{Fault, check, number_of};

/// The outcomes of the requests of a run, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Keys that were read and found.
    pub hits: u64,
    /// Keys that were read and not found.
    pub misses: u64,
    /// Writes that the server acknowledged.
    pub stored: u64,
    /// Requests that the server answered with an error or did not store.
    pub refused: u64,
    /// Values whose content was checked.
    pub checked: u64,
    /// Values of another key.
    pub wrong_key: u64,
    /// Values of another length than was stored.
    pub wrong_length: u64,
    /// Values whose bytes aren't those of one write.
    pub torn: u64,
    /// One refusal, in the server's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Counts {
    /// The number of values that no write stored.
    pub fn violations(&self) -> u64 {
        self.wrong_key + self.wrong_length + self.torn
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.stored += other.stored;
        self.refused += other.refused;
        self.checked += other.checked;
        self.wrong_key += other.wrong_key;
        self.wrong_length += other.wrong_length;
        self.torn += other.torn;
        if self.refusal.is_none() {
            self.refusal.clone_from(&other.refusal);
        }
    }
}

/// Settles every complete reply in `input` and returns the bytes used. `done` is called for each request
/// that is fully answered.
pub(crate) fn settle(
    input: &[u8],
    asked: &mut Asked,
    verify: bool,
    counts: &mut Counts,
    mut done: impl FnMut(Request),
) -> Result<usize, BenchError> {
    let mut used = 0;
    while let Some((reply, length)) = reply::first(&input[used..])? {
        let Some(&request) = asked.requests.front() else {
            return Err(BenchError::protocol(&input[used..]));
        };
        if settle_one(reply, request, asked, verify, counts)? {
            asked.pop();
            done(request);
        }
        used += length;
    }
    Ok(used)
}

/// Settles one reply to the oldest request. Returns true if it was the request's last reply.
fn settle_one(
    reply: Reply<'_>,
    request: Request,
    asked: &mut Asked,
    verify: bool,
    counts: &mut Counts,
) -> Result<bool, BenchError> {
    match (request.kind, reply) {
        (Kind::Read, Reply::Value { key, value }) => {
            let number = attribute(key, request, asked, counts);
            counts.hits += 1;
            if verify {
                counts.checked += 1;
                judge(value, number, counts);
            }
            // Only a single meta get has a reply without a key, and nothing after the value.
            Ok(key.is_none())
        }
        (Kind::Read, Reply::NoMore) => {
            counts.misses += u64::from(request.keys - asked.settled);
            Ok(true)
        }
        (Kind::Write, Reply::Stored) => {
            counts.stored += 1;
            Ok(true)
        }
        (_, Reply::Refused(line)) => {
            counts.refused += 1;
            counts.refusal.get_or_insert_with(|| printable(line));
            Ok(true)
        }
        (_, Reply::Unexpected(line)) => Err(BenchError::Refused { reply: printable(line) }),
        (_, other) => {
            Err(BenchError::Protocol { got: format!("{other:?} to a {:?}", request.kind) })
        }
    }
}

/// Returns the item that a value belongs to, if it was requested. Counts the keys before it as misses.
fn attribute(
    key: Option<&[u8]>,
    request: Request,
    asked: &mut Asked,
    counts: &mut Counts,
) -> Option<u64> {
    let settled = asked.settled;
    let open = || asked.numbers.range(settled as usize..request.keys as usize);
    let Some(key) = key else { return open().next().copied() };
    let number = number_of(key)?;
    // Servers answer in the order of the keys.
    let passed = u32::try_from(open().position(|&n| n == number)?).expect("below the keys");
    counts.misses += u64::from(passed);
    asked.settled += passed + 1;
    Some(number)
}

fn judge(value: &[u8], number: Option<u64>, counts: &mut Counts) {
    let verdict = number.map_or(Err(Fault::WrongKey), |number| check(value, number));
    match verdict {
        Ok(()) => {}
        Err(Fault::WrongKey) => counts.wrong_key += 1,
        Err(Fault::Length) => counts.wrong_length += 1,
        Err(Fault::Torn) => counts.torn += 1,
    }
}
