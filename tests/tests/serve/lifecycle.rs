//! Starting, being full, ending: what an operator and an init system do with the process.

use guira_tests::client::Client;
use guira_tests::server::{
    Address, Program, Server, accepts, command, eventually, free_port, guira, own_directory,
    send_signal,
};
use rustix::process::Signal;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

#[test]
fn what_memcached_refuses_is_refused() {
    for flags in [
        &["-B", "http"][..],
        &["-c", "0"],
        &["-c", "-1"],
        &["-t", "0"],
        &["-p", "70000"],
        &["-f", "1"],
        &["-n", "0"],
        &["-R", "0"],
        &["-o", "no_such_thing"],
        &["--no-such-flag"],
    ] {
        assert!(Server::try_start(Program::Guira, flags).is_err(), "{flags:?} was taken");
    }
    let port = free_port();
    let unresolvable = ["-l", "fooble", "-p", &port.to_string()];
    let started = Server::start_at(Program::Guira, &unresolvable, Address::Tcp(port));
    assert!(started.is_err(), "a host that has no address was listened on");
}

#[test]
fn flags_are_taken_in_memcacheds_forms() {
    for flags in [
        &["-m64"][..],
        &["-vv"],
        &["-t2", "-c100", "-vvv"],
        &["--memory-limit=64", "--threads", "2"],
        &["-o", "modern", "-o", "no_lru_crawler,hashpower=16"],
        &["-U", "0"],
        &["-B", "ascii"],
        &["-B", "auto"],
        &["-b", "8675"],
        &["-C"],
        &["-k"],
        &["-L"],
    ] {
        let server = Server::start(Program::Guira, flags);
        assert!(server.connect().ask("version").starts_with("VERSION "), "{flags:?}");
    }
}

#[test]
fn help_and_version_end_well() {
    for flag in ["-h", "--help", "-V", "--version"] {
        let output = Command::new(guira()).args(["serve", flag]).output().unwrap();
        assert!(output.status.success(), "{flag}");
        assert!(!output.stdout.is_empty(), "{flag}");
    }
}

#[test]
fn started_as_memcached_it_takes_memcacheds_command_line() {
    let dir = own_directory();
    let name = dir.join("memcached");
    symlink(guira(), &name).unwrap();
    let socket = dir.join("socket");
    let mut command = Command::new(&name);
    command.arg("-s").arg(&socket).args(["-m", "64", "-u", &whoami()]);
    let mut child = command.spawn().unwrap();
    let address = Address::Unix(socket);
    let up = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        accepts(&address)
    });
    let version = up.then(|| Client::connect(&address).ask("version"));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir_all(dir).unwrap();
    assert!(version.is_some_and(|v| v.starts_with("VERSION ")), "it didn't serve");
}

fn whoami() -> String {
    let output = Command::new("id").arg("-un").output().expect("id is everywhere");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_unix_socket_has_the_rights_asked_for_and_replaces_a_stale_one() {
    let dir = own_directory();
    let socket = dir.join("s");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let flags = ["-s", socket.to_str().unwrap(), "-a", "0770"];
    let server = Server::start_at(Program::Guira, &flags, Address::Unix(socket.clone())).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o770);
    assert!(server.connect().ask("version").starts_with("VERSION "));
    drop(server);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_daemon_writes_its_pid_and_serves() {
    let dir = own_directory();
    let pidfile = dir.join("pid");
    let port = free_port();
    let mut start = command(Program::Guira);
    start.args(["-d", "-l", "127.0.0.1", "-p", &port.to_string(), "-P"]).arg(&pidfile);
    assert!(start.status().unwrap().success(), "the starter ends well");
    let address = Address::Tcp(port);
    eventually("the daemon listens and has written its pid", || {
        accepts(&address) && fs::read_to_string(&pidfile).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid: u32 = fs::read_to_string(&pidfile).unwrap().trim().parse().unwrap();
    let reported = Client::connect(&address).stat("pid");
    send_signal(pid, Signal::TERM);
    let ended = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        !accepts(&address) && !pidfile.exists()
    });
    send_signal(pid, Signal::KILL);
    fs::remove_dir_all(dir).unwrap();
    assert_eq!(reported, u64::from(pid));
    assert!(ended, "SIGTERM ends it and removes the pid file");
}

#[test]
fn signals_end_it_well() {
    for signal in [Signal::INT, Signal::TERM, Signal::USR1] {
        let mut server = Server::start(Program::Guira, &[]);
        server.connect().set("k", b"x");
        server.signal(signal);
        let status = server.ended_within(30);
        assert!(status.is_some_and(|s| s.success()), "{signal:?}: {status:?}, {}", server.said());
    }
}

#[test]
fn a_hangup_does_not_end_it() {
    let mut server = Server::start(Program::Guira, &[]);
    server.signal(Signal::HUP);
    server.signal(Signal::PIPE);
    assert!(server.connect().ask("version").starts_with("VERSION "));
    assert!(server.is_running());
}

#[test]
fn shutdown_ends_it_only_where_allowed() {
    for (line, ends) in [("shutdown\r\n", true), ("shutdown graceful\r\n", true)] {
        let mut server = Server::start(Program::Guira, &["-A"]);
        let mut client = server.connect();
        assert_eq!(client.ask("shutdown foo"), "CLIENT_ERROR invalid shutdown mode\r\n");
        client.send(line.as_bytes());
        assert_eq!(server.ended_within(30).is_some_and(|s| s.success()), ends, "{line:?}");
    }
}

#[test]
fn connections_over_the_limit_are_told_and_closed() {
    let server = Server::start(Program::Guira, &["-c", "100"]);
    let mut kept = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let mut client = server.connect();
        client.send(b"mn\r\n");
        let answer = client.read_exact(4);
        if answer == b"MN\r\n" {
            kept.push(client);
        } else {
            assert_eq!(answer, b"ERRO");
            assert_eq!(client.read_to_end(), b"R Too many open connections\r\n");
            refused += 1;
        }
    }
    assert!((50..=100).contains(&kept.len()), "{} of 100 were let in", kept.len());
    let mut first = kept.swap_remove(0);
    assert_eq!(first.stat("rejected_connections"), refused);
    drop(kept);
    eventually("a closed connection gives its place back", || {
        let mut client = server.connect();
        client.send(b"mn\r\n");
        client.read_exact(4) == b"MN\r\n"
    });
}

#[test]
fn two_families_and_several_ports_are_listened_on() {
    let ports = [free_port(), free_port()];
    let flags = ["-l", &format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1])];
    let server = Server::start_at(Program::Guira, &flags, Address::Tcp(ports[0])).unwrap();
    for port in ports {
        assert!(Client::connect(&Address::Tcp(port)).ask("version").starts_with("VERSION "));
    }
    drop(server);
}

#[test]
fn half_closed_connections_get_their_replies() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let mut client = server.connect();
    client.send(b"set k 0 0 1\r\nx\r\nget k\r\n");
    client.finish();
    let replies = client.read_to_end();
    assert_eq!(String::from_utf8_lossy(&replies), "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
}
