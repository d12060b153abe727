//! The HTTP port: what Prometheus scrapes, what probes ask, and what it refuses.

use guira_tests::client::PATIENCE;
use guira_tests::etcd::Etcd;
use guira_tests::metrics::{Scrape, ask_http, get_http};
use guira_tests::server::{
    Address, Program, Running, Server, accepts, free_port, guira, one_pool, own_directory, within,
    workspace,
};
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A server with an HTTP port.
fn start(flags: &[&str]) -> (Server, u16) {
    let port = free_port();
    let server = Server::start(Program::Guira, &[&["--http", &port.to_string()], flags].concat());
    (server, port)
}

/// One request of each kind, so that every series is there.
fn ask_everything(server: &Server) {
    let mut client = server.connect();
    client.set("a", b"x");
    client.set("n", b"5");
    client.exchange(b"cas a 0 0 1 1\r\ny\r\n");
    for command in ["get a", "get b", "incr n 1", "decr n 1", "delete c", "touch a 0"] {
        client.ask(command);
    }
}

#[test]
fn every_metric_of_memcached_exporter_is_there_by_name_type_and_label() {
    let (server, port) = start(&[]);
    ask_everything(&server);
    let scrape = Scrape::of(port);
    let path = workspace().join("tests/tables/memcached_exporter.txt");
    let table = fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(scrape.types.get(name).map(String::as_str), Some(kind), "{name}");
        let labels: Vec<&str> = words.next().unwrap_or_default().split(',').collect();
        let is_there = scrape.series.keys().any(|series| {
            series.split('{').next() == Some(name) && labels.iter().all(|l| series.contains(l))
        });
        assert!(is_there, "{line}");
        count += 1;
    }
    assert!(count > 80, "the table has {count} lines");
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_are_there() {
    let directory = own_directory();
    let flash = format!("ext_path={}:64m", directory.join("flash").display());
    let (server, port) = start(&["-t", "1", "-m", "64", "-o", &flash]);
    ask_everything(&server);
    let scrape = Scrape::of(port);
    fs::remove_dir_all(directory).ok();
    let port = free_port();
    let config = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|A"}"#;
    let text = port.to_string();
    let router = Server::start_router(&["--config-str", config, "--http", &text]);
    // It listens before its threads have their routes.
    assert!(router.connect().ask("get a").starts_with("SERVER_ERROR"));
    let routers = Scrape::of(port);
    let port = free_port();
    let _store = Server::start(Program::Store, &["--http", &port.to_string()]);
    let stores = Scrape::of(port);
    let mut names = scrape.names();
    names.extend(routers.names());
    names.extend(stores.names());
    let nodes = node_of_a_cluster();
    names.extend(nodes.names());
    let (_daemon, daemons) = invalidate_without_database();
    names.extend(daemons.names());
    for (path, least) in
        [("packaging/grafana/dashboard.json", 20), ("packaging/prometheus/alerts.yaml", 10)]
    {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        let used = metrics_in(&text);
        assert!(used.len() >= least, "{path} names {used:?}");
        for name in used {
            assert!(names.contains(name), "{path}: {name} is in no scrape");
        }
    }
    assert_eq!(metrics_in("rate(guira_typo_total{job=\"guira\"}[5m])"), ["guira_typo_total"]);
    assert!(!names.contains("guira_typo_total"));
}

/// What the only node of a cluster shows.
fn node_of_a_cluster() -> Scrape {
    let (etcd, port) = (Etcd::start(), free_port());
    let place = format!("etcd:127.0.0.1:{}/birds", etcd.port());
    let made = Command::new(guira()).args(["cluster", "init", &place, "--replicas", "1"]).output();
    assert!(made.expect("guira runs").status.success());
    let (peers, http) = (format!("127.0.0.1:{}", free_port()), port.to_string());
    let flags = ["--cluster", &place, "--name", "a", "--peers", &peers, "--http", &http];
    let _node = Server::start(Program::Store, &flags);
    let head = "guira_store_cluster_slots{role=\"head\"}";
    within(30, "it heads all slots", || Scrape::of(port).value(head) == 16_384.0);
    Scrape::of(port)
}

/// A daemon whose database is away: its metrics are there.
fn invalidate_without_database() -> (Running, Scrape) {
    let (dir, port) = (own_directory(), free_port());
    let config = dir.join("invalidate.json");
    let text = format!(
        r#"{{"state": "{}/state", "http": "{port}", "rules": [{{"table": "a.b", "keys": ["k"]}}],
            "sources": {{"db": {{"kind": "mariadb", "hosts": ["127.0.0.1:1"], "user": "guira", "server_id": 7}}}},
            "destinations": {{"c1": {{"routers": ["127.0.0.1:1"]}}}}}}"#,
        dir.display()
    );
    fs::write(&config, text).expect("a file");
    let mut daemon = Command::new(guira());
    daemon.args(["invalidate", "run", "-c"]).arg(&config).stderr(Stdio::null());
    let daemon = Running(daemon.spawn().expect("it runs"));
    within(20, "it serves metrics", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    // It serves them before its threads have their places.
    let is_whole = || Scrape::of(port).names().contains("guira_invalidate_router_connected");
    within(20, "the destination has metrics", is_whole);
    let scrape = Scrape::of(port);
    fs::remove_dir_all(dir).ok();
    (daemon, scrape)
}

/// The number behind an expression in the alert rules.
fn threshold(expression: &str) -> f64 {
    let rules = fs::read_to_string(workspace().join("packaging/prometheus/alerts.yaml"))
        .expect("the rules");
    let behind = rules.split_once(&format!("{expression} > ")).expect(expression).1;
    behind.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn what_warns_of_the_limit_of_connections_can_be_reached() {
    for connections in ["100", "1024"] {
        let (server, port) = start(&["-c", connections]);
        let mut first = server.connect();
        let mut held = Vec::new();
        while first.stat("rejected_connections") == 0 {
            held.push(server.connect());
        }
        let scrape = Scrape::of(port);
        for (used, limit) in [
            ("memcached_current_connections", "memcached_max_connections"),
            ("process_open_fds", "process_max_fds"),
        ] {
            let share = scrape.value(used) / scrape.value(limit);
            assert!(share > threshold(&format!("{used} / {limit}")), "-c {connections}: {share}");
        }
    }
}

/// Words that begin as metrics do.
fn metrics_in(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| ["memcached_", "guira_", "process_"].iter().any(|p| word.starts_with(p)))
        .collect()
}

#[test]
fn prometheus_takes_the_alert_rules_and_the_scrape() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no promtool here (Debian's package prometheus has it)");
        return;
    }
    let rules = workspace().join("packaging/prometheus/alerts.yaml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(rules).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let (server, port) = start(&[]);
    ask_everything(&server);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(get_http(port, "/metrics").1.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap().stderr;
    let said = String::from_utf8_lossy(&said);
    // Some of the exporter's names break the rules for names; what is ours keeps them.
    for line in said.lines() {
        assert!(line.starts_with("memcached_"), "promtool: {line}");
    }
}

#[test]
fn a_scrape_tells_what_stats_tells() {
    let (server, port) = start(&["-t", "2"]);
    ask_everything(&server);
    let mut client = server.connect();
    let scrape = Scrape::of(port);
    for (series, stat) in [
        (r#"memcached_commands_total{command="get",status="hit"}"#, "get_hits"),
        (r#"memcached_commands_total{command="get",status="miss"}"#, "get_misses"),
        ("memcached_current_items", "curr_items"),
        ("memcached_limit_bytes", "limit_maxbytes"),
        ("guira_threads", "threads"),
    ] {
        let value = client.stat(stat);
        assert!(value > 0, "{stat}");
        assert!((scrape.value(series) - value as f64).abs() < 0.5, "{series} and {stat}: {value}");
    }
    // Two sets and a cas, which is none of them.
    let sets = scrape.value(r#"memcached_commands_total{command="set",status="hit"}"#);
    assert!((sets - 2.0).abs() < 0.5, "{sets} sets");
}

#[test]
fn a_sample_of_requests_is_timed_by_command_and_outcome() {
    let (server, port) = start(&["-t", "1"]);
    let mut client = server.connect();
    // One request a turn: of so many in a row each kind has turns of the sample.
    for _ in 0..64 {
        client.set("a", &[b'x'; 100]);
        client.ask("get a");
        client.ask("get b");
    }
    let scrape = Scrape::of(port);
    for (command, status) in [("set", "hit"), ("get", "hit"), ("get", "miss")] {
        let series = |part: &str, le: &str| {
            format!(
                "guira_command_duration_seconds{part}{{command=\"{command}\",status=\"{status}\"{le}}}"
            )
        };
        let count = scrape.value(&series("_count", ""));
        assert!((1.0..=64.0).contains(&count), "{command} {status}: {count}");
        assert!(scrape.value(&series("_sum", "")) > 0.0);
        let below = scrape.value(&series("_bucket", ",le=\"4.294967296\""));
        assert!((below - count).abs() < 0.5, "{below} of {count}");
    }
    let values = scrape.value("guira_value_size_bytes_count");
    assert!(values >= 1.0);
    let bucket = |le: &str| scrape.value(&format!("guira_value_size_bytes_bucket{{le=\"{le}\"}}"));
    assert!(bucket("96") < 0.5 && (bucket("128") - values).abs() < 0.5);
}

#[test]
fn evicted_items_are_counted_by_how_long_nobody_wanted_them() {
    let (server, port) = start(&["-m", "2", "-t", "1"]);
    let mut client = server.connect();
    for n in 0..6_000 {
        client.set(&format!("key-{n}"), &[b'x'; 1000]);
    }
    let scrape = Scrape::of(port);
    let evicted = scrape.value("memcached_items_evicted_total");
    assert!(evicted > 0.0);
    assert!(scrape.value("guira_eviction_age_seconds_count") > 0.0);
}

#[test]
fn probes_are_answered_and_other_requests_refused() {
    let (_server, port) = start(&[]);
    for (path, status) in [
        ("/livez", "HTTP/1.1 200 OK"),
        ("/readyz?verbose", "HTTP/1.1 200 OK"),
        ("/", "HTTP/1.1 200 OK"),
        ("/metric", "HTTP/1.1 404 Not Found"),
    ] {
        assert_eq!(get_http(port, path).0, status, "{path}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "405"),
        ("get a\r\n", "400"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n", "400"),
        (long.as_str(), "431"),
    ] {
        let answer = ask_http(port, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.20}: {answer:.60}");
    }
    let head = ask_http(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("version=0.0.4") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_client_that_never_ends_its_request_holds_up_nobody() {
    let (_server, port) = start(&[]);
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET /metrics HT").unwrap();
        slow.push(stream);
    }
    assert_eq!(get_http(port, "/livez").0, "HTTP/1.1 200 OK");
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let (mut server, port) = start(&[]);
    // Its request is under way, so the server waits for it.
    let mut client = server.connect();
    client.send(b"set a 0 0 5\r\nab");
    server.signal(Signal::USR1);
    let mut status = String::new();
    while !status.contains("503") {
        assert!(server.is_running(), "it ended before it said so: {status}");
        status = get_http(port, "/readyz").0;
    }
    assert_eq!(get_http(port, "/livez").0, "HTTP/1.1 200 OK");
}

#[test]
fn without_the_flag_there_is_no_http_port_and_a_bad_address_is_refused() {
    for (address, code) in [("localhost:x", 1), ("192.0.2.1:1", 71)] {
        let refused = Server::try_start(Program::Guira, &["--http", address]).unwrap_err();
        assert_eq!(refused.status.and_then(|s| s.code()), Some(code), "{address}: {refused:?}");
    }
}

/// As many silent connections as there are places, and again: a probe is answered, at the cost of the oldest of them.
#[test]
fn silent_connections_keep_no_probe_out() {
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let (_server, port) = start(size);
        probe_beside_silent_connections(port);
    }
    let (server, http) = (Server::start_tcp(Program::Guira, &[]), free_port());
    let config = one_pool(&[server.port()]);
    let text = http.to_string();
    let _router = Server::start_router(&["--config-str", &config, "--http", &text]);
    within(20, "the router's port", || accepts(&Address::Tcp(http)));
    probe_beside_silent_connections(http);
}

fn probe_beside_silent_connections(port: u16) {
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"GET /livez HT").expect("it reads");
        stream
    };
    // The places of both programs, twice.
    let silent: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    assert!(get_http(port, "/livez").0.contains("200 OK"));
    // It was answered because the oldest went, not because all of them ran out of their time.
    let newest = silent.last().expect("there are some");
    newest.set_nonblocking(true).expect("an option");
    let mut newest = newest;
    let read = newest.read(&mut [0]);
    assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "the newest is open");
    let mut oldest = &silent[0];
    oldest.set_read_timeout(Some(PATIENCE)).expect("an option");
    let read = oldest.read(&mut [0]);
    let is_open = read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(!is_open, "the oldest is closed");
}

/// A bound such as 0.0000030720000000000004 is another series for a program that computes it, and hard to read.
#[test]
fn bounds_are_short_help_is_plain_and_versions_have_one_form() {
    let (server, serve) = start(&[]);
    ask_everything(&server);
    let (own, http) = (Server::start_tcp(Program::Guira, &[]), free_port());
    let config = one_pool(&[own.port()]);
    let text = http.to_string();
    let router = Server::start_router(&["--config-str", &config, "--http", &text]);
    router.connect().get("k");
    within(20, "the router's port", || accepts(&Address::Tcp(http)));
    let mut versions = Vec::new();
    for (port, least) in [(serve, 40), (http, 15)] {
        let scrape = get_http(port, "/metrics").1;
        let bounds =
            scrape.lines().filter_map(|line| line.split_once("le=\"")?.1.split('"').next());
        let bounds: Vec<&str> = bounds.collect();
        assert!(bounds.len() >= least, "{bounds:?}");
        let long = bounds.iter().find(|bound| bound.trim_matches(['0', '.']).len() > 12);
        assert_eq!(long, None, "a bound of so many digits");
        for help in scrape.lines().filter(|line| line.starts_with("# HELP")) {
            assert!(!help.contains(['`', '[', '*']), "{help}");
            assert!(!help.contains("As above"), "{help}: it is read alone");
        }
        let version = scrape.lines().find(|line| line.contains("build_info{"));
        versions.push(version.and_then(|line| line.split_once("version=")).map(|v| v.1.to_owned()));
    }
    assert!(versions[0].is_some() && versions[0] == versions[1], "{versions:?}");
    assert_eq!(server.connect().ask("version"), router.connect().ask("version"));
}
