//! The election: of several daemons with one configuration, one is active. etcd stores which one it is, and from where
//! it goes on.
//!
//! ```text
//! stand ─▶ the key AT/active is absent: written, under our lease ─▶ keep: the lease is renewed ─▶ it can't be: why
//!            └ it is there: a watch waits until it goes
//! AT/position/SOURCE   what every destination has acknowledged: written by the active one, read by the next
//! ```
//! # Invariants
//! 1. The fence: a position is written in a transaction. It requires that the key `active` is the one that this daemon
//!    created, and the position the one that it read or wrote last. So a deposed daemon that doesn't know it yet writes
//!    nothing, and no late request moves a position back.
//! 2. A daemon that can't renew its lease stops before the lease can have ended: see [`Term`].
//!
//! # Costs
//! A call per quarter of the lease's time, and one per second for each source whose position moves.
//!
//! # Bad at
//! An etcd that is away for longer than a lease: no daemon is active, although nothing else is wrong.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guira_etcd::{Error, Etcd, EtcdAccess, EtcdCompare, EtcdKeys, EtcdOp, KeyValue};

use crate::config::EtcdConfig;
use crate::position::Stored;
use crate::term::{Term, now};

/// This daemon as a candidate, and later as the active daemon.
pub(crate) struct Office {
    etcd: Etcd,
    path: String,
    lease: Duration,
    who: String,
    pub(crate) term: Arc<Term>,
}

/// Proof that this daemon was elected: the key of its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    lease: i64,
    create_revision: u64,
}

/// The result of writing a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The position was written, at this revision.
    At(u64),
    /// Another position is there, at this revision: write again.
    Over(u64),
    /// Another daemon is active, or none is: nothing was written.
    Deposed,
}

impl Office {
    /// Creates a candidate, and sends nothing yet. `name` is for people.
    pub(crate) fn new(config: &EtcdConfig, name: &str) -> Self {
        let EtcdConfig { place, lease, tls, auth_file } = config;
        let access = EtcdAccess::new(tls.clone(), auth_file.clone());
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        Self {
            // Several tries fit into a lease, even if an endpoint is silent.
            etcd: Etcd::new(place, access).with_limit((*lease / 5).min(CALL_MAX)),
            path: place.path.clone(),
            lease: *lease,
            who: format!("{name} at {host}, process {}", std::process::id()),
            term: Arc::new(Term::to_come()),
        }
    }

    fn key(&self) -> String {
        format!("{}/active", self.path)
    }

    fn position_key(&self, source: &str) -> String {
        format!("{}/position/{source}", self.path)
    }

    /// Returns what must be done before a source's position can be removed from state folders: words with a comma.
    pub(crate) fn first(&self, source: &str) -> String {
        format!("stop all daemons, delete the key {} in etcd, ", self.position_key(source))
    }

    /// Returns the active daemon's name, if one is active.
    pub(crate) fn who(&self) -> Result<Option<String>, Error> {
        let found = self.pair(&self.key())?;
        Ok(found.map(|it| String::from_utf8_lossy(&it.value).into_owned()))
    }

    /// Returns the key and its value, if the key exists.
    fn pair(&self, key: &str) -> Result<Option<KeyValue>, Error> {
        Ok(self.etcd.range(&EtcdKeys::one(key))?.pairs.into_iter().next())
    }

    /// Waits until this daemon is active.
    pub(crate) fn stand(&self) -> Active {
        let (mut is_away, mut last) = (false, None);
        loop {
            match self.stand_once(&mut last) {
                Ok(Some(active)) => return active,
                Ok(None) => is_away = false,
                Err(error) => {
                    if !is_away {
                        tracing::warn!("who is active can't be told: {error}; it is asked again");
                    }
                    is_away = true;
                    thread::sleep(REST);
                }
            }
        }
    }

    fn stand_once(&self, last: &mut Option<u64>) -> Result<Option<Active>, Error> {
        let keys = EtcdKeys::one(self.key());
        let found = self.etcd.range(&keys)?;
        if let Some(pair) = found.pairs.first() {
            if last.replace(pair.create_revision) != Some(pair.create_revision) {
                let who = String::from_utf8_lossy(&pair.value);
                tracing::info!(
                    "waits: {who} is active; this daemon takes over when its lease ends"
                );
            }
            self.etcd.watch(&keys, found.revision + 1, WATCH_MAX)?.next_events()?;
            return Ok(None);
        }
        self.take()
    }

    /// Takes the lease, unless another daemon has it.
    pub(crate) fn take(&self) -> Result<Option<Active>, Error> {
        let asked = now();
        let lease = self.etcd.grant(self.lease.as_secs())?;
        let absent = EtcdCompare::CreateRevision { key: self.key().into(), revision: 0 };
        let (value, id) = (self.who.clone().into(), Some(lease.id));
        let put = EtcdOp::Put { key: self.key().into(), value, lease: id };
        let done = self.etcd.txn(&[absent], &[put])?;
        let active = if done.is_done {
            Some(Active { lease: lease.id, create_revision: done.revision })
        } else {
            // The key may be ours all the same, if the answer to a first attempt was lost.
            let own = self.pair(&self.key())?.filter(|pair| pair.lease == lease.id);
            own.map(|it| Active { lease: lease.id, create_revision: it.create_revision })
        };
        let lasts = self.lease.min(Duration::from_secs(lease.ttl_s));
        if active.is_some() && self.term.extend(asked, lasts) {
            return Ok(active);
        }
        self.etcd.revoke(lease.id)?;
        Ok(None)
    }

    /// Renews the lease until that fails for too long. Returns the reason.
    pub(crate) fn keep(&self, active: Active) -> String {
        let mut last = None;
        loop {
            thread::sleep(if last.is_none() { self.lease / 4 } else { REST });
            let asked = now();
            match self.etcd.keep_alive(active.lease) {
                Ok(Some(lease)) => {
                    let lasts = self.lease.min(Duration::from_secs(lease.ttl_s));
                    last = None;
                    self.term.extend(asked, lasts);
                }
                Ok(None) => return "its lease in etcd has ended".to_owned(),
                Err(error) => {
                    if last.is_none() {
                        tracing::warn!("the lease isn't renewed: {error}; it is tried again");
                    }
                    last = Some(error);
                }
            }
            if self.term.is_over() {
                let why = last.map(|error| format!(": {error}")).unwrap_or_default();
                return format!("its lease in etcd may have ended{why}");
            }
        }
    }

    /// Returns the position of a source, and the revision at which it was written. 0: there is none.
    ///
    /// # Errors
    /// A sentence: etcd doesn't answer, or the value is no position.
    pub(crate) fn read(&self, source: &str) -> Result<(Option<Stored>, u64), String> {
        let key = self.position_key(source);
        let found = self.pair(&key).map_err(|error| error.to_string())?;
        let Some(pair) = found else { return Ok((None, 0)) };
        let stored = Stored::of_bytes(&pair.value).map_err(|why| format!("etcd: {key}: {why}"))?;
        Ok((Some(stored), pair.mod_revision))
    }

    /// Writes the position of a source over the one with revision `before`, if this daemon is still active.
    ///
    /// # Errors
    /// etcd doesn't answer: the position may have been written.
    pub(crate) fn write(
        &self,
        active: Active,
        source: &str,
        stored: &Stored,
        before: u64,
    ) -> Result<Written, Error> {
        let key = self.position_key(source);
        let fence = EtcdCompare::CreateRevision {
            key: self.key().into(),
            revision: active.create_revision,
        };
        let same = EtcdCompare::ModRevision { key: key.clone().into(), revision: before };
        let value = stored.to_text().into_bytes();
        let put = EtcdOp::Put { key: key.clone().into(), value, lease: None };
        let done = self.etcd.txn(&[fence, same], &[put])?;
        if done.is_done {
            return Ok(Written::At(done.revision));
        }
        let holder = self.pair(&self.key())?;
        if holder.is_none_or(|pair| pair.create_revision != active.create_revision) {
            return Ok(Written::Deposed);
        }
        // The answer to an earlier write was lost.
        Ok(Written::Over(self.pair(&key)?.map_or(0, |pair| pair.mod_revision)))
    }

    /// Gives up the lease, so that the next daemon needn't wait.
    pub(crate) fn resign(&self, active: Active) {
        self.term.end();
        if let Err(error) = self.etcd.revoke(active.lease) {
            tracing::warn!("the lease isn't given up, and ends by itself: {error}");
        }
    }
}

/// The time limit of a call, per endpoint.
const CALL_MAX: Duration = Duration::from_secs(2);
/// The pause after a failed attempt.
const REST: Duration = Duration::from_millis(500);
/// The time limit of a watch: one whose other end is gone reports nothing.
const WATCH_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use guira_tests::etcd::Etcd as RealEtcd;

    fn office(etcd: &RealEtcd, name: &str) -> Office {
        let at = format!("etcd:127.0.0.1:{}/shop", etcd.port());
        let place = guira_etcd::EtcdPlace::parse(&at).unwrap();
        let lease = Duration::from_secs(60);
        let config = EtcdConfig { place, lease, tls: None, auth_file: None };
        Office::new(&config, name)
    }

    fn at(text: &str) -> Stored {
        Stored { read: text.parse().unwrap(), ..Stored::default() }
    }

    #[test]
    fn who_was_deposed_moves_no_position_also_if_it_doesnt_know() {
        let etcd = RealEtcd::start();
        let (old, new) = (office(&etcd, "old"), office(&etcd, "new"));
        let first = old.take().unwrap().expect("nobody is active");
        assert_eq!(new.take().unwrap(), None, "somebody is active");
        assert!(new.who().unwrap().is_some_and(|it| it.starts_with("old at ")));
        assert_eq!(old.read("db").unwrap(), (None, 0));
        let Written::At(revision) = old.write(first, "db", &at("0-1-5"), 0).unwrap() else {
            panic!("it is active")
        };
        // As if its lease had ended while the process was stopped.
        old.etcd.revoke(first.lease).unwrap();
        let late = old.write(first, "db", &at("0-1-6"), revision).unwrap();
        assert_eq!(late, Written::Deposed, "nobody is active");
        let second = new.take().unwrap().expect("nobody is active");
        assert_eq!(new.read("db").unwrap(), (Some(at("0-1-5")), revision));
        for position in ["0-1-4", "0-1-9"] {
            let late = old.write(first, "db", &at(position), revision).unwrap();
            assert_eq!(late, Written::Deposed, "{position}");
        }
        let Written::At(revision) = new.write(second, "db", &at("0-1-7"), revision).unwrap() else {
            panic!("it is active")
        };
        assert_eq!(old.read("db").unwrap(), (Some(at("0-1-7")), revision));
        assert!(!old.term.is_over(), "the fence alone held it");
        // A late request moves nothing back. A write whose answer was lost is found.
        let over = new.write(second, "db", &at("0-1-6"), revision - 1).unwrap();
        assert_eq!(over, Written::Over(revision));
        assert_eq!(old.read("db").unwrap(), (Some(at("0-1-7")), revision));
        new.resign(second);
        assert!(new.term.is_over() && old.who().unwrap().is_none());
    }
}
