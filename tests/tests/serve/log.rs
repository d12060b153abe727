//! Standard error that is closed, full, or read by nobody: clients are served as if nothing was the matter, by the server
//! and by the router.
//!
//! With standard error closed, a client's `verbosity 2` once ended the server at the next connection, and the cache
//! with it; a pipe that nobody read held the workers up, and kept a router from its first client.

use guira_tests::client::Client;
use guira_tests::server::{
    Address, Program, Running, Server, accepts, command, eventually, free_port, one_pool,
    own_directory,
};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::process::Stdio;

/// A server or router whose standard error the test chooses.
struct Chosen {
    running: Running,
    address: Address,
}

impl Chosen {
    fn start(program: Program, stderr: Stdio, flags: &[&str]) -> Chosen {
        let socket = own_directory().join("socket");
        let mut command = command(program);
        let flag = if program == Program::Router { "--unix-domain-sock" } else { "-s" };
        command.arg(flag).arg(&socket).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let running = Running(command.spawn().expect("it starts"));
        let address = Address::Unix(socket);
        eventually("it listens", || accepts(&address));
        Chosen { running, address }
    }

    fn connect(&self) -> Client {
        Client::connect(&self.address)
    }
}

/// Standard errors of three kinds, and whether a line that is written there fails. The pipe that is full has its reader, who
/// reads nothing.
fn bad_stderrs() -> ([(Stdio, bool); 3], PipeReader) {
    let (unread, full_pipe) = pipe().expect("a pipe");
    fill(&full_pipe);
    let (closed, no_reader) = pipe().expect("a pipe");
    drop(closed);
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    ([(Stdio::from(full_pipe), false), (no_reader.into(), true), (full.into(), true)], unread)
}

/// Fills a pipe to its last byte.
fn fill(mut writer: &PipeWriter) {
    fcntl_setfl(writer, OFlags::NONBLOCK).expect("a pipe");
    while writer.write(&[b'x'; 4096]).is_ok() || writer.write(b"x").is_ok() {}
    fcntl_setfl(writer, OFlags::empty()).expect("a pipe");
}

#[test]
fn no_client_and_no_reader_of_standard_error_can_end_or_hold_up_the_server() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024", "-vv"]] {
        let (stderrs, unread) = bad_stderrs();
        for (stderr, fails) in stderrs {
            let mut server = Chosen::start(Program::Guira, stderr, flags);
            let mut client = server.connect();
            assert_eq!(client.ask("verbosity 2"), "OK\r\n");
            for n in 0..1500 {
                let mut other = server.connect();
                if n % 100 == 0 {
                    assert_eq!(other.set("k", b"v"), "STORED\r\n", "{flags:?}");
                }
            }
            assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]), "{flags:?}");
            if fails {
                eventually("lost lines are counted", || {
                    client.stat_word("stats guira", "log_dropped") != "0"
                });
            }
            assert!(server.running.0.try_wait().expect("a child").is_none(), "{flags:?}");
        }
        drop(unread);
    }
}

#[test]
fn lines_have_the_format_that_was_asked_for() {
    for (format, line) in [
        ("text", "DEBUG server listening ("),
        ("json", "\"level\":\"debug\",\"message\":\"server listening ("),
        ("journald", "<7>server listening ("),
    ] {
        let server = Server::start(Program::Guira, &["-v", "--log-format", format]);
        eventually("it says so", || server.said().contains(line));
        assert_eq!(server.connect().stat_word("stats settings", "log_format"), format);
    }
    let server = Server::start(Program::Guira, &[]);
    server.connect().set("k", b"v");
    assert!(!server.said().contains("DEBUG"), "{}", server.said());
}

const NO_SERVER: &[&str] = &["--config-str", r#"{"route": "NullRoute"}"#];

#[test]
fn no_reader_of_standard_error_can_hold_up_a_router_or_its_clients() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let config = one_pool(&[server.port()]);
    let (stderrs, unread) = bad_stderrs();
    for (stderr, fails) in stderrs {
        // A line for each value that is stored, beside those of the start.
        let flags = ["--config-str", &config, "--enable-logging-route", "-t", "60000"];
        let mut router = Chosen::start(Program::Router, stderr, &flags);
        for _ in 0..5 {
            let stored = router.connect().exchange("set k 0 0 1\r\nv\r\n".repeat(500).as_bytes());
            assert_eq!(stored.bytes, "STORED\r\n".repeat(500).as_bytes());
        }
        let counted = |name: &str| router.connect().stat_word("stats all", name) != "0";
        eventually("lines not made are counted", || counted("log_suppressed"));
        if fails {
            eventually("lost lines are counted", || counted("log_dropped"));
        }
        assert!(router.running.0.try_wait().expect("a child").is_none());
    }
    drop(unread);
}

#[test]
fn a_routers_lines_have_the_format_that_was_asked_for_wherever_they_go() {
    for (format, line) in [
        ("text", "Z INFO listening on 127.0.0.1:"),
        ("json", "\"level\":\"info\",\"message\":\"listening on 127.0.0.1:"),
        ("journald", "<6>listening on 127.0.0.1:"),
    ] {
        let file = own_directory().join("log");
        let path = file.to_str().expect("a path in UTF-8");
        let flags = [NO_SERVER, &["--log-format", format]].concat();
        let router = Server::start_router(&flags);
        eventually("it says so", || router.said().contains(line));
        let router = Server::start_router(&[&flags[..], &["-L", path, "-v", "2"]].concat());
        let in_file = |line| std::fs::read_to_string(&file).is_ok_and(|said| said.contains(line));
        eventually("it writes so", || in_file(line) && in_file("a client comes from 127.0.0.1:"));
        assert_eq!(router.said(), "");
        let shown = router.connect().ask("get __mcrouter__.options(log_format)");
        assert!(shown.contains(format), "{shown}");
    }
    let router = Server::start_router(NO_SERVER);
    assert!(!router.said().contains("a client comes"), "{}", router.said());
}

/// When the router ends, it doesn't report servers that had failed as removed.
#[test]
fn a_router_that_ends_says_nothing_of_servers_that_failed() {
    let config = one_pool(&[free_port()]);
    let flags = ["--config-str", &config, "--asynclog-disable"];
    let mut router = Server::start_router(&flags);
    router.connect().ask("get k");
    eventually("the server is marked", || router.said().contains("marked hard TKO"));
    router.signal(Signal::TERM);
    assert_eq!(router.ended_within(20).and_then(|status| status.code()), Some(0));
    assert!(!router.said().contains("removed from config"), "{}", router.said());
}
