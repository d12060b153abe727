//! Tests of `guira cluster` as a program, with a real etcd.

use guira_chain::view::Member;
use guira_cluster::{Present, Register};
use guira_etcd::EtcdAccess;
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::guira;
use std::process::Command;
use std::sync::Arc;

/// Runs `guira cluster`. Returns the exit code, standard output and standard error.
fn cluster(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(guira()).arg("cluster").args(words).output().expect("guira runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (output.status.code(), out, err)
}

#[test]
fn a_cluster_is_made_and_told_of() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    let (code, _, said) = cluster(&["status", &place]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is no cluster c1: make it by guira cluster init"), "{said}");
    let (code, told, said) = cluster(&["init", &place, "--replicas", "2"]);
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(told.contains("2 copies of each slot, 2 needed for a write"), "{told}");
    let (code, _, said) = cluster(&["init", &place]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is a cluster c1 already"), "{said}");

    // As a controller writes it; nobody lives yet.
    server.put("/guira/c1/away/1", "{\"since\":1795894269}");
    let (_, told, _) = cluster(&["status", &place]);
    let away =
        "away        node 1 since 2026-11-28 19:31:09 UTC; given up at 2026-11-28 19:41:09 UTC";
    assert!(told.contains(away), "{told}");
    let (_, json, _) = cluster(&["status", &place, "--json"]);
    assert!(json.contains("\"given_up_at\": 1795894869"), "{json}");

    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let member = Member {
        name: "store-1".to_owned(),
        peers: "10.0.0.1:11312".to_owned(),
        clients: "10.0.0.1:11311".to_owned(),
        zone: "a".to_owned(),
        weight: 1,
        run: "9f3c".to_owned(),
    };
    let _present = Present::begin(register, 1, &member, 60).expect("etcd answers");
    let (code, told, _) = cluster(&["status", &place]);
    assert_eq!(code, Some(0));
    for line in [
        "cluster     c1, epoch 1",
        "controller  none: no node stands for election",
        "slots       0 whole, 16384 degraded (of these 0 read-only, 16384 without a living copy)",
        "1   store-1  10.0.0.1:11312  a     waiting  16384    16384  16384   0",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(!told.contains("away"), "{told}");
    let (code, json, _) = cluster(&["status", &place, "--json"]);
    assert_eq!(code, Some(0));
    for part in [r#""lost": 16384"#, r#""state": "waiting""#, r#""controller": null"#] {
        assert!(json.contains(part), "{part}\n{json}");
    }
}

#[test]
fn a_mistake_is_told_with_what_to_do() {
    let cases: [(&[&str], &str); 5] = [
        (&["status", "etcd:h/c1"], "write etcd:HOST:PORT/NAME"),
        (&["status", "etcd:h:1/a/b"], "a name has letters, digits"),
        (&["init", "etcds:h:1/c1"], "give --etcd-cacert FILE"),
        (&["init", "etcd:h:1/c1", "--replicas", "1", "--min-write", "2"], "no write would ever"),
        (&["init", "etcd:h:1/c1", "--replicas", "0"], "0 is not in 1..=16"),
    ];
    for (words, part) in cases {
        let (code, _, said) = cluster(words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}
