//! What runs out: descriptors and connections. Who is served already notices nothing.

use guira_tests::metrics::get_http;
use guira_tests::server::{Program, Server, eventually, free_port, own_directory};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

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
    // Two of them are accepted, the others wait in the backlog; nobody who is served notices.
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
    let server = Server::start(Program::Guira, &["-c", "40", "-t", "1"]);
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
    let mut used = 0;
    eventually("what was closed is gone", || {
        let before = std::mem::replace(&mut used, descriptors(server));
        thread::sleep(Duration::from_millis(100));
        used == before && used == descriptors(server)
    });
    set_limit(server, used + 1);
    let scrape = get_http(http, "/metrics").1;
    assert_eq!(metric(&scrape, "process_open_fds"), used + 1, "{scrape}");
    assert!(metric(&scrape, "process_resident_memory_bytes") > 1 << 20, "{scrape}");
    assert_eq!(metric(&scrape, "process_max_fds"), used + 1);
}

#[test]
fn the_process_s_figures_are_right_when_no_descriptor_is_left() {
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let http = free_port();
        let text = http.to_string();
        let server = Server::start(Program::Guira, &[&["--http", &text], size].concat());
        // Its threads have what they need once one has answered.
        server.connect().stat("pid");
        eventually("the client has gone", || {
            metric(&get_http(http, "/metrics").1, "memcached_current_connections") == 0
        });
        assert_figures_at_the_limit(&server, http);
    }
    let http = free_port();
    let text = http.to_string();
    let config = r#"{"route": "NullRoute"}"#;
    let router = Server::start_router(&["--config-str", config, "--http", &text]);
    assert_eq!(get_http(http, "/livez").0, "HTTP/1.1 200 OK");
    assert_figures_at_the_limit(&router, http);
}
