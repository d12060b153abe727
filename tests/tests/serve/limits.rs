//! Limits and levers over sockets: what connections may make a worker keep, what the memory limit says, and the
//! settings of queues that are kept and shown.

use guira_tests::client::Client;
use guira_tests::packet::Packet;
use guira_tests::packet::opcode::GET;
use guira_tests::server::{Program, Server, eventually};

fn serve(flags: &[&str]) -> Server {
    Server::start(Program::Guira, flags)
}

fn setting(client: &mut Client, name: &str) -> String {
    client.stat_word("stats settings", name)
}

#[test]
fn a_multiget_of_more_replies_than_the_limit_allows_is_answered_by_an_error() {
    // Of two buffers of 16 KiB a thread, one is for 32 replies.
    let server = serve(&["-o", "read_buf_mem_limit=1", "-t", "32"]);
    let mut client = server.connect();
    client.exchange(b"set k 0 0 1\r\nx\r\n");
    let get = |keys: usize| format!("get {}\r\n", vec!["k"; keys].join(" "));
    let all = client.exchange(get(32).as_bytes()).bytes;
    assert_eq!(all, format!("{}END\r\n", "VALUE k 0 1\r\nx\r\n".repeat(32)).into_bytes());
    let refused = client.exchange(get(33).as_bytes());
    assert_eq!(refused.bytes, b"SERVER_ERROR out of memory writing get response\r\n");
    assert_eq!(client.stat("response_obj_oom"), 1);
    assert_eq!(client.get("k").unwrap(), b"x");
}

#[test]
fn more_requests_at_once_than_the_limit_allows_end_the_connection_unanswered() {
    let server = serve(&["-o", "read_buf_mem_limit=1", "-t", "32", "-R", "500"]);
    let line = b"mg k v\r\n".repeat(500);
    let packet = Packet::key(GET, "k").to_bytes(1, 0).repeat(500);
    for (requests, ended) in [(line, 1), (packet, 2)] {
        let mut client = server.connect();
        client.send(&requests);
        assert_eq!(client.read_to_end(), b"");
        assert_eq!(server.connect().stat("response_obj_oom"), ended);
    }
}

#[test]
fn connections_that_keep_pieces_of_requests_are_limited() {
    let server = serve(&["-o", "read_buf_mem_limit=1", "-t", "16"]);
    // Four buffers a thread; the fifth connection of a thread that keeps a piece is closed.
    let mut clients: Vec<_> = (0..16 * 5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"set k 0 0 2\r\nx");
    }
    let mut asking = server.connect();
    while asking.stat("read_buf_oom") < 16 {
        std::thread::yield_now();
    }
    for client in &mut clients {
        client.send(b"x\r\n");
    }
    let stored = clients.iter_mut().filter_map(|client| client.try_read_exact(8)).count();
    assert_eq!((stored, asking.stat("read_buf_oom")), (16 * 4, 16));
}

#[test]
fn without_a_limit_long_pipelines_and_multigets_are_answered_whole() {
    let server = serve(&[]);
    let mut client = server.connect();
    let misses = client.exchange("mg k v\r\n".repeat(5000).as_bytes());
    assert_eq!(misses.bytes.len(), 5000 * 4);
    let get = format!("get {}\r\n", vec!["k"; 5000].join(" "));
    assert_eq!(client.exchange(get.as_bytes()).bytes, b"END\r\n");
}

#[test]
fn the_memory_limit_is_told_as_it_was_asked_for() {
    let server = serve(&["-m", "65"]);
    let mut client = server.connect();
    assert_eq!(client.stat("limit_maxbytes"), 65 << 20);
    for (command, answer) in [
        ("cache_memlimit 100", "OK\r\n"),
        ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        (
            "cache_memlimit 999999999",
            "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
        ),
        (
            "cache_memlimit 1000000001",
            "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
        ),
        ("cache_memlimit x", "ERROR\r\n"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    assert_eq!(setting(&mut client, "maxbytes"), (100 << 20).to_string());
    let bound = "cache_memlimit 999999999 is refused: at most 520 MB, eight times -m";
    eventually("the bound is told", || server.said().contains(bound));
    assert_eq!(
        client.ask("cache_memlimit 521"),
        "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
    );
    assert_eq!(client.ask("cache_memlimit 520"), "OK\r\n");
}

#[test]
fn settings_of_queues_are_kept_and_shown() {
    let server = serve(&[]);
    let mut client = server.connect();
    for (command, answer) in [
        ("lru tune 10 25 0.1 2.5", "OK\r\n"),
        ("lru tune 60 25 0.1 2.0", "ERROR hot and warm pcts must not exceed 80\r\n"),
        ("lru tune 10 25 0 2.0", "ERROR hot/warm age factors must be greater than 0\r\n"),
        ("lru temp_ttl 7", "OK\r\n"),
        ("lru mode sideways", "ERROR\r\n"),
        ("lru", "ERROR\r\n"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    for (name, value) in [
        ("hot_lru_pct", "10"),
        ("warm_lru_pct", "25"),
        ("hot_max_factor", "0.10"),
        ("warm_max_factor", "2.50"),
        ("temp_lru", "yes"),
        ("temporary_ttl", "7"),
    ] {
        assert_eq!(setting(&mut client, name), value, "{name}");
    }
    assert_eq!(client.ask("lru temp_ttl -1"), "OK\r\n");
    assert_eq!(setting(&mut client, "temp_lru"), "no");
    assert!(client.ask("stats").contains("moves_to_cold"));
    assert_eq!(client.ask("lru mode flat"), "OK\r\n");
    assert_eq!(setting(&mut client, "lru_segmented"), "no");
    assert!(!client.ask("stats").contains("moves_to_cold"));
    let without = serve(&["-o", "no_lru_maintainer"]);
    assert_eq!(without.connect().ask("lru mode flat"), "ERROR\r\n");
}

/// How many times the server's workers have gone to sleep.
fn sleeps(server: &Server) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let of_task = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|word| word.trim().to_owned())
        };
        of("Name:").filter(|name| name.starts_with("worker"))?;
        of("voluntary_ctxt_switches:")?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| of_task(task.ok()?.path())).sum()
}

#[test]
fn a_worker_sleeps_while_a_request_waits_for_its_turn() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let server = Server::start(Program::Guira, flags);
        let mut client = server.connect();
        for thousand in 0..50 {
            let sets = (0..1000).map(|n| format!("set {thousand}:{n} 0 0 1 noreply\r\nx\r\n"));
            client.send(sets.collect::<String>().as_bytes());
        }
        client.ask("mn");
        let before = sleeps(&server);
        // Each flush but the first waits until the sweeper is through all items, and the socket holds more to read.
        let flushes = "flush_all noreply\r\n".repeat(10);
        let rest = "mn\r\n".repeat(50_000);
        client.send(format!("{flushes}{rest}").as_bytes());
        client.read_exact(4 * 50_000);
        let slept = sleeps(&server) - before;
        assert!(slept >= 9, "{flags:?}: the workers slept {slept} times during ten flushes");
    }
}
