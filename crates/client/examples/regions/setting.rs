//! The application, with both databases and the region's cache.

use std::error::Error;
use std::time::Duration;

use guira_client::{Client, Markers};
use guira_tests::pair::{Pair, Replicating};
use guira_tests::server::Address;
use guira_tests::shop::Shop;

use crate::users::{Database, Users};

/// Creates users with or without remote markers. Each call opens new database sessions.
pub(crate) fn users<D: Replicating>(
    shop: &Shop<Pair<D>>,
    has_markers: bool,
) -> Result<Users, Box<dyn Error + Send + Sync>> {
    let [cache, pool] = [0, 1].map(|number: usize| match shop.clusters[number].server.address() {
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
        Address::Unix(path) => format!("unix:{}", path.display()),
    });
    let cache = Client::builder().server(&cache)?.build()?;
    let pool = Client::builder().server(&pool)?.build()?;
    let markers = Markers::new(pool, "eu", Duration::from_secs(60))?;
    let (mut master, mut replica) = (shop.sql(), shop.database.replica());
    Ok(Users {
        cache,
        markers: has_markers.then_some(markers),
        master: Database::new(move |statement| master.ask(statement)),
        replica: Database::new(move |statement| replica.ask(statement)),
    })
}
