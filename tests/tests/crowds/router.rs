//! Many clients at once in front of a router as a user starts it, each of which asks for more than its part: what is held
//! for them is bounded, others are served meanwhile, and what is asked for those that have gone ends.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually};
use rustix::net::sockopt::{set_socket_linger, set_tcp_cork};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const SLACK: u64 = 64 << 20;
/// Bytes that clients may hold beyond the budget when they were told to give way.
const GIVES_WAY: u64 = 32 << 20;

/// Connections of clients, more of them than a process may have by default.
fn crowd(router: &Server, clients: usize) -> Vec<TcpStream> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("within the maximum");
    let connect = |_| {
        let stream = TcpStream::connect(("127.0.0.1", router.port())).expect("the router listens");
        stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream
    };
    (0..clients).map(connect).collect()
}

/// Sends `text` in stretches, each client one of them in turn.
fn send_to_all(streams: &[TcpStream], text: &[u8], stretch: usize) {
    for part in text.chunks(stretch) {
        for mut stream in streams {
            stream.write_all(part).expect("it is read, or read away");
        }
    }
}

fn stays_within_the_budget(router: &Server, client: &mut Client) {
    let budget = client.stat("client_memory_limit_bytes");
    let held = client.stat("client_memory_bytes");
    assert!(held <= budget + GIVES_WAY, "{held} of {budget} bytes are held");
    let peak = router.peak_bytes();
    assert!(peak < budget + SLACK, "{peak} bytes were resident, {budget} may be held");
}

/// Clients that connect again and again once kept a processor busy with accepting, and others' replies waited.
#[test]
fn accepting_comes_after_serving_where_processors_are_short() {
    let router = Server::start_router_to(&[1], &[]);
    assert!(router.connect().ask("version").starts_with("VERSION"), "its threads are there");
    let mut niceness = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", router.pid())).expect("it runs") {
        let task = task.expect("a thread").path();
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        let Some((before, after)) = stat.rsplit_once(") ") else { continue };
        let name = before.split_once('(').expect("a name").1.to_owned();
        // Of the words after the name, the state is the first and the niceness the seventeenth.
        let nice: i32 = after.split(' ').nth(16).expect("a niceness").parse().expect("a number");
        niceness.push((name, nice));
    }
    let of = |prefix: &str| {
        let found = niceness.iter().find(|(name, _)| name.starts_with(prefix));
        found.unwrap_or_else(|| panic!("{prefix}: {niceness:?}")).1
    };
    assert!(of("accept") >= (of("proxy-0") + 10).min(19), "{niceness:?}");
}

/// The nanoseconds that a thread may run while others wait, if this kernel tells.
fn slice(pid: u32, thread: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/sched")).ok()?;
    let line = text.lines().find(|line| line.starts_with("se.slice"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// A client's request waited for the slices of all threads that wanted the processor.
#[test]
fn threads_that_serve_run_in_short_slices() {
    let own = std::process::id();
    if slice(own, &own.to_string()).is_none() {
        return eprintln!(
            "NOT TESTED: this kernel doesn't tell slices (CONFIG_SCHED_DEBUG, Linux 6.12)"
        );
    }
    let store = Server::start_tcp(Program::Store, &[]);
    for (server, named) in [(Server::start_router_to(&[1], &[]), "proxy-"), (store, "store-0")] {
        assert!(server.connect().ask("version").starts_with("VERSION"), "its threads are there");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        let mut slices = Vec::new();
        for task in tasks {
            let task = task.expect("a thread").path();
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            let number = task.file_name().expect("a number").to_string_lossy().into_owned();
            slices.push((name.trim().to_owned(), slice(server.pid(), &number)));
        }
        let serving: Vec<_> = slices.iter().filter(|(name, _)| name.starts_with(named)).collect();
        assert!(!serving.is_empty(), "{slices:?}");
        assert!(serving.iter().all(|(_, slice)| *slice == Some(100_000.0)), "{slices:?}");
        let accepts = slices.iter().find(|(name, _)| name == "accept");
        assert!(accepts.is_none_or(|(_, slice)| *slice > Some(100_000.0)), "{slices:?}");
    }
}

/// Each client once kept the room of its reads, 80 kB, which no account counted.
#[test]
fn values_that_are_refused_are_read_away_through_room_that_nobody_keeps() {
    const CLIENTS: usize = 1500;
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    let streams = crowd(&router, CLIENTS);
    // The value is longer than a client's value may be.
    let head = b"set k 0 0 200000000\r\n";
    let text = [&head[..], &vec![b'x'; 300_000]].concat();
    send_to_all(&streams, &text, 60_000);
    eventually("all are refused", || client.stat("client_memory_refusals") >= CLIENTS as u64);
    assert!(client.stat("client_memory_bytes") < 1 << 20);
    let peak = router.peak_bytes();
    assert!(peak < SLACK, "{peak} bytes");
    assert_eq!(client.set("k", b"v"), "STORED\r\n");
}

/// Up to 64 kB of each client's request once found room in any case.
fn unfinished_requests_of_many(text: &[u8]) {
    let (_server, router) = Server::start_pair();
    let mut client = router.connect();
    client.set("small", b"hello");
    let streams = crowd(&router, 6000);
    send_to_all(&streams, text, 20_000);
    eventually("some are refused", || client.stat("client_memory_refusals") > 0);
    stays_within_the_budget(&router, &mut client);
    assert_eq!(client.get("small").as_deref(), Some(&b"hello"[..]));
    drop(streams);
    eventually("what they held is free", || client.stat("client_memory_bytes") < 1 << 20);
}

#[test]
fn unfinished_values_of_many_clients_come_out_of_the_budget_however_short_each_is() {
    unfinished_requests_of_many(&[&b"set k 0 0 1000000\r\n"[..], &[b'x'; 60_000]].concat());
}

#[test]
fn unfinished_lines_of_many_clients_come_out_of_the_budget_however_short_each_is() {
    unfinished_requests_of_many(format!("get{}", " nokey".repeat(10_000)).as_bytes());
}

/// Has each of 200 clients send `text`, and returns what waits for them to have done so.
fn ask_for_all(router: &Server, text: &str) -> Vec<(TcpStream, thread::JoinHandle<()>)> {
    let send = |stream: TcpStream| {
        let (mut output, text) = (stream.try_clone().expect("a socket"), text.to_owned());
        // The connection may be closed before the client has sent all.
        let sending = thread::spawn(move || output.write_all(text.as_bytes()).unwrap_or_default());
        (stream, sending)
    };
    crowd(router, 200).into_iter().map(send).collect()
}

fn end(clients: Vec<(TcpStream, thread::JoinHandle<()>)>) {
    for (stream, _) in &clients {
        stream.shutdown(Shutdown::Both).ok();
    }
    clients.into_iter().for_each(|(_, sending)| sending.join().expect("no panic"));
}

fn keys(from: usize, count: usize) -> String {
    (from..from + count).map(|n| format!(" nokey{n}")).collect()
}

/// Such requests were once charged at twice the budget.
#[test]
fn gets_of_many_keys_take_room_for_the_keys_that_are_under_way() {
    let (server, router) = Server::start_pair();
    let (mut client, mut direct) = (router.connect(), server.connect());
    let clients = ask_for_all(&router, &format!("get{}\r\n", keys(0, 20_000)));
    for misses in 1..40 {
        eventually("they are asked for", || direct.stat("get_misses") > 100 * misses);
        stays_within_the_budget(&router, &mut client);
    }
    end(clients);
}

/// 256 keys of each client were once under way together. A client that asked meanwhile waited for 50,000 keys.
#[test]
fn others_wait_for_few_of_the_keys_of_clients_that_ask_for_many() {
    let (server, router) = Server::start_pair();
    let (mut client, mut direct) = (router.connect(), server.connect());
    // After two gets a client may have a part of 256 keys under way.
    let long = format!("get{}\r\n", keys(0, 20_000));
    let gets = format!("get a\r\nget{}\r\n{long}", keys(0, 16));
    let clients = ask_for_all(&router, &gets);
    eventually("all have begun", || direct.stat("get_misses") > 100_000);
    let mut under_way: Vec<_> = (0..50).map(|_| client.stat("destination_inflight_reqs")).collect();
    assert!(direct.stat("get_misses") < 200 * 20_000, "they ask still");
    under_way.sort_unstable();
    let threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    assert!((1..4000 * threads).contains(&under_way[25]), "{under_way:?}");
    end(clients);
}

/// A server that answers each line with `END` after a while, and counts them.
fn slow(pause: Duration) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let lines = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lines);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mut output = stream.try_clone()?;
                for _ in BufReader::new(stream).lines() {
                    thread::sleep(pause);
                    count.fetch_add(1, Relaxed);
                    output.write_all(b"END\r\n")?;
                }
                Ok::<_, std::io::Error>(())
            });
        }
    });
    (port, lines)
}

/// The router once asked for all parts of such a get.
#[test]
fn a_get_of_many_keys_ends_when_its_client_is_gone() {
    // All parts together would take twelve seconds.
    let (port, lines) = slow(Duration::from_millis(20));
    let router = Server::start_router_to(&[port], &["-t", "60000"]);
    let mut stream = crowd(&router, 1).remove(0);
    let keys: String = (0..60_000).map(|n| format!(" nokey{n}")).collect();
    stream.write_all(format!("get{keys}\r\n").as_bytes()).expect("it is read");
    eventually("parts are asked for", || lines.load(Relaxed) > 20);
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    drop(stream);
    let mut asked = 0;
    eventually("no more are asked for", || {
        thread::sleep(Duration::from_millis(500));
        let now = lines.load(Relaxed);
        std::mem::replace(&mut asked, now) == now
    });
    assert!(asked < 500, "{asked} lines of 600");
}

/// Such clients once ended one after the other, and each took as long as one may take.
#[test]
fn threads_whose_servers_are_silent_end_at_the_same_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mut router = Server::start_router_to(&[port], &["--num-proxies", "8", "-t", "60000"]);
    let mut streams = crowd(&router, 16);
    for stream in &mut streams {
        stream.write_all(b"get a\r\n").expect("it is read");
    }
    let mut asking = router.connect();
    eventually("each thread waits", || asking.stat("destination_inflight_reqs") == 16);
    drop(asking);
    router.signal(Signal::TERM);
    // When they ended one after the other, they took 36 seconds.
    assert!(router.ended_within(25).is_some(), "4.5 seconds and two more are enough");
    let mut answered = Vec::new();
    streams[0].read_to_end(&mut answered).expect("what was answered");
    assert!(answered.starts_with(b"SERVER_ERROR"));
}

/// A server that answers its first get with a long value after a while, and nothing else; the lines that came to it.
fn answers_once() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (came, lines) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let came = came.clone();
            thread::spawn(move || {
                let mut output = stream.try_clone().expect("a socket");
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let is_first = line == "get first";
                    let _ = came.send(line);
                    if is_first {
                        thread::sleep(Duration::from_millis(200));
                        let value = vec![b'x'; 1_000_000];
                        let reply = [b"VALUE first 0 1000000\r\n", &value[..], b"\r\nEND\r\n"];
                        output.write_all(&reply.concat()).expect("the router reads");
                    }
                }
            });
        }
    });
    (port, lines)
}

/// The values that they had asked for once came all the same, a megabyte each, before the replies to others.
#[test]
fn others_ask_for_long_values_when_those_have_come_that_clients_asked_for_and_went() {
    fifty_wait_for_one(|mut first, _, _| {
        let mut whole = vec![0; 1_000_000 + 30];
        first.read_exact(&mut whole).expect("a long value");
    });
}

/// The router once didn't learn how long such values are, and asked for 256 at once: a quarter of a gigabyte.
#[test]
fn how_long_values_are_is_learnt_also_from_those_that_come_for_clients_that_have_gone() {
    fifty_wait_for_one(|first, lines, calm| {
        assert_eq!(lines.recv().as_deref(), Ok("get first"));
        set_socket_linger(&first, Some(Duration::ZERO)).expect("a socket");
        drop(first);
        eventually("its value comes", || calm.stat("destination_inflight_reqs") == 0);
    });
}

/// The first client does as `first_does` says. The next one asks and stays. Then fifty come, ask, and go at once.
fn fifty_wait_for_one(first_does: impl FnOnce(TcpStream, &Receiver<String>, &mut Client)) {
    let (port, lines) = answers_once();
    let router = Server::start_router_to(&[port], &["--num-proxies", "1", "-t", "60000"]);
    let mut calm = router.connect();
    let mut first = crowd(&router, 1).remove(0);
    first.write_all(b"get first\r\n").expect("it is read");
    first_does(first, &lines, &mut calm);
    let mut stays = crowd(&router, 1).remove(0);
    stays.write_all(b"get stays\r\n").expect("it is read");
    assert!(lines.iter().any(|line| line == "get stays"));
    for _ in 0..50 {
        let mut stream = crowd(&router, 1).remove(0);
        stream.write_all(b"get later\r\n").expect("it is read");
        // Requests that came before this one were mostly read before it.
        assert!(calm.ask("version").starts_with("VERSION"));
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        drop(stream);
        assert!(calm.ask("version").starts_with("VERSION"));
    }
    calm.send(b"set end 0 0 1\r\nx\r\n");
    let asked = lines.iter().take_while(|line| !line.starts_with("set end"));
    let later = asked.filter(|line| line == "get later").count();
    assert_eq!(later, 0, "one has been asked for, and has not come");
}

/// Such clients once waited in front of all later ones, each for a megabyte.
#[test]
fn clients_that_closed_their_side_wait_apart_and_too_many_of_them_are_told_to_come_later() {
    const CLIENTS: usize = 300;
    let (port, lines) = answers_once();
    let router = Server::start_router_to(&[port], &["--num-proxies", "1", "-t", "60000"]);
    let mut calm = router.connect();
    let mut first = crowd(&router, 1).remove(0);
    first.write_all(b"get first\r\n").expect("it is read");
    first.read_exact(&mut vec![0; 1_000_000 + 30]).expect("a long value");
    let mut clients = crowd(&router, CLIENTS);
    for stream in &mut clients {
        stream.set_nonblocking(true).expect("a socket");
        // Both come together.
        set_tcp_cork(&*stream, true).expect("a socket");
        stream.write_all(b"get gone\r\n").expect("it is read");
        stream.shutdown(Shutdown::Write).expect("a socket");
    }
    let is_told = |stream: &TcpStream| {
        let mut answer = [0; 8];
        stream.peek(&mut answer).is_ok_and(|n| answer[..n].starts_with(b"SERVER"))
    };
    let told = || clients.iter().filter(|stream| is_told(stream)).count();
    eventually("others are told", || told() == CLIENTS - 1 - 256);
    // The router asks for the value of a client that waits for an answer.
    let mut waiting = crowd(&router, 1).remove(0);
    waiting.write_all(b"get mine\r\n").expect("it is read");
    assert!(lines.iter().any(|line| line == "get mine"));
    calm.send(b"set end 0 0 1\r\nx\r\n");
    assert!(
        lines.iter().take_while(|line| !line.starts_with("set end")).all(|line| line != "get gone")
    );
}
