//! A successor takes sockets and items over (`--take-over`), or dies on the way: one of the two always serves.

use guira_tests::client::{Client, PATIENCE};
use guira_tests::server::{Address, OwnDirectory, Program, Server, accepts, eventually, free_port};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Flags for the memory: none as a user starts it, and two that are given.
const SIZES: [&[&str]; 3] = [&[], &["-m", "64"], &["-m", "1024"]];

struct Memory(OwnDirectory);

impl Memory {
    fn new() -> Self {
        Self(OwnDirectory::new())
    }

    fn path(&self) -> String {
        self.0.join("memory").display().to_string()
    }

    /// A server that has the memory file, and its port.
    fn start(&self, flags: &[&str]) -> (Server, u16) {
        let server = Server::start_tcp(Program::Guira, &[&["-e", &self.path()], flags].concat());
        let port = server.port();
        (server, port)
    }

    fn knock(&self) -> UnixStream {
        let door = UnixStream::connect(format!("{}.handover", self.path())).expect("a door");
        door.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        door
    }
}

fn hear(door: &mut UnixStream, word: &[u8]) {
    let mut heard = vec![0; word.len()];
    door.read_exact(&mut heard).expect("a word");
    assert_eq!(heard, word);
}

fn connect(port: u16) -> Client {
    Client::connect(&Address::Tcp(port))
}

#[test]
fn who_connects_and_goes_stops_nobody() {
    for size in SIZES {
        let memory = Memory::new();
        let (mut server, _) = memory.start(size);
        let mut client = server.connect();
        assert_eq!(client.set("k", b"v"), "STORED\r\n");
        drop(memory.knock());
        let mut door = memory.knock();
        hear(&mut door, b"sockets");
        door.write_all(b"reidy").expect("it listens");
        hear_the_end(&mut door);
        assert_eq!(client.get("k"), Some(b"v".to_vec()), "the connection goes on");
        assert!(server.is_running());
        // The socket for hand-overs still accepts connections.
        hear(&mut memory.knock(), b"sockets");
    }
}

fn hear_the_end(door: &mut UnixStream) {
    let mut rest = Vec::new();
    // In both cases the connection is over.
    let _ = door.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

/// The successor dies once the old server has stopped for it: clients that connect wait, and the old server serves
/// them.
#[test]
fn a_successor_that_dies_leaves_its_predecessor_serving() {
    for size in SIZES {
        let memory = Memory::new();
        let (mut server, port) = memory.start(size);
        assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
        for _ in 0..2 {
            let mut door = memory.knock();
            hear(&mut door, b"sockets");
            door.write_all(b"ready").expect("it listens");
            hear(&mut door, b"at rest");
            // Nobody serves at this moment, and nobody is refused.
            let mut waiting = TcpStream::connect(("127.0.0.1", port)).expect("a backlog");
            waiting.write_all(b"get k\r\n").expect("sent");
            drop(door);
            let mut answer = [0; 20];
            waiting.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            waiting.read_exact(&mut answer).expect("the old server serves again");
            assert_eq!(&answer[..], b"VALUE k 0 1\r\nv\r\nEND\r\n"[..20].as_ref());
            assert!(server.is_running(), "the same process");
            assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
        }
        let said = server.said();
        assert!(said.contains("the successor is gone without serving"), "{said}");
    }
}

#[test]
fn a_successor_with_another_port_is_refused_and_changes_nothing() {
    let memory = Memory::new();
    let (mut server, port) = memory.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.set("k", b"v"), "STORED\r\n");
    let other = free_port();
    let (path, text) = (memory.path(), other.to_string());
    let flags = ["-l", "127.0.0.1", "-p", &text, "-e", &path, "--take-over"];
    let new = Server::start_at(Program::Guira, &flags, Address::Tcp(other));
    // The server listens for a moment before it looks at what it inherited.
    let said = match new {
        Err(refused) => refused.said,
        Ok(mut new) => {
            assert!(new.ended_within(20).is_some_and(|status| !status.success()));
            new.said()
        }
    };
    let place = format!("the other server listens at 127.0.0.1:{port} too");
    assert!(said.contains(&place) && !said.contains("took"), "{said}");
    assert_eq!(client.get("k"), Some(b"v".to_vec()), "the connection goes on");
    assert!(server.is_running());
}

/// Each of these flags would have the next server start empty.
#[test]
fn a_successor_that_would_start_empty_is_refused_and_changes_nothing() {
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&["-m", "64"], &["-m", "128"], "the size of pages, which follows from -m,"),
        (&["-m", "1024"], &["-m", "64"], "the size of pages, which follows from -m,"),
        (&[], &["-f", "1.5"], "-f or -n changed"),
        (&["-m", "64"], &["-m", "64", "--eviction", "lru"], "another eviction policy"),
    ];
    for (flags, others, why) in cases {
        let memory = Memory::new();
        let (mut server, port) = memory.start(flags);
        let mut client = server.connect();
        assert_eq!(client.set("k", b"v"), "STORED\r\n");
        let (path, text) = (memory.path(), port.to_string());
        let same = ["-l", "127.0.0.1", "-p", &text, "-e", &path, "--take-over"];
        let new = Server::start_at(Program::Guira, &[&same, others].concat(), Address::Tcp(port));
        let said = match new {
            Err(refused) => refused.said,
            // The port answers: it is the old server's.
            Ok(mut new) => {
                assert!(new.ended_within(20).is_some_and(|status| status.code() == Some(71)));
                new.said()
            }
        };
        let is_told = said.contains("would start empty") && said.contains(why);
        assert!(is_told && said.contains("The other server goes on"), "{others:?}: {said}");
        let told = "a successor came and went (its last line says why): this server goes on";
        eventually("the old server says so", || server.said().contains(told));
        assert_eq!(client.stat_word("stats guira", "handovers_failed"), "1");
        assert_eq!(client.get("k"), Some(b"v".to_vec()), "{others:?}: the connection goes on");
        assert!(server.is_running(), "{others:?}");
        // The old server stopped first: that is how an operator insists.
        server.signal(Signal::TERM);
        assert!(server.ended_within(20).is_some_and(|status| status.success()));
        let new = Server::start_at(Program::Guira, &[&same, others].concat(), Address::Tcp(port));
        let new = new.expect("it starts");
        assert_eq!(new.connect().get("k"), None, "{others:?}");
    }
}

/// The operator was once told that another program had the port, and to stop that program.
#[test]
fn a_successor_that_runs_as_another_user_is_told_so() {
    let memory = Memory::new();
    // The file belongs to the user that runs the test.
    let (mut server, port) = memory.start(&["-u", "root"]);
    let mut client = server.connect();
    assert_eq!(client.set("k", b"v"), "STORED\r\n");
    let door = format!("{}.handover", memory.path());
    // Root may connect to any socket: it becomes somebody else. Others may not connect to one of mode 0.
    fs::set_permissions(&door, fs::Permissions::from_mode(0o000)).expect("it is ours");
    fs::set_permissions(memory.0.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let (path, text) = (memory.path(), port.to_string());
    let flags = ["-l", "127.0.0.1", "-p", &text, "-e", &path, "--take-over", "-u", "nobody"];
    let new = Server::start_at(Program::Guira, &flags, Address::Tcp(port));
    let said = match new {
        Err(refused) => refused.said,
        // The port answers: it is the old server's.
        Ok(mut new) => {
            assert!(new.ended_within(20).is_some_and(|status| status.code() == Some(71)));
            new.said()
        }
    };
    assert!(
        said.contains("runs as another user and goes on. Start this one as the same"),
        "{said}"
    );
    assert_eq!(client.get("k"), Some(b"v".to_vec()), "the connection goes on");
    assert!(server.is_running());
}

/// Unlike the case of two servers that both come up, in restart.rs: every socket goes over, of each kind.
#[test]
fn sockets_for_http_and_datagrams_go_over_as_well() {
    let memory = Memory::new();
    let (http, path) = (free_port(), memory.path());
    let text = http.to_string();
    let more = ["--http", &text, "-U", "-1", "-t", "3"];
    let (mut old, port) = memory.start(&more);
    assert_eq!(old.connect().set("k", b"v"), "STORED\r\n");
    let tcp = port.to_string();
    let flags = ["-l", "127.0.0.1", "-p", &tcp, "-e", &path, "--take-over"];
    let flags = [&flags[..], &more, &["-t", "2"]].concat();
    let new = Server::start_at(Program::Guira, &flags, Address::Tcp(port)).expect("it takes over");
    assert!(old.ended_within(20).is_some_and(|status| status.success()), "the old one ends");
    // One for TCP, two for HTTP, three for datagrams.
    eventually("the new one serves HTTP", || accepts(&Address::Tcp(http)));
    assert_eq!(connect(port).get("k"), Some(b"v".to_vec()));
    eventually("it says so", || new.said().contains("took 6 sockets over"));
    assert!(old.said().contains("INFO stopped by a successor, in "), "{}", old.said());
}
