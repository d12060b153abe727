//! Long values between servers and a router: their bytes come out of the budget, however a server behaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use guira_tests::server::{Server, eventually};

use super::{BIG, GIVES_WAY, SLACK, budget, raw, resident_bytes};

/// A server that answers each connection with the head of a long value and as much of it as is read.
fn hostile(announced: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut asked, chunk) = ([0; "get b\r\n".len()], vec![b'x'; BIG]);
                stream.read_exact(&mut asked)?;
                stream.write_all(format!("VALUE b 0 {announced}\r\n").as_bytes())?;
                (0..500).try_for_each(|_| stream.write_all(&chunk))
            });
        }
    });
    port
}

/// The router once kept all that came of a value of 1 GB, and took 1.4 GB.
#[test]
fn a_value_longer_than_a_client_may_hold_is_not_read() {
    let router = Server::start_router_to(&[hostile(1_000_000_000)], &[]);
    let mut streams: Vec<_> = (0..60).map(|_| raw(&router)).collect();
    for stream in &mut streams {
        stream.write_all(b"get b\r\n").expect("a line has room");
    }
    for stream in &mut streams {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"SERVER_ERROR");
    }
    assert!(router.peak_bytes() < SLACK, "{} bytes", router.peak_bytes());
}

/// A server that answers a get of its first key with a value of so many bytes, of which it sends some and then, if that
/// wasn't all, nothing more.
fn trickling(announced: usize, sent: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_each(stream, announced, sent));
        }
    });
    port
}

fn answer_each(stream: TcpStream, announced: usize, sent: usize) -> std::io::Result<()> {
    let (mut output, chunk) = (stream.try_clone()?, vec![b'x'; BIG]);
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let key = line.split(' ').nth(1).unwrap_or_default();
        if key.starts_with("small") {
            output.write_all(format!("VALUE {key} 0 5\r\nhello\r\nEND\r\n").as_bytes())?;
            continue;
        }
        output.write_all(format!("VALUE {key} 0 {announced}\r\n").as_bytes())?;
        (0..sent / BIG).try_for_each(|_| output.write_all(&chunk))?;
        if sent == announced {
            output.write_all(b"\r\nEND\r\n")?;
        }
    }
    Ok(())
}

/// Each connection with a server once took 128 MB, which no account counted.
#[test]
fn values_that_are_on_their_way_come_out_of_the_budget() {
    let ports: Vec<_> = (0..8).map(|_| trickling(100 * BIG, 60 * BIG)).collect();
    let router = Server::start_router_to(&ports, &["-t", "60000"]);
    let mut client = router.connect();
    let budget = budget(&mut client);
    let streams: Vec<_> = (0..60)
        .map(|n| {
            let mut stream = raw(&router);
            stream.write_all(format!("get key{n}\r\n").as_bytes()).expect("a line has room");
            stream
        })
        .collect();
    eventually("some are refused", || client.stat("client_memory_refusals") > 0);
    // About two seconds.
    for _ in 0..100 {
        assert!(client.stat("client_memory_bytes") <= budget + GIVES_WAY);
        assert!(router.peak_bytes() < budget + SLACK, "{} bytes", router.peak_bytes());
        thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
    drop(client);
    let mut client = router.connect();
    assert!(client.ask("version").starts_with("VERSION"));
}

/// A connection once kept the room for its longest value as long as it lived.
#[test]
fn the_buffers_of_long_values_are_given_back() {
    let router = Server::start_router_to(&[trickling(60 * BIG, 60 * BIG)], &["-t", "60000"]);
    for n in 0..4 {
        let mut stream = raw(&router);
        stream.write_all(format!("get b{n}\r\nget small\r\n").as_bytes()).expect("room");
        let answer =
            format!("VALUE b{n} 0 {}\r\n\r\nEND\r\nVALUE small 0 5\r\nhello\r\nEND\r\n", 60 * BIG);
        stream.read_exact(&mut vec![0; answer.len() + 60 * BIG]).expect("both answers");
    }
    eventually("nothing is kept of 60 MB", || resident_bytes(&router) < SLACK / 2);
}

/// A server that refuses each value before it has read it, and reads no more of it until `reads` is set.
fn refusing(reads: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let reads = Arc::clone(reads);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let reads = Arc::clone(&reads);
            thread::spawn(move || {
                stream.read_exact(&mut [0; 4])?;
                stream.write_all(b"SERVER_ERROR object too large for cache\r\n")?;
                while !reads.load(Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                std::io::copy(&mut stream, &mut std::io::sink())
            });
        }
    });
    port
}

/// No account once counted such values, one per connection with a server: they took memory beyond the budget.
#[test]
fn a_value_that_was_refused_is_charged_until_the_server_has_read_it() {
    const LONG: usize = 30 << 20;
    let reads = Arc::new(AtomicBool::new(false));
    let router = Server::start_router_to(&[refusing(&reads)], &["-t", "60000"]);
    let mut client = router.connect();
    assert_eq!(client.set("k", &vec![b'x'; LONG]), "SERVER_ERROR object too large for cache\r\n");
    let mut other = router.connect();
    // The system's buffers may have taken part of the value.
    assert!(other.stat("client_memory_bytes") > LONG as u64 / 2);
    drop(client);
    thread::sleep(Duration::from_millis(100));
    assert!(other.stat("client_memory_bytes") > LONG as u64 / 2, "also when the client has gone");
    reads.store(true, Relaxed);
    eventually("what is sent is free", || other.stat("client_memory_bytes") < 1 << 20);
}
