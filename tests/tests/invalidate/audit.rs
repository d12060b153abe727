//! The delete audit of `guira invalidate`: a delete that was acknowledged and never done is told, and what is done isn't.

use guira_tests::mariadb::MariaDb;
use guira_tests::postgres::Postgres;
use guira_tests::server::within;
use guira_tests::shop::{Database, Shop, stop};

#[test]
fn a_delete_that_mariadbs_cluster_acknowledged_and_lost_is_told_after_each_delay() {
    lost_deletes_are_told::<MariaDb>("shop.users");
}

#[test]
fn a_delete_that_postgresqls_cluster_acknowledged_and_lost_is_told_after_each_delay() {
    lost_deletes_are_told::<Postgres>("public.users");
}

/// The second cluster's router sends deletes nowhere, and says that it has done them.
fn lost_deletes_are_told<D: Database>(table: &str) {
    let schema = "CREATE TABLE users (id INT PRIMARY KEY, v INT); INSERT INTO users VALUES (1, 0), (2, 0), (3, 0)";
    let rules = format!(r#"{{"table": "{table}", "keys": ["user:{{id}}"]}}"#);
    let mut shop = Shop::<D>::new(2, schema, &rules, true, "");
    shop.clusters[1].reroute(|pool| {
        format!(r#"{{"type": "OperationSelectorRoute", "default_policy": "{pool}", "operation_policies": {{"delete": "NullRoute"}}}}"#)
    });
    let audit = r#""audit": {"sample": 1, "at": ["300ms", "2s", "4s"]}, "rules""#;
    shop.reconfigure("\"rules\"", audit);
    let mut daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    for client in &mut clients {
        client.set("user:1", b"old");
        client.set("user:2", b"old");
    }
    sql.ask(&format!("UPDATE {table} SET v = 1"));
    shop.catch_up(&mut sql);
    // What is refilled isn't what was to go.
    clients[0].set("user:2", b"new");
    let judged = |destination: &str, result: &str| {
        ["300ms", "2s", "4s"].map(|at| {
            let labels = [("destination", destination), ("at", at), ("result", result)];
            shop.metric_of("audit_total", &labels).expect("it is there")
        })
    };
    within(30, "all is looked at three times", || shop.metric("audit_followed") == Some(0));
    assert_eq!(judged("c2", "survived"), [2, 2, 2], "{}", shop.said());
    assert_eq!([judged("c2", "gone"), judged("c2", "refilled")], [[0; 3]; 2]);
    assert_eq!(judged("c1", "survived"), [0; 3]);
    // It is refilled before or after the first looks.
    let (gone, refilled) = (judged("c1", "gone"), judged("c1", "refilled"));
    assert!(refilled.is_sorted() && refilled[2] <= 1, "{refilled:?}");
    assert_eq!([0, 1, 2].map(|at| gone[at] + refilled[at]), [2; 3]);
    for destination in ["c1", "c2"] {
        let found = ["value", "nothing"].map(|found| {
            let labels = [("destination", destination), ("found", found)];
            shop.metric_of("audit_keys_total", &labels).expect("it is there")
        });
        assert_eq!(found, [2, 1], "{destination}: user:3 wasn't cached");
    }
    assert_eq!(shop.said().matches("is still cached (audit)").count(), 6, "{}", shop.said());
    for key in ["user:1", "user:2"] {
        let words = format!("after the delete of '{key}' a value is still cached (audit)");
        assert_eq!(shop.said().matches(&words).count(), 3, "{}", shop.said());
    }
    let (is_good, page) = shop.asks("audit");
    assert!(is_good, "{page}");
    let lines: Vec<Vec<&str>> =
        page.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[4][0], &lines[4][3..]), ("4s", &["0", "0", "100.000000", "%"][..]), "{page}");
    assert_eq!(lines[9], ["4s", "0", "0", "2", "0", "0.000000", "%"], "{page}");
    stop(&mut daemon);
    let (code, words) = shop.asks_with("audit", &[]);
    assert!(code == Some(2) && words.contains("no daemon answers"), "{code:?} {words}");
}
