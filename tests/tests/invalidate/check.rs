//! What `guira invalidate check`, `init`, `explain` and the daemon's start say to somebody who begins: each mistake comes with what
//! mends it.

use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::shop::{Database, Shop, stop};
use std::net::TcpListener;

const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY)";
const RULES: &str = r#"{"table": "shop.users", "keys": ["user:{id}"]}"#;

fn shop<D: Database>(more: &str) -> Shop<D> {
    Shop::new(1, SCHEMA, RULES, true, more)
}

fn finds<D: Database>(shop: &Shop<D>, code: i32, words: &[&str]) {
    let (ended, told) = shop.asks_with("check", &[]);
    assert_eq!(ended, Some(code), "{told}");
    for words in words {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// Each delete would be refused, forever.
#[test]
fn a_router_without_a_route_for_the_prefix_is_found() {
    let mut shop = shop::<MariaDb>("");
    shop.reconfigure("\"leases\": true", "\"prefix\": \"/eu/c1/\", \"leases\": true");
    let words = [
        "a delete of /eu/c1/guira-invalidate-check is answered 'SERVER_ERROR",
        "No rh found",
        "The router needs a route for this prefix: --route-prefix=/eu/c1/,",
    ];
    finds(&shop, 2, &words);
    shop.clusters[0].serve_prefix("/eu/c1/");
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "{told}");
}

#[test]
fn a_login_that_mariadb_refuses_is_told_with_what_mends_it() {
    logins_are_told::<MariaDb>("");
}

#[test]
fn a_login_that_mysql_refuses_is_told_with_what_mends_it() {
    if mysql::is_there() {
        logins_are_told::<MySql>(r#", "cascades": "accepted""#);
    }
}

fn logins_are_told<D: Database>(more: &str) {
    let shop = shop::<D>(more);
    let file = shop.database.dir().join("password");
    let path = file.display().to_string();
    std::fs::write(&file, "wrong\n").expect("a test can have it");
    finds(&shop, 3, &["error 1045: ", "'guira invalidate init' prints", &path]);
    shop.ends(3, "'guira invalidate init' prints");
    std::fs::write(&file, "secret\n").expect("a test can have it");
    shop.reconfigure("\"user\": \"guira\"", "\"user\": \"other\"");
    // MySQL may ask a user that it doesn't have for another login.
    finds(&shop, 3, &["'guira invalidate init' prints"]);
    // Its SQL makes a user that the server lets in, although it looks up no names.
    let (is_good, told) = shop.asks("init");
    assert!(is_good && told.contains("IDENTIFIED"), "{told}");
    shop.sql().ask(&told.replace('…', "secret"));
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "{told}");
}

#[test]
fn a_port_where_nobody_listens_is_told_with_its_address() {
    let shop = shop::<MariaDb>("");
    let host = format!("127.0.0.1:{}", shop.database.port);
    shop.reconfigure(&host, "127.0.0.1:1");
    finds(&shop, 3, &["source db: 127.0.0.1:1 can't be reached: Connection refused"]);
}

/// No flag names it: a field does.
#[test]
fn a_port_of_metrics_that_is_taken_is_told_by_the_name_of_its_field() {
    let shop = shop::<MariaDb>("");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let place = taken.local_addr().expect("it listens");
    let by = format!("\"http\": \"{place}\", // ");
    shop.reconfigure("\"http\": \"127.0.0.1:", &by);
    shop.ends(2, &format!("guira invalidate: \"http\": {place}: can't listen on {place}"));
}

#[test]
fn a_rule_of_a_table_that_is_not_there_is_told_by_the_daemon_that_starts() {
    let shop = shop::<MariaDb>("");
    shop.reconfigure(RULES, &format!("{RULES}, {}", RULES.replace("users", "carts")));
    let mut daemon = shop.daemon();
    let words = "shop.carts isn't there, or the user can't see it: GRANT REFERENCES ON `shop`.`carts` TO 'guira'@'127.0.0.1'";
    assert!(shop.said().contains(words), "{}", shop.said());
    assert_eq!(shop.metric("tables_missing"), Some(1));
    stop(&mut daemon);
    shop.sql().ask("CREATE TABLE shop.carts (id INT PRIMARY KEY)");
    let _daemon = shop.daemon();
    assert_eq!(shop.metric("tables_missing"), Some(0));
}

#[test]
fn explain_names_what_it_needs_and_says_of_a_bad_mark_that_keys_go_all_the_same() {
    let shop = shop::<MariaDb>(r#", "comments": {"prefixes": ["user:"]}"#);
    shop.reconfigure("\"state\"", "\"region\": \"eu\", \"state\"");
    let (code, told) = shop.asks_with("explain", &[]);
    assert!(code == Some(1) && told.contains("--statement"), "{code:?} {told}");
    let statement = "UPDATE t SET v = 1 /* mcinv:user:2;mark=6b2f0c81a93d5e70 */";
    let (code, told) = shop.asks_with("explain", &["--statement", statement]);
    assert!(code == Some(0) && told.contains("user:2: c1 delete (a comment"), "{told}");
    assert!(told.contains("mark=REGION.TOKEN") && !told.contains("none of its keys"), "{told}");
}
