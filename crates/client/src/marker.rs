//! Remote markers: where to read a key whose write has not been replicated yet (Scaling Memcache at Facebook, §5).
//!
//! A region that is not the master marks a key before it writes, so that whoever misses the key here meanwhile reads the
//! master's database and not the replica's.
//!
//! ```text
//! write    mark(key) ─▶ write to the master, naming key and marker ─▶ delete key here
//! miss     source(key): marked ─▶ master, else replica
//! replica  has the write: delete key, unmark(key)
//! ```
//! # Invariants
//! 1. A marker counts writers: of two who write at once, the first one's end doesn't take the second one's marker.
//! 2. When the marker can't be read, the master is.
//!
//! # Costs
//! A request for each miss; two or three for a write.
//!
//! Bad at: a pool that evicts, which loses markers; and a replica that lags longer than the markers live, after which a
//! late end may take the marker of a later writer.

use std::time::Duration;

use crate::{Client, Expiry, Failure, Got, Outcome};

/// Markers in a pool that the whole region shares.
#[derive(Clone, Debug)]
pub struct Markers {
    pool: Client,
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

impl Markers {
    /// Markers in `pool` that live for `life`, which is longer than the replica ever lags.
    #[must_use]
    pub fn new(pool: Client, life: Duration) -> Self {
        Self { pool, life }
    }

    /// Marks `key`; to be done before the master is written.
    ///
    /// # Errors
    /// The key is not marked: writing all the same, whoever misses may read what was there before.
    pub async fn mark(&self, key: impl AsRef<[u8]>) -> Result<(), Failure> {
        let (marker, life) = (marker(key.as_ref()), Expiry::In(self.life));
        for _ in 0..TRIES {
            // The count is kept, and its life begun anew; it may have ended between the two.
            if self.pool.incr(&marker, 1).await?.is_some() {
                if self.pool.touch(&marker, life).await? {
                    return Ok(());
                }
            } else if self.pool.add(&marker, "1", life).await? {
                return Ok(());
            }
        }
        let message = "the marker comes and goes: its life is too short".into();
        Err(Failure { outcome: Outcome::NotStored, message })
    }

    /// Ends one writer's mark; to be done when the replica has its write and the key was deleted.
    ///
    /// # Errors
    /// The mark stays until its life ends, and misses read the master for so long.
    pub async fn unmark(&self, key: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.pool.decr(marker(key.as_ref()), 1).await.map(drop)
    }

    /// Which database to read for `key` after a miss.
    pub async fn source(&self, key: impl AsRef<[u8]>) -> Source {
        match self.pool.get(marker(key.as_ref())).await {
            Got::Miss => Source::Replica,
            Got::Hit(item) if item.value.trim_ascii() == b"0" => Source::Replica,
            Got::Hit(_) | Got::Failed(_) => Source::Master,
        }
    }
}

fn marker(key: &[u8]) -> Vec<u8> {
    [PREFIX, key].concat()
}

const PREFIX: &[u8] = b"r:";
const TRIES: u32 = 4;
