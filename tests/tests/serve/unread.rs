//! Replies that clients don't read: how many bytes they may hold, and that clients that read are served as before.
//!
//! 100 connections that each asked for 400 values of 1 MB and read nothing once made a server of 64 MB take 224 MB.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

/// Flags that a server is started with, and the bytes that unread replies may then hold: of a small memory 2 MiB a
/// thread, else a tenth.
const SERVERS: [(&[&str], usize); 3] =
    [(&[], 8 << 20), (&["-m", "64"], 8 << 20), (&["-m", "1024"], (1 << 30) / 10)];
/// What a program may take beside its budgets.
const BESIDE_BYTES: u64 = 64 << 20;
const VALUE_BYTES: usize = 1_000_000;
const VALUES: usize = 40;

fn own(client: &mut Client, name: &str) -> usize {
    client.stat_word("stats guira", name).parse().expect("a number")
}

/// Value `n`, which differs from place to place and from all others.
fn value(n: usize) -> &'static [u8] {
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let line = |at: usize| format!("{at:09}\n").into_bytes();
        (0..(VALUE_BYTES + VALUES) / 10 + 1).flat_map(line).collect()
    });
    &ALL[n..n + VALUE_BYTES]
}

/// A server with values, a connection to it, and the server's memory then.
fn filled(flags: &[&str]) -> (Server, Client, u64) {
    let server = Server::start(Program::Guira, flags);
    let mut client = server.connect();
    for n in 0..VALUES {
        assert_eq!(client.set(&format!("k{n}"), value(n)), "STORED\r\n");
    }
    assert_eq!(client.set("small", b"s"), "STORED\r\n");
    let bytes = server.resident_bytes();
    (server, client, bytes)
}

/// The keys of request `n`.
fn keys(n: usize) -> impl Iterator<Item = usize> {
    (n..n + 20).map(|key| key % VALUES)
}

/// What is asked and answered for 20 values.
struct Protocol {
    request: fn(usize) -> Vec<u8>,
    /// Before each value, after it, and after all.
    words: fn(usize) -> [Vec<u8>; 3],
}

impl Protocol {
    fn reply(&self, n: usize) -> Vec<u8> {
        let mut reply = Vec::new();
        for key in keys(n) {
            let [before, after, _] = (self.words)(key);
            reply.extend([&before, value(key), &after].concat());
        }
        reply.extend_from_slice(&(self.words)(0)[2]);
        reply
    }
}

const TEXT: Protocol = Protocol {
    request: |n| {
        let all: String = keys(n).map(|key| format!(" k{key}")).collect();
        format!("get{all}\r\n").into_bytes()
    },
    words: |key| {
        let head = format!("VALUE k{key} 0 {VALUE_BYTES}\r\n");
        [head.into_bytes(), b"\r\n".to_vec(), b"END\r\n".to_vec()]
    },
};

const META: Protocol = Protocol {
    request: |n| keys(n).flat_map(|key| format!("mg k{key} v k\r\n").into_bytes()).collect(),
    words: |key| {
        [format!("VA {VALUE_BYTES} kk{key}\r\n").into_bytes(), b"\r\n".to_vec(), Vec::new()]
    },
};

/// Gets that answer with the key. Uniques differ from run to run: read, they are set to 0 (see [`forget_uniques`]).
const BINARY: Protocol = Protocol {
    request: |n| {
        let packet = |key: String| {
            let bytes = u8::try_from(key.len()).expect("a short key");
            let head = [0x80, 0x0c, 0, bytes, 0, 0, 0, 0, 0, 0, 0, bytes];
            [&head[..], &[0; 12], key.as_bytes()].concat()
        };
        keys(n).flat_map(|key| packet(format!("k{key}"))).collect()
    },
    words: |key| {
        let key = format!("k{key}");
        let body = u32::try_from(4 + key.len() + VALUE_BYTES).expect("a short body");
        let head = [0x81, 0x0c, 0, u8::try_from(key.len()).expect("a short key"), 4, 0, 0, 0];
        let before = [&head[..], &body.to_be_bytes(), &[0; 16], key.as_bytes()].concat();
        [before, Vec::new(), Vec::new()]
    },
};

fn forget_uniques(packets: &mut [u8]) {
    let mut at = 0;
    while packets.get(at) == Some(&0x81) {
        packets[at + 16..at + 24].fill(0);
        let body = packets[at + 8..at + 12].try_into().expect("four bytes");
        at += 24 + u32::from_be_bytes(body) as usize;
    }
}

/// Waits until the server has sent as much as it can.
fn settle(asking: &mut Client, bytes_read: u64) {
    eventually("the server reads all", || asking.stat("bytes_read") >= bytes_read);
    let mut before = 0;
    eventually("the server sends no more", || {
        sleep(Duration::from_millis(100));
        let written = asking.stat("bytes_written");
        // The reply to this request has some KB.
        written - std::mem::replace(&mut before, written) < 64 << 10
    });
}

/// Connections that ask for large values and read nothing.
fn attack(
    server: &Server,
    asking: &mut Client,
    connections: usize,
    protocol: &Protocol,
) -> Vec<Client> {
    let before = asking.stat("bytes_read");
    let mut sent = 0;
    let clients = (0..connections).map(|n| {
        let mut client = server.connect();
        let request = (protocol.request)(n);
        client.send(&request);
        sent += request.len() as u64;
        client
    });
    let clients = clients.collect();
    settle(asking, before + sent);
    clients
}

#[test]
fn values_that_nobody_reads_stay_within_the_budget_and_readers_get_all_of_theirs() {
    for (flags, limit) in SERVERS {
        for protocol in [TEXT, META, BINARY] {
            let (server, mut asking, before) = filled(flags);
            assert_eq!(own(&mut asking, "unsent_limit_bytes"), limit, "{flags:?}");
            let mut clients = attack(&server, &mut asking, 200, &protocol);
            let held = own(&mut asking, "unsent_bytes");
            assert!(held > limit / 4 && held <= limit, "{flags:?}: {held} of {limit}");
            let taken = server.resident_bytes().saturating_sub(before);
            assert!(taken < limit as u64 + BESIDE_BYTES, "{flags:?}: {taken} more");
            // A client that reads is served, large values too.
            assert_eq!(asking.get("small").as_deref(), Some(&b"s"[..]), "{flags:?}");
            assert!(asking.get("k7").as_deref() == Some(value(7)), "{flags:?}");
            // The first, whose replies are copied, and the last, of which values are held.
            for n in [0, 199] {
                let reply = protocol.reply(n);
                let mut got = clients[n].read_exact(reply.len());
                forget_uniques(&mut got);
                assert!(got == reply, "{flags:?}: {n} got another reply");
            }
            assert_eq!(own(&mut asking, "unsent_refused"), 0, "{flags:?}: nobody is closed");
            drop(clients);
            eventually("all is given back", || own(&mut asking, "unsent_bytes") == 0);
        }
    }
}

#[test]
fn of_a_value_that_changes_while_a_part_of_it_is_sent_nothing_else_follows() {
    let (server, mut asking, _) = filled(&[]);
    let mut clients = attack(&server, &mut asking, 100, &TEXT);
    let written = |n: usize, asking: &mut Client, value: &[u8]| {
        assert_eq!(asking.set(&format!("k{n}"), value), "STORED\r\n");
    };
    // Half of the values are stored again as they are, the others are new.
    for n in 0..VALUES {
        let seed = if n % 2 == 0 { n } else { n + 1 };
        written(n, &mut asking, value(seed));
    }
    let mut ended = 0;
    for (n, client) in clients.iter_mut().enumerate().skip(20) {
        let reply = TEXT.reply(n);
        // The first value whose rest was not sent yet, and those before it.
        let got = client.read_exact(VALUE_BYTES / 20);
        assert!(reply.starts_with(&got), "{n}");
        let head = VALUE_BYTES + format!("VALUE k{} 0 {VALUE_BYTES}\r\n\r\n", n % VALUES).len();
        match client.try_read_exact(head - got.len()) {
            Some(rest) => {
                assert!(reply[got.len()..head] == rest, "{n}: the first value is whole or nothing");
                assert_eq!(n % 2, 0, "{n}: the value is another one, and yet whole");
            }
            None => {
                assert_eq!(n % 2, 1, "{n}: the value is the same");
                assert!(reply[got.len()..].starts_with(&client.read_to_end()), "{n}");
                ended += 1;
            }
        }
    }
    assert_eq!(own(&mut asking, "unsent_refused"), ended);
    assert!(ended >= 30, "{ended} of 40 that had a part of what is new");
}

/// A server with 20,000 items of one class, of which each has a prefix of its own; and the number of the class.
fn listed(flags: &[&str]) -> (Server, Client, u64, String) {
    let (server, mut asking, before) = filled(flags);
    assert_eq!(asking.ask("stats detail on"), "OK\r\n");
    let set = |n| format!("set item:{n:030}:x 0 0 1 noreply\r\nx\r\n").into_bytes();
    let prefixed = |n| format!("set {n:030}:x 0 0 1 noreply\r\nx\r\n").into_bytes();
    let sets = (0..20_000).flat_map(|n| [set(n), prefixed(n)].concat());
    assert_eq!(asking.exchange(&sets.collect::<Vec<_>>()).bytes, b"");
    let items = asking.ask("stats items");
    let class = items.lines().find_map(|line| {
        let (class, number) = line.strip_prefix("STAT items:")?.split_once(":number ")?;
        (number.parse::<u32>().ok()? >= 20_000).then(|| class.to_owned())
    });
    (server, asking, before, class.expect("a class"))
}

#[test]
fn long_listings_that_nobody_reads_wait_in_pieces_and_are_whole_when_they_are_read() {
    for (flags, limit) in SERVERS {
        let (server, mut asking, before, class) = listed(flags);
        // About a MB each.
        let listing = format!("stats cachedump {class} 0\r\n").into_bytes();
        let read = asking.stat("bytes_read");
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(&[&listing[..], b"mn\r\n"].concat());
        }
        settle(&mut asking, read + (40 * (listing.len() + 4)) as u64);
        let taken = server.resident_bytes().saturating_sub(before);
        assert!(taken < limit as u64 + BESIDE_BYTES, "{flags:?}: {taken} more");
        let (kept, refused) =
            (own(&mut asking, "unsent_bytes"), own(&mut asking, "unsent_refused"));
        assert!(kept <= limit, "{flags:?}: {kept} of {limit}");
        assert_eq!(refused, 0, "{flags:?}");
        for n in [0, 39] {
            let listed = String::from_utf8(clients[n].replies()).expect("plain keys");
            assert!(listed.ends_with("\r\nEND\r\n"), "{flags:?}: {n}");
            assert!(listed.matches("ITEM ").count() >= 20_000, "{flags:?}: {n}");
        }
        assert!(asking.get("k7").as_deref() == Some(value(7)), "{flags:?}");
    }
}

/// The length of such a reply comes first, so it is measured before it is said.
#[test]
fn long_packets_that_nobody_reads_wait_in_pieces_and_are_whole_when_they_are_read() {
    for (flags, limit) in SERVERS {
        let (server, mut asking, before, _) = listed(flags);
        // A MiB each.
        let mut packet = [0; 24];
        (packet[0], packet[1], packet[3], packet[11]) = (0x80, 0x10, 11, 11);
        let listing = [&packet[..], b"detail dump"].concat();
        let read = asking.stat("bytes_read");
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(&listing);
        }
        settle(&mut asking, read + (40 * listing.len()) as u64);
        let taken = server.resident_bytes().saturating_sub(before);
        assert!(taken < limit as u64 + BESIDE_BYTES, "{flags:?}: {taken} more");
        let (kept, refused) =
            (own(&mut asking, "unsent_bytes"), own(&mut asking, "unsent_refused"));
        assert!(kept <= limit, "{flags:?}: {kept} of {limit}");
        assert_eq!(refused, 0, "{flags:?}");
        for n in [0, 39] {
            let head = clients[n].read_exact(24);
            let bytes = u32::from_be_bytes(head[8..12].try_into().expect("four")) as usize;
            assert!(bytes > 500_000, "{flags:?}: {n}: {bytes} bytes");
            let body = clients[n].read_exact(bytes);
            assert!(body.starts_with(b"detailedPREFIX "), "{flags:?}: {n}");
            let end = clients[n].read_exact(24);
            assert_eq!((&end[..2], &end[8..12]), (&[0x81, 0x10][..], &[0; 4][..]), "{flags:?}");
        }
        assert!(asking.get("k7").as_deref() == Some(value(7)), "{flags:?}");
    }
}

/// Each such client once took 2.5 to 4 MB, which no budget counted.
#[test]
fn the_system_keeps_little_of_what_clients_do_not_read() {
    const CLIENTS: usize = 30;
    for (flags, _) in SERVERS {
        let server = Server::start_tcp(Program::Guira, flags);
        assert_eq!(server.connect().set("big", value(0)), "STORED\r\n");
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("get big\r\n".repeat(8).as_bytes());
        }
        let unsent = || server.system_unsent_bytes();
        eventually("values wait for all", || unsent() > CLIENTS as u64 * (64 << 10));
        // About a second.
        for _ in 0..50 {
            let unsent = unsent();
            assert!(unsent < CLIENTS as u64 * (512 << 10), "{flags:?}: {unsent} bytes");
            sleep(Duration::from_millis(20));
        }
    }
}
