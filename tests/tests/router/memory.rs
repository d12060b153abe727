//! What a router holds for its clients: bounded, with the default flags, whatever clients ask and whether they read.

mod values;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use guira_tests::client::{Client, PATIENCE};
use guira_tests::server::{Program, Server, eventually};

/// A connection that a test reads and writes itself, or doesn't.
fn raw(router: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", router.port())).expect("the router listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a socket");
    stream
}

fn budget(client: &mut Client) -> u64 {
    client.stat("client_memory_limit_bytes")
}

const BIG: usize = 1_000_000;
const SLACK: u64 = 64 << 20;
/// Bytes that clients may hold beyond the budget when they were told to give way.
const GIVES_WAY: u64 = 32 << 20;

/// One line of 1.6 kB once took 1.26 GB.
#[test]
fn a_get_of_400_long_values_is_answered_as_they_come() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    assert_eq!(client.set("big", &vec![b'x'; BIG]), "STORED\r\n");
    let mut stream = raw(&router);
    stream.write_all(format!("get{}\r\n", " big".repeat(400)).as_bytes()).expect("it reads");
    let mut expected = format!("VALUE big 0 {BIG}\r\n").into_bytes();
    expected.resize(expected.len() + BIG, b'x');
    expected.extend_from_slice(b"\r\n");
    let mut value = vec![0; expected.len()];
    for n in 0..400 {
        stream.read_exact(&mut value).expect("a value");
        assert!(value == expected, "value {n}");
    }
    let mut end = [0; 5];
    stream.read_exact(&mut end).expect("the end");
    assert_eq!(&end, b"END\r\n");
    assert!(router.peak_bytes() < SLACK, "{} bytes", router.peak_bytes());
}

#[test]
fn clients_that_do_not_read_hold_no_more_than_the_budget_and_others_are_served() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    let budget = budget(&mut client);
    client.set("big", &vec![b'x'; BIG]);
    client.set("small", b"hello");
    let multiget = format!("get{}\r\n", " big".repeat(400));
    let pipeline = "get big\r\n".repeat(400);
    let _idle: Vec<_> = [multiget, pipeline]
        .iter()
        .flat_map(|request| (0..30).map(move |_| request))
        .map(|request| {
            let mut stream = raw(&router);
            stream.write_all(request.as_bytes()).expect("a line has room");
            stream
        })
        .collect();
    // About two seconds.
    for _ in 0..200 {
        assert_eq!(client.get("small").as_deref(), Some(&b"hello"[..]));
        thread::sleep(Duration::from_millis(10));
    }
    assert!(router.peak_bytes() < budget + SLACK, "{} bytes", router.peak_bytes());
    eventually("those who don't read are closed, and what was held for them is free", || {
        client.stat("client_memory_bytes") < 1 << 20
    });
}

/// The requests behind the get once took 2.4 GB in eight seconds.
#[test]
fn what_waits_behind_a_slow_get_is_bounded() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let router = Server::start_router_to(
        &[silent.local_addr().expect("an address").port()],
        &["-t", "60000"],
    );
    let mut requests = [("stats all\r\n", 200_000), ("version\r\n", 1_500_000)]
        .map(|(line, n)| (raw(&router), format!("get slow\r\n{}", line.repeat(n)), 0));
    // About six seconds.
    for _ in 0..5000 {
        for (stream, text, sent) in &mut requests {
            stream.set_nonblocking(true).expect("a socket");
            match stream.write(&text.as_bytes()[*sent..]) {
                Ok(n) => *sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(router.peak_bytes() < SLACK, "{} bytes", router.peak_bytes());
        thread::sleep(Duration::from_millis(1));
    }
    assert!(router.connect().ask("version").starts_with("VERSION"));
}

#[test]
fn unfinished_values_come_out_of_the_budget_and_one_that_hangs_is_refused() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    let budget = budget(&mut client);
    let mut streams: Vec<_> = (0..30).map(|_| raw(&router)).collect();
    let value = vec![b'x'; 20 << 20];
    for stream in &mut streams {
        let head = format!("set k 0 0 {}\r\n", value.len() + 1);
        stream.write_all(head.as_bytes()).expect("a line has room");
        stream.write_all(&value).expect("it is read, or read away");
    }
    eventually("some are refused", || client.stat("client_memory_refusals") > 0);
    assert!(client.stat("client_memory_bytes") <= budget + GIVES_WAY);
    assert_eq!(client.set("small", b"hello"), "STORED\r\n");
    assert!(router.peak_bytes() < budget + SLACK, "{} bytes", router.peak_bytes());
    let refused = b"SERVER_ERROR out of memory reading request\r\n";
    let first = &mut streams[0];
    let mut answer = [0; 44];
    first.read_exact(&mut answer).expect("others needed the memory");
    assert_eq!(&answer, refused);
    first.write_all(b"x\r\nget small\r\n").expect("its connection is used on");
    let mut answer = [0; 27];
    first.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"VALUE small 0 5\r\nhello\r\nEND");
}

/// 300 such clients once made all other clients' sets of 1 MB fail.
#[test]
fn a_long_value_is_stored_past_any_number_of_clients_that_hang_in_the_middle_of_theirs() {
    for (flags, hanging, bytes) in [
        (&[][..], 300, BIG - 1),
        (&[], 900, 280_000),
        (&["--client-memory", "8m"], 100, BIG - 1),
        (&["--client-memory", "1g"], 600, BIG - 1),
    ] {
        let server = Server::start_tcp(Program::Guira, &["-m", "64"]);
        let router = Server::start_router_to(&[server.port()], flags);
        let mut client = router.connect();
        let budget = budget(&mut client);
        let half = [b"set k 0 0 1000000\r\n", &vec![b'x'; bytes][..]].concat();
        let hang = || {
            let mut stream = raw(&router);
            stream.write_all(&half).expect("it is read, or read away");
            stream
        };
        let mut streams: Vec<_> = (0..hanging).map(|_| hang()).collect();
        for n in 0..10 {
            // Some come anew.
            streams.iter_mut().skip(n).step_by(10).for_each(|stream| *stream = hang());
            let mut held = 0;
            eventually("they hang", || {
                thread::sleep(Duration::from_millis(20));
                let now = client.stat("client_memory_bytes");
                std::mem::replace(&mut held, now) == now
            });
            let value = vec![b'v'; BIG];
            assert_eq!(client.set("big", &value), "STORED\r\n", "{flags:?}, set {n}");
            // In a small budget a reply that waits for nobody may come before those that were told give way.
            if budget > SLACK {
                assert_eq!(client.get("big").as_deref(), Some(&value[..]), "{flags:?}, get {n}");
            }
        }
        assert!(client.stat("client_memory_refusals") > 0, "{flags:?}: they fill the budget");
        let peak = router.peak_bytes();
        assert!(peak < budget + SLACK, "{flags:?}: {peak} bytes");
    }
}

#[test]
fn a_get_of_more_keys_than_may_be_is_refused_before_any_server_is_asked() {
    let (server, router) = Server::start_pair();
    let mut client = router.connect();
    let line = format!("get{}\r\nversion\r\n", " k".repeat(70_000));
    client.send(line.as_bytes());
    let refusal = b"CLIENT_ERROR too many keys: a get may have 65536\r\nVERSION";
    assert_eq!(client.read_exact(refusal.len()), refusal);
    assert_eq!(server.connect().stat("cmd_get"), 0);
    let mut client = router.connect();
    client.set("k", b"v");
    client.send(format!("get{}\r\n", " k".repeat(60_000)).as_bytes());
    let all = client.read_exact(60_000 * b"VALUE k 0 1\r\nv\r\n".len() + 5);
    assert!(all.ends_with(b"VALUE k 0 1\r\nv\r\nEND\r\n"));
}

/// Some long values may be sent before one fails; of short values none is.
#[test]
fn a_get_of_short_values_is_answered_whole_or_with_one_line() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    for n in 0..300 {
        client.set(&format!("key{n}"), b"v");
    }
    let keys: String = (0..300).map(|n| format!(" key{n}")).collect();
    let mut fresh = router.connect();
    let answer = fresh.ask(&format!("get{keys} {}", "x".repeat(251)));
    assert_eq!(answer, "CLIENT_ERROR bad key\r\n");
    let answer = fresh.exchange(format!("get{keys}\r\n").as_bytes()).bytes;
    let expected: String = (0..300).map(|n| format!("VALUE key{n} 0 1\r\nv\r\n")).collect();
    assert_eq!(String::from_utf8_lossy(&answer), expected + "END\r\n");
}

/// Bytes that are resident now.
fn resident_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// 100 such lines once took 1.2 GB, and none was refused.
#[test]
fn unfinished_lines_come_out_of_the_budget_and_who_is_refused_is_read_away() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    let budget = budget(&mut client);
    client.set("small", b"hello");
    // Its keys are few and no longer than they may be: only its bytes are too many.
    let line = format!("get{}", format!(" {}", "k".repeat(249)).repeat(30_000));
    // A debug build reads them slowly, so all of its threads do; what is refused side by side may leave room for a few more.
    let mut streams: Vec<_> = (0..60).map(|_| raw(&router)).collect();
    let write = |mut stream: &TcpStream| {
        stream.write_all(line.as_bytes()).expect("it is read, or read away");
    };
    let (first, last) = streams.split_at(54);
    thread::scope(|scope| {
        for some in first.chunks(27) {
            scope.spawn(|| some.iter().for_each(write));
        }
    });
    last.iter().for_each(write);
    eventually("some are refused", || client.stat("client_memory_refusals") > 0);
    assert!(client.stat("client_memory_bytes") <= budget + GIVES_WAY);
    assert_eq!(client.get("small").as_deref(), Some(&b"hello"[..]));
    assert!(router.peak_bytes() < budget + SLACK, "{} bytes", router.peak_bytes());
    let refused = b"SERVER_ERROR out of memory reading request\r\n";
    let is_refused = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let peeked = stream.peek(&mut [0; 44]);
        stream.set_nonblocking(false).expect("a socket");
        peeked.is_ok_and(|bytes| bytes == 44)
    };
    let mut told = None;
    eventually("one is told", || {
        told = streams.iter().rposition(is_refused);
        told.is_some()
    });
    let last = &mut streams[told.expect("one was told")];
    let mut answer = [0; 44];
    last.read_exact(&mut answer).expect("it found no room");
    assert_eq!(&answer, refused);
    last.write_all(b" k k\r\nget small\r\n").expect("its connection is used on");
    let mut answer = [0; 27];
    last.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"VALUE small 0 5\r\nhello\r\nEND");
    drop(streams);
    eventually("what they held is free", || client.stat("client_memory_bytes") < 1 << 20);
}

#[test]
fn a_get_that_no_end_can_save_is_refused_before_its_end_and_read_away() {
    let (_server, router) = Server::start_pair();
    let long = "k".repeat(1 << 20);
    for (keys, refusal) in [
        (" k".repeat(1 << 20), "CLIENT_ERROR too many keys: a get may have 65536\r\n"),
        (format!(" {long}"), "CLIENT_ERROR bad key\r\n"),
    ] {
        let mut client = router.connect();
        client.send(format!("get{keys}").as_bytes());
        assert_eq!(client.read_exact(refusal.len()), refusal.as_bytes());
        client.send(format!("{keys}\r\nversion\r\n").as_bytes());
        assert_eq!(client.read_exact(7), b"VERSION");
    }
}

/// A connection whose buffer had doubled once kept it as long as it lived, and no account counted it.
#[test]
fn the_buffers_of_long_requests_are_given_back() {
    let (_server, router) = Server::start_pair();
    let value = vec![b'x'; 1_500_000];
    let mut clients: Vec<_> = (0..100).map(|_| router.connect()).collect();
    for client in &mut clients {
        assert!(client.set("big", &value).starts_with("SERVER_ERROR"), "servers take 1 MB");
    }
    let resident = || resident_bytes(&router);
    eventually("nothing is kept of 150 MB", || resident() < SLACK);
    eventually("nor is it charged", || clients[0].stat("client_memory_bytes") < 1 << 20);
}

/// A client was once read from until 8 MB had come, and others waited for as much from each sender.
#[test]
fn clients_that_send_without_end_leave_turns_to_others() {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    client.set("small", b"hello");
    let (sent, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let senders: Vec<_> = (0..12)
        .map(|_| {
            let (mut stream, sent, is_over) =
                (raw(&router), Arc::clone(&sent), Arc::clone(&is_over));
            thread::spawn(move || {
                let chunk = vec![b'x'; BIG];
                let mut head = stream.write_all(b"set k 0 0 2000000000\r\n");
                while head.is_ok() && !is_over.load(Relaxed) {
                    head = stream.write_all(&chunk);
                    sent.fetch_add(BIG as u64, Relaxed);
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    let mut meanwhile: Vec<_> = (0..51)
        .map(|_| {
            let before = sent.load(Relaxed);
            assert_eq!(client.get("small").as_deref(), Some(&b"hello"[..]));
            sent.load(Relaxed) - before
        })
        .collect();
    is_over.store(true, Relaxed);
    meanwhile.sort_unstable();
    // Some gets come while the system runs others.
    assert!(meanwhile[25] < 16 << 20, "{meanwhile:?}");
    assert!(router.peak_bytes() < SLACK, "{} bytes", router.peak_bytes());
    senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
}

/// Freed memory must go back to the system at once. Otherwise the last second's values take memory beyond the budget.
#[test]
fn long_values_that_pass_leave_no_memory_behind() {
    const LONG: usize = 20 << 20;
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    let most = budget(&mut client) + SLACK;
    let senders: Vec<_> = (0..12)
        .map(|_| {
            let mut stream = raw(&router);
            thread::spawn(move || {
                let mut request = format!("set k 0 0 {LONG}\r\n").into_bytes();
                request.resize(request.len() + LONG, b'x');
                request.extend_from_slice(b"\r\n");
                let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                for _ in 0..4 {
                    // The router may refuse it, and end the connection.
                    if stream.write_all(&request).is_err()
                        || lines.next().is_none_or(|it| it.is_err())
                    {
                        break;
                    }
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
    assert!(router.peak_bytes() < most, "{} of {most} bytes", router.peak_bytes());
}

/// Each client once took 4 MB. 900 of them used up what TCP may have, and all connections of the machine lost packets.
#[test]
fn what_clients_do_not_read_takes_little_of_the_systems_memory() {
    const CLIENTS: usize = 30;
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    client.set("big", &vec![b'x'; BIG]);
    let streams: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut stream = raw(&router);
            stream.write_all("get big\r\n".repeat(8).as_bytes()).expect("a line has room");
            stream
        })
        .collect();
    eventually("values wait for all", || {
        router.system_unsent_bytes() > CLIENTS as u64 * (64 << 10)
    });
    // About a second.
    for _ in 0..50 {
        let unsent = router.system_unsent_bytes();
        assert!(unsent < CLIENTS as u64 * (512 << 10), "{unsent} bytes");
        thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
}

/// Each reply of 29 bytes had a line of hundreds, whose room the client kept when it had read them all.
#[test]
fn short_replies_that_nobody_reads_take_little_more_than_their_bytes() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let router = Server::start_router_to(&[silent.local_addr().expect("an address").port()], &[]);
    let request = format!("get slow\r\n{}", "version\r\n".repeat(40_000));
    let streams: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = raw(&router);
            stream.write_all(request.as_bytes()).expect("the system has room");
            stream
        })
        .collect();
    // About three seconds.
    for _ in 0..100 {
        assert!(router.peak_bytes() < SLACK, "{} bytes", router.peak_bytes());
        thread::sleep(Duration::from_millis(30));
    }
    drop(streams);
    assert!(router.connect().ask("version").starts_with("VERSION"));
}
