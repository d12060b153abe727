//! The client on the command line, against memcached and Guira: what it prints, its exit codes, and what it refuses.

use guira_tests::server::{Address, Program, Running, Server, free_port, guira, own_directory};
use guira_tests::tls::Authority;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Its standard output, its standard error, and its exit code.
type Said = (Vec<u8>, String, i32);

fn said(output: Output) -> Said {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!error.contains("panicked"), "{error}");
    (output.stdout, error, output.status.code().expect("no signal ended it"))
}

/// Asks a server, whose address is in the environment.
fn ask(server: &str, arguments: &[&str]) -> Said {
    let mut command = Command::new(guira());
    command.args(arguments).env("GUIRA_SERVER", server).stdin(Stdio::null());
    said(command.output().expect("it runs"))
}

fn address(server: &Server) -> String {
    match server.address() {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
    }
}

/// Each command line, what it prints, and its exit code, in this order on one server.
const CONVERSATION: &[(&[&str], &str, i32)] = &[
    (&["get", "hello"], "", 1),
    (&["set", "hello", "world"], "", 0),
    (&["get", "hello"], "world", 0),
    (&["set", "empty", ""], "", 0),
    (&["get", "empty"], "", 0),
    (&["set", "below", "-5"], "", 0),
    (&["set", "option", "--", "-x"], "", 0),
    (&["get", "option"], "-x", 0),
    (&["set", "brief", "x", "--ttl", "5m"], "", 0),
    (&["get", "brief"], "x", 0),
    (&["delete", "hello"], "", 0),
    (&["delete", "hello"], "", 1),
    (&["incr", "hits"], "", 1),
    (&["set", "hits", "5"], "", 0),
    (&["incr", "hits"], "6\n", 0),
    (&["incr", "hits", "10"], "16\n", 0),
    (&["incr", "hits", "-3"], "13\n", 0),
    (&["incr", "hits", "-99"], "0\n", 0),
    (&["incr", "option"], "", 3),
    (&["set", "Größe", "Straße"], "", 0),
    (&["get", "Größe"], "Straße", 0),
];

#[test]
fn a_conversation_has_its_answers_and_exit_codes() {
    let servers = [Program::Memcached, Program::Guira].map(|program| Server::start(program, &[]));
    let behind = Server::start_tcp(Program::Guira, &[]);
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "route": "PoolRoute|A"}}"#,
        address(&behind)
    );
    let router = Server::start_router(&["--config", &config]);
    for server in servers.iter().chain([&router]) {
        let server = address(server);
        for &(line, answer, code) in CONVERSATION {
            let (out, error, ended) = ask(&server, line);
            let out = String::from_utf8(out).unwrap();
            assert_eq!((out.as_str(), ended), (answer, code), "{server} {line:?}: {error}");
            assert_eq!(error.is_empty(), code == 0, "{server} {line:?}: {error}");
        }
    }
}

#[test]
fn mistakes_are_refused_before_anything_is_sent() {
    let long = "k".repeat(251);
    let mistakes: &[(&[&str], &str)] = &[
        (&["get", "a b"], "no blanks"),
        (&["get", "a\nb"], "no control characters"),
        (&["get", ""], "at least one byte"),
        (&["set", &long, "x"], "at most 250 bytes, this one has 251"),
        (&["set", "k"], "<VALUE>"),
        (&["set", "k", "v", "--ttl", "0"], "leave --ttl out"),
        (&["set", "k", "v", "--ttl", "5q"], "500ms, 10s, 5m"),
        (&["incr", "k", "many"], "a number, from -"),
        (&["get", "k", "-s", "a:b:c"], "host:port"),
        (&["get", "k", "--tls-ca", "/nowhere/ca.pem"], "--tls-ca /nowhere/ca.pem: No such file"),
        (&["get", "k", "--user", "me"], "GUIRA_PASSWORD"),
        (&["keys", "user:*"], "unexpected argument"),
    ];
    for (line, words) in mistakes {
        let (out, error, code) = ask("127.0.0.1:1", line);
        assert_eq!((out.len(), code), (0, 2), "{line:?}: {error}");
        assert!(error.contains(words), "{line:?}: {error}");
    }
    let (help, _, code) = ask("127.0.0.1:1", &["get", "--help"]);
    assert!(String::from_utf8_lossy(&help).contains("Examples:") && code == 0);
}

#[test]
fn a_server_that_is_not_there_is_a_failure_that_says_what_to_do() {
    let nobody = format!("127.0.0.1:{}", free_port());
    for line in [&["ping"][..], &["ping", "--wait", "200ms"], &["get", "k"], &["stats"], &["keys"]]
    {
        let (out, error, code) = ask(&nobody, line);
        assert_eq!((out.len(), code), (0, 3), "{line:?}: {error}");
        let is_told = error.contains(&nobody) && error.contains("guira serve");
        assert!(is_told && error.lines().count() == 1, "{line:?}: {error}");
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    for line in [&["ping"][..], &["get", "k"], &["stats"], &["keys"], &["set", "k", "v"]] {
        let (_, error, code) = ask(&server, &[line, &["--timeout", "100ms"]].concat());
        assert_eq!(code, 3, "{line:?}: {error}");
        assert!(error.contains("--timeout"), "{line:?}: {error}");
    }
}

#[test]
fn a_ping_waits_until_the_server_answers() {
    let port = free_port();
    let server = format!("127.0.0.1:{port}");
    let mut ping = Command::new(guira());
    ping.args(["ping", "--wait", "60s"]).env("GUIRA_SERVER", &server).stdout(Stdio::piped());
    let mut ping = Running(ping.spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(matches!(ping.0.try_wait(), Ok(None)), "there is nobody to answer yet");
    let flags = ["-l", "127.0.0.1", "-p", &port.to_string()];
    let _server = Server::start_at(Program::Guira, &flags, Address::Tcp(port)).unwrap();
    assert!(ping.0.wait().unwrap().success());
    let mut line = String::new();
    ping.0.stdout.take().unwrap().read_to_string(&mut line).unwrap();
    assert!(line.starts_with(&format!("{server} answers in ")) && line.contains("1.6."), "{line}");
}

#[test]
fn values_of_any_bytes_go_in_by_standard_input_and_come_out_as_they_are() {
    let value: Vec<u8> =
        (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for program in [Program::Memcached, Program::Guira] {
        let server = Server::start(program, &[]);
        let mut set = Command::new(guira());
        set.args(["set", "bytes", "-"]).env("GUIRA_SERVER", address(&server)).stdin(Stdio::piped());
        let mut set = Running(set.spawn().unwrap());
        set.0.stdin.take().unwrap().write_all(&value).unwrap();
        assert!(set.0.wait().unwrap().success());
        let (out, error, code) = ask(&address(&server), &["get", "bytes"]);
        assert!(out == value && code == 0, "{} bytes, {code}: {error}", out.len());
    }
}

#[test]
fn statistics_are_lines_or_json() {
    for program in [Program::Memcached, Program::Guira] {
        let server = address(&Server::start(program, &[]));
        assert_eq!(ask(&server, &["stats"]).2, 3, "it is gone");
        let server = Server::start(program, &[]);
        let (text, _, code) = ask(&address(&server), &["stats"]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\ncurr_items 0\n") && code == 0, "{text}");
        let (json, ..) = ask(&address(&server), &["stats", "--json"]);
        let json = String::from_utf8(json).unwrap();
        assert!(json.starts_with("{\n  \"pid\": ") && json.ends_with("\n}\n"), "{json}");
        assert!(json.contains("\n  \"version\": \"1.6."), "{json}");
        let (settings, ..) = ask(&address(&server), &["stats", "settings"]);
        assert!(String::from_utf8_lossy(&settings).contains("maxbytes 67108864\n"));
        let (out, error, code) = ask(&address(&server), &["stats", "non", "sense"]);
        assert_eq!((out.len(), code), (0, 3), "{error}");
        assert!(error.contains("it has no statistics named \"non sense\""), "{error}");
    }
    let router = Server::start_router(&["--config", r#"{"route": "NullRoute"}"#]);
    let (out, error, code) = ask(&address(&router), &["stats", "nonsense"]);
    assert_eq!((out.len(), code), (0, 3), "{error}");
    assert!(error.contains("it has no statistics named \"nonsense\""), "{error}");
}

#[test]
fn keys_are_listed_as_they_match() {
    for program in [Program::Memcached, Program::Guira] {
        let server = Server::start(program, &[]);
        let mut client = server.connect();
        for n in 0..3000 {
            client.set(&format!("user:{n}"), b"x");
        }
        client.set("100%:a=b/c", b"x");
        let (all, error, code) = ask(&address(&server), &["keys"]);
        let all = String::from_utf8(all).unwrap();
        assert_eq!((all.lines().count(), code), (3001, 0), "{error}");
        assert!(all.lines().any(|key| key == "100%:a=b/c"), "keys come as they were stored");
        for (pattern, keys) in [("user:*", 3000), ("user:??", 90), ("*%*/?", 1), ("nobody*", 0)] {
            let (some, ..) = ask(&address(&server), &["keys", "--match", pattern]);
            assert_eq!(some.iter().filter(|b| **b == b'\n').count(), keys, "{pattern}");
        }
    }
}

#[test]
fn a_router_lists_no_keys_and_says_so() {
    let router = Server::start_router(&["--config", r#"{"route": "NullRoute"}"#]);
    let (out, error, code) = ask(&address(&router), &["keys"]);
    assert_eq!((out.len(), code), (0, 3), "{error}");
    assert!(error.contains("ask the caches behind the router"), "{error}");
}

#[test]
fn a_reader_that_has_had_enough_ends_it_quietly() {
    let server = Server::start(Program::Guira, &[]);
    server.connect().set("large", &vec![b'x'; 500_000]);
    for line in [&["get", "large"][..], &["stats"], &["ping"], &["keys"]] {
        let mut command = Command::new(guira());
        command.args(line).env("GUIRA_SERVER", address(&server)).stderr(Stdio::piped());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (_, error, code) = said(command.stdout(writer).output().unwrap());
        assert_eq!((error.as_str(), code), ("", 0), "{line:?}");
    }
    let mut command = Command::new(guira());
    command.args(["get", "large"]).env("GUIRA_SERVER", address(&server));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (_, error, code) = said(command.stdout(full).stderr(Stdio::piped()).output().unwrap());
    assert!(error.contains("standard output: No space left") && code == 3, "{error}");
}

#[test]
fn it_logs_in() {
    let dir = own_directory();
    let users = dir.join("users");
    fs::write(&users, "me:secret\n").unwrap();
    for program in [Program::Memcached, Program::Guira] {
        let server = Server::start_tcp(program, &["-Y", users.to_str().unwrap()]);
        let (_, error, code) = ask(&address(&server), &["get", "k"]);
        assert!(error.contains("--user NAME") && code == 3, "{program:?}: {error}");
        for (password, ends) in [("wrong", 3), ("secret", 0)] {
            let mut set = Command::new(guira());
            set.args(["set", "k", "v", "--user", "me", "--timeout", "10s"]);
            set.env("GUIRA_SERVER", address(&server)).env("GUIRA_PASSWORD", password);
            let (_, error, code) = said(set.output().unwrap());
            assert_eq!(code, ends, "{program:?}: {error}");
            assert!(!error.contains("wrong\""), "a password is shown: {error}");
            let is_told = error.trim_end().ends_with("; correct --user or GUIRA_PASSWORD");
            assert_eq!(is_told, code == 3, "{program:?}: {error}");
        }
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn it_speaks_tls() {
    let dir = own_directory();
    let authority = Authority::new("authority");
    let [chain, key] = authority.identity("server").write(&dir);
    let write = |name: &str, pem: &str| {
        let path = dir.join(name);
        fs::write(&path, pem).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let trusted = write("ca.pem", &authority.pem);
    let stranger = write("stranger.pem", &Authority::new("stranger").pem);
    let settings = |chain: &Path, key: &Path| {
        format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display())
    };
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &settings(&chain, &key)]);
    let at = address(&server).replace("127.0.0.1", "localhost");
    assert_eq!(ask(&at, &["set", "k", "v", "--tls-ca", &trusted, "--timeout", "20s"]).2, 0);
    assert_eq!(ask(&at, &["get", "k", "--tls-ca", &trusted, "--timeout", "20s"]).0, b"v");
    let (_, error, code) = ask(&at, &["get", "k", "--tls-ca", &stranger, "--timeout", "20s"]);
    assert!(error.contains("certificate") && code == 3, "{error}");
    let next = "; compare the server's certificate with --tls-ca and the name in -s";
    assert!(error.trim_end().ends_with(next), "{error}");
    let (_, error, code) = ask(&at, &["get", "k", "--timeout", "20s"]);
    let next = "; give --tls-ca FILE, or name its port without TLS";
    assert!(error.trim_end().ends_with(next) && code == 3, "{error}");
    // `openssl req -x509` makes such certificates by default.
    let [chain, key] = authority.as_identity().write(&dir);
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &settings(&chain, &key)]);
    let at = address(&server).replace("127.0.0.1", "localhost");
    let (_, error, code) = ask(&at, &["get", "k", "--tls-ca", &trusted, "--timeout", "20s"]);
    let next = "; the server's certificate is that of an authority: make one with basicConstraints=CA:FALSE";
    assert!(error.trim_end().ends_with(next) && code == 3, "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_server_without_tls_and_a_value_that_is_too_large_are_named_as_such() {
    let dir = own_directory();
    let trusted = dir.join("ca.pem");
    fs::write(&trusted, Authority::new("authority").pem).unwrap();
    let server = Server::start_tcp(Program::Guira, &[]);
    let at = address(&server);
    let trusted = trusted.to_str().unwrap();
    let (_, error, code) = ask(&at, &["get", "k", "--tls-ca", trusted, "--timeout", "20s"]);
    let next = "; the server speaks no TLS there: leave out --tls-ca, or name its port for TLS";
    assert!(error.trim_end().ends_with(next) && code == 3, "{error}");
    let large = dir.join("large");
    fs::write(&large, vec![b'v'; 2 << 20]).unwrap();
    let mut command = Command::new(guira());
    command.args(["set", "k", "-", "--timeout", "20s", "-s", &at]);
    let (_, error, code) =
        said(command.stdin(fs::File::open(&large).unwrap()).output().expect("it runs"));
    let next = "too large for cache; raise the server's -I";
    assert!(error.trim_end().ends_with(next) && code == 3, "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_server_with_as_many_connections_as_it_may_have_is_named_as_such() {
    for program in [Program::Memcached, Program::Guira] {
        let server = Server::start_tcp(program, &["-c", "40", "-t", "1"]);
        let mut first = server.connect();
        let mut held = Vec::new();
        while first.stat("rejected_connections") == 0 {
            held.push(server.connect());
        }
        let (_, error, code) = ask(&address(&server), &["stats", "conns", "--timeout", "20s"]);
        let said = "the server refuses the connection: Too many open connections; try again later, or raise the server's -c";
        assert!(error.trim_end().ends_with(said) && code == 3, "{program:?}: {error}");
    }
}
