//! Requests that never become whole: what they may hold, who gives way, and that everybody else is served as before.
//!
//! 140 connections that announced 500,000 bytes each and sent none of them once emptied a cache of 64 MB.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually};

/// Flags that a server is started with, and the bytes that unfinished requests may then hold.
const SERVERS: [(&[&str], usize); 3] =
    [(&[], (64 << 20) / 10), (&["-m", "64"], (64 << 20) / 10), (&["-m", "1024"], (1 << 30) / 10)];
const READING: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
const STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// What a program may take beside its budgets.
const BESIDE_BYTES: u64 = 64 << 20;

fn own(client: &mut Client, name: &str) -> usize {
    client.stat_word("stats guira", name).parse().expect("a number")
}

/// Waits until the server has read all that was sent before.
fn read(asking: &mut Client, bytes: u64) {
    eventually("the server reads all", || asking.stat("bytes_read") >= bytes);
}

/// Stores 70 MB of items of 10,000 bytes. Returns how many are there.
fn fill(client: &mut Client) -> u64 {
    let value = vec![b'v'; 10_000];
    for hundred in 0..70 {
        let mut all = Vec::new();
        for n in 0..100 {
            all.extend_from_slice(format!("set r{hundred}.{n} 0 0 10000 noreply\r\n").as_bytes());
            all.extend_from_slice(&value);
            all.extend_from_slice(b"\r\n");
        }
        assert_eq!(client.exchange(&all).bytes, b"");
    }
    client.stat("curr_items")
}

#[test]
fn what_is_announced_and_not_sent_holds_nothing_and_evicts_nobody() {
    for (flags, limit) in SERVERS {
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        assert_eq!(own(&mut asking, "unfinished_limit_bytes"), limit, "{flags:?}");
        let residents = fill(&mut asking);
        let before = asking.stat("bytes_read");
        let mut clients: Vec<_> = (0..600).map(|_| server.connect()).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.send(format!("set h{n:03} 0 0 500000\r\n").as_bytes());
        }
        read(&mut asking, before + 600 * 21);
        assert_eq!(
            own(&mut asking, "unfinished_bytes"),
            0,
            "{flags:?}: what is free is not charged"
        );
        assert_eq!(own(&mut asking, "unfinished_refused"), 0, "{flags:?}");
        assert_eq!(asking.stat("curr_items"), residents, "{flags:?}");
        let large = vec![b'l'; 400_000];
        assert_eq!(asking.set("large", &large), "STORED\r\n", "{flags:?}");
        assert_eq!(asking.get("large").as_deref(), Some(&large[..]), "{flags:?}");
        // A client that announced a value may still send it.
        let mut last = clients.pop().unwrap();
        last.send(&vec![b'x'; 500_000]);
        assert_eq!(last.exchange(b"\r\n").bytes, b"STORED\r\n", "{flags:?}");
        drop(clients);
        eventually("all is given back", || own(&mut asking, "unfinished_bytes") == 0);
    }
}

#[test]
fn values_but_for_their_last_byte_stay_within_the_budget_and_as_many_are_told_as_give_way() {
    for (flags, limit) in SERVERS {
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        let residents = fill(&mut asking);
        let before = asking.stat("bytes_read");
        let mut clients: Vec<_> = (0..140).map(|_| server.connect()).collect();
        let body = vec![b'x'; 499_999];
        for (n, client) in clients.iter_mut().enumerate() {
            client.send(format!("set h{n:03} 0 0 500000\r\n").as_bytes());
            client.send(&body);
        }
        read(&mut asking, before + 140 * (21 + 499_999));
        let held = own(&mut asking, "unfinished_bytes");
        assert!(held <= limit, "{flags:?}: {held} of {limit}");
        let refused = own(&mut asking, "unfinished_refused");
        let is_small = limit < 140 * 500_000;
        assert_eq!(refused > 0, is_small, "{flags:?}: {refused} refused");
        // What they hold was evicted, and, where threads wait for each other, pages that nobody needs any more.
        let lost = residents.saturating_sub(asking.stat("curr_items"));
        let most = 2 * limit as u64 + (4 << 20);
        assert!(lost * 10_000 <= most, "{flags:?}: {lost} evicted");
        for n in 0..100 {
            assert_eq!(asking.set(&format!("small{n}"), &[b's'; 1000]), "STORED\r\n");
        }
        assert!(server.resident_bytes() < (512 << 20), "{flags:?}");
        let mut stored = 0;
        for client in &mut clients {
            let reply = client.exchange(b"x\r\n");
            assert!(!reply.closed, "{flags:?}");
            match &reply.bytes[..] {
                b"STORED\r\n" => stored += 1,
                other => assert_eq!(other, STORING, "{flags:?}"),
            }
        }
        assert_eq!(stored, 140 - refused, "{flags:?}");
        eventually("all is given back", || own(&mut asking, "unfinished_bytes") == 0);
    }
}

/// A hundred clients that each hold a tenth of what they need once kept other values out for as long as they hung.
#[test]
fn large_values_find_their_way_past_many_small_unfinished_ones() {
    for (flags, limit, bytes) in
        [(&["-m", "64"][..], (64 << 20) / 10, 63_000), (&["-m", "1024"], (1 << 30) / 10, 120_000)]
    {
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        let set = [format!("set h 0 0 {bytes}\r\n").into_bytes(), vec![b'x'; bytes - 1]].concat();
        let mut holders: Vec<_> = (0..limit / bytes).map(|_| server.connect()).collect();
        holders.iter_mut().for_each(|holder| holder.send(&set));
        let sent = holders.len() * set.len();
        read(&mut asking, sent as u64);
        let value = vec![b'v'; 1_000_000];
        for n in 0..20 {
            let mut client = server.connect();
            assert_eq!(client.set(&format!("v{n}"), &value), "STORED\r\n", "{flags:?}: {n}");
        }
    }
}

/// Six values without their last bytes once kept all other large values out of a server for half a minute.
#[test]
fn large_values_find_their_way_past_as_many_unfinished_ones_as_fill_the_budget() {
    for (flags, limit) in SERVERS {
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        let body = vec![b'x'; 999_999];
        let mut holders: Vec<_> = (0..limit / 1_000_000).map(|_| server.connect()).collect();
        for (n, holder) in holders.iter_mut().enumerate() {
            holder.send(format!("set h{n:03} 0 0 1000000\r\n").as_bytes());
            holder.send(&body);
        }
        let all = holders.len() * (999_999 + 23);
        read(&mut asking, all as u64);
        let value = vec![b'v'; 800_000];
        // Each worker has some, whichever they are dealt to.
        for n in 0..20 {
            let mut client = server.connect();
            client.send(format!("set v{n} 0 0 800000\r\n").as_bytes());
            for piece in value.chunks(50_000) {
                client.send(piece);
            }
            assert_eq!(client.exchange(b"\r\n").bytes, b"STORED\r\n", "{flags:?}: {n}");
        }
        let most = limit + limit / 8;
        let held = own(&mut asking, "unfinished_bytes");
        assert!(held <= most, "{flags:?}: {held} of {limit}");
        for holder in &mut holders {
            let reply = holder.exchange(b"x\r\n").bytes;
            assert!(reply == b"STORED\r\n" || reply == STORING, "{flags:?}");
        }
    }
}

#[test]
fn get_lines_without_an_end_stay_within_the_budget() {
    let line = [b"get ".to_vec(), vec![b' '; 4 << 20]].concat();
    for (flags, limit) in SERVERS {
        let connections = 2 * limit / line.len() + 2;
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        let idle = server.resident_bytes();
        let before = asking.stat("bytes_read");
        let mut clients: Vec<_> = (0..connections).map(|_| server.connect()).collect();
        // In turns, so that the buffers grow side by side: what one outgrows is free while the others still grow.
        for piece in line.chunks(100_000) {
            for client in &mut clients {
                client.send(piece);
            }
        }
        read(&mut asking, before + (connections * line.len()) as u64);
        assert!(own(&mut asking, "unfinished_bytes") <= limit, "{flags:?}");
        let resident = server.resident_bytes();
        assert!(resident < idle + limit as u64 + BESIDE_BYTES, "{flags:?}: {resident}");
        let refused = own(&mut asking, "unfinished_refused");
        assert!(refused > connections / 3, "{flags:?}: {refused} of {connections} refused");
        let mut told = 0;
        for client in &mut clients {
            let reply = client.exchange(b"k\r\n");
            assert!(!reply.closed, "{flags:?}");
            match &reply.bytes[..] {
                b"END\r\n" => {}
                other => {
                    assert_eq!(other, READING, "{flags:?}");
                    told += 1;
                }
            }
        }
        assert_eq!(told, refused, "{flags:?}");
        drop(clients);
        eventually("the memory is given back", || {
            server.resident_bytes() < idle + BESIDE_BYTES / 4
        });
    }
}

/// Binary requests: a set with a piece of its value.
fn packet(value_bytes: u32, sent: usize) -> Vec<u8> {
    let mut all = vec![0x80, 1, 0, 1, 8, 0, 0, 0];
    all.extend_from_slice(&(8 + 1 + value_bytes).to_be_bytes());
    all.extend_from_slice(&[0; 4 + 8 + 8]);
    all.push(b'b');
    all.extend(std::iter::repeat_n(b'x', sent));
    all
}

#[test]
fn each_protocol_is_told_in_its_own_words_and_stays_in_step() {
    let server = Server::start(Program::Guira, &["-o", "unfinished_limit=1", "-t", "1"]);
    let mut asking = server.connect();
    // The largest item has its place: the budget is 2 MiB. What comes first takes a quarter of it, in small parts.
    assert_eq!(own(&mut asking, "unfinished_limit_bytes"), 2 << 20);
    let before = asking.stat("bytes_read");
    let mut first: Vec<_> = (0..150).map(|_| server.connect()).collect();
    for client in &mut first {
        client.send(&[&b"set p 0 0 3500\r\n"[..], &[b'x'; 3_000]].concat());
    }
    read(&mut asking, before + 150 * 3_016);
    // What begins a request, how much of it follows, what ends it, and what is told.
    type Piece<'p> = (&'p [u8], usize, &'p [u8], &'p [u8]);
    let pieces: [Piece<'_>; 5] = [
        (b"set k 0 0 900000\r\n", 899_999, b"x\r\n", STORING),
        (b"ms k 900000\r\n", 899_999, b"x\r\n", STORING),
        (b"set k 0 0 900000 noreply\r\n", 899_999, b"x\r\n", b""),
        (b"gets ", 899_000, b" k\r\n", READING),
        (b"lease-set k 0 0 0 900000\r\n", 899_999, b"x\r\n", STORING),
    ];
    for (head, bytes, rest, told) in pieces {
        let mut client = server.connect();
        let refused = own(&mut asking, "unfinished_refused");
        assert_eq!(asking.set("k", b"old"), "STORED\r\n");
        let fill = if told == READING { b' ' } else { b'x' };
        let sent = [head.to_vec(), vec![fill; bytes]].concat();
        let before = asking.stat("bytes_read");
        client.send(&sent);
        read(&mut asking, before + sent.len() as u64);
        assert_eq!(own(&mut asking, "unfinished_refused"), refused, "{head:?}: there is room");
        let others = large_ones(&server, &mut asking);
        assert_eq!(own(&mut asking, "unfinished_refused"), refused + 1, "{head:?}");
        let reply = client.exchange(rest);
        assert_eq!((&reply.bytes[..], reply.closed), (told, false), "{head:?}");
        // Better a miss than a value that the client believes to have replaced.
        let replaces = told != READING && !head.starts_with(b"lease");
        assert_eq!(asking.get("k").is_none(), replaces, "{head:?}");
        store(others);
    }
    let mut client = server.connect();
    let refused = own(&mut asking, "unfinished_refused");
    client.send(&packet(900_000, 899_999));
    store(large_ones(&server, &mut asking));
    assert_eq!(own(&mut asking, "unfinished_refused"), refused + 1);
    // The last byte, and a no-op.
    client.send(&[&b"x\x80\x0a"[..], &[0; 22]].concat());
    let reply = client.read_exact(24 + "Out of memory allocating item".len() + 24);
    assert_eq!((&reply[..2], &reply[6..8]), (&b"\x81\x01"[..], &[0, 0x82][..]));
    assert_eq!(&reply[24 + 29..][..2], b"\x81\x0a");
    // The first client holds little, and was left alone.
    for client in &mut first {
        let reply = client.exchange(&[&[b'x'; 500][..], b"\r\n"].concat());
        assert_eq!(reply.bytes, b"STORED\r\n");
    }
}

/// Two clients that have sent their values without the last byte.
fn large_ones(server: &Server, asking: &mut Client) -> [Client; 2] {
    let set = [&b"set large 0 0 600000\r\n"[..], &[b'l'; 599_999]].concat();
    let before = asking.stat("bytes_read");
    let clients = [(); 2].map(|()| {
        let mut client = server.connect();
        client.send(&set);
        client
    });
    read(asking, before + 2 * set.len() as u64);
    clients
}

/// Sends the last byte of each value.
fn store(clients: [Client; 2]) {
    for mut client in clients {
        assert_eq!(client.exchange(b"l\r\n").bytes, b"STORED\r\n");
    }
}

#[test]
fn pieces_of_many_count_too() {
    let server = Server::start(Program::Guira, &["-o", "unfinished_limit=1", "-t", "1"]);
    let mut asking = server.connect();
    let before = asking.stat("bytes_read");
    let mut clients: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&[&b"set k 0 0 10000\r\n"[..], &[b'x'; 9_000]].concat());
    }
    read(&mut asking, before + 300 * 9_017);
    assert!(own(&mut asking, "unfinished_bytes") <= 2 << 20);
    let refused = own(&mut asking, "unfinished_refused");
    // Of 2 MiB, pieces of nearly 10 KiB.
    assert!((60..110).contains(&refused), "{refused}");
    let mut told = 0;
    for client in &mut clients {
        let reply = client.exchange(&[&[b'x'; 1_000][..], b"\r\n"].concat());
        assert!(!reply.closed);
        told += usize::from(reply.bytes == STORING);
    }
    // Each of which the server says so, and none else.
    assert_eq!(told, refused);
}

/// Uses up the budget by sets without their last bytes. What is left is less than the smallest of these values.
fn use_up(server: &Server, asking: &mut Client, limit: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for bytes in [900_000, 300_000, 100_000, 30_000, 10_000, 3_000] {
        let set = [format!("set h 0 0 {bytes}\r\n").into_bytes(), vec![b'x'; bytes - 1]].concat();
        // A value takes whole chunks.
        while own(asking, "unfinished_bytes") + bytes + bytes / 4 + 4_096 < limit {
            let mut client = server.connect();
            let before = asking.stat("bytes_read");
            client.send(&set);
            read(asking, before + set.len() as u64);
            clients.push(client);
            assert!(clients.len() < 1000, "the budget is never used up");
        }
    }
    clients
}

#[test]
fn short_requests_in_pieces_are_served_whatever_others_hold() {
    for (flags, limit) in SERVERS {
        let server = Server::start(Program::Guira, flags);
        let mut asking = server.connect();
        let held = use_up(&server, &mut asking, limit);
        let used = own(&mut asking, "unfinished_bytes");
        assert!(limit - used < 8_192, "{flags:?}: {used} of {limit} are used");
        let refused = own(&mut asking, "unfinished_refused");
        // First and second piece, and the reply.
        let long_key = [&b"get "[..], &[b'k'; 200]].concat();
        let half = [&b"set m 0 0 3000\r\n"[..], &[b'm'; 2_000]].concat();
        let rest = [&[b'm'; 1_000][..], b"\r\n"].concat();
        type Pieces<'p> = (&'p [u8], &'p [u8], &'p [u8]);
        let pieces: [Pieces<'_>; 5] = [
            (b"set s 0 0 10\r\n01234", b"56789\r\n", b"STORED\r\n"),
            (b"set s 0 0", b" 2\r\nab\r\n", b"STORED\r\n"),
            (&long_key, b" nothing\r\n", b"END\r\n"),
            (&half, &rest, b"STORED\r\n"),
            (b"m", b"n\r\n", b"MN\r\n"),
        ];
        let mut others: Vec<_> = (0..100).map(|_| server.connect()).collect();
        let before = asking.stat("bytes_read");
        let mut sent = 0;
        for (client, (first, ..)) in others.iter_mut().zip(pieces.iter().cycle()) {
            client.send(first);
            sent += first.len();
        }
        read(&mut asking, before + sent as u64);
        for (client, (_, second, told)) in others.iter_mut().zip(pieces.iter().cycle()) {
            let reply = client.exchange(second);
            assert_eq!(reply.bytes.escape_ascii().to_string(), told.escape_ascii().to_string());
        }
        assert_eq!(own(&mut asking, "unfinished_refused"), refused, "{flags:?}");
        drop(held);
    }
}
