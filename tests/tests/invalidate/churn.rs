//! `guira invalidate` and random transactions of many kinds, while daemon, database, routers and caches are killed at random times. A
//! model knows which keys must go, and which must stay. `GUIRA_TRANSACTIONS` and `GUIRA_KILLS` make it larger.

use guira_tests::churn::{Churn, Dialect, loses_no_delete};
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::postgres::Postgres;

fn size() -> Churn {
    Churn::of_environment(600, 8)
}

#[test]
fn mariadbs_transactions_of_all_kinds_lose_no_delete_over_kills_of_everything() {
    loses_no_delete::<MariaDb>(Dialect::MariaDb, size());
}

#[test]
fn mysqls_transactions_of_all_kinds_lose_no_delete_over_kills_of_everything() {
    if mysql::is_there() {
        loses_no_delete::<MySql>(Dialect::MySql, size());
    }
}

#[test]
fn postgresqls_transactions_of_all_kinds_lose_no_delete_over_kills_of_everything() {
    loses_no_delete::<Postgres>(Dialect::Postgres, size());
}
