//! Requests that wait for their turns: what they may hold, and that others are served meanwhile.
//!
//! 900 connections that each sent requests by the thousand once made a server take 127 KB each, of which no budget knew.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread::sleep;
use std::time::Duration;

const CONNECTIONS: usize = 900;
/// More than what a connection receives at a time.
const SENT_BYTES: usize = 200_000;
/// The budget of a backlog, and of replies that nobody reads (`-m` is small).
const BUDGETS_BYTES: u64 = (8 + 8) << 20;
/// What a connection may have beside the budgets, its state included.
const FREE_BYTES: u64 = 12 << 10;
const SLACK_BYTES: u64 = 8 << 20;

/// A connection with a small room for replies, so that these wait in the server soon.
fn small_reader(server: &Server) -> TcpStream {
    let port = server.port();
    let (family, kind, flags) = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
    // Servers that another test starts meanwhile must not inherit the socket: they would run out of descriptors.
    let client = socket_with(family, kind, flags, Some(ipproto::TCP)).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&client, 2048).expect("a small buffer");
    connect(&client, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    let client = TcpStream::from(client);
    client.set_nonblocking(true).expect("it is open");
    client
}

/// Sends as much of `requests` as the system takes.
fn send_some(mut client: &TcpStream, requests: &[u8]) {
    match client.write(requests) {
        Ok(sent) => assert!(sent > 0),
        Err(error) => assert!(is_of_the_attack(error.kind()), "{error}"),
    }
}

/// The error that a client sees if it isn't read from or was closed.
fn is_of_the_attack(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// A binary `stat conns`.
fn stat_packet() -> Vec<u8> {
    let mut packet = [0; 24];
    (packet[0], packet[1], packet[3], packet[11]) = (0x80, 0x10, 5, 5);
    [&packet[..], b"conns"].concat()
}

#[test]
fn requests_of_900_connections_that_wait_stay_within_the_budgets() {
    let many = b"mn\r\n".to_vec();
    let long = b"stats conns\r\n".to_vec();
    let cases: [(&[&str], _); 5] = [
        (&[], &many),
        (&["-m", "64"], &many),
        (&["-m", "1024"], &many),
        (&[], &long),
        (&[], &stat_packet()),
    ];
    for (flags, request) in cases {
        let server = Server::start_tcp(Program::Guira, flags);
        let mut asking = server.connect();
        assert_eq!(asking.set("small", b"s"), "STORED\r\n");
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| small_reader(&server)).collect();
        eventually("all are connected", || asking.stat("curr_connections") > CONNECTIONS as u64);
        let before = server.resident_bytes();
        let requests = request.repeat(SENT_BYTES / request.len());
        clients.iter().for_each(|client| send_some(client, &requests));
        let what = format!("{flags:?} {:?}", request.escape_ascii().to_string());
        let mut peak = 0;
        for _ in 0..40 {
            sleep(Duration::from_millis(50));
            clients.iter().for_each(|client| send_some(client, &requests));
            // No statistic: those of the attack come before it.
            peak = peak.max(server.resident_bytes());
            assert_eq!(asking.get("small").as_deref(), Some(&b"s"[..]), "{what}");
        }
        let taken = peak.saturating_sub(before);
        let bound = BUDGETS_BYTES + CONNECTIONS as u64 * FREE_BYTES + SLACK_BYTES;
        println!("{what}: {} KiB more, {} allowed", taken >> 10, bound >> 10);
        assert!(taken < bound, "{what}: {} KiB more", taken >> 10);
        drop(clients);
        eventually("all is given back", || asking.stat_word("stats guira", "backlog_bytes") == "0");
    }
}

/// Requests and replies of a client that sends very many at once.
fn numbered(count: usize) -> (String, String) {
    let (mut requests, mut replies) = (String::new(), String::new());
    for n in 0..count {
        write!(requests, "mn\r\nmg none{n} k O{n}\r\nmg small v O{n}\r\n").expect("memory");
        write!(replies, "MN\r\nEN knone{n} O{n}\r\nVA 1 O{n}\r\ns\r\n").expect("memory");
    }
    (requests, replies)
}

#[test]
fn clients_whose_requests_come_a_little_at_a_time_get_all_of_their_replies_in_order() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let mut asking = server.connect();
    assert_eq!(asking.set("small", b"s"), "STORED\r\n");
    let clients: Vec<_> = (0..200).map(|_| small_reader(&server)).collect();
    let requests = b"mn\r\n".repeat(SENT_BYTES / 4);
    let mut word = |name: &str| -> usize {
        clients.iter().for_each(|client| send_some(client, &requests));
        asking.stat_word("stats guira", name).parse().expect("a number")
    };
    let most = word("backlog_limit_bytes");
    eventually("the budget is used up", || word("backlog_bytes") > most);
    let (requests, replies) = numbered(500);
    let mut client: Client = server.connect();
    client.send(requests.as_bytes());
    // A value that is received where it will stay, and one that is not.
    for bytes in [700_000, 12_000] {
        let value: Vec<u8> = (0..bytes).map(|at: usize| at.to_le_bytes()[0]).collect();
        client
            .send(&[format!("set v{bytes} 0 0 {bytes}\r\n").as_bytes(), &value, b"\r\n"].concat());
        client.send(format!("get v{bytes}\r\n").as_bytes());
    }
    let got = client.read_exact(replies.len());
    assert!(got == replies.as_bytes(), "{}", String::from_utf8_lossy(&got));
    for bytes in [700_000, 12_000] {
        let value: Vec<u8> = (0..bytes).map(|at: usize| at.to_le_bytes()[0]).collect();
        let head = format!("STORED\r\nVALUE v{bytes} 0 {bytes}\r\n");
        let reply = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        assert!(client.read_exact(reply.len()) == reply, "{bytes}");
    }
    drop(clients);
}
