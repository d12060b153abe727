//! `guira route` over TLS and with logins, towards clients and towards servers: real binaries on both sides.

use guira_tests::client::Client;
use guira_tests::metrics::Scrape;
use guira_tests::server::{Address, Program, Server, eventually, free_port, own_directory, within};
use guira_tests::tls::{self, Authority};
use rustix::process::Signal;
use std::fs;
use std::path::Path;

/// A router on a plain port and one for TLS.
fn router(config: &str, flags: &[&str]) -> (Server, u16) {
    for _ in 0..3 {
        let (plain, tls) = (free_port(), free_port());
        let (plain_text, tls_text) = (plain.to_string(), tls.to_string());
        let mut all =
            vec!["-p", &plain_text, "--listen-addresses", "127.0.0.1", "--config", config];
        all.extend_from_slice(flags);
        if flags.contains(&"--pem-cert-path") {
            all.extend_from_slice(&["--ssl-port", &tls_text]);
        }
        if let Ok(server) = Server::start_at(Program::Router, &all, Address::Tcp(plain)) {
            return (server, tls);
        }
    }
    panic!("no router came up in three tries");
}

fn pool(port: u16, fields: &str) -> String {
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"localhost:{port}\"]{fields}}}}}, \"route\": \"PoolRoute|A\"}}"
    )
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn line(client: &mut Client) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push(char::from(client.read_exact(1)[0]));
    }
    line
}

#[test]
fn clients_and_servers_are_spoken_to_over_tls() {
    let dir = own_directory();
    let authority = Authority::new("the test's authority");
    let authority_path = dir.join("authority.pem");
    fs::write(&authority_path, &authority.pem).expect("a file");
    let [chain, key] = authority.identity("router").write(&dir);
    let chain_option = format!("ssl_chain_cert={},ssl_key={}", text(&chain), text(&key));
    let options = format!("{chain_option},ssl_ca_cert={},ssl_verify_mode=2", text(&authority_path));
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &options]);
    let config = pool(server.port(), ", \"use_ssl\": true");
    let paths = [text(&chain), text(&key), text(&authority_path)];
    let flags =
        ["--pem-cert-path", paths[0], "--pem-key-path", paths[1], "--pem-ca-path", paths[2]];
    let (router, tls_port) = router(&config, &flags);
    let client = tls::Client::new(&authority, None, true);
    // Handshake and a short record byte by byte, nearly; long records in few pieces: each costs a debug build milliseconds.
    for (piece, value_bytes) in [(7, 2_000), (4_099, 300_000)] {
        let mut secure = client.connect_in_pieces(tls_port, piece);
        let value = "v".repeat(value_bytes);
        let set = format!("set k 0 0 {value_bytes}\r\n{value}\r\n");
        assert_eq!(secure.ask(&set, "\r\n"), "STORED\r\n");
        let whole = format!("VALUE k 0 {value_bytes}\r\n{value}\r\nEND\r\n");
        assert_eq!(secure.ask("get k\r\n", "END\r\n"), whole);
    }
    assert_eq!(router.connect().get("k").map(|value| value.len()), Some(300_000), "and plainly");
    let strangers = Authority::new("another authority");
    let mut refused = tls::Client::new(&strangers, None, true).connect(tls_port);
    assert!(refused.try_ask(b"get k\r\n", b"END\r\n").is_err(), "the router isn't who it says");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_server_whose_certificate_is_anothers_is_not_spoken_to() {
    let dir = own_directory();
    let (authority, strangers) = (Authority::new("one"), Authority::new("another"));
    let [chain, key] = strangers.identity("server").write(&dir);
    let strangers_path = dir.join("authority.pem");
    fs::write(&strangers_path, &authority.pem).expect("a file");
    let options = format!("ssl_chain_cert={},ssl_key={}", text(&chain), text(&key));
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &options]);
    let config = pool(server.port(), ", \"security_mech\": \"ssl\"");
    let (router, _) = router(&config, &["--pem-ca-path", text(&strangers_path)]);
    let reply = router.connect().ask("get k");
    assert!(reply.contains("invalid peer certificate"), "{reply}");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn certificates_are_read_again_on_hangup_and_connections_stay() {
    let dir = own_directory();
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let authority = Authority::new("the test's authority");
    let [chain, key] = authority.identity("before").write(&dir);
    let flags = ["--pem-cert-path", text(&chain), "--pem-key-path", text(&key)];
    let (router, tls_port) = router(&pool(memcached.port(), ""), &flags);
    let client = tls::Client::new(&authority, None, true);
    let mut old = client.connect(tls_port);
    assert_eq!(old.ask("get k\r\n", "END\r\n"), "END\r\n");
    let before = old.server_certificate();
    fs::write(&chain, "no certificate").expect("a file");
    router.signal(Signal::HUP);
    eventually("the bad file is refused", || {
        router.said().contains("the certificates in use stay")
    });
    authority.identity("after").write(&dir);
    router.signal(Signal::HUP);
    eventually("the new certificate is shown", || {
        let mut fresh = client.connect(tls_port);
        fresh.ask("get k\r\n", "END\r\n");
        fresh.server_certificate() != before
    });
    assert_eq!(old.ask("get k\r\n", "END\r\n"), "END\r\n", "who was there stays");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_wanted() {
    let dir = own_directory();
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let authority = Authority::new("the test's authority");
    let authority_path = dir.join("authority.pem");
    fs::write(&authority_path, &authority.pem).expect("a file");
    let [chain, key] = authority.identity("router").write(&dir);
    let (_router, tls_port) = router(
        &pool(memcached.port(), ""),
        &[
            "--pem-cert-path",
            text(&chain),
            "--pem-key-path",
            text(&key),
            "--server-pem-ca-path",
            text(&authority_path),
            "--ssl-require-peer-certs",
        ],
    );
    let mut stranger = tls::Client::new(&authority, None, true).connect(tls_port);
    assert!(stranger.try_ask(b"get k\r\n", b"END\r\n").is_err());
    let identity = authority.identity("client");
    let mut known = tls::Client::new(&authority, Some(&identity), true).connect(tls_port);
    assert_eq!(known.ask("get k\r\n", "END\r\n"), "END\r\n");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn clients_log_in_at_the_router_and_the_router_at_its_servers() {
    let dir = own_directory();
    let (clients, servers) = (dir.join("clients"), dir.join("servers"));
    fs::write(&clients, "alice:one\nbob:two words\n").expect("a file");
    fs::write(&servers, "router:secret\n").expect("a file");
    let memcached = Server::start_tcp(Program::Memcached, &["-Y", text(&servers)]);
    let flags = ["--auth-file", text(&clients), "--server-auth-file", text(&servers)];
    let (router, _) = router(&pool(memcached.port(), ""), &flags);
    let exchange = |client: &mut Client, send: &[u8], lines: usize| {
        client.send(send);
        (0..lines).map(|_| line(client)).collect::<Vec<_>>()
    };
    let mut client = router.connect();
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    assert_eq!(exchange(&mut client, b"get k\r\n", 1), [refused]);
    let wrong = b"set auth 0 0 9\r\nalice two\r\n";
    assert_eq!(exchange(&mut client, wrong, 1), ["CLIENT_ERROR authentication failure\r\n"]);
    let right = b"set auth 0 0 13\r\nbob two words\r\nset k 0 0 1\r\nx\r\nget k\r\n";
    let answers = ["STORED\r\n", "STORED\r\n", "VALUE k 0 1\r\n", "x\r\n", "END\r\n"];
    assert_eq!(exchange(&mut client, right, 5), answers, "what came with the login is served");
    fs::write(&clients, "carol:three\n").expect("a file");
    router.signal(Signal::HUP);
    eventually("the new file counts", || {
        let mut client = router.connect();
        exchange(&mut client, b"set auth 0 0 11\r\ncarol three\r\n", 1) == ["STORED\r\n"]
    });
    let mut late = router.connect();
    let gone = exchange(&mut late, b"set auth 0 0 13\r\nbob two words\r\n", 1);
    assert_eq!(gone, ["CLIENT_ERROR authentication failure\r\n"]);
    assert_eq!(client.get("k").as_deref(), Some(&b"x"[..]), "who was in stays in");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_pool_over_tls_is_refused_where_nobody_says_who_signs() {
    let refused = Server::start_at(
        Program::Router,
        &["-p", &free_port().to_string(), "--config", &pool(1, ", \"use_ssl\": true")],
        Address::Tcp(free_port()),
    );
    let said = refused.expect_err("it doesn't start").said;
    assert!(said.contains("say by --pem-ca-path who signs servers' certificates"), "{said}");
    assert!(said.contains("line: 1"), "{said}");
}

#[test]
fn a_flood_of_clients_that_are_not_let_in_is_a_line_and_a_count() {
    let dir = own_directory();
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let [chain, key] = Authority::new("the test's authority").identity("router").write(&dir);
    let flags = ["--pem-cert-path", text(&chain), "--pem-key-path", text(&key)];
    let (router, tls_port) = router(&pool(memcached.port(), ""), &flags);
    let mut plain = router.connect();
    for _ in 0..300 {
        // A client that only checks whether the port is open.
        drop(Client::connect(&Address::Tcp(tls_port)));
    }
    eventually("all were seen", || plain.stat("num_authorization_failures") == 300);
    within(30, "the count is told", || router.said().contains(" more clients weren't let in"));
    let said = router.said();
    let lines = said.lines().filter(|line| line.contains("isn't let in"));
    assert!(lines.count() < 10, "{said}");
    fs::remove_dir_all(dir).expect("the directory is there");
}

/// A client that opened the port for TLS and said nothing kept its place, its memory and its socket for ten seconds,
/// however many of its kind there were.
#[test]
fn of_many_silent_clients_the_oldest_gives_way_and_one_that_shakes_hands_is_let_in() {
    let dir = own_directory();
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let authority = Authority::new("the test's authority");
    let [chain, key] = authority.identity("router").write(&dir);
    let flags = ["--pem-cert-path", text(&chain), "--pem-key-path", text(&key)];
    let flags = [&flags[..], &["--num-proxies", "1"]].concat();
    let (router, tls_port) = router(&pool(memcached.port(), ""), &flags);
    let mut plain = router.connect();
    let silent: Vec<_> = (0..400).map(|_| Client::connect(&Address::Tcp(tls_port))).collect();
    eventually("the oldest gave way", || plain.stat("num_authorization_failures") >= 144);
    let mut client = tls::Client::new(&authority, None, true).connect(tls_port);
    assert!(client.ask("version\r\n", "\r\n").starts_with("VERSION "));
    drop(silent);
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_certificate_that_has_ended_is_told_of_and_its_end_is_a_metric() {
    let (authority, dir, http) = (Authority::new("authority"), own_directory(), free_port());
    let [chain, key] = authority.identity_until("router", Some(2020)).write(&dir);
    let (http_text, tls) = (http.to_string(), free_port().to_string());
    let identity = ["--pem-cert-path", text(&chain), "--pem-key-path", text(&key)];
    let config = r#"{"route": "NullRoute"}"#;
    let flags = ["--config-str", config, "--http", &http_text, "--ssl-port", &tls];
    let router = Server::start_router(&[&flags[..], &identity].concat());
    let told =
        "WARN the certificate has ended: clients refuse it. Replace its file and send SIGHUP";
    eventually("it is told", || router.said().contains(told));
    let end = || Scrape::of(http).value("guira_route_tls_certificate_end_timestamp_seconds");
    assert_eq!(end(), 1_577_836_800.0);
    authority.identity_until("router", Some(2100)).write(&dir);
    router.signal(Signal::HUP);
    eventually("it is read again", || end() == 4_102_444_800.0);
    fs::remove_dir_all(dir).expect("it is there");
}
