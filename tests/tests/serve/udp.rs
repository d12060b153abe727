//! UDP: what is asked in a datagram and comes back in as many as it needs, and what strangers don't get.
//!
//! Whether a request was left unanswered shows without waiting: datagrams of one sender keep their
//! order, so the answer to a later request comes first.

use guira_tests::client::{Client, PATIENCE};
use guira_tests::metrics::Scrape;
use guira_tests::packet::Packet;
use guira_tests::packet::opcode::{DELETE, GET, GET_Q, NOOP, SET, VERSION};
use guira_tests::server::{Address, Program, Server, free_port};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};

/// A server with UDP, and its port.
fn start(program: Program, flags: &[&str]) -> (Server, u16) {
    let mut last = None;
    for _ in 0..3 {
        let port = free_port();
        let number = port.to_string();
        let own = ["-l", "127.0.0.1", "-p", &number, "-U", &number];
        match Server::start_at(program, &[&own[..], flags].concat(), Address::Tcp(port)) {
            Ok(server) => return (server, port),
            Err(refused) => last = Some(refused),
        }
    }
    panic!("{program:?} {flags:?} did not start: {last:?}");
}

/// One sender of datagrams.
struct Sender {
    socket: UdpSocket,
    number: u16,
}

impl Sender {
    /// A sender at an address of this machine.
    fn at(from: Ipv4Addr, port: u16) -> Self {
        let socket = UdpSocket::bind((from, 0)).expect("a free port");
        socket.connect((Ipv4Addr::LOCALHOST, port)).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        Self { socket, number: 0x1234 }
    }

    fn new(port: u16) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, port)
    }

    /// Sends a request. Returns its number.
    fn send(&mut self, payload: &[u8]) -> u16 {
        self.number = self.number.wrapping_add(1);
        let [high, low] = self.number.to_be_bytes();
        let datagram = [&[high, low, 0, 0, 0, 1, 0, 0], payload].concat();
        self.socket.send(&datagram).expect("it goes out");
        self.number
    }

    /// Waits for the next whole reply. Returns its number and its bytes.
    fn receive(&self) -> (u16, Vec<u8>) {
        let mut parts = BTreeMap::new();
        loop {
            let mut room = [0; 2000];
            let bytes = self.socket.recv(&mut room).expect("a reply comes");
            assert!((9..=1400).contains(&bytes), "a datagram of {bytes} bytes");
            let word = |at: usize| u16::from_be_bytes([room[at], room[at + 1]]);
            assert_eq!(word(6), 0, "reserved");
            assert!(parts.insert(word(2), room[8..bytes].to_vec()).is_none(), "twice");
            if parts.len() == usize::from(word(4)) {
                assert_eq!(parts.keys().last(), Some(&(word(4) - 1)));
                return (word(0), parts.into_values().flatten().collect());
            }
        }
    }

    fn ask(&mut self, payload: &[u8]) -> Vec<u8> {
        let number = self.send(payload);
        let (answered, reply) = self.receive();
        assert_eq!(answered, number);
        reply
    }

    /// Whether a request is answered.
    fn is_answered(&mut self, payload: &[u8]) -> bool {
        let number = self.send(payload);
        let after = self.send(b"version\r\n");
        let (first, _) = self.receive();
        if first == number {
            assert_eq!(self.receive().0, after);
        }
        first == number
    }
}

/// Text requests that both servers answer alike, with writes allowed.
const LINES: &[&str] = &[
    "get k\r\n",
    "set k 5 0 5\r\nvalue\r\n",
    "get k\r\n",
    "gat 100 k\r\n",
    "append k 0 0 1\r\n!\r\n",
    "incr k 1\r\n",
    "set n 0 0 2\r\n10\r\n",
    "incr n 5\r\n",
    "decr n 1\r\n",
    "touch n 0\r\n",
    "mg k v f\r\n",
    "mn\r\n",
    "delete n\r\n",
    "nonsense\r\n",
    "flush_all\r\n",
];

#[test]
fn requests_are_answered_as_memcached_answers_them() {
    let (_memcached, theirs) = start(Program::Memcached, &[]);
    let (_guira, ours) = start(Program::Guira, &["-o", "udp_writes"]);
    let mut servers = [theirs, ours].map(Sender::new);
    for line in LINES {
        let [theirs, ours] = servers.each_mut().map(|server| server.ask(line.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&theirs), String::from_utf8_lossy(&ours), "{line:?}");
    }
    for packet in [
        Packet::key(GET, "k"),
        Packet::store(SET, "k", 5, 0, b"value"),
        Packet::key(GET, "k"),
        Packet::key(DELETE, "none"),
        Packet::key(NOOP, ""),
        Packet::key(0x77, ""),
    ] {
        let [mut theirs, mut ours] = servers.each_mut().map(|s| s.ask(&packet.to_bytes(7, 0)));
        // The uniques are the servers' own.
        theirs[16..24].fill(0);
        ours[16..24].fill(0);
        assert_eq!(theirs, ours, "{packet:?}");
    }
}

#[test]
fn a_long_reply_comes_in_datagrams_of_1400_bytes() {
    let (server, port) = start(Program::Guira, &[]);
    let mut tcp = server.connect();
    let mut udp = Sender::new(port);
    for bytes in [0, 1, 1300, 1392, 1393, 20_000, 60_000] {
        tcp.set("k", &vec![b'v'; bytes]);
        let want = tcp.exchange(b"get k\r\n").bytes;
        assert!(udp.ask(b"get k\r\n") == want, "a value of {bytes} bytes");
    }
}

#[test]
fn several_requests_of_a_datagram_are_answered_together() {
    let (server, port) = start(Program::Guira, &["-R", "3"]);
    let mut tcp = server.connect();
    for n in 0..3000 {
        tcp.send(format!("set k{n} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    assert_eq!(tcp.exchange(b"").bytes, b"", "the sets are done, without a word");
    let mut udp = Sender::new(port);
    let keys: String = (0..3000).map(|n| format!(" k{n}")).collect();
    let line = format!("get{keys}\r\n");
    assert!(udp.ask(line.as_bytes()) == tcp.exchange(line.as_bytes()).bytes);
    let lines = "get k1\r\nmn\r\nnonsense\r\n".repeat(100);
    assert!(udp.ask(lines.as_bytes()) == tcp.exchange_past(lines.as_bytes(), 100).bytes);
    let quiet = [
        Packet::key(GET_Q, "none").to_bytes(1, 0),
        Packet::key(GET_Q, "k1").to_bytes(2, 0),
        Packet::key(NOOP, "").to_bytes(3, 0),
    ];
    let reply = udp.ask(&quiet.concat());
    assert_eq!(reply.len(), 24 + 4 + 1 + 24);
    assert_eq!([reply[15], reply[24 + 5 + 15]], [2, 3], "opaques");
}

#[test]
fn only_gets_are_executed_unless_writes_are_allowed() {
    let (server, port) = start(Program::Guira, &[]);
    let mut tcp = server.connect();
    tcp.set("k", b"value");
    let mut udp = Sender::new(port);
    for line in [
        "set k 0 0 1\r\nx\r\n",
        "delete k\r\n",
        "gat 1 k\r\n",
        "touch k 1\r\n",
        "flush_all\r\n",
        "mg k T1\r\n",
        "mg none N1\r\n",
        "ms k 1\r\nx\r\n",
        "md k\r\n",
        "ma k\r\n",
        "verbosity 1\r\n",
        "stats\r\n",
        "shutdown\r\n",
    ] {
        let reply = String::from_utf8(udp.ask(line.as_bytes())).unwrap();
        assert_eq!(reply, "CLIENT_ERROR only gets are allowed over UDP\r\n", "{line:?}");
    }
    for packet in [Packet::store(SET, "k", 0, 0, b"x"), Packet::key(DELETE, "k")] {
        let reply = udp.ask(&packet.to_bytes(1, 0));
        assert_eq!([reply[6], reply[7]], [0, 0x20], "{packet:?}");
    }
    assert_eq!(udp.ask(b"mg k v\r\n"), b"VA 5\r\nvalue\r\n");
    assert_eq!(udp.ask(b"gets none\r\n"), b"END\r\n");
    assert_eq!(udp.ask(&Packet::key(VERSION, "").to_bytes(1, 0))[1], VERSION);
    assert_eq!(tcp.get("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_source_without_a_connection_gets_no_more_than_its_budget() {
    let flags = ["-o", "relaxed_privileges,udp_budget=64,udp_known_budget=400"];
    let (server, port) = start(Program::Guira, &flags);
    let mut tcp = server.connect();
    tcp.set("k", &vec![b'v'; 20_000]);
    tcp.ask("debugtime p");
    let stranger = Ipv4Addr::new(127, 0, 0, 2);
    let mut answers = |second: &str| {
        tcp.ask(second);
        let mut udp = Sender::at(stranger, port);
        (0..10).filter(|_| udp.is_answered(b"get k\r\n")).count()
    };
    assert_eq!(answers("debugtime 1"), 3, "three times 20 KB are within 64 KiB");
    assert_eq!(answers("debugtime 1"), 3, "each second anew");
    assert_eq!(answers("mn"), 0, "from whatever port");
    let mut known = Sender::new(port);
    let answered = (0..30).filter(|_| known.is_answered(b"get k\r\n")).count();
    assert_eq!(answered, 20, "who is connected has more, and not without end");
    let mut dropped = server.connect();
    assert_eq!(dropped.stat_word("stats guira", "udp_dropped"), "34");
}

/// A request with the forged address of a connected client once made the server send that client all it could.
#[test]
fn nobody_turns_the_server_on_a_client_that_is_connected() {
    for memory in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let flags = [&["-o", "relaxed_privileges"], memory].concat();
        let (server, port) = start(Program::Guira, &flags);
        let mut tcp = server.connect();
        tcp.set("k", &vec![b'v'; 50_000]);
        tcp.ask("debugtime p");
        tcp.ask("debugtime 1");
        let mut udp = Sender::new(port);
        let answered = (0..350).filter(|_| udp.is_answered(b"get k\r\n")).count();
        // The budget is 16 MiB. It counts the datagrams' headers, too.
        assert!((300..340).contains(&answered), "{memory:?}: {answered}");
    }
}

#[test]
fn what_is_no_request_is_left_unanswered() {
    let (_server, port) = start(Program::Guira, &[]);
    let mut udp = Sender::new(port);
    for datagram in [
        &b""[..],
        b"\0\x01\0\0\0\x01\0\0",
        b"\0\x01\0\0\0\x02\0\0mn\r\n",
        b"\0\x01\0\0\0\0\0\0mn\r\n",
        b"\0\x01\0\0\0\x01\0\0mn",
        b"\0\x01\0\0\0\x01\0\0\x80\x0a",
        b"mn\r\n",
    ] {
        udp.socket.send(datagram).expect("it goes out");
    }
    assert!(udp.is_answered(b"mn\r\n"));
}

/// A datagram has 4096 requests at most. What is no request costs as much as one.
#[test]
fn a_datagram_of_too_many_requests_is_left_unanswered_whatever_they_are() {
    let (server, port) = start(Program::Guira, &[]);
    let _known = server.connect();
    let mut udp = Sender::new(port);
    for requests in ["mn\r\n", "nonsense\r\n"] {
        assert!(udp.is_answered(requests.repeat(4000).as_bytes()), "{requests:?}");
        assert!(!udp.is_answered(requests.repeat(4200).as_bytes()), "{requests:?}");
    }
}

#[test]
fn requests_are_timed_as_those_of_connections_are() {
    let http = free_port().to_string();
    let (_server, port) = start(Program::Guira, &["-t", "1", "--http", &http]);
    let mut udp = Sender::new(port);
    let count = "guira_command_duration_seconds_count{command=\"get\",status=\"miss\"}";
    // A sixteenth of the turns is sampled, and a turn may answer all that a quick client sends meanwhile.
    let asked = (1..=32).map(|round| 64.0 * f64::from(round)).find_map(|asked| {
        for _ in 0..64 {
            udp.ask(b"get k\r\n");
        }
        let sampled = Scrape::of(http.parse().expect("a port")).value(count);
        (sampled >= 1.0).then_some((sampled, asked))
    });
    let (sampled, asked) = asked.expect("some of 2048 requests are in the sample");
    assert!(sampled <= asked, "{sampled} of {asked}");
}

#[test]
fn every_worker_answers() {
    let (server, port) = start(Program::Guira, &["-t", "4"]);
    server.connect().set("k", b"value");
    for _ in 0..32 {
        assert_eq!(Sender::new(port).ask(b"get k\r\n"), b"VALUE k 0 5\r\nvalue\r\nEND\r\n");
    }
    let conns = server.connect().ask("stats conns");
    assert_eq!(conns.matches(&format!("addr udp:127.0.0.1:{port}\r\n")).count(), 4, "{conns}");
}

#[test]
fn a_port_that_somebody_has_is_refused() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let (_running, shared) = start(Program::Guira, &[]);
    for port in [taken.local_addr().expect("it is bound").port(), shared] {
        let (tcp, udp) = (free_port(), port.to_string());
        let flags = ["-l", "127.0.0.1", "-p", &tcp.to_string(), "-U", &udp];
        // It may accept over TCP before it finds that port taken; it ends, or the test's time does.
        if let Ok(mut server) = Server::start_at(Program::Guira, &flags, Address::Tcp(tcp)) {
            while server.is_running() {}
        }
    }
}

#[test]
fn a_udp_port_alone_is_the_tcp_port_too() {
    let port = free_port();
    let flags = ["-l", "127.0.0.1", "-U", &port.to_string()];
    let server = Server::start_at(Program::Guira, &flags, Address::Tcp(port)).unwrap();
    server.connect().set("k", b"value");
    assert_eq!(Sender::new(port).ask(b"get k\r\n"), b"VALUE k 0 5\r\nvalue\r\nEND\r\n");
    let server = Server::start_tcp(Program::Guira, &[]);
    let port = server.port();
    assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "UDP is off by default");
}

#[test]
fn hostile_datagrams_cost_neither_the_server_nor_its_memory() {
    let (mut server, port) = start(Program::Guira, &["-m", "64", "-t", "1"]);
    let mut tcp: Client = server.connect();
    tcp.set("big", &vec![b'v'; 900_000]);
    let (mut udp, mut bystander) = (Sender::new(port), Sender::new(port));
    assert!(udp.is_answered(b"mn\r\n"));
    let before = server.resident_bytes();
    let mut seed = 11u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    for round in 0..2000 {
        let mut datagram: Vec<u8> = (0..round % 90).map(|_| random()).collect();
        if round % 2 == 0 && datagram.len() > 10 {
            datagram[4..8].copy_from_slice(&[0, 1, 0, 0]);
            datagram[8] = 0x80;
            datagram[9] %= 0x25;
        }
        udp.socket.send(&datagram).expect("it goes out");
        if round % 50 == 0 {
            // This keeps the system's queue from filling up.
            assert_eq!(bystander.ask(b"mn\r\n"), b"MN\r\n");
        }
    }
    // The answers would have a gigabyte.
    let greedy = format!("get{}\r\n", " big".repeat(15_000));
    udp.send(greedy.as_bytes());
    udp.send(&Packet::key(GET, "big").to_bytes(1, 0).repeat(1000));
    assert_eq!(bystander.ask(b"mn\r\n"), b"MN\r\n");
    assert_eq!(
        tcp.stat_word("stats guira", "udp_dropped"),
        "2",
        "replies of a gigabyte are not sent"
    );
    assert_eq!(tcp.get("big").map(|value| value.len()), Some(900_000));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    assert!(server.is_running() && !server.said().contains("panicked"), "{}", server.said());
}
