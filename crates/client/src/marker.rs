//! Remote markers: where to read a key whose write has not been replicated yet (Scaling Memcache at Facebook, §5).
//!
//! A region that is not the master marks a key before it writes, so that whoever misses the key here meanwhile reads the
//! master's database and not the replica's.
//!
//! ```text
//! write    mark(keys) ─▶ write to the master, with the mark's comment ─▶ delete the keys here
//! miss     take a lease ─▶ source(key): marked ─▶ master, else replica ─▶ store with the lease
//! replica  has the write: guira invalidate deletes the keys, and takes the write's token out of their markers
//! ```
//! # Invariants
//! 1. Each write has a token of its own: of two who write a key at once, the first one's end takes no mark of the second one.
//! 2. When the marker can't be read, the master is.
//! 3. A token ends after the markers' life, also if its writer crashed, or if the replica's log lacks the write.
//! 4. The lease is taken before the marker is asked for. The other way round, a write in between would go unseen, and what the
//!    replica had before it could be stored.
//!
//! # When it goes wrong
//! - A key can't be marked: [`Markers::mark`] says so, and nothing should be written. A write all the same is as one without
//!   markers: whoever misses may read what was there before, until the replica has the write.
//! - A marker ends before the replica has the write, because the replica lags longer than the markers live: the same.
//! - The write fails: [`Markers::unmark`]. If nobody knows whether it failed, leave the mark: it ends by itself.
//! - More than 32 writes of a key are on their way: their tokens become one, which ends with the last one's life.
//!
//! # Costs
//! A request for each miss; two for each key of a write, and twice as many if the write fails.
//!
//! Bad at: a pool that evicts, which loses markers (give it `-M`); clocks of a region's machines that differ by more than a
//! part of the life.

mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::{Cas, Client, Expiry, Failure, Got, Outcome};

pub use tokens::{MarkToken, MarkerTokens, NoMarkToken, marker_key};

/// Markers in a pool that the whole region shares.
///
/// ```no_run
/// use guira_client::{Client, Failure, Item, Markers, Source};
/// use std::time::Duration;
///
/// async fn rename(
///     (cache, markers): (&Client, &Markers), id: u32, name: &str, master: &Database
/// ) -> Result<(), Failure> {
///     let key = format!("user:{id}");
///     let mark = markers.mark(&[&key]).await?;
///     let update = format!("UPDATE users SET name = ? WHERE id = ? {}", mark.comment());
///     if !master.write(&update, name, id).await {
///         return markers.unmark(&mark).await;
///     }
///     cache.delete(&key).await.map(drop)
/// }
///
/// async fn name_of(
///     (cache, markers): (&Client, &Markers), id: u32, master: &Database, replica: &Database
/// ) -> Result<Item, DatabaseError> {
///     let key = format!("user:{id}");
///     // The lease is there before `source` is asked.
///     let load = async || match markers.source(&key).await {
///         Source::Master => master.read(id).await,
///         Source::Replica => replica.read(id).await,
///     };
///     cache.get_or_load(&key, Duration::from_secs(3600), load).await
/// }
/// # struct Database;
/// # struct DatabaseError;
/// # impl Database {
/// #     async fn read(&self, _: u32) -> Result<Item, DatabaseError> { Err(DatabaseError) }
/// #     async fn write(&self, _: &str, _: &str, _: u32) -> bool { true }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Markers {
    pool: Client,
    region: Arc<str>,
    route: Arc<[u8]>,
    life: Duration,
}

/// Which database to read after a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Source {
    /// The region's own.
    Replica,
    /// The master's: a write of this key may not be here yet.
    Master,
}

/// A write that is marked: what its statement must carry, so that the mark ends when the replica has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RemoteMark {
    region: Arc<str>,
    token: MarkToken,
    keys: Vec<Bytes>,
}

/// Why there can be no such markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMarkers(&'static str);

impl Markers {
    /// Markers of a region, in `pool`, that live for `life`: at least twice as long as the replica ever lags, from a second to a day.
    ///
    /// # Errors
    /// The region's name, which is that of `guira invalidate`'s `region`, can't stand in a comment; or the life is another.
    pub fn new(pool: Client, region: &str, life: Duration) -> Result<Self, BadMarkers> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=64).contains(&region.len()) || !region.bytes().all(is_plain) {
            return Err(BadMarkers("a region's name has 1 to 64 letters, digits, '_' and '-'"));
        }
        if !(LIFE_LEAST..=LIFE_MOST).contains(&life) {
            return Err(BadMarkers("markers live from a second to a day"));
        }
        Ok(Self { pool, region: region.into(), route: [].into(), life })
    }

    /// The same, before whose keys a router's prefix stands, as in `/eu/regional/`.
    #[must_use]
    pub fn with_route(self, prefix: &str) -> Self {
        Self { route: prefix.as_bytes().into(), ..self }
    }

    /// Marks keys for one write; to be done before the master is written. A key has at most 248 bytes.
    ///
    /// # Errors
    /// Not all of them are marked. Those that are read the master until the markers' life ends.
    pub async fn mark(&self, keys: &[impl AsRef<[u8]>]) -> Result<RemoteMark, Failure> {
        let life_s = self.life.as_secs() + u64::from(self.life.subsec_nanos() > 0);
        let deadline_s = now_s().saturating_add(u32::try_from(life_s).unwrap_or(u32::MAX));
        let token = MarkToken::new(deadline_s, fastrand::u32(..));
        let keys: Vec<Bytes> = keys.iter().map(|it| Bytes::copy_from_slice(it.as_ref())).collect();
        for key in &keys {
            self.mark_one(key, token).await?;
        }
        Ok(RemoteMark { region: Arc::clone(&self.region), token, keys })
    }

    async fn mark_one(&self, key: &[u8], token: MarkToken) -> Result<(), Failure> {
        let (marker, life) = (self.marker(key), Expiry::In(self.life));
        for _ in 0..TRIES {
            // Appending never waits for another writer. The item's life begins anew; it may have ended between the two.
            if !self.pool.append(&marker, format!("{token} ")).await? {
                if self.pool.add(&marker, format!("{token} "), life).await? {
                    return Ok(());
                }
                continue;
            }
            match self.pool.gat(&marker, life).await {
                Got::Failed(failure) => return Err(failure),
                Got::Miss => {}
                Got::Hit(item) => match MarkerTokens::parse(&item.value) {
                    Some(all) if all.marks(token) => {
                        if all.is_long() {
                            self.shorten(&marker).await;
                        }
                        return Ok(());
                    }
                    Some(_) => {}
                    None => return Err(not_stored("something else is stored as the key's marker")),
                },
            }
        }
        Err(not_stored("the marker comes and goes: its life is too short"))
    }

    /// Of many tokens, one is made. If somebody else changes the marker meanwhile, the next writer does it.
    async fn shorten(&self, marker: &[u8]) {
        let Got::Hit(item) = self.pool.gets(marker).await else { return };
        let Some(mut all) = MarkerTokens::parse(&item.value) else { return };
        all.shorten(now_s());
        let _ = self.pool.cas(marker, all.encode(), Expiry::In(self.life), item.cas).await;
    }

    /// Ends a mark whose write was not made. That of one that was made is for `guira invalidate` to end.
    ///
    /// # Errors
    /// Some keys read the master until the markers' life ends.
    pub async fn unmark(&self, mark: &RemoteMark) -> Result<(), Failure> {
        for key in &mark.keys {
            self.unmark_one(key, mark.token).await?;
        }
        Ok(())
    }

    async fn unmark_one(&self, key: &[u8], token: MarkToken) -> Result<(), Failure> {
        let marker = self.marker(key);
        for _ in 0..TRIES {
            let item = match self.pool.gets(&marker).await {
                Got::Miss => return Ok(()),
                Got::Failed(failure) => return Err(failure),
                Got::Hit(item) => item,
            };
            let mut all = MarkerTokens::parse(&item.value).unwrap_or_default();
            if !all.remove(token) {
                return Ok(());
            }
            let left_s = u64::from(all.until_s().saturating_sub(now_s()));
            let expiry = Expiry::In(Duration::from_secs(left_s));
            if self.pool.cas(&marker, all.encode(), expiry, item.cas).await? != Cas::Exists {
                return Ok(());
            }
        }
        Err(not_stored("others change the marker all the time"))
    }

    /// Which database to read for `key`, to be asked after a miss, and after the lease was taken.
    pub async fn source(&self, key: impl AsRef<[u8]>) -> Source {
        match self.pool.get(self.marker(key.as_ref())).await {
            Got::Miss => Source::Replica,
            Got::Hit(item) => match MarkerTokens::parse(&item.value) {
                Some(all) if !all.is_marked(now_s()) => Source::Replica,
                _ => Source::Master,
            },
            Got::Failed(_) => Source::Master,
        }
    }

    fn marker(&self, key: &[u8]) -> Vec<u8> {
        [&self.route, &*marker_key(key)].concat()
    }
}

impl RemoteMark {
    /// The comment that must begin or end the statement: it names the keys, too.
    #[must_use]
    pub fn comment(&self) -> String {
        let keys = self.keys.iter().map(|key| percent_encode(key, ENCODED).to_string());
        format!("/* mcinv:{};{} */", keys.collect::<Vec<_>>().join(","), self.option())
    }

    /// For the column `opts` of an outbox, in the row of each key.
    #[must_use]
    pub fn option(&self) -> String {
        format!("mark={}.{}", self.region, self.token)
    }
}

impl fmt::Display for BadMarkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadMarkers {}

fn not_stored(words: &str) -> Failure {
    Failure { outcome: Outcome::NotStored, message: words.to_owned() }
}

fn now_s() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// What `guira invalidate` wants encoded, blanks and all bytes beyond ASCII included.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',').add(b';').add(b'\'').add(b'*');
const LIFE_LEAST: Duration = Duration::from_secs(1);
const LIFE_MOST: Duration = Duration::from_secs(86_400);
const TRIES: u32 = 8;
