//! TLS: what goes over it, who gets in, certificates that change while the server serves.

use guira_tests::metrics::Scrape;
use guira_tests::server::{Address, Program, Server, eventually, free_port, own_directory};
use guira_tests::tls::{Authority, Client, Connection, Identity};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A server with a certificate, its ports, and the authority that signed it.
struct Setup {
    server: Server,
    authority: Authority,
    dir: PathBuf,
    /// TLS as the flags say, no TLS, TLS without and with certificates of clients.
    ports: [u16; 4],
}

impl Setup {
    fn new(options: &str, flags: &[&str]) -> Setup {
        let authority = Authority::new("the test's authority");
        let dir = own_directory();
        let [chain, key] = authority.identity("server").write(&dir);
        let roots = dir.join("roots.pem");
        fs::write(&roots, &authority.pem).expect("a file");
        let ports = [(); 4].map(|()| free_port());
        let [set, plain, never, always] = ports;
        let list = format!(
            "127.0.0.1:{set},notls:127.0.0.1:{plain},btls:127.0.0.1:{never},mtls:127.0.0.1:{always}"
        );
        let files = format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={}{options}",
            chain.display(),
            key.display(),
            roots.display()
        );
        let own = ["-Z", "-l", &list, "-o", &files];
        let flags = [&own[..], flags].concat();
        let server = Server::start_at(Program::Guira, &flags, Address::Tcp(plain));
        let server = server.unwrap_or_else(|refused| panic!("{refused:?}"));
        Setup { server, authority, dir, ports }
    }

    /// A client without a certificate.
    fn client(&self) -> Client {
        Client::new(&self.authority, None, true)
    }

    fn connect(&self) -> Connection {
        self.client().connect(self.ports[0])
    }
}

/// Whether requests are answered there.
fn is_served(client: &Client, port: u16) -> bool {
    client.connect(port).try_ask(b"get k\r\n", b"END\r\n").is_ok()
}

#[test]
fn what_is_stored_over_tls_comes_back_over_each_version_and_without() {
    let setup = Setup::new("", &["-m", "64"]);
    let value = "0123456789abcdef".repeat(40_000);
    let set = |key: &str| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    for (speaks_tls13, key) in [(true, "a"), (false, "b")] {
        let mut client = Client::new(&setup.authority, None, speaks_tls13).connect(setup.ports[0]);
        assert_eq!(client.ask(&set(key), "\r\n"), "STORED\r\n");
        let reply = client.ask(&format!("get {key}\r\nget none\r\n"), "END\r\nEND\r\n");
        assert_eq!(reply, format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\nEND\r\n", value.len()));
    }
    let mut plain = setup.server.connect();
    assert_eq!(plain.get("a"), Some(value.clone().into_bytes()));
    // More replies than sockets hold wait until the client reads.
    let mut slow = setup.connect();
    let asked = "get a\r\n".repeat(60) + "get end\r\nmn\r\n";
    let replies = slow.ask(&asked, "END\r\nMN\r\n");
    assert_eq!(replies.matches(&value).count(), 60);
}

#[test]
fn records_and_requests_may_arrive_byte_by_byte() {
    let setup = Setup::new("", &[]);
    let mut client = setup.client().connect_in_pieces(setup.ports[0], 1);
    assert_eq!(client.ask("set k 0 0 5\r\nhello\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(client.ask("get k\r\n", "END\r\n"), "VALUE k 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn a_listing_and_a_login_go_over_tls_too() {
    let dir = own_directory();
    let users = dir.join("users");
    fs::write(&users, "foo:bar\n").expect("a file");
    let setup = Setup::new(",ssl_wbuf_size=1", &["-Y", users.to_str().expect("UTF-8")]);
    let mut client = setup.connect();
    assert_eq!(client.ask("get k\r\n", "\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(client.ask("set k 0 0 7\r\nfoo bar\r\n", "\r\n"), "STORED\r\n");
    let sets: String = (0..500).map(|n| format!("set key{n} 0 0 1 noreply\r\nx\r\n")).collect();
    client.ask(&format!("{sets}mn\r\n"), "MN\r\n");
    let listed = client.ask("lru_crawler metadump all\r\n", "END\r\n");
    assert_eq!(listed.matches("key=key").count(), 500);
}

#[test]
fn certificates_change_for_new_connections_and_a_spoilt_file_changes_nothing() {
    let setup = Setup::new("", &["-v"]);
    let shown = || {
        let mut client = setup.connect();
        client.ask("get k\r\n", "END\r\n");
        client.server_certificate()
    };
    let mut old = setup.connect();
    old.ask("get k\r\n", "END\r\n");
    let first = old.server_certificate();
    setup.authority.identity("second").write(&setup.dir);
    assert_eq!(shown(), first, "nobody asked to read it yet");
    assert_eq!(old.ask("refresh_certs\r\n", "\r\n"), "OK\r\n");
    let second = shown();
    assert!(second != first && old.server_certificate() == first);
    fs::write(setup.dir.join("key.pem"), "no key").expect("a file");
    let reply = old.ask("refresh_certs\r\n", "\r\n");
    assert!(reply.starts_with("SERVER_ERROR") && reply.contains("key.pem"), "{reply}");
    assert_eq!(shown(), second);
    setup.authority.identity("third").write(&setup.dir);
    setup.server.signal(Signal::HUP);
    // Each connection gives the server's main thread time to take the signal.
    while shown() == second {}
    assert!(old.stat("time_since_server_cert_refresh") < 60);
}

#[test]
fn clients_show_certificates_where_they_are_asked_to() {
    let setup = Setup::new(",ssl_verify_mode=2,ssl_session_cache", &[]);
    let stranger = Authority::new("another authority").identity("client");
    let friend = setup.authority.identity("client");
    let with = |identity: Option<&Identity>, tls13| Client::new(&setup.authority, identity, tls13);
    let [set, _, never, always] = setup.ports;
    for speaks_tls13 in [true, false] {
        let nobody = with(None, speaks_tls13);
        let (stranger, friend) =
            (with(Some(&stranger), speaks_tls13), with(Some(&friend), speaks_tls13));
        let served = [set, never, always]
            .map(|port| [&nobody, &stranger, &friend].map(|client| is_served(client, port)));
        assert_eq!(served[0], [false, false, true], "ssl_verify_mode=2");
        assert_eq!(served[1], [true, true, true], "btls");
        assert_eq!(served[2], [false, false, true], "mtls");
        // The session that a client without a certificate got at btls: doesn't let it in at the other ports.
        assert!(is_served(&nobody, never) && !is_served(&nobody, always));
    }
    let mut client = with(Some(&friend), true).connect(set);
    eventually("what was refused is counted", || client.stat("ssl_handshake_errors") >= 8);
    let mut one = setup.server.connect();
    assert_eq!(one.stat_word("stats settings", "ssl_verify_mode"), "2");
}

#[test]
fn without_roots_no_client_passes_where_a_certificate_is_demanded() {
    let authority = Authority::new("the test's authority");
    let dir = own_directory();
    let [chain, key] = authority.identity("server").write(&dir);
    let files = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
    let [port, plain] = [free_port(), free_port()];
    let list = format!("mtls:127.0.0.1:{port},notls:127.0.0.1:{plain}");
    let flags = ["-Z", "-l", &list, "-o", &files];
    let server = Server::start_at(Program::Guira, &flags, Address::Tcp(plain)).expect("it starts");
    let friend = authority.identity("client");
    for identity in [None, Some(&friend)] {
        assert!(!is_served(&Client::new(&authority, identity, true), port));
    }
    let mut plain = server.connect();
    eventually("both are counted", || plain.stat("ssl_handshake_errors") == 2);
}

#[test]
fn sessions_are_resumed_if_they_are_kept() {
    for (options, is_kept) in [(",ssl_session_cache", true), ("", false)] {
        let setup = Setup::new(options, &[]);
        for speaks_tls13 in [true, false] {
            let client = Client::new(&setup.authority, None, speaks_tls13);
            let resumed = [(); 2].map(|()| {
                let mut connection = client.connect(setup.ports[0]);
                connection.ask("get k\r\n", "END\r\n");
                connection.is_resumed()
            });
            assert_eq!(resumed, [false, is_kept], "{options} {speaks_tls13}");
        }
        let stats = setup.connect().ask("stats\r\n", "END\r\n");
        assert_eq!(stats.contains("STAT ssl_new_sessions"), is_kept);
    }
}

#[test]
fn old_versions_are_refused_if_that_is_said() {
    let setup = Setup::new(",ssl_min_version=3", &[]);
    let [new, old] = [true, false].map(|tls13| Client::new(&setup.authority, None, tls13));
    assert!(is_served(&new, setup.ports[0]) && !is_served(&old, setup.ports[0]));
    let mut plain = setup.server.connect();
    assert_eq!(plain.stat_word("stats settings", "ssl_min_version"), "tlsv1.3");
}

#[test]
fn what_is_no_handshake_is_counted_and_closed_and_one_that_stalls_is_too() {
    let setup = Setup::new("", &["-o", "relaxed_privileges"]);
    let open = || TcpStream::connect(("127.0.0.1", setup.ports[0])).expect("it accepts");
    let mut said = Vec::new();
    let mut liar = open();
    liar.write_all(b"get k\r\nget k\r\nget k\r\n").expect("it goes out");
    liar.read_to_end(&mut said).ok();
    assert!(!said.windows(3).any(|w| w == b"END"), "{}", said.escape_ascii());
    let mut plain = setup.server.connect();
    eventually("it is counted", || plain.stat("ssl_handshake_errors") == 1);
    let mut stalled = open();
    stalled.write_all(&[0x16, 3, 1, 2]).expect("it goes out");
    // What was sent before another connection was served has been seen.
    let mut served = setup.connect();
    served.ask("get k\r\n", "END\r\n");
    assert_eq!(plain.ask("debugtime 11"), "OK\r\n");
    said.clear();
    stalled.read_to_end(&mut said).ok();
    eventually("it is counted too", || plain.stat("ssl_handshake_errors") == 2);
    assert_eq!(served.ask("get k\r\n", "END\r\n"), "END\r\n");
}

#[test]
fn a_connection_at_rest_holds_little_memory() {
    let setup = Setup::new("", &["-t", "1"]);
    let client = setup.client();
    let value = "x".repeat(60_000);
    let connect = || {
        let mut connection = client.connect(setup.ports[0]);
        connection.ask(&format!("set k 0 0 60000\r\n{value}\r\n"), "STORED\r\n");
        connection.ask("get k\r\n", "END\r\n");
        connection
    };
    let mut all: Vec<Connection> = (0..50).map(|_| connect()).collect();
    let before = setup.server.resident_bytes();
    all.extend((0..200).map(|_| connect()));
    let bytes = setup.server.resident_bytes().saturating_sub(before) / 200;
    assert!(bytes < 48 << 10, "{bytes} bytes a connection");
}

#[test]
fn what_cannot_encrypt_does_not_start() {
    let authority = Authority::new("the test's authority");
    let dir = own_directory();
    let [chain, _] = authority.identity("server").write(&dir);
    let other = own_directory();
    let [_, key] = authority.identity("other").write(&other);
    let mismatch = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
    let no_key = format!("ssl_chain_cert={}", chain.display());
    let nowhere = "ssl_chain_cert=/nowhere/chain.pem";
    for (options, said) in [
        ("", "ssl_chain_cert=FILE"),
        (nowhere, "/nowhere/chain.pem"),
        (&no_key, "Error loading the key"),
        (&mismatch, "Error validating the certificate"),
    ] {
        let port = free_port().to_string();
        let flags = ["-Z", "-p", &port, "-o", options];
        let refused = Server::start_at(Program::Guira, &flags, Address::Tcp(1)).expect_err(options);
        assert_eq!(refused.status.and_then(|s| s.code()), Some(64), "{options} {refused:?}");
        assert!(refused.said.contains(said), "{options} {refused:?}");
    }
}

#[test]
fn who_says_goodbye_within_a_request_is_let_go() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let setup = Setup::new("", flags);
        for piece in ["set k 0 0 100\r\nabc", "get k", "set k 0 0 1000000\r\nabc"] {
            let mut client = setup.connect();
            assert_eq!(client.ask("mn\r\n", "MN\r\n"), "MN\r\n");
            assert!(client.ends_after(piece.as_bytes()), "{piece:?}: the connection stays open");
        }
    }
}

#[test]
fn a_burst_of_handshakes_lets_others_have_their_turns() {
    let setup = Setup::new("", &["-t", "1"]);
    let (mut watching, mut plain) = (setup.server.connect(), setup.server.connect());
    let mut burst: Vec<Connection> = (0..64).map(|_| setup.connect()).collect();
    eventually("all are connected", || watching.stat("curr_connections") > 65);
    // All of it is there when the worker looks.
    setup.server.signal(Signal::STOP);
    for connection in &mut burst {
        connection.begin();
    }
    plain.send(b"stats guira\r\nmn\r\n");
    setup.server.signal(Signal::CONT);
    let first = String::from_utf8(plain.replies()).expect("text");
    let line = first.lines().find_map(|line| line.strip_prefix("STAT tls_handshakes_put_off "));
    let before_the_reply: u64 = line.and_then(|n| n.parse().ok()).expect("a statistic");
    // One goes on in a turn, so few have come before the reply. With four, at most 60 were put off.
    assert!(before_the_reply > 60, "{before_the_reply} of 64 handshakes let the others go first");
    for connection in &mut burst {
        assert_eq!(connection.ask("mn\r\n", "MN\r\n"), "MN\r\n");
    }
}

#[test]
fn a_key_that_only_root_may_read_is_told_at_the_start_and_at_a_refresh() {
    let authority = Authority::new("the test's authority");
    let dir = own_directory();
    let [chain, key] = authority.identity("server").write(&dir);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    let port = free_port();
    let files = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
    let mut command = std::process::Command::new(guira_tests::server::guira());
    let list = format!("127.0.0.1:{port}");
    // Without -u: started by root it becomes another user.
    command.args(["serve", "-Z", "-l", &list, "-o", &files]);
    let said_path = dir.join("stderr");
    let stderr = fs::File::create(&said_path).expect("a file");
    let mut server = command.stderr(stderr).spawn().expect("it runs");
    let client = Client::new(&authority, None, true);
    let mut connection = client.connect(port);
    let refreshed = connection.ask("refresh_certs\r\n", "\r\n");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a file of ours");
    let again = connection.ask("refresh_certs\r\n", "\r\n");
    server.kill().expect("it runs");
    server.wait().expect("it ended");
    let said = fs::read_to_string(&said_path).expect("what it said");
    assert_eq!(again, "OK\r\n");
    if rustix::process::geteuid().is_root() {
        let wanted = "was read with root's rights, which user";
        assert!(said.contains(wanted) && said.contains("key.pem"), "{said}");
        assert!(
            refreshed.starts_with("SERVER_ERROR certificates stay as they were: "),
            "{refreshed}"
        );
        assert!(refreshed.contains(wanted), "{refreshed}");
    } else {
        assert!(!said.contains("root's rights"), "{said}");
        assert_eq!(refreshed, "OK\r\n");
    }
    fs::remove_dir_all(&dir).ok();
}

#[test]
fn values_that_nobody_reads_stay_within_the_budget() {
    const VALUE_BYTES: usize = 1_000_000;
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let setup = Setup::new("", flags);
        let mut asking = setup.server.connect();
        let values = [b'x', b'y'].map(|byte| vec![byte; VALUE_BYTES]);
        assert_eq!(
            values.each_ref().map(|v| asking.set(&format!("k{}", v[0]), v)),
            ["STORED\r\n"; 2]
        );
        let limit: u64 =
            asking.stat_word("stats guira", "unsent_limit_bytes").parse().expect("a number");
        let before = setup.server.resident_bytes();
        let request = format!("get{}\r\n", " k120 k121".repeat(10));
        let mut clients: Vec<_> = (0..150)
            .map(|_| {
                let mut client = setup.connect();
                client.try_ask(request.as_bytes(), b"").expect("it is sent");
                client
            })
            .collect();
        eventually("all have something", || asking.stat("cmd_get") >= 150);
        let mut gets = 0;
        eventually("the server sends no more", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = asking.stat("cmd_get");
            std::mem::replace(&mut gets, now) == now
        });
        // Beside the budget: what a connection over TLS takes, and what is free.
        let taken = setup.server.resident_bytes().saturating_sub(before);
        assert!(taken < limit + (64 << 20), "{flags:?}: {taken} more");
        let refused = asking.stat_word("stats guira", "unsent_refused");
        assert_eq!(refused, "0", "{flags:?}: nobody is closed");
        for n in [0, 149] {
            let all = clients[n].try_ask(b"mn\r\n", b"END\r\nMN\r\n").expect("all of it");
            let mut rest = &all[..];
            for value in values.iter().cycle().take(20) {
                let head = format!("VALUE k{} 0 {VALUE_BYTES}\r\n", value[0]);
                rest = rest.strip_prefix(head.as_bytes()).expect("a head");
                assert!(rest.starts_with(value), "{flags:?}: {n} got another value");
                rest = &rest[VALUE_BYTES + 2..];
            }
            assert_eq!(rest, b"END\r\nMN\r\n");
        }
    }
}

#[test]
fn the_log_has_the_address_and_the_reason_of_a_failed_handshake() {
    let setup = Setup::new("", &[]);
    for _ in 0..3 {
        let mut stranger = TcpStream::connect(("127.0.0.1", setup.ports[0])).expect("it listens");
        stranger.write_all(b"version\r\n").expect("it is there");
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    // Without -v there is a line all the same, and not one for each.
    eventually("it is logged", || setup.server.said().contains("TLS with"));
    let said = setup.server.said();
    assert_eq!(said.matches("WARN TLS with tcp:127.0.0.1:").count(), 1, "{said}");
    assert_eq!(said.matches("TLS with").count(), 1, "{said}");
    fs::remove_dir_all(setup.dir).expect("it is there");
}

/// The end of the certificate that a program shows, as its metrics have it.
fn end_of_certificate(http: u16, name: &str) -> f64 {
    Scrape::of(http).value(name)
}

#[test]
fn a_certificate_that_has_ended_is_told_of_and_its_end_is_a_metric() {
    let (authority, dir, http) = (Authority::new("authority"), own_directory(), free_port());
    let [chain, key] = authority.identity_until("server", Some(2020)).write(&dir);
    let (files, text) =
        (format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display()), http.to_string());
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &files, "--http", &text]);
    let told =
        "WARN the certificate has ended: clients refuse it. Replace its file and send SIGHUP";
    eventually("it is told", || server.said().contains(told));
    let name = "guira_tls_certificate_end_timestamp_seconds";
    assert_eq!(end_of_certificate(http, name), 1_577_836_800.0);
    authority.identity_until("server", Some(2100)).write(&dir);
    server.signal(Signal::HUP);
    eventually("it is read again", || end_of_certificate(http, name) == 4_102_444_800.0);
    assert_eq!(server.said().matches("the certificate has ended").count(), 1);
    fs::remove_dir_all(dir).expect("it is there");
}
