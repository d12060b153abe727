//! A cache beside a database, `SQLite` here: `lookaside [SERVER …]`, by default memcached at 127.0.0.1:11211.
//!
//! Readers ask the cache, and of those who miss one reads the database, by a lease; a writer changes the database, then
//! deletes. Prints how many reads the database saw of how many were asked.

mod users;

use std::error::Error;
use std::sync::Arc;

use users::{Database, Users, client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut servers: Vec<String> = std::env::args().skip(1).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1:11211".into());
    }
    let users = Users { cache: client(&servers)?, database: Arc::new(Database::new()?) };
    for name in ["Grace", "Barbara"] {
        users.rename(1, name).await?;
        let before = users.database.reads();
        let readers: Vec<_> = (0..100)
            .map(|_| {
                let users = users.clone();
                tokio::spawn(async move { users.name(1).await })
            })
            .collect();
        for reader in readers {
            let found = reader.await??;
            assert_eq!(found, name);
        }
        println!(
            "{name}: 100 reads, of which the database saw {}",
            users.database.reads() - before
        );
    }
    Ok(())
}
