//! `guira store` with its default flags under clients that send halves, don't read, or are many: bounded, and serving.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually, within};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What all clients together may hold by default, and what the process takes beside it: code, threads, the log's index,
/// buffers, the records that were written last.
const BUDGET: u64 = 256 << 20;
const SLACK: u64 = 96 << 20;
const BIG: usize = 1_000_000;

fn start() -> Server {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("within the maximum");
    Server::start_tcp(Program::Store, &[])
}

fn raw(server: &Server) -> TcpStream {
    let port = server.port();
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    stream.set_nonblocking(true).expect("a socket");
    stream
}

/// Sends as much as is taken.
fn push(stream: &mut TcpStream, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            // It isn't read from, or was closed.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits until all that clients have sent is read. While they send, all are alike, and anybody may have to give way.
fn until_all_hang(client: &mut Client) {
    let mut before = [0; 2];
    eventually("they hang", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = ["client_memory_bytes", "client_memory_refusals"].map(|name| client.stat(name));
        std::mem::replace(&mut before, now) == now
    });
}

#[test]
fn halves_of_values_from_900_clients_hold_no_more_than_the_budget() {
    let server = start();
    let mut client = server.connect();
    assert_eq!(client.set("small", b"hello"), "STORED\r\n");
    let half = [b"set k 0 0 1000000\r\n", &vec![b'x'; BIG - 1][..]].concat();
    let mut streams: Vec<_> = (0..900).map(|_| raw(&server)).collect();
    for _ in 0..3 {
        streams.iter_mut().for_each(|stream| push(stream, &half));
        assert_eq!(client.get("small").as_deref(), Some(&b"hello"[..]));
        until_all_hang(&mut client);
        assert_eq!(client.set("big", &vec![b'v'; BIG]), "STORED\r\n");
    }
    // The rest is held by those that give way.
    assert!(client.stat("client_memory_bytes") <= BUDGET + (32 << 20));
    let peak = server.peak_bytes();
    assert!(peak < BUDGET + SLACK, "{peak} bytes");
    // A second, and answers all the while.
    for n in 0..50 {
        assert_eq!(client.set("small", format!("{n}").as_bytes()), "STORED\r\n");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
    eventually("what they held is free", || client.stat("client_memory_bytes") < 1 << 20);
}

#[test]
fn replies_that_nobody_reads_hold_no_more_than_the_budget() {
    let server = start();
    let mut client = server.connect();
    for n in 0..20 {
        assert_eq!(client.set(&format!("big{n}"), &vec![b'x'; BIG]), "STORED\r\n");
    }
    let multiget =
        format!("get{}\r\n", (0..400).map(|n| format!(" big{}", n % 20)).collect::<String>());
    let pipeline = (0..400).map(|n| format!("mg big{} v\r\n", n % 20)).collect::<String>();
    let mut streams: Vec<_> = (0..100).map(|_| raw(&server)).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        push(stream, if n % 2 == 0 { multiget.as_bytes() } else { pipeline.as_bytes() });
    }
    for n in 0..100 {
        assert_eq!(client.set("small", format!("{n}").as_bytes()), "STORED\r\n");
        std::thread::sleep(Duration::from_millis(20));
    }
    let peak = server.peak_bytes();
    assert!(peak < BUDGET + SLACK, "{peak} bytes");
    // One that reads gets all it asked for.
    let mut stream = raw(&server);
    stream.set_nonblocking(false).expect("a socket");
    stream.write_all(b"get big7\r\n").expect("a line has room");
    let mut value = vec![0; format!("VALUE big7 0 {BIG}\r\n").len() + BIG + 7];
    within(60, "those who don't read give way", || client.stat("client_memory_bytes") < BUDGET);
    stream.read_exact(&mut value).expect("a value");
    assert!(value.ends_with(b"x\r\nEND\r\n"));
}

/// Each had value after value read for nothing, a gigabyte each second of all together: the device had no time for others.
#[test]
fn few_values_are_read_for_clients_that_read_slowly() {
    let server = start();
    let mut client = server.connect();
    for n in 0..10 {
        assert_eq!(client.set(&format!("big{n}"), &vec![b'x'; BIG]), "STORED\r\n");
    }
    let names: String = (0..2000).map(|n| format!(" big{}", n % 10)).collect();
    let (multiget, pipeline) = (format!("get{names}\r\n"), "get big0\r\n".repeat(1000));
    let mut streams: Vec<_> = (0..300).map(|_| raw(&server)).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        push(stream, if n % 2 == 0 { pipeline.as_bytes() } else { multiget.as_bytes() });
    }
    eventually("they hold much", || client.stat("client_memory_bytes") > BUDGET / 4 * 3);
    let (mut taken, mut part) = (0, vec![0; 4096]);
    for _ in 0..100 {
        for stream in &mut streams {
            taken += stream.read(&mut part).unwrap_or(0);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let found: usize = client.stat_word("stats store", "gets_found").parse().expect("a number");
    // What each holds in its socket and in the server, and what it took.
    assert!(
        found < 300 * 4 + taken / BIG * 2,
        "{found} values were read, {taken} bytes were taken"
    );
    let peak = server.peak_bytes();
    assert!(peak < BUDGET + SLACK, "{peak} bytes");
}

/// What is answered to a request on a connection of its own.
fn answer(server: &Server, request: &[u8]) -> Vec<u8> {
    let mut stream = raw(server);
    stream.set_nonblocking(false).expect("a socket");
    let mut said = Vec::new();
    // It may be refused before all of it was read.
    let _ = stream.write_all(request);
    let mut part = vec![0; 1 << 20];
    while !said.ends_with(b"END\r\n")
        && !said.ends_with(b"STORED\r\n")
        && !said.starts_with(b"SERVER_")
    {
        let n = stream.read(&mut part).expect("an answer");
        assert!(n > 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&part[..n]);
    }
    said
}

/// 300 clients that read nothing, and 500 that never finish, once kept the whole budget: for others there was none.
#[test]
fn what_clients_leave_lying_is_others_once_they_need_it() {
    let server = start();
    let mut client = server.connect();
    let set = [b"set big0 0 0 1000000\r\n", &vec![b'x'; BIG][..], b"\r\n"].concat();
    assert_eq!(answer(&server, &set), b"STORED\r\n");
    let half = [b"set k 0 0 1000000\r\n", &vec![b'x'; 900_000][..]].concat();
    let unread = b"get big0\r\n".repeat(20);
    for (left, clients) in [(&unread, 300), (&half, 500)] {
        let mut streams: Vec<_> = (0..clients).map(|_| raw(&server)).collect();
        streams.iter_mut().for_each(|stream| push(stream, left));
        eventually("they hold much", || client.stat("client_memory_bytes") > BUDGET / 4 * 3);
        assert_eq!(answer(&server, b"get none\r\n"), b"END\r\n", "little is always possible");
        within(20, "there is room for a value that is read, and one that is stored", || {
            let got = answer(&server, b"get big0\r\n").len();
            got > BIG && answer(&server, &set) == b"STORED\r\n"
        });
        assert!(client.stat("client_memory_refusals") > 0);
        drop(streams);
        eventually("what they held is free", || client.stat("client_memory_bytes") < 1 << 20);
    }
    assert!(
        server.said().contains("a client is closed: it left replies unread"),
        "{}",
        server.said()
    );
}

/// Changes without replies, faster than any disk: they are slowed, and none is lost.
#[test]
fn a_flood_of_quiet_changes_is_slowed_not_hoarded() {
    let server = start();
    let mut stream = raw(&server);
    stream.set_nonblocking(false).expect("a socket");
    let value = "v".repeat(50_000);
    for n in 0..2000 {
        let set = format!("set k{} 0 0 {} noreply\r\n{value}\r\n", n % 100, value.len());
        stream.write_all(set.as_bytes()).expect("it reads on");
    }
    stream.write_all(b"set last 0 0 4\r\nlast\r\n").expect("it reads on");
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).expect("an answer");
    assert_eq!(&reply, b"STORED\r\n");
    let mut client = server.connect();
    assert_eq!(client.stat("total_items"), 2001);
    assert_eq!(client.get("k99").map(|it| it.len()), Some(value.len()));
    let peak = server.peak_bytes();
    assert!(peak < BUDGET + SLACK, "{peak} bytes");
}
