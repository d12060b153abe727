//! A database of two hosts: the second one replicates the first, and can take its place.

use std::path::Path;

use crate::mariadb::MariaDb;
use crate::mysql::MySql;
use crate::server::within;
use crate::shop::{Database, Shop};
use crate::sql::Sql;

/// A database that can replicate another of its kind.
pub trait Replicating: Database {
    /// Starts one of that number, without a schema.
    fn numbered(number: u32, is_replica: bool) -> Self;
    /// Makes schema and users, as [`Database::with`] has them.
    fn prepare(sql: &mut Sql, schema: &str);
    /// Where it is, as the configuration says it.
    fn host(&self) -> String;
    /// The SQL that begins to replicate another.
    fn replicate(of: &Self) -> String;
    /// The SQL that shows how much of another it has.
    const HAS: &str;
    /// The SQL that ends that.
    const CUT: &str;
    /// The SQL that lets the replica fall behind.
    const HOLD: &str;
    /// The SQL that lets it catch up.
    const GO_ON: &str;
    /// The SQL that makes it the primary.
    const PROMOTE: &str;
}

/// Both hosts. The configuration names the replica first.
pub struct Pair<D> {
    /// The primary at first.
    pub first: D,
    /// Its replica.
    pub second: D,
    /// Which of them sessions are opened at.
    pub is_promoted: bool,
}

impl<D: Replicating> Pair<D> {
    /// A session at the replica.
    pub fn replica(&self) -> Sql {
        self.second.opener()()
    }

    /// Waits until the replica has all that the primary has.
    ///
    /// # Panics
    /// If it never has.
    pub fn wait_for_replica(&self) {
        let (mut of, mut at) = (self.first.opener()(), self.replica());
        within(60, "the replica has all", || {
            let end = D::end(&mut of);
            let read = at.ask(D::HAS).concat();
            D::has_read(&mut at, &read, &end)
        });
    }

    /// The replica becomes the primary.
    pub fn promote(&mut self) {
        self.replica().ask(D::PROMOTE);
        self.is_promoted = true;
    }
}

/// A shop of the region `eu`, which isn't the master's: cluster `c1` caches, `c2` has markers, and the daemon follows the replica.
///
/// # Panics
/// If something of it doesn't start.
#[must_use]
pub fn region<D: Replicating>(schema: &str, rules: &str) -> Shop<Pair<D>> {
    let more = r#", "comments": {"prefixes": ["user:"]}"#;
    let shop = Shop::<Pair<D>>::new(2, schema, rules, true, more);
    let (first, second) = (shop.database.first.host(), shop.database.second.host());
    shop.reconfigure(&format!("\"{second}\", \"{first}\""), &format!("\"{second}\""));
    let deletes = shop.config_of("c2");
    shop.reconfigure(&deletes, &deletes.replace("\"leases\": true", "\"markers\": true"));
    shop.reconfigure("\"state\"", "\"region\": \"eu\", \"state\"");
    shop
}

impl<D: Replicating> Database for Pair<D> {
    fn with(schema: &str) -> Self {
        let [first, second] = [(1, false), (2, true)].map(|(number, it)| D::numbered(number, it));
        D::prepare(&mut first.opener()(), schema);
        second.opener()().ask(&D::replicate(&first));
        let pair = Self { first, second, is_promoted: false };
        pair.wait_for_replica();
        pair
    }

    fn dir(&self) -> &Path {
        self.first.dir()
    }

    fn source(&self) -> String {
        let (one, both) = (self.first.host(), [self.second.host(), self.first.host()]);
        let both = both.map(|host| format!("\"{host}\"")).join(", ");
        self.first.source().replace(&format!("\"{one}\""), &both)
    }

    fn opener(&self) -> impl Fn() -> Sql + Clone + Send + 'static {
        if self.is_promoted { self.second.opener() } else { self.first.opener() }
    }

    fn kill(&mut self) {
        self.first.kill();
    }

    fn restart(&mut self) {
        self.first.restart();
    }

    fn end(sql: &mut Sql) -> String {
        D::end(sql)
    }

    fn has_read(sql: &mut Sql, read: &str, end: &str) -> bool {
        D::has_read(sql, read, end)
    }
}

impl Replicating for MariaDb {
    fn numbered(number: u32, is_replica: bool) -> Self {
        let number = format!("--server-id={number}");
        let mut flags = vec![&*number, "--log-slave-updates"];
        flags.extend(is_replica.then_some("--read-only"));
        Self::start(&flags)
    }

    fn prepare(sql: &mut Sql, schema: &str) {
        Self::prepare(sql, schema);
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn replicate(of: &Self) -> String {
        format!(
            "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'guira', master_password = 'secret', \
             master_use_gtid = slave_pos; START SLAVE",
            of.port
        )
    }

    const HAS: &str = "SELECT @@gtid_slave_pos";
    const CUT: &str = "STOP SLAVE";
    const HOLD: &str = "STOP SLAVE SQL_THREAD";
    const GO_ON: &str = "START SLAVE SQL_THREAD";
    const PROMOTE: &str = "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0";
}

impl Replicating for MySql {
    fn numbered(number: u32, is_replica: bool) -> Self {
        let number = format!("--server-id={number}");
        let mut flags = vec![&*number];
        flags.extend(is_replica.then_some("--read-only"));
        Self::start(&flags)
    }

    fn prepare(sql: &mut Sql, schema: &str) {
        Self::prepare(sql, schema);
    }

    fn host(&self) -> String {
        self.dir.join("s").display().to_string()
    }

    fn replicate(of: &Self) -> String {
        format!(
            "CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = {}, source_user = 'guira', \
             source_password = 'secret', source_auto_position = 1, get_source_public_key = 1; START REPLICA",
            of.port
        )
    }

    const HAS: &str = "SELECT @@global.gtid_executed";
    const CUT: &str = "STOP REPLICA";
    const HOLD: &str = "STOP REPLICA SQL_THREAD";
    const GO_ON: &str = "START REPLICA SQL_THREAD";
    const PROMOTE: &str = "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only = 0";
}
