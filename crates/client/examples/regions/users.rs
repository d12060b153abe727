//! Users of a region that isn't the master. Names are written to the master's database, and read through the region's
//! cache.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use guira_client::{Client, Failure, Item, Markers, Source};
use parking_lot::Mutex;

/// The table and its first user.
pub(crate) const SCHEMA: &str =
    "CREATE TABLE users (id INT PRIMARY KEY, name TEXT); INSERT INTO users VALUES (1, 'Ada')";

/// Sends a statement to a database. Takes the place of a database driver.
type Ask = Box<dyn FnMut(&str) -> Vec<String> + Send>;

/// A database, and the number of reads.
#[derive(Clone)]
pub(crate) struct Database {
    session: Arc<Mutex<Ask>>,
    reads: Arc<AtomicU32>,
}

impl Database {
    pub(crate) fn new(ask: impl FnMut(&str) -> Vec<String> + Send + 'static) -> Self {
        Self { session: Arc::new(Mutex::new(Box::new(ask))), reads: Arc::default() }
    }

    /// Returns the number of reads so far.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Runs a statement on another thread: database calls block, and the runtime's threads must not.
    async fn ask(&self, statement: String) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
        let session = Arc::clone(&self.session);
        Ok(tokio::task::spawn_blocking(move || session.lock()(&statement)).await?)
    }

    async fn name(&self, user: u32) -> Result<String, Box<dyn Error + Send + Sync>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let rows = self.ask(format!("SELECT name FROM shop.users WHERE id = {user}")).await?;
        rows.into_iter().next().ok_or_else(|| "no such user".into())
    }
}

/// The region's cache, and both databases.
#[derive(Clone)]
pub(crate) struct Users {
    /// Asked first.
    pub(crate) cache: Client,
    /// Choose the database after a miss. Without markers, it is always the replica.
    pub(crate) markers: Option<Markers>,
    /// Distant. Takes all writes.
    pub(crate) master: Database,
    /// Near, but late.
    pub(crate) replica: Database,
}

impl Users {
    /// Returns a user's name from the cache, or else from the database that `markers` choose.
    pub(crate) async fn name(&self, user: u32) -> Result<String, Box<dyn Error + Send + Sync>> {
        let key = key(user);
        // This runs after the cache has given a lease. So if it misses a write, that write makes the lease invalid.
        let load = async || {
            let source = match &self.markers {
                Some(markers) => markers.source(&key).await,
                None => Source::Replica,
            };
            let name = match source {
                Source::Replica => self.replica.name(user).await?,
                Source::Master => self.master.name(user).await?,
            };
            Ok::<_, Box<dyn Error + Send + Sync>>(Item::from(name))
        };
        let item = self.cache.get_or_load(&key, Duration::from_secs(3600), load).await?;
        Ok(String::from_utf8(item.value.to_vec())?)
    }

    /// Renames a user: marks the key, writes to the master, then deletes the copy here. When the replica has the write,
    /// `guira invalidate` ends the mark and deletes the copies in the region's other clusters.
    pub(crate) async fn rename(
        &self,
        user: u32,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let key = key(user);
        // If the key can't be marked, nothing is written. Otherwise, readers here might see the old name again.
        let comment = match &self.markers {
            Some(markers) => markers.mark(&[&key]).await?.comment(),
            None => format!("/* mcinv:{key} */"),
        };
        // Encoded in hexadecimal, where a driver would use placeholders.
        let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        let update = format!("UPDATE shop.users SET name = 0x{digits} WHERE id = {user} {comment}");
        self.master.ask(update).await?;
        self.cache.delete(&key).await.map(drop).map_err(Failure::into)
    }
}

/// Returns the cache key of a user's name.
pub(crate) fn key(user: u32) -> String {
    format!("user:{user}")
}
