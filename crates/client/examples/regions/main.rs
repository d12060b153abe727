//! A region whose replica lags three seconds, without and with remote markers. It starts two MariaDB servers, a cache
//! and `guira invalidate`; Debian's `mariadb-server` must be installed. It renames a user twice, and prints what the
//! writer reads next.

mod setting;
mod users;

use std::error::Error;
use std::thread;
use std::time::Duration;

use guira_tests::mariadb::MariaDb;
use guira_tests::pair::region;

use setting::users;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let shop = region::<MariaDb>(users::SCHEMA, "");
    let late = "STOP SLAVE; CHANGE MASTER TO master_delay = 3; START SLAVE";
    shop.database.replica().ask(late);
    let _daemon = shop.daemon();
    for has_markers in [false, true] {
        println!("{} markers:", if has_markers { "with" } else { "without" });
        let users = users(&shop, has_markers)?;
        for name in ["Grace", "Barbara"] {
            users.rename(1, name).await?;
            for _ in 0..5 {
                let found = users.name(1).await?;
                let (master, replica) = (users.master.reads(), users.replica.reads());
                println!(
                    "  renamed {name}, reads {found}; so far of the master {master}, of the replica {replica}"
                );
                thread::sleep(Duration::from_secs(1));
            }
        }
    }
    Ok(())
}
