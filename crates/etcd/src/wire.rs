//! Requests and answers as JSON: bytes are base64, and numbers of 64 bits are strings.
//!
//! Answers are read into their own types, so that a long lie takes no more memory than its bytes. proto3 leaves out fields
//! that are 0, false or empty; each answer has a header.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Which keys are read or watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdKeys {
    first: Vec<u8>,
    /// The first key after these; `None`: `first` alone.
    end: Option<Vec<u8>>,
}

impl EtcdKeys {
    /// One key.
    #[must_use]
    pub fn one(key: impl AsRef<[u8]>) -> Self {
        Self { first: key.as_ref().to_vec(), end: None }
    }

    /// All keys with this prefix; all keys if it is empty.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let first = prefix.as_ref().to_vec();
        let mut end = first.clone();
        while end.pop_if(|last| *last == u8::MAX).is_some() {}
        match end.last_mut() {
            Some(last) => *last += 1,
            // etcd's way to write that there is no end.
            None => end = vec![0],
        }
        // No key is empty. etcd writes the first key like this.
        Self { first: if first.is_empty() { vec![0] } else { first }, end: Some(end) }
    }

    /// All keys from `first` on that are less than `end`, which isn't empty.
    #[must_use]
    pub fn between(first: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Self {
        Self { first: first.as_ref().to_vec(), end: Some(end.as_ref().to_vec()) }
    }

    fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            None => key == self.first,
            Some(end) => key >= &self.first[..] && (end[..] == [0] || key < &end[..]),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.end {
            None => json!({ "key": bytes(&self.first) }),
            Some(end) => json!({ "key": bytes(&self.first), "range_end": bytes(end) }),
        }
    }
}

/// A condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdCompare {
    /// The key was last written at this revision; 0: it doesn't exist.
    ModRevision {
        /// The key.
        key: Vec<u8>,
        /// Its `mod_revision`.
        revision: u64,
    },
    /// The key was created at this revision; 0: it doesn't exist.
    CreateRevision {
        /// The key.
        key: Vec<u8>,
        /// Its `create_revision`.
        revision: u64,
    },
}

impl EtcdCompare {
    pub(crate) fn to_json(&self) -> Value {
        let of = |key: &[u8], target: &str, name: &str, revision: &u64| {
            let revision = revision.to_string();
            json!({ "key": bytes(key), "result": "EQUAL", "target": target, name: revision })
        };
        match self {
            Self::ModRevision { key, revision } => of(key, "MOD", "mod_revision", revision),
            Self::CreateRevision { key, revision } => {
                of(key, "CREATE", "create_revision", revision)
            }
        }
    }
}

/// An operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdOp {
    /// Writes a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which the key ends.
        lease: Option<i64>,
    },
    /// Deletes a key, if it exists.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

impl EtcdOp {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Put { key, value, lease } => json!({ "request_put": put(key, value, *lease) }),
            Self::Delete { key } => json!({ "request_delete_range": { "key": bytes(key) } }),
        }
    }
}

pub(crate) fn put(key: &[u8], value: &[u8], lease: Option<i64>) -> Value {
    let lease = lease.unwrap_or(0).to_string();
    json!({ "key": bytes(key), "value": bytes(value), "lease": lease })
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KeyValue {
    /// The key.
    #[serde(deserialize_with = "decoded")]
    pub key: Vec<u8>,
    /// Its value.
    #[serde(default, deserialize_with = "decoded")]
    pub value: Vec<u8>,
    /// The store's revision when the key was created.
    #[serde(default, deserialize_with = "number")]
    pub create_revision: u64,
    /// The store's revision when the key was last written, or deleted.
    #[serde(default, deserialize_with = "number")]
    pub mod_revision: u64,
    /// The lease with which the key ends; 0: it has none.
    #[serde(default, deserialize_with = "number")]
    pub lease: i64,
}

/// Keys that were read at one revision, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The keys with their values.
    pub pairs: Vec<KeyValue>,
    /// The store's revision.
    pub revision: u64,
}

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Txn {
    /// Whether all conditions held, and all operations were done.
    pub is_done: bool,
    /// The store's revision. If the transaction was done and writes, it is the revision of what was written.
    pub revision: u64,
}

/// What happened to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdEvent {
    /// The key was written.
    Put(KeyValue),
    /// The key was deleted, or its lease ended.
    Deleted {
        /// The key.
        key: Vec<u8>,
        /// The revision of the deletion.
        mod_revision: u64,
    },
}

/// Events that happened at once, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The events, at least one.
    pub events: Vec<EtcdEvent>,
    /// The store's revision.
    pub revision: u64,
}

#[derive(Deserialize)]
struct Header {
    // The answer that ends a watch has none.
    #[serde(default, deserialize_with = "number")]
    revision: u64,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct TxnAnswer {
    header: Header,
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize)]
pub(crate) struct LeaseAnswer {
    #[serde(rename = "ID", default, deserialize_with = "number")]
    pub(crate) id: i64,
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub(crate) ttl_s: u64,
}

#[derive(Deserialize)]
pub(crate) struct MemberAnswer {
    #[serde(default)]
    pub(crate) version: String,
    #[serde(rename = "dbSize", default, deserialize_with = "number")]
    pub(crate) db_bytes: u64,
    #[serde(default)]
    pub(crate) errors: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Streamed<T> {
    pub(crate) result: Option<T>,
    error: Option<Words>,
}

#[derive(Deserialize)]
pub(crate) struct Token {
    pub(crate) token: Option<String>,
}

/// A refusal. The gateway of etcd 3.4 writes its words twice.
#[derive(Deserialize, Default)]
pub(crate) struct Words {
    message: Option<String>,
    error: Option<String>,
    #[serde(default)]
    pub(crate) code: u64,
}

#[derive(Deserialize)]
struct WatchAnswer {
    header: Header,
    #[serde(default)]
    canceled: bool,
    cancel_reason: Option<String>,
    #[serde(default, deserialize_with = "number")]
    compact_revision: u64,
    #[serde(default)]
    events: Vec<RawEvent>,
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: Option<String>,
    kv: KeyValue,
}

/// Any answer, where it only matters that there is one.
#[derive(Deserialize)]
pub(crate) struct Done {
    #[serde(rename = "header")]
    _header: Header,
}

impl Words {
    pub(crate) fn words(self) -> Option<String> {
        self.message.or(self.error)
    }
}

impl<T> Streamed<T> {
    /// The result, or why there is none.
    pub(crate) fn said(self) -> Result<T, String> {
        let words = self.error.and_then(Words::words);
        self.result.ok_or_else(|| words.unwrap_or_else(|| "no reason".to_owned()))
    }
}

pub(crate) fn range(keys: &EtcdKeys, answer: &[u8]) -> Result<Range, String> {
    let answer: RangeAnswer = first_of(answer)?;
    if let Some(other) = answer.kvs.iter().find(|pair| !keys.contains(&pair.key)) {
        return Err(not_asked(&other.key));
    }
    Ok(Range { pairs: answer.kvs, revision: answer.header.revision })
}

pub(crate) fn txn(answer: &[u8]) -> Result<Txn, String> {
    let answer: TxnAnswer = first_of(answer)?;
    Ok(Txn { is_done: answer.succeeded, revision: answer.header.revision })
}

/// Reads one line of a watch. `Ok(None)`: nothing happened.
pub(crate) fn watched(keys: &EtcdKeys, line: &[u8]) -> Result<Option<Events>, Unwatched> {
    let line: Streamed<WatchAnswer> = first_of(line).map_err(Unwatched::Unreadable)?;
    let said = line.said().map_err(Unwatched::Ended)?;
    if said.compact_revision > 0 {
        let words = format!("what was before revision {} is compacted", said.compact_revision);
        return Err(Unwatched::Ended(words));
    }
    if said.canceled {
        let words = said.cancel_reason.filter(|words| !words.is_empty());
        return Err(Unwatched::Ended(words.unwrap_or_else(|| "no reason".to_owned())));
    }
    let event = |RawEvent { kind, kv }| {
        if !keys.contains(&kv.key) {
            return Err(Unwatched::Unreadable(not_asked(&kv.key)));
        }
        Ok(match kind.as_deref() {
            Some("DELETE") => EtcdEvent::Deleted { key: kv.key, mod_revision: kv.mod_revision },
            _ => EtcdEvent::Put(kv),
        })
    };
    let events: Vec<_> = said.events.into_iter().map(event).collect::<Result<_, _>>()?;
    let revision = said.header.revision;
    Ok((!events.is_empty()).then_some(Events { events, revision }))
}

/// Why a line of a watch has no events.
pub(crate) enum Unwatched {
    Unreadable(String),
    Ended(String),
}

/// Reads the first JSON value. What a gateway adds behind it is ignored.
pub(crate) fn first_of<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    // serde would take an array for a struct.
    if answer.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte != b'{') {
        return Err("it is no JSON object".to_owned());
    }
    let mut values = serde_json::Deserializer::from_slice(answer).into_iter();
    values.next().ok_or("it is empty")?.map_err(|error| error.to_string())
}

fn not_asked(key: &[u8]) -> String {
    format!("it tells of the key {:?}, which wasn't asked for", String::from_utf8_lossy(key))
}

fn bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn decoded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(de::Error::custom)
}

/// etcd writes 64-bit numbers as strings.
fn number<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr + TryFrom<u64> + TryFrom<i64>,
    D: Deserializer<'de>,
{
    struct Number<T>(PhantomData<T>);

    impl<T: FromStr + TryFrom<u64> + TryFrom<i64>> Visitor<'_> for Number<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, maybe as a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(|_| E::custom(format_args!("{text:?} is no such number")))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            T::try_from(number).map_err(|_| E::custom(format_args!("{number} is too large")))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            T::try_from(number).map_err(|_| E::custom(format_args!("{number} is too small")))
        }
    }

    deserializer.deserialize_any(Number(PhantomData))
}
