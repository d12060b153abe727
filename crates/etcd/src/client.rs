//! Requests to etcd: to the endpoint that answered last, or else to the next.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Body;
use ureq::http::Response;

use crate::access::{EtcdAccess, Failure, body_of};
use crate::error::Error;
use crate::place::EtcdPlace;
use crate::watch::Watch;
use crate::wire::{
    self, Done, EtcdCompare, EtcdKeys, EtcdOp, LeaseAnswer, MemberAnswer, Range, Streamed, Txn,
};

/// An etcd: one member, or several of one cluster.
pub struct Etcd {
    /// `http://host:port`, at least one.
    urls: Vec<String>,
    /// The endpoint that is asked first.
    turn: AtomicUsize,
    access: EtcdAccess,
    limit: Duration,
}

/// A lease that was granted or renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtcdLease {
    /// Its number.
    pub id: i64,
    /// Seconds that it lasts from now, unless it is renewed. etcd may give more than was asked for.
    pub ttl_s: u64,
}

/// What a member of etcd said about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its version.
    pub version: String,
    /// Bytes of its database.
    pub db_bytes: u64,
    /// Its complaints: that it has no leader, or that its database is full (`NOSPACE`).
    pub errors: Vec<String>,
    /// How long the answer took.
    pub took: Duration,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("urls", &self.urls)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Etcd {
    /// The etcd of a place. Nothing is sent yet. A request waits for 5 s at each endpoint.
    #[must_use]
    pub fn new(place: &EtcdPlace, access: EtcdAccess) -> Self {
        Self { urls: place.urls(), turn: AtomicUsize::new(0), access, limit: LIMIT }
    }

    /// Waits for `limit` at each endpoint.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The endpoints' URLs.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Reads keys as of now: a majority of the members confirms that nothing is newer.
    ///
    /// # Errors
    /// No endpoint answers, or one answer is longer than 8 MiB.
    pub fn range(&self, keys: &EtcdKeys) -> Result<Range, Error> {
        self.ask("/v3/kv/range", &keys.to_json(), |answer| wire::range(keys, answer))
    }

    /// Writes a key. With a lease, the key ends when the lease does.
    ///
    /// # Errors
    /// No endpoint answers; or there is no such lease ([`Error::is_not_found`]).
    pub fn put(&self, key: &[u8], value: &[u8], lease: Option<i64>) -> Result<(), Error> {
        self.ask("/v3/kv/put", &wire::put(key, value, lease), wire::first_of::<Done>).map(drop)
    }

    /// Does all of `ops` if all of `compares` hold, otherwise nothing.
    ///
    /// # Errors
    /// No endpoint answers. The transaction may have been done.
    pub fn txn(&self, compares: &[EtcdCompare], ops: &[EtcdOp]) -> Result<Txn, Error> {
        let question = json!({
            "compare": compares.iter().map(EtcdCompare::to_json).collect::<Vec<_>>(),
            "success": ops.iter().map(EtcdOp::to_json).collect::<Vec<_>>(),
        });
        self.ask("/v3/kv/txn", &question, wire::txn)
    }

    /// A new lease that ends after `ttl_s` seconds, unless it is renewed.
    ///
    /// # Errors
    /// No endpoint answers.
    pub fn grant(&self, ttl_s: u64) -> Result<EtcdLease, Error> {
        let question = json!({ "TTL": ttl_s.to_string() });
        self.ask("/v3/lease/grant", &question, |answer| {
            let LeaseAnswer { id, ttl_s } = wire::first_of(answer)?;
            if id == 0 {
                Err("a lease without a number".into())
            } else {
                Ok(EtcdLease { id, ttl_s })
            }
        })
    }

    /// Renews a lease; `None`: the lease has ended, and its keys are gone.
    ///
    /// # Errors
    /// No endpoint answers. The lease may have been renewed.
    pub fn keep_alive(&self, lease: i64) -> Result<Option<EtcdLease>, Error> {
        let question = json!({ "ID": lease.to_string() });
        self.ask("/v3/lease/keepalive", &question, |answer| {
            let said: Streamed<LeaseAnswer> = wire::first_of(answer)?;
            let LeaseAnswer { id, ttl_s } = said.said()?;
            match id == lease {
                true => Ok((ttl_s > 0).then_some(EtcdLease { id, ttl_s })),
                false => Err(format!("it renews the lease {id}, {lease} was asked for")),
            }
        })
    }

    /// Ends a lease, and its keys with it. A lease that has ended already is no error.
    ///
    /// # Errors
    /// No endpoint answers.
    pub fn revoke(&self, lease: i64) -> Result<(), Error> {
        let question = json!({ "ID": lease.to_string() });
        match self.ask("/v3/lease/revoke", &question, wire::first_of::<Done>) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Watches keys from the revision `first` on, for at most `limit`.
    ///
    /// The watch returns what happened since then, unless etcd has compacted it. Then the watch ends with [`Error::Ended`],
    /// and the caller must read the keys anew.
    ///
    /// # Errors
    /// No endpoint takes the watch.
    pub fn watch(&self, keys: &EtcdKeys, first: u64, limit: Duration) -> Result<Watch, Error> {
        let ends = Instant::now() + limit;
        let mut create = keys.to_json();
        create["start_revision"] = first.to_string().into();
        let question = json!({ "create_request": create });
        self.of_one(|url| {
            let answer = self.open(url, "/v3/watch", &question, limit)?;
            Ok(Watch::new(keys, url.to_owned(), answer, ends))
        })
    }

    /// Asks each endpoint how its member is, whether or not the others answer.
    pub fn health(&self) -> Vec<(String, Result<EtcdMember, Error>)> {
        let of = |url: &String| {
            let begun = Instant::now();
            let asked = self.open(url, "/v3/maintenance/status", &json!({}), self.limit);
            let said = asked.and_then(body_of).and_then(|body| {
                wire::first_of::<MemberAnswer>(&body).map_err(Failure::Unreadable)
            });
            let took = begun.elapsed();
            let member = said.map(|MemberAnswer { version, db_bytes, errors }| EtcdMember {
                version,
                db_bytes,
                errors,
                took,
            });
            (url.clone(), member.map_err(|failure| failure.at(url)))
        };
        self.urls.iter().map(of).collect()
    }

    fn ask<T>(
        &self,
        path: &str,
        question: &Value,
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, Error> {
        self.of_one(|url| {
            let body = body_of(self.open(url, path, question, self.limit)?)?;
            read(&body).map_err(Failure::Unreadable)
        })
    }

    fn open(
        &self,
        url: &str,
        path: &str,
        question: &Value,
        whole: Duration,
    ) -> Result<Response<Body>, Failure> {
        self.access.post(url, path, question, (whole, self.limit))
    }

    /// The result of the first endpoint that can answer; if none can, why the last couldn't.
    fn of_one<T>(&self, ask: impl Fn(&str) -> Result<T, Failure>) -> Result<T, Error> {
        let mut last = Err(Error::Files("no endpoint of etcd is named".to_owned()));
        for _ in &self.urls {
            let turn = self.turn.load(Relaxed);
            let url = &self.urls[turn % self.urls.len()];
            last = ask(url).map_err(|failure| failure.at(url));
            // That something doesn't exist is an answer: all members say the same.
            if last.as_ref().err().is_none_or(Error::is_not_found) {
                break;
            }
            // The next endpoint comes first from now on, unless another call has changed that already.
            let _ = self.turn.compare_exchange(turn, turn.wrapping_add(1), Relaxed, Relaxed);
        }
        last
    }
}

const LIMIT: Duration = Duration::from_secs(5);
