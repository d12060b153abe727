//! Tests of sessions over a small service: what clients are told, and what they can't do, however they behave.
//!
//! The invariants are those of `session`, `memory`, `entrance` and `service`.

mod map;

use guira_front::certificates::{Material, Wanted};
use guira_front::sessions::{Arrival, ClientLimits, Logins, MemoryLimits, ShutdownFrom, drain};
use map::{LIMITS, Program, eventually, run, while_passes};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use socket2::SockRef;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// Sends bytes and expects others.
async fn exchange(client: &mut TcpStream, send: &str, expect: &str) {
    client.write_all(send.as_bytes()).await.expect("it is read");
    let mut said = vec![0; expect.len()];
    client.read_exact(&mut said).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&said), expect, "to {send:?}");
}

/// Reads all that is still said, up to the end of the connection.
async fn rest(client: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // A reset ends it, too.
    let _ = client.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn requests_are_answered_as_memcached_words_them() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        for (send, expect) in [
            ("set a 0 0 2\r\nxy\r\n", "STORED\r\n"),
            ("set b 0 0 1 noreply\r\nz\r\nget b\r\n", "VALUE b 0 1\r\nz\r\nEND\r\n"),
            ("get a none b\r\n", "VALUE a 0 2\r\nxy\r\nVALUE b 0 1\r\nz\r\nEND\r\n"),
            ("mg a v k q\r\nmg none v q\r\nmn\r\n", "VA 2 ka\r\nxy\r\nMN\r\n"),
            ("delete a\r\ndelete a\r\n", "DELETED\r\nNOT_FOUND\r\n"),
            ("version\r\n", "VERSION 1.6.0-map\r\n"),
            ("stats of this\r\n", "STAT group of this\r\nEND\r\n"),
            ("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n"),
            ("flush_all\r\nget b\r\n", "OK\r\nEND\r\n"),
        ] {
            exchange(&mut client, send, expect).await;
        }
        client.write_all(b"nonsense\r\n").await.expect("it is read");
        assert_eq!(rest(&mut client).await, "CLIENT_ERROR malformed request\r\n");
        assert_eq!(
            program.map.replied.get(),
            11,
            "noreply and what needs no service isn't counted"
        );
    });
}

#[test]
fn answers_that_come_in_any_order_leave_in_the_order_of_requests() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        let send = "set slow 0 0 1\r\ns\r\nset fast 0 0 1\r\nf\r\nget fast slow\r\nversion\r\n";
        client.write_all(send.as_bytes()).await.expect("it is read");
        eventually("the second change is done", || !program.map.items.borrow().is_empty()).await;
        while_passes().await;
        assert!(client.try_read(&mut [0; 9]).is_err(), "nothing is said before the first");
        program.map.open();
        let all = "STORED\r\nSTORED\r\nVALUE fast 0 1\r\nf\r\nVALUE slow 0 1\r\ns\r\nEND\r\n\
                   VERSION 1.6.0-map\r\n";
        exchange(&mut client, "", all).await;
        assert_eq!(program.map.held.get(), 0);
    });
}

/// Regression: all were let in before the thread saw what others asked.
#[test]
fn a_crowd_that_comes_at_once_is_let_in_a_few_at_a_time_and_others_are_answered_meanwhile() {
    run(async {
        const CROWD: usize = 300;
        let program = Program::new(LIMITS);
        let mut calm = program.connect().await;
        for _ in 0..2 {
            exchange(&mut calm, "set calm 0 0 1\r\nx\r\n", "STORED\r\n").await;
        }
        let (mut crowd, mut arrivals) = (Vec::new(), Vec::new());
        for _ in 0..CROWD {
            let (mut client, arrival) = program.knock().await;
            client.write_all(b"set new 0 0 1\r\nx\r\n").await.expect("it is sent");
            crowd.push(client);
            arrivals.push(Arrival::Tcp(arrival));
        }
        arrivals.into_iter().for_each(|arrival| program.let_in(arrival));
        exchange(&mut calm, "get calm\r\n", "VALUE calm 0 1\r\nx\r\nEND\r\n").await;
        let entered = program.map.entered.get();
        assert!(entered < CROWD / 2, "{entered} were let in before");
        for client in &mut crowd {
            exchange(client, "", "STORED\r\n").await;
        }
    });
}

/// Regression: the second part of the get was begun and not polled. A get that goes through routes stood still until the
/// client sent more.
#[test]
fn a_get_of_several_keys_may_be_the_first_request() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        exchange(&mut client, "get a b c d\r\n", "END\r\n").await;
        assert_eq!(*program.map.begun.borrow(), ["a", "b", "c", "d"]);
    });
}

#[test]
fn what_was_sent_before_quit_is_answered_and_nothing_after_it_is_begun() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        let send = "set slow 0 0 1\r\ns\r\nquit\r\nset after 0 0 1\r\na\r\n";
        client.write_all(send.as_bytes()).await.expect("it is read");
        eventually("the first is begun", || !program.map.begun.borrow().is_empty()).await;
        while_passes().await;
        program.map.open();
        assert_eq!(rest(&mut client).await, "STORED\r\n");
        assert_eq!(*program.map.begun.borrow(), ["slow"]);
        eventually("the client is gone", || program.clients.connected() == 0).await;
    });
}

#[test]
fn changes_of_a_client_that_went_are_carried_through_and_its_gets_are_given_up() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        // A newcomer's get is in a lane, and waited for: others' values would come behind its own.
        exchange(&mut client, "get none\r\n", "END\r\n").await;
        let send = "get slow:get\r\nset slow:set 0 0 1\r\ns\r\nms slow:ms 1\r\nm\r\n";
        client.write_all(send.as_bytes()).await.expect("it is read");
        eventually("all are begun", || program.map.begun.borrow().len() == 4).await;
        client.set_zero_linger().expect("a reset");
        drop(client);
        eventually("gets are given up", || program.map.held.get() == 2).await;
        assert_eq!(program.clients.connected(), 1, "it keeps its place");
        assert!(program.map.items.borrow().is_empty());
        program.map.open();
        eventually("the client is gone", || program.clients.connected() == 0).await;
        let mut stored: Vec<_> = program.map.items.borrow().keys().cloned().collect();
        stored.sort();
        assert_eq!(stored, ["slow:ms", "slow:set"]);
        assert_eq!((program.map.held.get(), program.clients.bank.held()), (0, 0));
    });
}

/// Regression: clients that sent slow changes and left kept their descriptors for minutes, until no other was let in.
#[test]
fn a_change_of_a_client_that_went_keeps_its_place_for_seconds_at_most() {
    run(async {
        let program = Program::new(LIMITS);
        let mut client = program.connect().await;
        client.write_all(b"set slow 0 0 1\r\ns\r\n").await.expect("it is read");
        eventually("it is begun", || program.map.held.get() == 1).await;
        client.set_zero_linger().expect("a reset");
        drop(client);
        while_passes().await;
        assert_eq!(program.clients.connected(), 1, "it keeps its place");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        eventually("the client is gone", || program.clients.connected() == 0).await;
        assert_eq!((program.map.held.get(), program.clients.bank.held()), (0, 0));
    });
}

#[test]
fn of_a_crowd_that_went_changes_are_carried_through_for_a_second_and_of_a_few_for_longer_again() {
    const CROWD: usize = 300;
    run(async {
        let program = Program::new(LIMITS);
        let leave = async |count: usize| {
            for n in 0..count {
                let before = program.map.held.get();
                let mut client = program.connect().await;
                let send = format!("set slow{n} 0 0 1\r\ns\r\n");
                client.write_all(send.as_bytes()).await.expect("it is read");
                eventually("it is begun", || program.map.held.get() > before).await;
                client.set_zero_linger().expect("a reset");
            }
            while_passes().await;
        };
        leave(CROWD).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
        while_passes().await;
        let left = program.clients.connected();
        assert!(left <= 256, "{left} of {CROWD} keep their places");
        tokio::time::advance(Duration::from_secs(11)).await;
        eventually("all are gone", || program.clients.connected() == 0).await;
        tokio::time::resume();
        leave(10).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        while_passes().await;
        assert_eq!(program.clients.connected(), 10, "they are few");
    });
}

#[test]
fn a_client_has_no_more_requests_under_way_than_it_may() {
    run(async {
        let program = Program::new(ClientLimits { outstanding_max: 3, ..LIMITS });
        let mut client = program.connect().await;
        for n in 0..8 {
            // Each request by itself: requests that are read together are begun together.
            let send = format!("delete slow{n}\r\n");
            client.write_all(send.as_bytes()).await.expect("there is room in the socket");
            let begun = || program.map.begun.borrow().len();
            eventually("it is begun if it may be", || begun() > n.min(2)).await;
        }
        while_passes().await;
        assert_eq!(program.map.begun.borrow().len(), 3);
        program.map.open();
        exchange(&mut client, "", &"NOT_FOUND\r\n".repeat(8)).await;
    });
}

/// A megabyte may be held for one client, two for all.
const TIGHT: ClientLimits =
    ClientLimits { memory: MemoryLimits { all: 2 << 20, each: 1 << 20, value: 1 << 20 }, ..LIMITS };
/// Bytes that a client holds before it is checked: a read, a line, a value that goes out.
const SLACK: usize = 256 << 10;

#[test]
fn replies_that_nobody_reads_are_bounded_in_bytes() {
    run(async {
        let program = Program::new(TIGHT);
        let value = vec![b'v'; 100_000];
        program.map.items.borrow_mut().insert("k".into(), value.into());
        let mut greedy = Vec::new();
        for _ in 0..8 {
            let mut client = program.connect().await;
            let requests = "get k k k k k k k k\r\n".repeat(100);
            client.write_all(requests.as_bytes()).await.expect("there is room in the socket");
            greedy.push(client);
        }
        for _ in 0..10 {
            while_passes().await;
            let held = program.clients.bank.held();
            assert!(held <= (2 << 20) + 8 * SLACK, "{held}");
        }
        // Others are served meanwhile.
        let mut modest = program.connect().await;
        let value = format!("VALUE k 0 100000\r\n{}\r\nEND\r\n", "v".repeat(100_000));
        exchange(&mut modest, "set m 0 0 1\r\nx\r\n", "STORED\r\n").await;
        exchange(&mut modest, "get k\r\n", &value).await;
        drop((greedy, modest));
        eventually("all are gone", || program.clients.connected() == 0).await;
        assert_eq!((program.clients.bank.held(), program.map.held.get()), (0, 0));
    });
}

/// Regression: requests that were answered as they were begun kept their part of the lane until their client read.
#[test]
fn a_client_that_does_not_read_its_long_values_holds_up_no_other() {
    run(async {
        let program = Program::new(LIMITS);
        let bytes = 100_000;
        program.map.items.borrow_mut().insert("k".into(), vec![b'v'; bytes].into());
        let value = format!("VALUE k 0 {bytes}\r\n{}\r\nEND\r\n", "v".repeat(bytes));
        let (mut lazy, mut other) = (program.connect().await, program.connect().await);
        exchange(&mut other, "get k\r\n", &value).await;
        // Until the socket is full, and the last requests are answered into a buffer.
        let requests = "get k k k k k k k k k k\r\n".repeat(50);
        lazy.write_all(requests.as_bytes()).await.expect("it is read");
        let mut begun = 0;
        while begun != program.map.begun.borrow().len() {
            begun = program.map.begun.borrow().len();
            while_passes().await;
        }
        assert!(begun < 400, "it isn't stopped");
        exchange(
            &mut other,
            "get k k k k k k k k k\r\nversion\r\n",
            &format!("{}END\r\nVERSION 1.6.0-map\r\n", value.trim_end_matches("END\r\n").repeat(9)),
        )
        .await;
    });
}

#[test]
fn a_get_line_without_end_is_refused_and_the_next_request_is_answered() {
    run(async {
        let program = Program::new(TIGHT);
        let mut client = program.connect().await;
        let line = format!("get {}", "key:of:twelve ".repeat(160_000));
        let (mut reading, mut writing) = client.split();
        let write = async {
            writing.write_all(line.as_bytes()).await.expect("it is read, or discarded");
            writing.write_all(b"\r\nversion\r\n").await.expect("it is read");
        };
        let read = async {
            let expect = "SERVER_ERROR out of memory reading request\r\nVERSION 1.6.0-map\r\n";
            let refused =
                "CLIENT_ERROR too many keys: a get may have 65536\r\nVERSION 1.6.0-map\r\n";
            let mut said = String::new();
            while !said.ends_with("VERSION 1.6.0-map\r\n") {
                let mut some = [0; 200];
                let n = reading.read(&mut some).await.expect("an answer");
                assert!(n > 0, "closed after {said:?}");
                said.push_str(&String::from_utf8_lossy(&some[..n]));
                assert!(program.clients.bank.held() <= (1 << 20) + SLACK);
            }
            assert!(said == expect || said == refused, "{said:?}");
        };
        tokio::join!(write, read);
        assert!(program.map.begun.borrow().is_empty());
    });
}

#[test]
fn requests_that_are_never_finished_count_and_are_forgotten_with_their_clients() {
    run(async {
        let program = Program::new(TIGHT);
        let half = [&b"set k 0 0 900000\r\n"[..], &vec![b'v'; 500_000]].concat();
        let mut halves = Vec::new();
        for _ in 0..12 {
            let mut client = program.connect().await;
            client.write_all(&half).await.expect("it is read, or discarded");
            while_passes().await;
            let held = program.clients.bank.held();
            assert!(held <= (2 << 20) + SLACK, "{held}");
            halves.push(client);
        }
        assert!(program.clients.bank.held() >= 500_000, "what waits is counted");
        assert!(program.clients.bank.refused() > 0, "some found no room");
        drop(halves);
        eventually("all are gone", || program.clients.connected() == 0).await;
        assert_eq!(program.clients.bank.held(), 0);
        assert!(program.map.begun.borrow().is_empty());
    });
}

/// Regression: the client that came last was refused, although all others hung.
#[test]
fn a_long_value_finds_its_way_past_those_that_hang_whether_they_hold_more_or_less() {
    for (hanging, bytes) in [(80, 700_000), (400, 120_000)] {
        run(async {
            let program = Program::new(LIMITS);
            let half = [&b"set k 0 0 1000000\r\n"[..], &vec![b'v'; bytes][..]].concat();
            let mut crowd = Vec::new();
            for _ in 0..hanging {
                let mut client = program.connect().await;
                client.write_all(&half).await.expect("it is read, or read away");
                crowd.push(client);
            }
            // Until all of it is read.
            let mut held = 0;
            while std::mem::replace(&mut held, program.clients.bank.held()) != held {
                while_passes().await;
            }
            let mut calm = program.connect().await;
            for n in 0..10 {
                let head = format!("set calm{n} 0 0 1000000\r\n");
                let whole = [head.as_bytes(), &vec![b'v'; 1_000_000], b"\r\n"].concat();
                calm.write_all(&whole).await.expect("it is read");
                exchange(&mut calm, "", "STORED\r\n").await;
            }
            assert!(program.clients.bank.refused() > 0, "they filled the budget");
            assert!(program.clients.bank.held() <= (64 << 20) + (8 << 20));
            drop(crowd);
            eventually("they are gone", || program.clients.connected() == 1).await;
            exchange(&mut calm, "get none\r\n", "END\r\n").await;
            // The map keeps what was stored.
            assert!(program.clients.bank.held() < 12 << 20, "{}", program.clients.bank.held());
        });
    }
}

/// The configurations of a listener's side of TLS and of a client's.
fn certified() -> (ServerConfig, ClientConfig) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let (own, key) = (signed.cert.der().clone(), signed.signing_key.serialize_der());
    let key = PrivateKeyDer::try_from(key).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).expect("a root");
    let material = Material::new(vec![own], key, None, |_| true).expect("a pair");
    let server = material.config(Wanted::Nothing, rustls::DEFAULT_VERSIONS).expect("versions");
    let client =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().expect("versions");
    (server, client.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn silent_handshakes_keep_nobody_out_and_the_oldest_of_many_goes() {
    run(async {
        let (server, client) = certified();
        let program = Program::guarded(LIMITS, None, Some(server));
        let mut silent = Vec::new();
        for _ in 0..260 {
            silent.push(program.connect_as(Arrival::Tls).await);
        }
        let stream = program.connect_as(Arrival::Tls).await;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
        let name = ServerName::try_from("localhost").expect("a name");
        let mut prompt = connector.connect(name, stream).await.expect("it is let in");
        prompt.write_all(b"version\r\n").await.expect("it is read");
        let mut said = [0; 19];
        prompt.read_exact(&mut said).await.expect("an answer");
        assert_eq!(&said, b"VERSION 1.6.0-map\r\n");
        assert_eq!(rest(&mut silent[0]).await, "", "the oldest was closed");
        assert!(silent[259].try_read(&mut [0; 9]).is_err(), "the newest waits");
        assert_eq!(program.clients.refusals.entrances(), 5);
    });
}

/// Regression: all handshakes were done before the thread saw what others asked.
#[test]
fn a_crowd_that_shakes_hands_at_once_does_so_in_turn_and_others_are_answered_meanwhile() {
    run(async {
        const CROWD: usize = 100;
        let (server, client) = certified();
        let program = Program::guarded(LIMITS, None, Some(server));
        let mut calm = program.connect().await;
        for _ in 0..2 {
            exchange(&mut calm, "set calm 0 0 1\r\nx\r\n", "STORED\r\n").await;
        }
        let client = Arc::new(client);
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            let name = ServerName::try_from("localhost").expect("a name");
            let mut hello = Vec::new();
            let mut side = ClientConnection::new(Arc::clone(&client), name).expect("a client");
            side.write_tls(&mut hello).expect("a hello");
            crowd.push((hello, program.connect_as(Arrival::Tls).await));
        }
        // All have arrived, and say nothing yet.
        while_passes().await;
        for (hello, stream) in &mut crowd {
            stream.write_all(hello).await.expect("it is sent");
        }
        exchange(&mut calm, "get calm\r\n", "VALUE calm 0 1\r\nx\r\nEND\r\n").await;
        let answered = crowd.iter().filter(|(_, stream)| {
            let stream = SockRef::from(stream);
            stream.peek(&mut [MaybeUninit::uninit()]).is_ok()
        });
        let answered = answered.count();
        assert!(answered < CROWD / 2, "{answered} were answered before");
        for (_, stream) in &mut crowd {
            stream.read_exact(&mut [0; 5]).await.expect("the server's hello");
        }
    });
}

#[test]
fn nothing_is_begun_before_a_login() {
    run(async {
        let path = std::env::temp_dir().join(format!("guira-front-logins-{}", std::process::id()));
        std::fs::write(&path, "user:secret\n").expect("a file");
        let logins = Logins::open(path.clone()).expect("users");
        std::fs::remove_file(&path).expect("it is there");
        let program = Program::guarded(LIMITS, Some(logins), None);
        let mut stranger = program.connect().await;
        exchange(&mut stranger, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n").await;
        exchange(
            &mut stranger,
            "set k 0 0 10\r\nuser wrong\r\n",
            "CLIENT_ERROR authentication failure\r\n",
        )
        .await;
        assert!(program.map.begun.borrow().is_empty());
        let failures = || program.clients.logins.as_ref().map(Logins::failures);
        assert_eq!(failures(), Some(1));
        exchange(&mut stranger, "set k 0 0 11\r\nuser secret\r\nget a\r\n", "STORED\r\nEND\r\n")
            .await;
        assert_eq!(failures(), Some(1));
    });
}

#[test]
fn a_client_that_takes_no_replies_is_closed_in_time() {
    run(async {
        let timeout = Duration::from_millis(300);
        let program = Program::new(ClientLimits { timeout, ..LIMITS });
        program.map.items.borrow_mut().insert("k".into(), vec![b'v'; 1 << 20].into());
        let mut client = program.connect().await;
        client.write_all("get k\r\n".repeat(64).as_bytes()).await.expect("it is read");
        eventually("it is closed", || program.clients.connected() == 0).await;
        assert_eq!(program.clients.bank.held(), 0);
    });
}

#[test]
fn shutdown_is_answered_and_told_where_it_is_allowed() {
    run(async {
        let shutdown_from = ShutdownFrom::Anybody;
        let program = Program::new(ClientLimits { shutdown_from, ..LIMITS });
        let mut client = program.connect().await;
        exchange(&mut client, "shutdown\r\n", "OK\r\n").await;
        assert!(program.map.is_shut_down.get());
    });
}

#[test]
fn a_thread_that_ends_answers_what_it_has_read() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("an event queue");
    let tasks = LocalSet::new();
    let program = Program::new(LIMITS);
    let (mut idle, mut busy) = tasks.block_on(&runtime, async {
        let (mut idle, mut busy) = (program.connect().await, program.connect().await);
        exchange(&mut idle, "version\r\n", "VERSION 1.6.0-map\r\n").await;
        busy.write_all(b"set slow 0 0 1\r\ns\r\n").await.expect("it is read");
        eventually("it is begun", || !program.map.begun.borrow().is_empty()).await;
        (idle, busy)
    });
    runtime.block_on(async {
        let clients = async {
            assert_eq!(
                rest(&mut idle).await,
                "",
                "a client that waits for nothing is closed at once"
            );
            program.map.open();
            assert_eq!(rest(&mut busy).await, "STORED\r\n");
        };
        tokio::join!(drain(&program.sessions, tasks, || panic!("there was time")), clients);
    });
    assert_eq!(program.clients.connected(), 0);
}
