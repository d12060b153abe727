//! A look-aside cache for a database, here `SQLite`: `lookaside [SERVER …]`, by default memcached at 127.0.0.1:11211.
//!
//! Readers ask the cache. Of the readers that miss, one gets a lease and reads the database. A writer changes the
//! database, then deletes. The program prints how many reads were made, and how many of them reached the database.

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
