//! A connection to real servers: order under load, lost and slow servers, and requests that are never sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use guira_client::{
    Address, Ask, Caller, Connection, ConnectionOptions, Credentials, Op, Outcome, Reply, Request,
    Tls,
};
use guira_tests::server::{self, Program, Server};
use guira_tests::tls::Authority;
use rustix::process::Signal;
use tokio::time::Instant;

const PROGRAMS: [Program; 2] = [Program::Memcached, Program::Guira];

fn address(server: &Server) -> Address {
    match server.address() {
        server::Address::Unix(path) => Address::Unix(path.clone()),
        server::Address::Tcp(port) => Address::Tcp { host: "127.0.0.1".into(), port: *port },
    }
}

fn connection(server: &Server) -> Connection {
    Connection::new(address(server), ConnectionOptions::default())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn set(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Request {
    Request { value: value.into(), ..Request::new(Op::Set, key) }
}

async fn get(connection: &Connection, key: &str) -> Reply {
    connection.ask(Request::new(Op::Get, key.to_owned()), soon()).await
}

/// Stops the server, and returns when all its threads have stopped.
async fn freeze(server: &Server) {
    server.signal(Signal::STOP);
    let patience = soon();
    while runs(server.pid()).expect("it is there") {
        assert!(Instant::now() < patience, "it runs on");
        tokio::task::yield_now().await;
    }
}

/// Whether any thread of a process is running.
fn runs(pid: u32) -> std::io::Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        if !stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn check_operations(c: &Connection) {
    let ask = async |request: Request| c.ask(request, soon()).await;
    let base = Request { value: "5".into(), flags: 9, ..Request::new(Op::Set, "n") };
    let of = |op| Request { op, ..base.clone() };
    let outcome = async |request: Request| ask(request).await.outcome;
    assert_eq!(outcome(of(Op::Replace)).await, Outcome::NotStored);
    assert_eq!(outcome(of(Op::Add)).await, Outcome::Stored);
    assert_eq!(outcome(of(Op::Add)).await, Outcome::NotStored);
    let found = ask(of(Op::Gets)).await;
    assert_eq!((found.outcome, &found.value[..], found.flags), (Outcome::Found, &b"5"[..], 9));
    let cas = Request { token: found.token, ..of(Op::Cas) };
    assert_eq!(outcome(cas.clone()).await, Outcome::Stored);
    assert_eq!(outcome(cas).await, Outcome::Exists);
    let incr = ask(Request { delta: 7, ..of(Op::Incr) }).await;
    assert_eq!((incr.outcome, incr.number), (Outcome::Found, 12));
    assert_eq!(ask(Request { delta: 2, ..of(Op::Decr) }).await.number, 10);
    assert_eq!(outcome(of(Op::Append)).await, Outcome::Stored);
    assert_eq!(outcome(of(Op::Prepend)).await, Outcome::Stored);
    assert_eq!(ask(of(Op::Get)).await.value, "5105");
    let long = Request { exptime: 1000, ..of(Op::Touch) };
    assert_eq!(outcome(long.clone()).await, Outcome::Touched);
    assert_eq!(ask(Request { op: Op::Gat, ..long.clone() }).await.value, "5105");
    assert_eq!(ask(Request { op: Op::Gats, ..long }).await.flags, 9);
    assert_eq!(outcome(of(Op::Delete)).await, Outcome::Deleted);
    assert_eq!(outcome(of(Op::Delete)).await, Outcome::NotFound);
    assert_eq!(outcome(of(Op::Get)).await, Outcome::NotFound);
    assert_eq!(outcome(of(Op::Incr)).await, Outcome::NotFound);
    assert_eq!(outcome(Request::new(Op::FlushAll, "")).await, Outcome::Ok);
    assert!(!ask(Request::new(Op::Version, "")).await.message.is_empty());
}

#[tokio::test]
async fn every_operation_is_answered_as_the_servers_answer_it() {
    for program in PROGRAMS {
        for server in [Server::start(program, &[]), Server::start_tcp(program, &[])] {
            check_operations(&connection(&server)).await;
        }
    }
}

#[tokio::test]
async fn a_thousand_requests_in_flight_each_get_their_own_reply() {
    for program in PROGRAMS {
        let server = Server::start(program, &[]);
        let c = connection(&server);
        let sets: Vec<_> = (0..1000)
            .filter(|n| n % 3 != 0)
            .map(|n| {
                let value = format!("{n}-").repeat(if n % 50 == 1 { 20_000 } else { 3 });
                c.ask(Request { flags: n, ..set(format!("key{n}"), value) }, soon())
            })
            .collect();
        for ask in sets {
            assert_eq!(ask.await.outcome, Outcome::Stored);
        }
        let gets: Vec<_> = (0..1000)
            .map(|n| {
                let op = if n % 7 == 0 { Op::Gets } else { Op::Get };
                c.ask(Request::new(op, format!("key{n}")), soon())
            })
            .collect();
        for (n, ask) in gets.into_iter().enumerate() {
            let reply = ask.await;
            if n % 3 == 0 {
                assert_eq!(reply.outcome, Outcome::NotFound, "{n}");
            } else {
                assert_eq!((reply.outcome, reply.flags as usize), (Outcome::Found, n));
                assert!(reply.value.starts_with(format!("{n}-").as_bytes()));
            }
        }
        assert_eq!(c.load(), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_several_threads_share_a_connection() {
    let server = Server::start(Program::Guira, &[]);
    let c = connection(&server);
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let c = c.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    let (key, value) = (format!("{task}-{n}"), format!("value {task} {n}"));
                    let stored = c.ask(set(key.clone(), value.clone()), soon()).await;
                    assert_eq!(stored.outcome, Outcome::Stored);
                    assert_eq!(get(&c, &key).await.value, value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_key_cannot_smuggle_a_command() {
    let server = Server::start(Program::Memcached, &[]);
    let c = connection(&server);
    for key in ["", "a b", "a\r\nflush_all", "a\0", "a\x7f", &"k".repeat(251)] {
        assert_eq!(get(&c, key).await.outcome, Outcome::BadKey, "{key:?}");
    }
    assert_eq!(get(&c, &"k".repeat(250)).await.outcome, Outcome::NotFound);
}

#[tokio::test]
async fn a_server_without_leases_costs_the_connection_and_not_the_order() {
    let server = Server::start(Program::Memcached, &[]);
    let c = connection(&server);
    assert_eq!(c.ask(set("k", "v"), soon()).await.outcome, Outcome::Stored);
    let lease = Request { op: Op::LeaseSet, token: 7, ..set("k", "read as a command") };
    assert_eq!(c.ask(lease, soon()).await.outcome, Outcome::BadCommand);
    assert_eq!(get(&c, "k").await.value, "v");
}

#[tokio::test]
async fn a_frozen_server_times_out_and_answers_in_order_when_it_thaws() {
    let server = Server::start(Program::Memcached, &[]);
    let c = connection(&server);
    assert_eq!(c.ask(set("a", "1"), soon()).await.outcome, Outcome::Stored);
    assert_eq!(c.ask(set("b", "2"), soon()).await.outcome, Outcome::Stored);
    freeze(&server).await;
    let deadline = Instant::now() + Duration::from_millis(50);
    let late = c.ask(Request::new(Op::Get, "a"), deadline).await;
    assert_eq!(late.outcome, Outcome::Timeout);
    assert_eq!(c.load().0, 1, "its place in the order is kept");
    let next = c.ask(Request::new(Op::Get, "b"), soon());
    server.signal(Signal::CONT);
    assert_eq!(next.await.value, "2");
}

#[tokio::test]
async fn a_silent_server_is_left_and_the_next_request_connects_anew() {
    let server = Server::start(Program::Memcached, &[]);
    let options = ConnectionOptions { stall: Duration::from_millis(20), ..Default::default() };
    let c = Connection::new(address(&server), options);
    assert_eq!(c.ask(set("a", "1"), soon()).await.outcome, Outcome::Stored);
    freeze(&server).await;
    let deadline = Instant::now() + Duration::from_millis(20);
    let late = c.ask(Request::new(Op::Get, "a"), deadline);
    let next = c.ask(Request::new(Op::Get, "a"), soon());
    assert_eq!(late.await.outcome, Outcome::Timeout);
    assert_eq!(next.await.message, "the server fell silent");
    server.signal(Signal::CONT);
    assert_eq!(get(&c, "a").await.value, "1");
}

#[tokio::test]
async fn a_killed_server_fails_what_is_in_flight_and_is_asked_again_when_it_is_back() {
    let port = server::free_port();
    let flags = ["-p", &port.to_string(), "-l", "127.0.0.1", "-U", "0"];
    let start = || Server::start_at(Program::Memcached, &flags, server::Address::Tcp(port));
    let first = start().unwrap();
    let backoff = Some((Duration::from_millis(5), Duration::from_millis(20)));
    let options = ConnectionOptions { backoff, ..Default::default() };
    let c = Connection::new(address(&first), options);
    assert_eq!(c.ask(set("a", "1"), soon()).await.outcome, Outcome::Stored);
    freeze(&first).await;
    let in_flight = c.ask(Request::new(Op::Get, "a"), soon());
    tokio::task::yield_now().await;
    drop(first);
    assert_eq!(in_flight.await.outcome, Outcome::RemoteError);
    assert_eq!(get(&c, "a").await.outcome, Outcome::ConnectError);
    assert_eq!(get(&c, "a").await.outcome, Outcome::ConnectError, "refused at once, or again");
    let _second = start().unwrap();
    let patience = soon();
    while get(&c, "a").await.outcome != Outcome::NotFound {
        assert!(Instant::now() < patience, "it never came back");
        tokio::task::yield_now().await;
    }
}

/// Waits until the server has no other connection.
async fn alone(client: &mut guira_tests::client::Client) {
    let patience = soon();
    while client.stat("curr_connections") != 1 {
        assert!(Instant::now() < patience, "others stay");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_last_handle_dropped_closes_the_connection() {
    let server = Server::start(Program::Memcached, &[]);
    let mut other = server.connect();
    // The connection that checked the server's start may still be there.
    alone(&mut other).await;
    let c = connection(&server);
    let clone = c.clone();
    assert_eq!(get(&clone, "k").await.outcome, Outcome::NotFound);
    drop(c);
    assert_eq!(other.stat("curr_connections"), 2);
    drop(clone);
    alone(&mut other).await;
}

#[tokio::test]
async fn a_connection_over_tls_carries_long_values_and_trusts_whom_it_was_told_to() {
    let authority = Authority::new("client test");
    let dir = server::own_directory();
    let [chain, key] = authority.identity("server").write(&dir).map(|p| p.display().to_string());
    let paths = [format!("ssl_chain_cert={chain}"), format!("ssl_key={key}")];
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &paths.join(",")]);
    let tls = Tls::trusting(authority.pem.as_bytes()).and_then(|tls| tls.named("localhost"));
    let with = |tls| ConnectionOptions { tls: Some(tls), ..Default::default() };
    let c = Connection::new(address(&server), with(tls.unwrap()));
    let long = vec![b'l'; 1_000_000];
    for n in 0..5 {
        assert_eq!(
            c.ask(set(format!("k{n}"), long.clone()), soon()).await.outcome,
            Outcome::Stored
        );
    }
    let gets: Vec<_> =
        (0..5).map(|n| c.ask(Request::new(Op::Get, format!("k{n}")), soon())).collect();
    for get in gets {
        assert!(get.await.value == long);
    }
    let stranger = Tls::trusting(Authority::new("other").pem.as_bytes()).unwrap();
    let refused = Connection::new(address(&server), with(stranger.named("localhost").unwrap()));
    assert_eq!(get(&refused, "k").await.outcome, Outcome::ConnectError);
    // What was sent without TLS wasn't carried out, and the caller may know.
    let plain = connection(&server).ask(set("k0", "x"), soon()).await;
    assert_eq!(plain.outcome, Outcome::ConnectError, "{plain:?}");
    assert_eq!(plain.message, "it speaks TLS, and this client doesn't");
    std::fs::remove_dir_all(dir).unwrap();
}

/// When a runtime is gone, nothing reads replies or enforces deadlines. A caller would wait forever.
#[test]
fn nobody_waits_for_a_connection_whose_runtime_is_gone() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    for program in PROGRAMS {
        let server = Server::start(program, &[]);
        let (theirs, ours) = (runtime().expect("it starts"), runtime().expect("it starts"));
        let soon_over = async |ask: Ask| {
            let reply = tokio::time::timeout(Duration::from_secs(60), ask).await;
            reply.expect("it is answered").outcome
        };
        let c = theirs.block_on(async {
            let c = connection(&server);
            assert_eq!(get(&c, "k").await.outcome, Outcome::NotFound);
            freeze(&server).await;
            c
        });
        let far = Instant::now() + Duration::from_secs(3600);
        let on_its_way = c.ask(set("k", "v"), far);
        let unborn = theirs.block_on(async { connection(&server) });
        let not_yet_connected = unborn.ask(set("k", "v"), far);
        let handle = theirs.handle().clone();
        theirs.shutdown_timeout(Duration::from_secs(10));
        ours.block_on(async {
            assert_eq!(soon_over(on_its_way).await, Outcome::RemoteError);
            let outcome = soon_over(not_yet_connected).await;
            assert!(matches!(outcome, Outcome::RemoteError | Outcome::ConnectError), "{outcome:?}");
            assert_eq!(soon_over(c.ask(set("k", "v"), far)).await, Outcome::ConnectError);
        });
        let entered = handle.enter();
        let late = connection(&server);
        drop(entered);
        let outcome = ours.block_on(soon_over(late.ask(set("k", "v"), far)));
        assert_eq!(outcome, Outcome::ConnectError);
        server.signal(Signal::CONT);
    }
}

#[tokio::test]
async fn a_login_comes_before_anything_else() {
    let dir = server::own_directory();
    let users = dir.join("users");
    std::fs::write(&users, "ann:secret\n").unwrap();
    for program in PROGRAMS {
        let server = Server::start(program, &["-Y", &users.display().to_string()]);
        let with = |password: &str| {
            let login = Some(Credentials::new("ann", password));
            Connection::new(address(&server), ConnectionOptions { login, ..Default::default() })
        };
        assert_eq!(with("secret").ask(set("k", "v"), soon()).await.outcome, Outcome::Stored);
        let refused = get(&with("wrong"), "k").await;
        assert_eq!(refused.outcome, Outcome::ConnectError);
        assert!(refused.message.starts_with(b"login refused: CLIENT_ERROR"), "{refused:?}");
        assert_eq!(get(&connection(&server), "k").await.outcome, Outcome::ClientError);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

#[tokio::test]
async fn whoever_is_told_of_a_reply_finds_it_due_and_not_before() {
    let server = Server::start(Program::Memcached, &[]);
    let connection = connection(&server);
    let bell = Arc::new(Bell(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&bell));
    let mut cx = Context::from_waker(&waker);
    let told = Caller { waker: Some(&waker), purse: None };
    let mut one = connection.ask_for(told, Request::new(Op::Get, "nothing"), soon());
    let keys = ["a", "b"].map(Bytes::from).to_vec();
    let mut several = connection.ask_keys(told, Op::Get, keys, soon());
    assert!(!one.is_due() && !several.is_due(), "nothing was sent yet");
    let patience = soon();
    while !bell.0.load(Relaxed) {
        assert!(!one.is_due(), "nobody was told");
        assert!(Instant::now() < patience, "nobody is told");
        tokio::task::yield_now().await;
    }
    assert!(one.is_due());
    let Poll::Ready((reply, came)) = one.poll_timed(&mut cx) else { panic!("told, and no reply") };
    assert_eq!((reply.outcome, came.is_some()), (Outcome::NotFound, true), "the server sent it");
    while !several.is_due() {
        tokio::task::yield_now().await;
    }
    let replies = (&mut several).await;
    assert_eq!(replies.len(), 2);
    let mut refused = connection.ask_for(told, Request::new(Op::Get, "not a key"), soon());
    assert!(refused.is_due(), "its reply is there already");
    let Poll::Ready((_, came)) = refused.poll_timed(&mut cx) else { panic!("no reply") };
    assert_eq!(came, None, "nobody sent it");
    let mut lost = connection.ask_for(told, Request::new(Op::Get, "nothing"), soon());
    connection.reset();
    while !lost.is_due() {
        tokio::task::yield_now().await;
    }
    let Poll::Ready((reply, came)) = lost.poll_timed(&mut cx) else { panic!("no reply") };
    assert_eq!((reply.outcome, came), (Outcome::RemoteError, None));
    let untold = connection.ask(Request::new(Op::Get, "nothing"), soon());
    assert!(untold.is_due(), "nobody will be told of it before it is polled");
}
