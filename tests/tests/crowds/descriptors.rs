//! Descriptors and connections run out. Clients that are already served notice nothing.

use guira_tests::metrics::get_http;
use guira_tests::server::{Program, Server, eventually, free_port, one_pool, own_directory};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// Descriptors that a server has open.
fn descriptors(server: &Server) -> u64 {
    let list = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
    list.count() as u64
}

fn set_limit(server: &Server, descriptors: u64) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(descriptors), maximum };
    prlimit(pid, Resource::Nofile, limit).expect("a parent may limit its child");
}

#[test]
fn out_of_descriptors_accepting_pauses_says_so_and_goes_on_when_there_are_some() {
    // One worker: once it answers, no thread of the server needs another descriptor to begin.
    let server = Server::start(Program::Guira, &["-v", "-t", "1", "-o", "no_maxconns_fast"]);
    let mut first = server.connect();
    assert_eq!(first.set("a", b"x"), "STORED\r\n");
    set_limit(&server, descriptors(&server) + 2);
    // Two of them are accepted, the others wait in the backlog. Clients that are served don't notice.
    let mut waiting: Vec<_> = (0..6).map(|_| server.connect()).collect();
    while first.stat("listen_disabled_num") < 3 {
        assert_eq!(first.get("a").as_deref(), Some(&b"x"[..]));
    }
    assert!(server.said().contains("accepting pauses"), "{}", server.said());
    set_limit(&server, 1024);
    for client in &mut waiting {
        assert_eq!(client.get("a").as_deref(), Some(&b"x"[..]));
    }
    assert_eq!(first.stat("accepting_conns"), 1);
}

#[test]
fn a_successor_that_cannot_be_let_in_does_not_end_the_server() {
    let file = own_directory().join("memory");
    for memory in [&[][..], &["-m", "1024"]] {
        let flags = [&["-t", "1", "-e", file.to_str().expect("UTF-8")], memory].concat();
        let mut server = Server::start(Program::Guira, &flags);
        let mut client = server.connect();
        assert_eq!(client.set("a", b"x"), "STORED\r\n");
        set_limit(&server, 3);
        let mut door = file.clone().into_os_string();
        door.push(".handover");
        // The system took a descriptor for the first of them before it came; there is none for the next.
        drop(UnixStream::connect(&door).expect("the door is there"));
        eventually("it is counted", || client.stat_word("stats guira", "handovers_failed") != "0");
        assert_eq!(client.get("a").as_deref(), Some(&b"x"[..]));
        assert!(server.is_running(), "{}", server.said());
        drop(server);
        fs::remove_file(&file).ok();
    }
}

#[test]
fn a_connection_over_the_limit_is_told_so_and_one_that_closes_makes_room() {
    let server = Server::start_tcp(Program::Guira, &["-c", "40", "-t", "1"]);
    let mut first = server.connect();
    let mut held = Vec::new();
    while first.stat("rejected_connections") == 0 {
        assert!(held.len() < 60, "the limit of 40 lets {} in", held.len());
        let before = first.stat("curr_connections");
        held.push(server.connect());
        // The system has taken it; the server lets it in, or refuses it, when it gets there.
        eventually("it is let in or refused", || {
            first.stat("curr_connections") > before || first.stat("rejected_connections") > 0
        });
    }
    let told = held.pop().unwrap().read_to_end();
    assert_eq!(told, b"ERROR Too many open connections\r\n");
    for _ in 0..3 {
        assert_eq!(server.connect().read_to_end(), told);
    }
    // A server that refuses everybody says so, once a minute, with an address.
    eventually("it is logged", || server.said().contains("Too many open connections"));
    let said = server.said();
    assert_eq!(said.matches("Too many open connections (-c 40)").count(), 1, "{said}");
    assert!(said.contains("(-c 40): tcp:127.0.0.1:"), "{said}");
    let before = first.stat("curr_connections");
    held.clear();
    while first.stat("curr_connections") == before {}
    assert_eq!(server.connect().set("b", b"y"), "STORED\r\n");
}

/// The value of a metric without labels.
fn metric(scrape: &str, name: &str) -> u64 {
    let line = scrape.lines().find(|line| line.starts_with(&format!("{name} ")));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {scrape}"))
}

/// A scrape of a server that has two descriptors left: one for the connection over which it is asked.
fn assert_figures_at_the_limit(server: &Server, http: u16) {
    // What was closed before may still be among them at first.
    eventually("the figures are those of a server without a free descriptor", || {
        let used = descriptors(server);
        set_limit(server, used + 1);
        let scrape = get_http(http, "/metrics").1;
        assert!(metric(&scrape, "process_resident_memory_bytes") > 1 << 20, "{scrape}");
        assert_eq!(metric(&scrape, "process_max_fds"), used + 1);
        metric(&scrape, "process_open_fds") == used + 1
    });
}

#[test]
fn the_process_s_figures_are_right_when_no_descriptor_is_left() {
    // The threads have what they need once a client was answered.
    let clients_are_gone = |http, name| {
        eventually("the client has gone", || metric(&get_http(http, "/metrics").1, name) == 0);
    };
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let http = free_port();
        let text = http.to_string();
        let server = Server::start(Program::Guira, &[&["--http", &text], size].concat());
        server.connect().stat("pid");
        clients_are_gone(http, "memcached_current_connections");
        assert_figures_at_the_limit(&server, http);
    }
    let http = free_port();
    let text = http.to_string();
    let config = r#"{"route": "NullRoute"}"#;
    let router = Server::start_router(&["--config-str", config, "--http", &text]);
    // It probes before it accepts: an answer to a probe says nothing of the thread that accepts.
    assert!(router.connect().ask("version").starts_with("VERSION"));
    clients_are_gone(http, "guira_route_client_connections");
    assert_figures_at_the_limit(&router, http);
}

#[test]
fn at_the_limit_of_connections_probes_and_scrapes_are_answered() {
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let http = free_port();
        let text = http.to_string();
        let flags = ["-c", "60", "-o", "no_maxconns_fast", "--http", &text];
        let server = Server::start(Program::Guira, &[&flags, size].concat());
        let mut first = server.connect();
        let waiting: Vec<_> = (0..60).map(|_| server.connect()).collect();
        eventually("accepting pauses", || first.stat("listen_disabled_num") > 2);
        assert_eq!(get_http(http, "/livez").0, "HTTP/1.1 200 OK");
        assert_eq!(get_http(http, "/readyz").0, "HTTP/1.1 503 Service Unavailable");
        assert!(metric(&get_http(http, "/metrics").1, "process_open_fds") >= 50);
        // The state lasts, and is told once a minute.
        let before = first.stat("listen_disabled_num");
        eventually("it goes on", || first.stat("listen_disabled_num") > before + 20);
        let said = server.said();
        assert_eq!(said.matches("accepting pauses").count(), 1, "{said}");
        assert!(said.contains("Raise -c, which is 60"), "{said}");
        drop(waiting);
        assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
    }
}

/// A router in front of a server that it has no connection to yet, with an HTTP port, and what it is configured with.
fn router_before(server: &Server, http: &str) -> Server {
    let config = one_pool(&[server.port()]);
    let flags = ["--config-str", &config, "--http", http, "--num-proxies", "1"];
    Server::start_router(&flags)
}

#[test]
fn clients_leave_a_router_the_descriptors_for_its_servers_and_its_probes() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let http = free_port();
    let router = router_before(&server, &http.to_string());
    // The router has accepted a client by the old limit.
    assert!(router.connect().ask("version").starts_with("VERSION"));
    set_limit(&router, 64);
    let mut clients: Vec<_> = (0..60).map(|_| router.connect()).collect();
    eventually("accepting pauses", || router.said().contains("accepting pauses: too many open"));
    assert!(
        router.said().contains("LimitNOFILE=), or set a lower --max-conns."),
        "{}",
        router.said()
    );
    // The first request needs the router's first connection to the server.
    assert_eq!(clients[0].ask("get a"), "END\r\n");
    assert_eq!(get_http(http, "/livez").0, "HTTP/1.1 200 OK");
    assert_eq!(get_http(http, "/readyz").0, "HTTP/1.1 503 Service Unavailable");
    drop(clients);
    assert_eq!(router.connect().ask("get a"), "END\r\n");
    assert!(!router.said().contains("TKO"), "{}", router.said());
}

#[test]
fn a_router_without_descriptors_does_not_hold_it_against_a_server() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let http = free_port();
    let router = router_before(&server, &http.to_string());
    let mut client = router.connect();
    assert!(client.ask("version").starts_with("VERSION"));
    let (head, _) = get_http(http, "/livez");
    assert!(head.contains(" 200 "), "{head}");
    set_limit(&router, 3);
    let reply = client.ask("get a");
    assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    eventually("it says so", || {
        router.said().contains("which isn't at fault: Too many open files")
    });
    set_limit(&router, 1024);
    assert_eq!(client.ask("get a"), "END\r\n", "it tries again at once");
    assert!(!router.said().contains("TKO"), "{}", router.said());
}

#[test]
fn a_router_tells_and_counts_the_clients_that_max_conns_keeps_out() {
    let http = free_port();
    let text = http.to_string();
    let config = r#"{"route": "NullRoute"}"#;
    let flags = ["--config-str", config, "--http", &text, "--max-conns", "2"];
    let router = Server::start_router(&flags);
    let connected = || metric(&get_http(http, "/metrics").1, "guira_route_client_connections");
    // Behind the connection by which the test saw that the router listens.
    let mut clients = vec![router.connect()];
    assert_eq!(clients[0].ask("get a"), "END\r\n");
    eventually("that one has gone", || connected() == 1);
    clients.push(router.connect());
    assert_eq!(clients[1].ask("get a"), "END\r\n");
    assert_eq!(router.connect().read_to_end(), b"");
    eventually("it says so", || router.said().contains("as many as --max-conns allows"));
    assert!(router.said().contains("(from "), "{}", router.said());
    let scrape = get_http(http, "/metrics").1;
    assert_eq!(metric(&scrape, "guira_route_clients_refused_total"), 1, "{scrape}");
    assert_eq!(metric(&scrape, "guira_route_authorization_failures_total"), 0, "{scrape}");
    assert_eq!(metric(&scrape, "guira_route_client_connections_limit"), 2, "{scrape}");
}

#[test]
fn unfinished_requests_for_probes_and_refused_clients_keep_no_probe_out() {
    rustix::process::setrlimit(Resource::Nofile, {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        Rlimit { current: maximum, maximum }
    })
    .expect("a process may use what it has");
    let memory: [&[&str]; 3] = [&[], &["-m", "64"], &["-m", "1024"]];
    let most: [(&[&str], usize); 2] = [(&[], 1100), (&["-c", "100"], 140)];
    for (flags, clients) in
        most.iter().flat_map(|most| memory.map(|size| ([most.0, size].concat(), most.1)))
    {
        let http = free_port();
        let text = http.to_string();
        let server = Server::start(Program::Guira, &[&flags[..], &["--http", &text]].concat());
        let _idle: Vec<_> = (0..clients).map(|_| server.connect()).collect();
        eventually("clients are refused", || {
            metric(&get_http(http, "/metrics").1, "memcached_connections_rejected_total") > 0
        });
        for unfinished in [4, 100] {
            let _half: Vec<_> = (0..unfinished)
                .map(|_| {
                    let mut half = TcpStream::connect(("127.0.0.1", http)).expect("it listens");
                    half.write_all(b"GET /livez HTTP/1.1\r\nX: ").expect("it is there");
                    half
                })
                .collect();
            assert_eq!(get_http(http, "/livez").0, "HTTP/1.1 200 OK");
            assert!(metric(&get_http(http, "/metrics").1, "process_open_fds") > 90);
        }
    }
}
