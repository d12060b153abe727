//! Writes: what a client asks for, and the unconditional effect that the head makes of it.
//!
//! A write whose condition fails becomes an effect without a change. It takes its number and goes through the chain as the
//! others do, because its answer may depend on an effect that the next view doesn't have, and a deposed head must not
//! answer it.

use std::collections::BTreeMap;

/// A client's number and the number that it gave the write: equal for each repetition.
pub type WriteId = (u32, u64);

/// The order of a change: epoch of the slot when it was made, and its number in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Version {
    /// The slot's epoch.
    pub epoch: u64,
    /// One more with each effect of the slot. It is the cas unique that clients see.
    pub seq: u64,
}

/// What a store has of a key. A delete leaves no value and its version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Stand {
    /// The value, or that there is none.
    pub value: Option<Vec<u8>>,
    /// What made it so.
    pub version: Version,
}

/// The store's content of one slot: the newest, committed or not.
pub trait Contents {
    /// What is there of a key.
    fn get(&self, key: &[u8]) -> Option<Stand>;
    /// All of it, deleted keys too.
    fn all(&self) -> Vec<(Vec<u8>, Stand)>;
    /// Decides a [`WriteKind::Command`], which is to have the number `seq`, given what is there of its key. Only a slot's
    /// head asks: what it says is what all copies do.
    fn decide(&self, now: Option<&Stand>, command: &[u8], seq: u64) -> Decision;
}

/// What a client wants to do with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteKind {
    /// Stores.
    Set(Vec<u8>),
    /// Stores if there is no value.
    Add(Vec<u8>),
    /// Stores if the value is the one with this unique.
    Cas(u64, Vec<u8>),
    /// Adds to a decimal number.
    Incr(u64),
    /// Adds bytes behind the value.
    Append(Vec<u8>),
    /// Deletes.
    Delete,
    /// What the store's owner understands: see [`Contents::decide`].
    Command(Vec<u8>),
}

/// What a write does, the value from now on, no value, or (`None`) no change at all; and its answer.
pub type Decision = (Option<Option<Vec<u8>>>, WriteVerdict);

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteVerdict {
    /// Done; the cas unique of what is there now.
    Done(u64),
    /// The number that incr made, and its cas unique.
    Number(u64, u64),
    /// The condition failed: there is no value.
    Missing,
    /// The condition failed: another value is there, or one at all.
    Conflict,
    /// Not a number.
    NotANumber,
    /// What became of a [`WriteKind::Command`], as the store's owner says it.
    Said(Vec<u8>),
}

/// One write as the members carry it out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Effect {
    /// Its place.
    pub version: Version,
    /// Whose it is.
    pub id: WriteId,
    /// The key.
    pub key: Vec<u8>,
    /// The value from now on, no value, or (`None`) no change at all.
    pub change: Option<Option<Vec<u8>>>,
    /// The answer, once it is committed.
    pub verdict: WriteVerdict,
}

/// Decides `wanted` against the newest value, committed or not.
#[must_use]
pub fn decide(
    contents: &dyn Contents,
    now: Option<&Stand>,
    wanted: WriteKind,
    seq: u64,
) -> Decision {
    let value = now.and_then(|stand| stand.value.as_ref());
    let unique = now.map_or(0, |stand| stand.version.seq);
    match (wanted, value) {
        (WriteKind::Command(command), _) => contents.decide(now, &command, seq),
        (WriteKind::Set(new), _) | (WriteKind::Add(new), None) => {
            (Some(Some(new)), WriteVerdict::Done(seq))
        }
        (WriteKind::Delete, Some(_)) => (Some(None), WriteVerdict::Done(seq)),
        (WriteKind::Cas(expected, new), Some(_)) if expected == unique => {
            (Some(Some(new)), WriteVerdict::Done(seq))
        }
        (WriteKind::Add(_) | WriteKind::Cas(..), Some(_)) => (None, WriteVerdict::Conflict),
        (WriteKind::Append(more), Some(value)) => {
            (Some(Some([&value[..], &more].concat())), WriteVerdict::Done(seq))
        }
        (WriteKind::Incr(by), Some(value)) => {
            let number = str::from_utf8(value).ok().and_then(|it| it.parse::<u64>().ok());
            let Some(sum) = number.map(|it| it.wrapping_add(by)) else {
                return (None, WriteVerdict::NotANumber);
            };
            (Some(Some(sum.to_string().into_bytes())), WriteVerdict::Number(sum, seq))
        }
        (_, None) => (None, WriteVerdict::Missing),
    }
}

/// The results of recent writes, so that a repetition gets the first one's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Results {
    /// Result and the effect's number.
    by_id: BTreeMap<WriteId, (u64, WriteVerdict)>,
    times: std::collections::VecDeque<(u64, WriteId)>,
    /// The greatest number of each client whose result was forgotten. The client that this happened to last comes last.
    forgotten: Vec<WriteId>,
}

impl Results {
    /// What [`Results::entries`] and [`Results::forgotten`] gave, possibly on another node. Until [`Results::count_from`]
    /// they count from time 0.
    #[must_use]
    pub fn from_entries(
        entries: Vec<(WriteId, u64, WriteVerdict)>,
        forgotten: Vec<WriteId>,
    ) -> Self {
        let times = entries.iter().map(|it| (0, it.0)).collect();
        let by_id = entries.into_iter().map(|it| (it.0, (it.1, it.2))).collect();
        Self { by_id, times, forgotten }
    }

    /// Each write with its number and its result, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (WriteId, u64, &WriteVerdict)> {
        let of = |(_, id): &(u64, WriteId)| self.by_id.get(id).map(|(seq, it)| (*id, *seq, it));
        self.times.iter().filter_map(of)
    }

    /// The number and the result of a write that was seen.
    #[must_use]
    pub fn get(&self, id: WriteId) -> Option<&(u64, WriteVerdict)> {
        self.by_id.get(&id)
    }

    /// The greatest number of each client whose result was forgotten.
    #[must_use]
    pub fn forgotten(&self) -> &[WriteId] {
        &self.forgotten
    }

    /// Whether the write may be one whose result was forgotten. A client's numbers rise, so one that is no greater is older
    /// than half a minute: a node that hung, or a network, may have kept it for so long.
    #[must_use]
    pub fn is_forgotten(&self, (client, number): WriteId) -> bool {
        self.forgotten.iter().any(|it| it.0 == client && number <= it.1)
    }

    /// Counts all results from `now`: they came from a node with another clock.
    pub fn count_from(&mut self, now: u64) {
        self.times.iter_mut().for_each(|(at, _)| *at = now);
    }

    /// Keeps an effect's result, and forgets those that are older than half a minute.
    pub fn keep(&mut self, effect: &Effect, now: u64) {
        self.by_id.insert(effect.id, (effect.version.seq, effect.verdict.clone()));
        self.times.push_back((now, effect.id));
        while let Some((_, id)) = self.times.pop_front_if(|(at, _)| *at + KEPT < now) {
            self.by_id.remove(&id);
            self.forget(id);
        }
    }

    fn forget(&mut self, (client, number): WriteId) {
        let at = self.forgotten.iter().position(|it| it.0 == client);
        let before = at.map_or(0, |at| self.forgotten.remove(at).1);
        self.forgotten.push((client, number.max(before)));
        if self.forgotten.len() > CLIENTS_MAX {
            self.forgotten.remove(0);
        }
    }
}

/// Of how many clients a slot knows what was forgotten.
const CLIENTS_MAX: usize = 128;

/// How long a result is kept, in microseconds. A client repeats a write within [`REPEATED`].
const KEPT: u64 = 30_000_000;

/// How long a client may repeat a write, in microseconds.
pub const REPEATED: u64 = 10_000_000;
