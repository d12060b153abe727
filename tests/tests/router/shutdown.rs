//! `shutdown` at the router: who may end it, with the flags that a user starts with and with those that say otherwise.
//!
//! Clients of another user are Python's, started as that user. Only root can do that; without it those parts say so and
//! are left out.

use guira_tests::server::{Address, Program, Server, own_directory};
use rustix::process::{Signal, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const CONFIG: &str = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|A"}"#;
const REFUSED: &str = "SERVER_ERROR: shutdown not enabled\r\n";
/// What Debian and others call nobody.
const ANOTHER: u32 = 65_534;

fn router(flags: &[&str]) -> Server {
    Server::start_router(&[&["--config", CONFIG], flags].concat())
}

/// A router that listens only on a unix socket, to which every user can connect.
fn router_on_unix(flags: &[&str]) -> (Server, String) {
    let dir = own_directory();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("our own");
    let path = dir.join("router");
    let text = path.display().to_string();
    let all = [&["--config", CONFIG, "--unix-domain-sock", &text], flags].concat();
    let router = Server::start_at(Program::Router, &all, Address::Unix(path.clone()));
    fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("our own");
    (router.expect("it starts"), text)
}

fn tcp(router: &Server) -> String {
    router.port().to_string()
}

fn has_ended(router: &mut Server) -> bool {
    router.ended_within(20).is_some_and(|status| status.success())
}

/// Has another user ask for `shutdown`, once or many times, and read the answers, or leave at once: what differs in them.
fn another_asks(place: &str, how: &str) -> String {
    let script = r"
import socket, sys
place, how = sys.argv[1:]
s = socket.socket(socket.AF_UNIX if place[0] == '/' else socket.AF_INET6 if how == 'mapped' else socket.AF_INET)
s.settimeout(20)
s.connect(place if place[0] == '/' else ('::ffff:127.0.0.1' if how == 'mapped' else '127.0.0.1', int(place)))
n = 200 if how == 'many' else 1
s.sendall(b'shutdown\r\n' * n)
lines = s.makefile(newline='')
if how != 'leave': sys.stdout.write(''.join({lines.readline() for _ in range(n)}))
";
    let mut command = Command::new("python3");
    command.args(["-c", script, place, how]).current_dir("/").uid(ANOTHER).gid(ANOTHER);
    let output = command.output().expect("python3; `make setup` installs what the tests need");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a line")
}

fn can_be_another() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("clients of another user are left out: only root can start them");
    }
    is_root
}

#[test]
fn a_client_of_the_routers_own_user_ends_it() {
    let mut over_tcp = router(&[]);
    let (mut over_unix, _) = router_on_unix(&[]);
    for router in [&mut over_tcp, &mut over_unix] {
        let mut client = router.connect();
        client.send(b"version\r\nshutdown\r\n");
        let said = String::from_utf8(client.read_to_end()).expect("text");
        assert!(said.starts_with("VERSION") && said.ends_with("\r\nOK\r\n"), "{said}");
        assert!(has_ended(router));
    }
}

#[test]
fn a_client_of_another_user_cannot_end_it() {
    if !can_be_another() {
        return;
    }
    let mut over_tcp = router(&[]);
    let (mut over_unix, path) = router_on_unix(&[]);
    let port = tcp(&over_tcp);
    for (place, how) in [(&port, "ask"), (&port, "mapped"), (&port, "many"), (&path, "ask")] {
        assert_eq!(another_asks(place, how), REFUSED, "{place} {how}");
    }
    for router in [&mut over_tcp, &mut over_unix] {
        assert_eq!(router.connect().ask("get k").split(' ').next(), Some("SERVER_ERROR"));
        assert!(router.is_running());
    }
}

/// The kernel lists the closed end of a connection as root's.
#[test]
fn a_client_of_another_user_that_has_left_cannot_end_it() {
    if !can_be_another() {
        return;
    }
    let mut router = router(&["--num-proxies", "1"]);
    let port = tcp(&router);
    router.signal(Signal::STOP);
    another_asks(&port, "leave");
    router.signal(Signal::CONT);
    // Its request is judged behind the one above.
    assert_eq!(another_asks(&port, "ask"), REFUSED);
    assert!(router.ended_within(2).is_none(), "{}", router.said());
}

#[test]
fn flags_allow_it_to_everybody_and_to_nobody() {
    let mut open = router(&["--enable-shutdown"]);
    if can_be_another() {
        assert_eq!(another_asks(&tcp(&open), "ask"), "OK\r\n");
    } else {
        open.connect().send(b"shutdown\r\n");
    }
    assert!(has_ended(&mut open));
    for flags in [&["--disable-shutdown"][..], &["--disable-shutdown", "--enable-shutdown"]] {
        let mut closed = router(flags);
        let mut client = closed.connect();
        for line in ["shutdown", "shutdown graceful"] {
            assert_eq!(client.ask(line), REFUSED);
        }
        assert!(client.ask("version").starts_with("VERSION") && closed.is_running());
    }
}
