//! A crowd: one thread that does what many clients would.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use super::attacks::{Attack, Needs, Then};

/// What a client that trickles sends at once.
const TRICKLE: usize = 4096;
const BETWEEN_TRICKLES: Duration = Duration::from_millis(10);

/// Sets what an attack is about.
pub(crate) fn prepare(port: u16, needs: Needs) {
    let set = |key: &str, value: &[u8]| {
        let head = format!("set {key} 0 0 {}\r\n", value.len());
        let request = [head.as_bytes(), value, b"\r\n"].concat();
        assert_eq!(lines_of_answer(port, &request), 1, "{key} is stored");
    };
    match needs {
        Needs::Nothing => {}
        Needs::Big => set("big", &vec![b'b'; 1_000_000]),
        Needs::Long => set("long", &vec![b'l'; 500_000]),
        Needs::Small => {
            set("k", b"hello");
            set("n", b"0");
        }
    }
}

/// Returns the lines of the answer: what comes until nothing comes for a while.
pub(crate) fn lines_of_answer(port: u16, request: &[u8]) -> usize {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut output = stream.try_clone().expect("a socket");
    let request = request.to_vec();
    let sending = thread::spawn(move || output.write_all(&request).expect("it is read"));
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let (mut lines, mut room) = (0, vec![0; 1 << 20]);
    while let Ok(n @ 1..) = stream.read(&mut room) {
        lines += newlines(&room[..n]);
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    }
    sending.join().expect("it is sent");
    assert!(lines > 0, "it answers");
    lines
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// One of the crowd.
struct Client {
    stream: TcpStream,
    text: Vec<u8>,
    sent: usize,
    answered: usize,
}

/// Runs until `ends`; returns how many requests, of which an attack may send many at once, were sent and answered.
pub(crate) fn run(port: u16, attack: &Attack, lines: usize, nice: i32, ends: &AtomicBool) -> u32 {
    bind_to_the_last_processor();
    setpriority_process(Some(gettid()), nice).expect("a lower priority is permitted");
    let client =
        |n| Client { stream: connect(port), text: attack.request(n), sent: 0, answered: 0 };
    let mut clients: Vec<Client> = (0..attack.clients).map(client).collect();
    let (mut room, mut done) = (vec![0; 1 << 18], 0);
    while !ends.load(Relaxed) {
        for (n, events) in ready(&clients, attack) {
            let client = &mut clients[n];
            let goes_on = client.go_on(events, attack, &mut room);
            let is_done = client.sent == client.text.len() && client.answered >= lines;
            if is_done && !matches!(attack.then, Then::Holds | Then::Trickles) {
                done += 1;
                (client.sent, client.answered) = (0, 0);
            }
            let comes_anew = is_done && matches!(attack.then, Then::Reconnects | Then::Resets);
            if comes_anew || goes_on.is_none() {
                if attack.then == Then::Resets {
                    set_socket_linger(&client.stream, Some(Duration::ZERO)).expect("a socket");
                }
                client.stream = connect(port);
                (client.sent, client.answered) = (0, 0);
            }
        }
        if attack.then == Then::Trickles {
            thread::sleep(BETWEEN_TRICKLES);
        }
    }
    done
}

impl Client {
    /// Reads and sends what can be; `None` if the connection is over.
    fn go_on(&mut self, events: PollFlags, attack: &Attack, room: &mut [u8]) -> Option<()> {
        if events.intersects(PollFlags::ERR | PollFlags::HUP) {
            return None;
        }
        if events.contains(PollFlags::IN) {
            match self.stream.read(room) {
                Ok(0) => return None,
                Ok(n) => self.answered += newlines(&room[..n]),
                Err(error) => is_for_later(&error)?,
            }
        }
        if events.contains(PollFlags::OUT) && self.sent < self.text.len() {
            let rest = &self.text[self.sent..];
            let most = if attack.then == Then::Trickles { TRICKLE } else { rest.len() };
            match self.stream.write(&rest[..most.min(rest.len())]) {
                Ok(n) => self.sent += n,
                Err(error) => is_for_later(&error)?,
            }
        }
        Some(())
    }
}

fn is_for_later(error: &std::io::Error) -> Option<()> {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted).then_some(())
}

/// The clients that can do something, by number.
fn ready(clients: &[Client], attack: &Attack) -> Vec<(usize, PollFlags)> {
    let wants = |client: &Client| {
        let mut wants = PollFlags::empty();
        wants.set(PollFlags::IN, attack.reads);
        wants.set(PollFlags::OUT, client.sent < client.text.len());
        wants
    };
    let mut fds: Vec<_> = clients.iter().map(|it| PollFd::new(&it.stream, wants(it))).collect();
    let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    if poll(&mut fds, Some(&wait)).is_err() {
        return Vec::new();
    }
    let events = fds.iter().map(PollFd::revents).enumerate();
    events.filter(|(_, events)| !events.is_empty()).collect()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_nonblocking(true).expect("a socket");
    stream
}

fn bind_to_the_last_processor() {
    let all = sched_getaffinity(None).expect("this thread's processors");
    let last = (0..CpuSet::MAX_CPU).rev().find(|&n| all.is_set(n)).expect("it runs somewhere");
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).expect("one of its own processors");
}
