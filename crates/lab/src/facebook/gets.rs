//! Scaling Memcache at Facebook, figures 7 and 8: gets of one server over loopback, of one key and of ten, hits and
//! misses, over TCP and UDP.
//!
//! Eight sockets have one request each under way, sent together and awaited together, by one thread: a client that
//! asks as web servers do, without pipelining. What is compared is the server's processor time a key, which is what
//! bounds its rate where the client doesn't share its machine. Settings take turns, round by round.

use crate::figures::{axis, categories, check, series, table};
use crate::measure::{Spread, now};
use crate::live::Server;
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::{Context, Result, ensure};
use guira_bench::Rng;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Figure 7.
pub(crate) const HITS_AND_MISSES: Experiment = Experiment {
    id: "fb-f7",
    paper: Paper::Facebook,
    title: "gets of one key and of ten, hits and misses",
    claim: "with fine-grained locks a server has three times the hits of one with a single lock, 1.8 million keys a \
            second instead of 0.6, and 4.5 million misses instead of 2.7; both in gets of ten keys",
    shape: "a key of a get of ten costs the server at most two fifths of a get of one, hits and misses; a miss costs no \
            more than a hit",
    verdict: Verdict::NotTestable(
        "two processors hold no lock up; memc3-f8a shows in process what one lock costs. What a key costs, by hit and \
         miss and by keys a get, is measured on the whole server",
    ),
    is_quick: false,
    run: |run| Ok(hits_and_misses(&measure(run, &F7)?)),
};

/// Figure 8.
pub(crate) const TCP_AND_UDP: Experiment = Experiment {
    id: "fb-f8",
    paper: Paper::Facebook,
    title: "gets over TCP and UDP",
    claim: "UDP has 13 % more single gets than TCP and 8 % more gets of ten keys; gets of ten keys have about four times \
            the keys",
    shape: "a get costs the server less processor time over UDP than over TCP, and a key of a get of ten at most two \
            fifths of a get of one over either",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run: |run| Ok(tcp_and_udp(&measure(run, &F8)?)),
};

/// One way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    udp: bool,
    keys: usize,
    hit: bool,
}

/// What was measured of it: the server's processor time a key in µs, and keys a second.
struct Measured {
    setting: Setting,
    cpu_us: Spread,
    rate: Spread,
}

fn measure(run: &Run<'_>, settings: &[Setting]) -> Result<Vec<Measured>> {
    let udp_port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    let server = Server::start("Guira", command.args(["serve", "-U", &udp_port.to_string()]), 1)?;
    let keys = run.scale.pick(100_000, 1_000_000);
    store(server.port, keys)?;
    let lasts = Duration::from_millis(run.scale.pick(600, 4_000));
    let mut samples = vec![(Vec::new(), Vec::new()); settings.len()];
    for round in 0..ROUNDS {
        for (at, setting) in settings.iter().enumerate() {
            let done = (round * settings.len() + at) as f64 / (ROUNDS * settings.len()) as f64;
            (run.progress)(done, &setting.name());
            let mut client = Client::new(*setting, server.port, udp_port, keys, run.seed)?;
            let (cpu_us, rate) = client.ask_for(lasts, server.child.id())?;
            samples[at].0.push(cpu_us);
            samples[at].1.push(rate);
        }
    }
    let spreads = samples.iter().map(|(cpu, rate)| (Spread::of(cpu), Spread::of(rate)));
    let measured = settings.iter().zip(spreads);
    Ok(measured.map(|(&setting, (cpu_us, rate))| Measured { setting, cpu_us, rate }).collect())
}

/// Stores the keys, 32 bytes each.
fn store(port: u16, keys: u64) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut sets = Vec::new();
    for n in 0..keys {
        write!(sets, "set {} 0 0 32 noreply\r\n{:032}\r\n", key(n, true), n)?;
    }
    sets.extend_from_slice(b"mn\r\n");
    stream.write_all(&sets)?;
    let mut done = [0; 4];
    stream.read_exact(&mut done)?;
    ensure!(&done == b"MN\r\n", "the server answers {done:?} to its sets");
    Ok(())
}

/// Sixteen bytes; a key that is there, or one that isn't.
fn key(n: u64, is_there: bool) -> String {
    format!("{}-{n:012}", if is_there { "key" } else { "non" })
}

/// Sockets, each with the requests that it sends in turn.
struct Client {
    sockets: Vec<Socket>,
    requests: Vec<Vec<u8>>,
    keys: usize,
    /// Whoever holds a connection over TCP may ask over UDP without limit.
    _credential: TcpStream,
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Client {
    fn new(of: Setting, port: u16, udp_port: u16, keys: u64, seed: u64) -> Result<Self> {
        let open = || {
            if !of.udp {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                return Ok(Socket::Tcp(stream));
            }
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", udp_port))?;
            socket.set_read_timeout(Some(REPLY_MAX))?;
            Ok(Socket::Udp(socket))
        };
        let mut rng = Rng::new(seed);
        let mut request = || {
            let frame: &[u8] = if of.udp { &[0, 1, 0, 0, 0, 1, 0, 0] } else { b"" };
            let asked = (0..of.keys).map(|_| format!(" {}", key(rng.below(keys), of.hit)));
            [frame, b"get", asked.collect::<String>().as_bytes(), b"\r\n"].concat()
        };
        Ok(Client {
            sockets: (0..SOCKETS).map(|_| open()).collect::<Result<_>>()?,
            requests: (0..REQUESTS).map(|_| request()).collect(),
            keys: of.keys,
            _credential: credential(port)?,
        })
    }

    /// Asks for so long. The server's processor time a key in µs, and keys a second.
    fn ask_for(&mut self, lasts: Duration, server: u32) -> Result<(f64, f64)> {
        let mut next = 0;
        let mut room = vec![0; 64 << 10];
        let mut keys = 0_usize;
        let (begun, cpu_before) = (now(), cpu_of(server)?);
        while begun.elapsed() < lasts {
            for _ in 0..32 {
                for socket in &mut self.sockets {
                    next = (next + 1) % self.requests.len();
                    socket.send(&self.requests[next])?;
                }
                for socket in &mut self.sockets {
                    socket.receive(&mut room)?;
                }
            }
            keys += 32 * SOCKETS * self.keys;
        }
        let (wall, cpu) = (begun.elapsed(), cpu_of(server)? - cpu_before);
        Ok((cpu * 1e6 / keys as f64, keys as f64 / wall.as_secs_f64()))
    }
}

impl Socket {
    fn send(&mut self, request: &[u8]) -> Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(request)?,
            Socket::Udp(socket) => drop(socket.send(request)?),
        }
        Ok(())
    }

    /// Reads one reply to its end.
    fn receive(&mut self, room: &mut [u8]) -> Result<()> {
        let mut bytes = 0;
        while !room[..bytes].ends_with(b"END\r\n") {
            let more = match self {
                Socket::Tcp(stream) => stream.read(&mut room[bytes..])?,
                Socket::Udp(socket) => {
                    socket.recv(&mut room[bytes..]).context("a datagram is lost")?
                }
            };
            ensure!(more > 0, "the server closed a connection");
            bytes += more;
        }
        Ok(())
    }
}

/// A connection over TCP that the server knows of.
fn credential(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"mn\r\n")?;
    stream.read_exact(&mut [0; 4])?;
    Ok(stream)
}

/// Seconds of processor time that all threads of a process have used.
fn cpu_of(pid: u32) -> Result<f64> {
    let mut ns = 0_u64;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        ns += text.split(' ').next().unwrap_or_default().parse::<u64>().context("schedstat")?;
    }
    Ok(ns as f64 / 1e9)
}

impl Setting {
    fn name(self) -> String {
        let wire = if self.udp { "UDP" } else { "TCP" };
        let keys = if self.keys == 1 { "one key".into() } else { format!("{} keys", self.keys) };
        format!("{wire}, gets of {keys}, {}", if self.hit { "hits" } else { "misses" })
    }
}

fn of(measured: &[Measured], setting: Setting) -> f64 {
    let found = measured.iter().find(|it| it.setting == setting);
    found.expect("every figure measures what it compares").cpu_us.median
}

fn hits_and_misses(measured: &[Measured]) -> Outcome {
    let cost = |keys, hit| of(measured, Setting { udp: false, keys, hit });
    let gain = |hit| cost(1, hit) / cost(10, hit);
    let miss = |keys| cost(keys, false) / cost(keys, true);
    Outcome {
        plots: vec![plot("Gets over TCP: hits and misses", measured)],
        tables: vec![costs(measured)],
        checks: vec![
            check(
                "hits: a get of one key, to a key of a get of ten",
                gain(true),
                MULTIGET,
                WHY_MULTIGET,
            ),
            check(
                "misses: a get of one key, to a key of a get of ten",
                gain(false),
                MULTIGET,
                WHY_MULTIGET,
            ),
            check("gets of one: a miss, to a hit", miss(1), Bound::AtMost(1.1), WHY_MISS),
            check("gets of ten: a miss, to a hit", miss(10), Bound::AtMost(1.1), WHY_MISS),
        ],
        reading: format!(
            "A key of a get of ten costs {:.2} µs of processor time where a get of one costs {:.2}: {:.1} times as much. A \
             miss costs {:.2} of a hit, in gets of ten.",
            cost(10, true),
            cost(1, true),
            gain(true),
            miss(10),
        ),
    }
}

fn tcp_and_udp(measured: &[Measured]) -> Outcome {
    let cost = |udp, keys| of(measured, Setting { udp, keys, hit: true });
    let gain = |keys| cost(false, keys) / cost(true, keys);
    let multiget = |udp| cost(udp, 1) / cost(udp, 10);
    Outcome {
        plots: vec![plot("Gets that hit, over TCP and UDP", measured)],
        tables: vec![costs(measured)],
        checks: vec![
            check("gets of one key: TCP, to UDP", gain(1), Bound::AtLeast(1.0), WHY_UDP),
            check("gets of ten keys: TCP, to UDP", gain(10), Bound::AtLeast(1.0), WHY_UDP),
            check(
                "TCP: a get of one key, to a key of a get of ten",
                multiget(false),
                MULTIGET,
                WHY_MULTIGET,
            ),
            check(
                "UDP: a get of one key, to a key of a get of ten",
                multiget(true),
                MULTIGET,
                WHY_MULTIGET,
            ),
        ],
        reading: format!(
            "Over TCP a get of one key takes {:.2} times the server's processor time that it takes over UDP (the paper: \
             1.13 times the rate), a get of ten keys {:.2} times (1.08). A key of a get of ten costs {:.1} times less than \
             a get of one over TCP and {:.1} times less over UDP (the paper: about four).",
            gain(1),
            gain(10),
            multiget(false),
            multiget(true),
        ),
    }
}

fn plot(title: &str, measured: &[Measured]) -> Plot {
    let names: Vec<String> = measured.iter().map(|it| it.setting.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let points = measured.iter().enumerate().map(|(at, it)| (at as f64, it.cpu_us.median));
    Plot {
        title: title.into(),
        x: categories("", &names),
        y: axis("processor time of the server, µs a key"),
        series: vec![series("Guira", points)],
    }
}

fn costs(measured: &[Measured]) -> Table {
    let row = |it: &Measured| {
        vec![
            it.setting.name(),
            format!("{:.3}", it.cpu_us.median),
            format!("{:.3}–{:.3}", it.cpu_us.low, it.cpu_us.high),
            format!("{:.0}", it.rate.median / 1e3),
        ]
    };
    let header = ["setting", "CPU µs a key", "lowest–highest", "thousand keys a second"];
    table("The server's processor time", &header, measured.iter().map(row).collect())
}

const F7: [Setting; 4] = [
    Setting { udp: false, keys: 1, hit: true },
    Setting { udp: false, keys: 1, hit: false },
    Setting { udp: false, keys: 10, hit: true },
    Setting { udp: false, keys: 10, hit: false },
];
const F8: [Setting; 4] = [
    Setting { udp: false, keys: 1, hit: true },
    Setting { udp: true, keys: 1, hit: true },
    Setting { udp: false, keys: 10, hit: true },
    Setting { udp: true, keys: 10, hit: true },
];
const ROUNDS: usize = 5;
const SOCKETS: usize = 8;
/// Requests made beforehand, sent over and over.
const REQUESTS: usize = 4096;
const REPLY_MAX: Duration = Duration::from_secs(2);
const MULTIGET: Bound = Bound::AtLeast(2.5);
const WHY_MULTIGET: &str =
    "the paper has about 4; most of a get of one is the kernel's, paid once a request";
const WHY_MISS: &str =
    "a miss reads no item and sends no value; a tenth for the noise of a busy machine";
const WHY_UDP: &str =
    "the paper has 1.13 and 1.08; the ratio itself is the kernel's, its direction is the claim";
