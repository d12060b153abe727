//! Hostile bytes: whatever arrives, the server answers an error or closes, keeps serving the others, and
//! its memory stays bounded.
//!
//! The classes: lines without an end, lengths that lie, arities that are wrong, numbers out of range, keys
//! with strange bytes, megabytes of keys in one line, stores left unfinished, other protocols, clients that
//! don't read, connections by the hundred. Exact replies stand in tests/tables/errors.txt.

use guira_tests::client::{Client, Reply};
use guira_tests::server::{Program, Server};

/// Resident memory that any of the cases here may cost, caches of the allocator included.
const MEMORY_MAX: u64 = 16 << 20;

/// A server with one item, and a second connection that must be served whatever the first does.
struct Ground {
    server: Server,
    bystander: Client,
    resident_before: u64,
}

impl Ground {
    fn new(flags: &[&str]) -> Self {
        let server = Server::start(Program::Guira, flags);
        let mut bystander = server.connect();
        assert_eq!(bystander.set("kept", b"value"), "STORED\r\n");
        let resident_before = server.resident_bytes();
        Self { server, bystander, resident_before }
    }

    /// Checks that the server lives, serves others, and took no more memory than allowed.
    fn expect_unharmed(&mut self, what: &str) {
        assert!(self.server.is_running(), "{what} ended the server: {}", self.server.said());
        let said = self.server.said();
        assert!(!said.contains("panicked"), "{what}: {said}");
        assert_eq!(self.bystander.get("kept").as_deref(), Some(b"value".as_slice()), "{what}");
        let grown = self.server.resident_bytes().saturating_sub(self.resident_before);
        assert!(grown <= MEMORY_MAX, "{what} cost {grown} bytes");
    }

    /// Sends on a connection of its own; the reply must be errors or a close.
    fn expect_refused(&mut self, what: &str, bytes: &[u8]) {
        let reply = self.server.connect().exchange(bytes);
        let text = String::from_utf8_lossy(&reply.bytes).into_owned();
        let is_error = |line: &str| {
            ["ERROR", "CLIENT_ERROR ", "SERVER_ERROR"].iter().any(|e| line.starts_with(e))
        };
        let refused = text.lines().all(|l| is_error(l) || l.is_empty());
        assert!(refused && (reply.closed || !text.is_empty()), "{what}: {reply:?}");
        self.expect_unharmed(what);
    }
}

#[test]
fn lines_that_are_no_command_are_refused() {
    let mut ground = Ground::new(&[]);
    for line in [
        &b"\0"[..],
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xf4\xff\xfd\x06",
        b"SET a 0 0 1",
        b"getget a",
        b"set\ta\t0\t0\t1",
        b"{\"a\":1}",
        b"*1\x00$4",
        b"EHLO x",
        b"\x16\x03\x01\x02\x00\x01",
        b"stats\0",
        b"lru mode",
        b"lru",
        b"lru temp_ttl",
        b"lru tune 1",
        b"slabs",
        b"slabs x",
        b"slabs reassign",
        b"slabs automove",
        b"lru_crawler",
        b"lru_crawler x",
        b"cache_memlimit",
        b"cache_memlimit x",
        b"watch \xff",
        b"extstore",
        b"stats cachedump",
        b"stats cachedump x y",
        b"stats cachedump 1",
        b"stats detail x",
        b"verbosity",
        b"flush_all x",
        b"shutdown",
    ] {
        ground.expect_refused(&format!("{line:?}"), &[line, b"\r\n"].concat());
    }
}

#[test]
fn wrong_arities_are_refused() {
    let mut ground = Ground::new(&[]);
    for verb in ["set", "add", "replace", "append", "prepend", "cas"] {
        for words in ["", " k", " k 0", " k 0 0"] {
            ground.expect_refused(verb, format!("{verb}{words}\r\n").as_bytes());
        }
    }
    for line in [
        "get", "gets", "gat", "gats", "gat 1", "touch", "touch k", "incr", "incr k", "decr",
        "decr k", "delete", "mg", "ms", "ms k", "md", "ma", "me",
    ] {
        ground.expect_refused(line, format!("{line}\r\n").as_bytes());
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let mut ground = Ground::new(&[]);
    let numbers =
        ["", "x", "-", "+", "1x", "0x10", "1.5", "1e3", "99999999999999999999999", "\u{663}"];
    for number in numbers {
        for line in [
            format!("set k {number} 0 1 x\r\nx\r\n"),
            format!("set k 0 0 {number}\r\n"),
            format!("touch k {number}\r\n"),
            format!("gat {number} k\r\n"),
            format!("ms k {number}\r\n"),
            format!("mg k T{number}x\r\n"),
            format!("mg k N{number}x\r\n"),
            format!("mg k R{number}x\r\n"),
            format!("ms k S{number} 1\r\n"),
        ] {
            let bytes = line.into_bytes();
            let mut client = ground.server.connect();
            client.send(&bytes);
            client.finish();
            client.read_to_end();
            ground.expect_unharmed(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn lengths_that_lie_are_refused_at_once() {
    let mut ground = Ground::new(&[]);
    for length in [
        "2147483647",
        "2147483646",
        "4294967295",
        "4294967296",
        "18446744073709551615",
        "-1",
        "-2147483648",
    ] {
        for verb in ["set k 0 0", "append k 0 0", "ms k"] {
            let mut client = ground.server.connect();
            client.send(format!("{verb} {length}\r\n").as_bytes());
            client.finish();
            let said = client.read_to_end();
            let said = String::from_utf8_lossy(&said);
            let refused = said.is_empty() || said.contains("ERROR");
            assert!(refused, "{verb} {length}: {said}");
            ground.expect_unharmed(&format!("{verb} {length}"));
        }
    }
}

#[test]
fn a_value_too_large_is_swallowed_and_the_stream_stays_in_step() {
    let mut ground = Ground::new(&[]);
    let mut bytes = b"set big 0 0 8000000\r\n".to_vec();
    bytes.resize(bytes.len() + 8_000_000, b'x');
    bytes.extend_from_slice(b"\r\nget kept\r\n");
    let reply = ground.server.connect().exchange(&bytes);
    let want = "SERVER_ERROR object too large for cache\r\nVALUE kept 0 5\r\nvalue\r\nEND\r\n";
    assert_eq!(String::from_utf8_lossy(&reply.bytes), want);
    ground.expect_unharmed("a value of 8 MB");
}

#[test]
fn a_line_without_an_end_is_closed_and_costs_no_memory() {
    let mut ground = Ground::new(&[]);
    for bytes in [&[b'x'; 1 << 20][..], &[b' '; 1 << 20], &[0; 1 << 20], &[b'\r'; 1 << 20]] {
        let mut client = ground.server.connect();
        client.send(bytes);
        client.finish();
        client.read_to_end();
        ground.expect_unharmed("a megabyte without a line end");
    }
    for start in ["set ", "incr ", "delete ", "mg ", "touch ", "stats "] {
        let mut client = ground.server.connect();
        client.send(start.as_bytes());
        client.send(&[b' '; 200_000]);
        client.finish();
        client.read_to_end();
        ground.expect_unharmed(start);
    }
}

/// The story: one line of half a million keys made memcached hold all replies at once: 5 to 727 MiB.
#[test]
fn a_line_of_half_a_million_hits_streams() {
    let mut ground = Ground::new(&["-t", "1"]);
    let mut client = ground.server.connect();
    let line = [b"get".to_vec(), b" kept".repeat(500_000), b"\r\n".to_vec()].concat();
    let hit = "VALUE kept 0 5\r\nvalue\r\n".len();
    let reply = client.exchange(&line);
    assert_eq!(reply.bytes.len(), hit * 500_000 + "END\r\n".len());
    ground.expect_unharmed("half a million keys");
}

/// A client that asks and doesn't read: its replies wait in the kernel and in a bounded buffer, not more.
#[test]
fn clients_that_do_not_read_are_waited_for_in_bounded_memory() {
    let mut ground = Ground::new(&["-t", "1"]);
    assert_eq!(ground.bystander.set("large", &vec![b'x'; 500_000]), "STORED\r\n");
    ground.resident_before = ground.server.resident_bytes();
    let mut deaf: Vec<Client> = (0..16).map(|_| ground.server.connect()).collect();
    for client in &mut deaf {
        client.send(&b"get large\r\n".repeat(200));
    }
    for round in 0..50 {
        ground.expect_unharmed(&format!("round {round} beside 16 deaf clients"));
    }
    let first = deaf[0].read_exact(500_000);
    assert!(first.starts_with(b"VALUE large 0 500000\r\nxxx"));
}

#[test]
fn stores_left_unfinished_do_not_push_items_out() {
    let mut ground = Ground::new(&["-m", "64"]);
    ground.resident_before += 64 << 20; // What is allowed to hold values may hold unfinished ones.
    let mut held: Vec<Client> = (0..100).map(|_| ground.server.connect()).collect();
    for (number, client) in held.iter_mut().enumerate() {
        client.send(format!("set h{number} 0 0 900000\r\n").as_bytes());
        client.send(&[b'x'; 1_000]);
    }
    for round in 0..50 {
        let kept = ground.bystander.get("kept");
        assert_eq!(kept.as_deref(), Some(b"value".as_slice()), "round {round}");
        assert_eq!(ground.bystander.set("other", b"x"), "STORED\r\n", "round {round}");
    }
    drop(held);
    ground.expect_unharmed("a hundred unfinished stores");
}

#[test]
fn a_connection_dropped_at_each_byte_of_a_store_leaves_nothing() {
    let mut ground = Ground::new(&[]);
    let whole = b"set k 5 0 10\r\n0123456789\r\n";
    for cut in 0..whole.len() {
        let mut client = ground.server.connect();
        client.send(&whole[..cut]);
        drop(client);
        assert_eq!(ground.bystander.get("k"), None, "cut at {cut}");
    }
    ground.expect_unharmed("stores cut at each byte");
}

#[test]
fn meta_commands_with_every_byte_as_a_flag_are_answered() {
    let mut ground = Ground::new(&[]);
    // The kept item isn't used, because `T1` ends it in a second.
    assert_eq!(ground.bystander.set("there", b"1"), "STORED\r\n");
    for command in ["mg there", "md nothing", "ma there", "ms other 1", "me there"] {
        for flag in (0..=255_u8).filter(|flag| !b"\n\r".contains(flag)) {
            for tail in ["", "1", "x", "99999999999999999999"] {
                let mut line = format!("{command} ").into_bytes();
                line.push(flag);
                line.extend_from_slice(format!("{tail}\r\n").as_bytes());
                if command.starts_with("ms") {
                    line.extend_from_slice(b"x\r\n");
                }
                let Reply { closed, .. } = ground.server.connect().exchange(&line);
                assert!(!closed, "{line:?} closed the connection");
            }
        }
        ground.expect_unharmed(command);
    }
}

#[test]
fn random_bytes_between_commands_never_hang_it() {
    let mut ground = Ground::new(&[]);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pieces: [&[u8]; 14] = [
        b"get ",
        b"set k 0 0 3\r\n",
        b"\r\n",
        b" ",
        b"ms k 2 ",
        b"mg k v ",
        b"\n",
        b"abc",
        b"incr ",
        b"cas k 0 0 1 ",
        b"noreply",
        b"gat 10 ",
        b"stats ",
        b"\0",
    ];
    for round in 0..600 {
        let mut bytes = Vec::new();
        for _ in 0..next() % 40 {
            let choice = usize::try_from(next() % 20).unwrap();
            match pieces.get(choice) {
                Some(piece) => bytes.extend_from_slice(piece),
                None => bytes.extend_from_slice(&next().to_le_bytes()),
            }
        }
        let mut client = ground.server.connect();
        client.send(&bytes);
        client.finish();
        client.read_to_end();
        if round % 50 == 0 {
            ground.expect_unharmed(&format!("round {round}"));
        }
    }
    ground.expect_unharmed("random bytes");
}

#[test]
fn hundreds_of_half_lines_cost_little() {
    let mut ground = Ground::new(&["-c", "1000"]);
    let mut held: Vec<Client> = (0..500).map(|_| ground.server.connect()).collect();
    for client in &mut held {
        client.send(b"get kep");
    }
    ground.expect_unharmed("500 half lines");
    let mut last = held.pop().unwrap();
    let reply = last.exchange(b"t\r\n");
    assert_eq!(reply.bytes, b"VALUE kept 0 5\r\nvalue\r\nEND\r\n");
}

#[test]
fn a_request_of_another_protocol_is_closed_or_refused() {
    let mut ground = Ground::new(&[]);
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"POST /x HTTP/1.0\r\nContent-Length: 20\r\n\r\nset a 0 0 1\r\nx\r\n",
        b"\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x81\x0a\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x16\x03\x01\0\xa5\x01\0\0\xa1\x03\x03",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
    ] {
        let mut client = ground.server.connect();
        client.send(bytes);
        client.finish();
        client.read_to_end();
        assert_eq!(ground.bystander.get("a"), None, "{bytes:?} stored something");
        ground.expect_unharmed("another protocol");
    }
}
