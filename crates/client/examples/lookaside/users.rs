//! Users whose names are read through a cache: the look-aside pattern with leases.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use guira_client::{Client, ConnectionOptions, Failure, Item, Protocol};
use parking_lot::Mutex;
use rusqlite::{Connection, params};

/// The table of users and their names, and the number of reads.
pub(crate) struct Database {
    rows: Mutex<Connection>,
    reads: AtomicU32,
}

impl Database {
    /// Creates a database in memory, with one user.
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let rows = Connection::open_in_memory()?;
        rows.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", [])?;
        rows.execute("INSERT INTO users VALUES (1, 'Ada')", [])?;
        Ok(Self { rows: Mutex::new(rows), reads: AtomicU32::new(0) })
    }

    fn name(&self, user: u32) -> rusqlite::Result<String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let question = "SELECT name FROM users WHERE id = ?1";
        self.rows.lock().query_row(question, params![user], |row| row.get(0))
    }

    fn rename(&self, user: u32, name: &str) -> rusqlite::Result<usize> {
        self.rows.lock().execute("UPDATE users SET name = ?2 WHERE id = ?1", params![user, name])
    }

    /// Returns the number of reads so far.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::Relaxed)
    }
}

/// The cache in front of the database.
#[derive(Clone)]
pub(crate) struct Users {
    /// Asked first.
    pub(crate) cache: Client,
    /// Asked by one of the readers that miss.
    pub(crate) database: Arc<Database>,
}

impl Users {
    /// Returns a user's name, from the cache if it is there. A cache that fails costs time, but never causes a wrong
    /// name.
    pub(crate) async fn name(&self, user: u32) -> Result<String, Box<dyn Error + Send + Sync>> {
        let load = async || {
            let database = Arc::clone(&self.database);
            // Database calls block, and the runtime's threads must not.
            let name = tokio::task::spawn_blocking(move || database.name(user)).await??;
            Ok::<_, Box<dyn Error + Send + Sync>>(Item::from(name))
        };
        let expiry = Duration::from_secs(3600);
        let item = self.cache.get_or_load(format!("name:{user}"), expiry, load).await?;
        Ok(String::from_utf8(item.value.to_vec())?)
    }

    /// Renames a user in the database, then deletes the copy. After an error the old copy may still be there.
    pub(crate) async fn rename(
        &self,
        user: u32,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (database, new) = (Arc::clone(&self.database), name.to_owned());
        tokio::task::spawn_blocking(move || database.rename(user, &new)).await??;
        self.cache.delete(format!("name:{user}")).await.map(drop).map_err(Failure::into)
    }
}

/// Creates a client that uses meta commands, by which stock memcached gives leases.
pub(crate) fn client(servers: &[String]) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let options = ConnectionOptions { protocol: Protocol::Meta, ..ConnectionOptions::default() };
    let mut builder = Client::builder().options(options);
    for server in servers {
        builder = builder.server(server)?;
    }
    Ok(builder.build()?)
}
