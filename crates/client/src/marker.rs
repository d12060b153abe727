//! Remote markers: they tell which database to read for a key whose write has not been replicated yet (Scaling Memcache
//! at Facebook, §5).
//!
//! A region that isn't the master marks a key before it writes. A reader of this region that misses the key meanwhile
//! reads the master's database instead of the replica's.
//!
//! ```text
//! write    mark(keys) ─▶ write to the master, with the mark's comment ─▶ delete the keys here
//! miss     take a lease ─▶ source(key): marked ─▶ master, else replica ─▶ store with the lease
//! replica  has the write: guira invalidate deletes the keys, and removes the write's token from their markers
//! ```
//! # Invariants
//! 1. Each write has its own token. When two clients write a key at once, the end of one write removes no mark of the
//!    other.
//! 2. If the marker can't be read, the master's database is read.
//! 3. A token expires after the markers' life, even if its writer crashed or the replica's log lacks the write.
//! 4. A reader takes the lease before it asks for the marker. In the opposite order a write in between would go
//!    unnoticed, and the replica's older value could be stored.
//!
//! # Failures
//! - A key can't be marked: [`Markers::mark`] fails, and the caller should not write. If it writes nevertheless,
//!   readers that miss may get the old value until the replica has the write.
//! - A marker expires before the replica has the write, because the replica lags longer than markers live. The effect
//!   is the same.
//! - The write fails: call [`Markers::unmark`]. If the result of the write is unknown, leave the mark: it expires by
//!   itself.
//! - More than 32 writes of a key are under way: their tokens become one, which expires with the last of them.
//!
//! # Costs
//! One request for each miss. Two for each key of a write, and four if the write fails.
//!
//! # Bad at
//! - A pool that evicts loses markers: start it with `-M`.
//! - The clocks of a region's machines must not differ by more than a fraction of the markers' life.

mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::{Cas, Client, Expiry, Failure, Got, Outcome};

pub use tokens::{MarkToken, MarkerTokens, NoMarkToken, marker_key};

/// The markers of a region, in a pool that the whole region shares.
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
///     // By now the lease is taken, as it must be before `source`.
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

/// The database to read after a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Source {
    /// The region's own database.
    Replica,
    /// The master's database: the region's own may lack a write of this key.
    Master,
}

/// The mark of a write. The statement must carry its comment, so that the mark ends when the replica has the write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RemoteMark {
    region: Arc<str>,
    token: MarkToken,
    keys: Vec<Bytes>,
}

/// The reason why markers can't be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMarkers(&'static str);

impl Markers {
    /// Creates the markers of a region in `pool`, which live for `life`. It should be at least twice the longest lag of
    /// the replica, and must be from a second to a day.
    ///
    /// # Errors
    /// The region's name can't be part of a comment, or `life` is out of bounds. The name is the `region` of
    /// `guira invalidate`.
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

    /// Puts a router's prefix, such as `/eu/regional/`, before the keys of the markers.
    #[must_use]
    pub fn with_route(self, prefix: &str) -> Self {
        Self { route: prefix.as_bytes().into(), ..self }
    }

    /// Marks keys for one write. Call this before writing to the master. A key has at most 248 bytes.
    ///
    /// # Errors
    /// Some keys are not marked. Readers of the marked ones use the master until the markers' life ends.
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
            // An append never waits for another writer. The `gat` renews the item's life, which may have ended in
            // between.
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

    /// Merges the tokens of a long marker into one. If another client changes the marker meanwhile, the next writer
    /// does it.
    async fn shorten(&self, marker: &[u8]) {
        let Got::Hit(item) = self.pool.gets(marker).await else { return };
        let Some(mut all) = MarkerTokens::parse(&item.value) else { return };
        all.shorten(now_s());
        let _ = self.pool.cas(marker, all.encode(), Expiry::In(self.life), item.cas).await;
    }

    /// Ends the mark of a write that was not made. If the write was made, `guira invalidate` ends its mark.
    ///
    /// # Errors
    /// Readers of some keys use the master until the markers' life ends.
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

    /// Returns the database to read for `key`. Call this after a miss, when the lease is taken.
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
    /// Returns the comment that must begin or end the statement. It also names the keys.
    #[must_use]
    pub fn comment(&self) -> String {
        let keys = self.keys.iter().map(|key| percent_encode(key, ENCODED).to_string());
        format!("/* mcinv:{};{} */", keys.collect::<Vec<_>>().join(","), self.option())
    }

    /// Returns the text for the column `opts` of an outbox, in the row of each key.
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

/// The bytes that `guira invalidate` needs encoded, besides non-ASCII bytes, which always are.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',').add(b';').add(b'\'').add(b'*');
const LIFE_LEAST: Duration = Duration::from_secs(1);
const LIFE_MOST: Duration = Duration::from_secs(86_400);
const TRIES: u32 = 8;
