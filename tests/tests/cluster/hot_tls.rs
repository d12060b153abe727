//! Routers with a hot cache where nodes speak TLS with each other: real nodes, a real etcd, and certificates made for the test.

use guira_tests::client::Client;
use guira_tests::metrics::Scrape;
use guira_tests::replicas::{Replicas, told};
use guira_tests::server::{Server, free_port, guira, within};
use guira_tests::tls::Authority;
use std::fs;
use std::process::Command;

/// A router with a hot cache, and its port for metrics.
struct Router {
    server: Server,
    http: u16,
}

fn config(cluster: &Replicas, tls: &str) -> String {
    format!(
        "{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{}\", \"hot_cache\": {{\"entries\": 4}}{tls}}}}}",
        cluster.place()
    )
}

/// The fields that name these files.
fn fields(chain: &str, key: &str, authorities: &str) -> String {
    format!(
        ", \"peer_tls_cert\": \"{chain}\", \"peer_tls_key\": \"{key}\", \"peer_tls_ca\": \"{authorities}\""
    )
}

/// The fields for a certificate that `by` signs.
fn certified(cluster: &Replicas, by: &Authority, name: &str) -> String {
    let directory = cluster.etcd.dir.join(name);
    fs::create_dir(&directory).expect("a directory");
    let [chain, key] = by.identity(name).write(&directory).map(|it| it.display().to_string());
    fields(&chain, &key, &cluster.authorities().display().to_string())
}

impl Router {
    fn start(cluster: &Replicas, tls: &str) -> Self {
        let (config, http) = (config(cluster, tls), free_port());
        let (port, etcd) = (http.to_string(), cluster.etcd_flags());
        let etcd: Vec<&str> = etcd.iter().map(String::as_str).collect();
        let own = ["--config", &config, "--num-proxies", "2", "--http", &port];
        Self { server: Server::start_router(&[&own[..], &etcd[..]].concat()), http }
    }

    /// The number of gets that it answered itself.
    fn hits(&self) -> f64 {
        Scrape::of(self.http).value("guira_route_hot_cache_hits_total")
    }
}

fn number(client: &mut Client, request: &str) -> u64 {
    let told = told(client, request);
    let line = if request.starts_with("get") { 1 } else { 0 };
    let found = told.lines().nth(line).and_then(|it| it.parse().ok());
    found.unwrap_or_else(|| panic!("{request}: {told}"))
}

#[test]
fn routers_with_a_certificate_keep_values_and_others_say_why_they_do_not() {
    let authority = Authority::new("the nodes' authority");
    let cluster = Replicas::start_secured(&authority, false);
    let other = Authority::new("another");
    let routers = ["router-1", "router-2"]
        .map(|name| Router::start(&cluster, &certified(&cluster, &authority, name)));
    let nameless = Router::start(&cluster, "");
    let strange = Router::start(&cluster, &certified(&cluster, &other, "router-3"));
    let all = [&routers[0], &routers[1], &nameless, &strange];
    // Two connections, so that both threads of a router keep the value.
    let mut clients: Vec<Client> =
        all.iter().flat_map(|it| [it.server.connect(), it.server.connect()]).collect();
    assert_eq!(told(&mut clients[0], "set hot 0 0 1\r\n0"), "STORED\r\n");
    let mut count = 0;
    within(120, "both routers answer much", || {
        for writer in 0..clients.len() {
            count += 1;
            assert_eq!(number(&mut clients[writer], "incr hot 1"), count);
            for client in &mut clients {
                for _ in 0..20 {
                    assert_eq!(number(client, "get hot"), count, "an old value");
                }
            }
        }
        routers.iter().all(|it| it.hits() > 500.0)
    });
    for (router, why) in [
        (&nameless, "it speaks TLS: give the ClusterRoute peer_tls_cert and peer_tls_ca"),
        (&strange, "received fatal alert: UnknownCA"),
    ] {
        within(30, why, || {
            let said = router.server.said();
            said.contains("no holds from the node at 127.0.0.1:") && said.contains(why)
        });
        let said = router.server.said();
        assert!(said.matches("no holds from").count() <= 6, "once for a node and a reason: {said}");
        assert_eq!(router.hits(), 0.0, "{why}");
    }
    assert!(!routers.iter().any(|it| it.server.said().contains("no holds from")));
    files_that_cannot_be_used_are_told(&cluster, &authority);
}

#[test]
fn a_router_with_a_certificate_in_front_of_nodes_without_tls_says_so_and_keeps_nothing() {
    let cluster = Replicas::start();
    let authority = Authority::new("an authority");
    cluster.trust(&[&authority]);
    let router = Router::start(&cluster, &certified(&cluster, &authority, "router-1"));
    let mut client = router.server.connect();
    assert_eq!(told(&mut client, "set hot 0 0 1\r\n0"), "STORED\r\n");
    let why = "it ended the TLS handshake: perhaps it speaks no TLS; its log says why";
    for count in 1.. {
        assert_eq!(number(&mut client, "incr hot 1"), count);
        (0..100).for_each(|_| assert_eq!(number(&mut client, "get hot"), count));
        let said = router.server.said();
        if said.contains("no holds from the node at 127.0.0.1:") && said.contains(why) {
            break;
        }
        assert!(count < 1000, "{said}");
    }
    assert_eq!(router.hits(), 0.0);
}

fn files_that_cannot_be_used_are_told(cluster: &Replicas, authority: &Authority) {
    let directory = cluster.etcd.dir.join("mistakes");
    fs::create_dir(&directory).expect("a directory");
    let [chain, key] =
        authority.identity("a").write(&directory).map(|path| path.display().to_string());
    let trusted = cluster.authorities().display().to_string();
    let others_key = cluster.etcd.dir.join("router-3/key.pem").display().to_string();
    let nowhere = directory.join("nowhere.pem").display().to_string();
    let cases = [
        (fields(&nowhere, &key, &trusted), format!("peer_tls_cert {nowhere}: No such file")),
        (fields(&chain, &nowhere, &trusted), format!("peer_tls_key {nowhere}: No such file")),
        (fields(&chain, &key, &nowhere), format!("peer_tls_ca {nowhere}: No such file")),
        (
            fields(&chain, &trusted, &trusted),
            format!("peer_tls_key {trusted}: no private key is in it"),
        ),
        (fields(&chain, &key, &key), format!("peer_tls_ca {key}: no certificate is in it")),
        (fields(&chain, &others_key, &trusted), format!("peer_tls_cert {chain}: ")),
        (format!(", \"peer_tls_cert\": \"{chain}\""), "say by peer_tls_ca who signs".to_owned()),
        (format!(", \"peer_tls_ca\": \"{trusted}\""), "need peer_tls_cert".to_owned()),
    ];
    for (tls, part) in cases {
        let (config, etcd) = (config(cluster, &tls), cluster.etcd_flags());
        let asked = ["route", "explain", "get", "k", "--config", &config];
        let told = Command::new(guira()).args(asked).args(etcd).output().expect("guira runs");
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && said.contains(&part), "{part}: {said}");
    }
}
