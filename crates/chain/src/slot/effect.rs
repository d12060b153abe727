//! Writes: what a client asks for, and the unconditional effect that the head makes of it.
//!
//! A write whose condition fails becomes an effect without a change. It takes a number and goes through the chain as
//! the others do. Its answer may depend on an effect that the next view lacks, and a deposed head must not give it.

use std::collections::BTreeMap;

/// The client's number, and the number that it gave the write. All repetitions have the same.
pub type WriteId = (u32, u64);

/// The version of a change: it orders the changes of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Version {
    /// The slot's epoch when the change was made.
    pub epoch: u64,
    /// The number of the effect: one more with each effect of the slot. Clients see it as the cas unique.
    pub seq: u64,
}

/// What a store holds for a key. After a delete only the version remains.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Stand {
    /// The value, or `None` if there is none.
    pub value: Option<Vec<u8>>,
    /// The version of the change that made it so.
    pub version: Version,
}

/// The store's content of one slot. It is the newest, committed or not.
pub trait Contents {
    /// Returns what the store holds for a key.
    fn get(&self, key: &[u8]) -> Option<Stand>;
    /// Returns all of it, including deleted keys. `None`: not now, since that takes long. The slot asks again when it is given
    /// its next event. `is_urgent`: changes wait for it.
    fn all(&self, is_urgent: bool) -> Option<Vec<(Vec<u8>, Stand)>>;
    /// Decides a [`WriteKind::Command`] that gets the number `seq`, given what the store holds for its key. Only the
    /// head of a slot calls this; all copies follow its decision.
    fn decide(&self, now: Option<&Stand>, command: &[u8], seq: u64) -> Decision;
}

/// A client's change to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteKind {
    /// Stores the value.
    Set(Vec<u8>),
    /// Stores the value if the key has none.
    Add(Vec<u8>),
    /// Stores the value if the present one has this unique.
    Cas(u64, Vec<u8>),
    /// Adds to a decimal number, modulo 2^64.
    Incr(u64),
    /// Appends bytes to the value.
    Append(Vec<u8>),
    /// Deletes the value.
    Delete,
    /// A command that only the store's owner understands: see [`Contents::decide`].
    Command(Vec<u8>),
}

/// The change that a write makes, and its answer. The change is `None` for none at all, else the new value or `None`
/// for no value.
pub type Decision = (Option<Option<Vec<u8>>>, WriteVerdict);

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteVerdict {
    /// The write was done; the cas unique of its effect.
    Done(u64),
    /// The number that incr made, and the cas unique.
    Number(u64, u64),
    /// The condition failed: there is no value.
    Missing,
    /// The condition failed: the value is another one, or there is one where none may be.
    Conflict,
    /// The value is not a number.
    NotANumber,
    /// The result of a [`WriteKind::Command`], in the form of the store's owner.
    Said(Vec<u8>),
}

/// One write in the form that all members carry out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Effect {
    /// Its place in the slot's order.
    pub version: Version,
    /// The number of the write that it came from.
    pub id: WriteId,
    /// The key.
    pub key: Vec<u8>,
    /// The change: see [`Decision`].
    pub change: Option<Option<Vec<u8>>>,
    /// The answer, once it is committed.
    pub verdict: WriteVerdict,
}

/// Decides the write `wanted` against `now`, the newest state of its key, committed or not.
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

/// The results of recent writes, so that a repetition gets the result of the first attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Results {
    /// For each write the number of its effect, and its result.
    by_id: BTreeMap<WriteId, (u64, WriteVerdict)>,
    times: std::collections::VecDeque<(u64, WriteId)>,
    /// The greatest number of each client whose result was forgotten. The client that this happened to last comes last.
    forgotten: Vec<WriteId>,
}

impl Results {
    /// Creates results from what [`Results::entries`] and [`Results::forgotten`] returned, possibly on another node. Until
    /// [`Results::count_from`] is called, their age counts from time 0.
    #[must_use]
    pub(crate) fn from_entries(
        entries: Vec<(WriteId, u64, WriteVerdict)>,
        forgotten: Vec<WriteId>,
    ) -> Self {
        let times = entries.iter().map(|it| (0, it.0)).collect();
        let by_id = entries.into_iter().map(|it| (it.0, (it.1, it.2))).collect();
        Self { by_id, times, forgotten }
    }

    /// Each write with the number of its effect and its result, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (WriteId, u64, &WriteVerdict)> {
        let of = |(_, id): &(u64, WriteId)| self.by_id.get(id).map(|(seq, it)| (*id, *seq, it));
        self.times.iter().filter_map(of)
    }

    /// The number of the effect and the result of a write that this node has seen.
    #[must_use]
    pub fn get(&self, id: WriteId) -> Option<&(u64, WriteVerdict)> {
        self.by_id.get(&id)
    }

    /// Returns the greatest number of each client whose result was forgotten.
    #[must_use]
    pub(crate) fn forgotten(&self) -> &[WriteId] {
        &self.forgotten
    }

    /// Whether the write may be one whose result was forgotten.
    ///
    /// A client's numbers rise, so a write whose number isn't greater is older than half a minute. A node that hung, or a
    /// network, may have kept it that long.
    #[must_use]
    pub(crate) fn is_forgotten(&self, (client, number): WriteId) -> bool {
        self.forgotten.iter().any(|it| it.0 == client && number <= it.1)
    }

    /// Counts the age of all results from `now`, because they came from a node with another clock.
    pub(crate) fn count_from(&mut self, now: u64) {
        self.times.iter_mut().for_each(|(at, _)| *at = now);
    }

    /// Keeps an effect's result. Forgets results older than half a minute.
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
