//! Scaling Memcache at Facebook, figures 7 and 8: gets of one key and of ten from one server over loopback, hits and
//! misses, over TCP and UDP.
//!
//! One thread has eight sockets with one request in flight each, which it sends together and awaits together: a client
//! that asks as web servers do, without pipelining. The figure compared is the server's processor time per key, which
//! bounds its rate if the client runs on another machine. Settings take turns, round by round.

use crate::data::{Data, Line, ratio};
use crate::figures::{axis, categories, check, series, table};
use crate::live::Server;
use crate::measure::{Quartiles, now};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
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
            second instead of 0.6, and 4.5 million misses instead of 2.7, 2.5 times the hits; all in gets of ten keys",
    shape: "a key of a get of ten costs the server at most two fifths of a get of one, hits and misses; a miss costs no \
            more than a hit",
    why: "values of 32 bytes cost little next to the request, and no network carries them; memc3-f8a shows in process what \
          one lock costs",
    is_quick: false,
    measure: |run| measure(run, &F7),
    judge: hits_and_misses,
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
    why: "what UDP saves is work of the kernel, and the ratio that of this kernel, over loopback",
    is_quick: false,
    measure: |run| measure(run, &F8),
    judge: tcp_and_udp,
};

/// By setting, one point each and one sample per round: the server's processor time per key in µs, and keys per second.
const CPU: &str = "processor time a key, µs";
const RATE: &str = "keys a second";

/// A setting: a way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    udp: bool,
    keys: usize,
    hit: bool,
}

fn measure(run: &Run<'_>, settings: &[Setting]) -> Result<Data> {
    let udp_port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    command.args(["serve", "-U", &udp_port.to_string()]);
    // The client asks for more than a server sends by default to a source that it doesn't trust.
    command.args(["-o", "udp_known_budget=0"]);
    let server = Server::start("Guira", &mut command, 1)?;
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
    let (cpu, rates): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
    let of = |samples: Vec<Vec<f64>>| (0..).map(f64::from).zip(samples);
    let mut data = Data::default();
    data.push(Line::new(CPU, of(cpu)));
    // The client shares the machine, so the rate depends on the client as much as on the server.
    data.push(Line::new(RATE, of(rates)).aside());
    Ok(data)
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

/// A key of sixteen bytes, which exists or not.
fn key(n: u64, is_there: bool) -> String {
    format!("{}-{n:012}", if is_there { "key" } else { "non" })
}

/// Sockets, and the requests that they send in turn.
struct Client {
    sockets: Vec<Socket>,
    requests: Vec<Vec<u8>>,
    keys: usize,
    /// A client with a TCP connection may ask over UDP without limit.
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

    /// Asks for `lasts`. Returns the server's processor time per key in µs, and keys per second.
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

    /// Reads one reply up to its end.
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

/// Opens a TCP connection that makes the client known to the server.
fn credential(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"mn\r\n")?;
    stream.read_exact(&mut [0; 4])?;
    Ok(stream)
}

/// Returns the processor time, in seconds, that all threads of a process have used.
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

/// Returns how many times as much processor time per key one setting takes as another, round by round.
fn cost(data: &Data, settings: &[Setting], over: Setting, under: Setting) -> f64 {
    let at = |setting: Setting| {
        let place = settings.iter().position(|it| *it == setting);
        data.line(CPU).at(place.expect("every figure measures what it compares") as f64)
    };
    ratio(at(over), at(under))
}

fn hits_and_misses(data: &Data) -> Findings {
    let of = |keys, hit| Setting { udp: false, keys, hit };
    let cost = |over, under| cost(data, &F7, over, under);
    let gain = |hit| cost(of(1, hit), of(10, hit));
    let locks = |claim: &str, papers: &str, least: f64| {
        check(
            claim,
            f64::NAN,
            Bound::AtLeast(least),
            "a lock for all keys is held by one thread at a time",
        )
        .paper(papers, Bound::AtLeast(least))
        .judged_if(false, || "no server with a single lock is measured".into())
    };
    Findings {
        plots: vec![plot("Gets over TCP: hits and misses", data, &F7)],
        tables: vec![costs(data, &F7)],
        checks: vec![
            locks("hits: fine-grained locks, to a single one", "3 (1.8 M to 0.6 M)", 2.7),
            locks("misses: fine-grained locks, to a single one", "1.7 (4.5 M to 2.7 M)", 1.5),
            check(
                "gets of ten: cost of a hit, to a miss",
                cost(of(10, true), of(10, false)),
                Bound::AtLeast(0.9),
                WHY_MISS,
            )
            .paper("2.5 (4.5 M to 1.8 M)", Bound::AtLeast(2.2)),
            check(
                "gets of one: cost of a hit, to a miss",
                cost(of(1, true), of(1, false)),
                Bound::AtLeast(0.9),
                WHY_MISS,
            ),
            multiget("hits", gain(true)),
            multiget("misses", gain(false)),
        ],
        reading: format!(
            "A get of one key costs the server {:.1} times the processor time of a key of a get of ten that hits, and {:.1} \
             times where it misses. In gets of ten a hit costs {:.2} of a miss.",
            gain(true),
            gain(false),
            cost(of(10, true), of(10, false)),
        ),
    }
}

fn tcp_and_udp(data: &Data) -> Findings {
    let of = |udp, keys| Setting { udp, keys, hit: true };
    let cost = |over, under| cost(data, &F8, over, under);
    let gain = |keys| cost(of(false, keys), of(true, keys));
    let tenfold = |udp| cost(of(udp, 1), of(udp, 10));
    let four = Bound::AtLeast(3.5);
    Findings {
        plots: vec![plot("Gets that hit, over TCP and UDP", data, &F8)],
        tables: vec![costs(data, &F8)],
        checks: vec![
            check("gets of one key: TCP, to UDP", gain(1), Bound::AtLeast(1.0), WHY_UDP)
                .paper("1.13", Bound::AtLeast(1.02)),
            check("gets of ten keys: TCP, to UDP", gain(10), Bound::AtLeast(1.0), WHY_UDP)
                .paper("1.08", Bound::AtLeast(1.02)),
            multiget("TCP", tenfold(false)).paper("about 4", four),
            multiget("UDP", tenfold(true)).paper("about 4", four),
        ],
        reading: format!(
            "Over TCP a get of one key takes {:.2} times the server's processor time that it takes over UDP (the paper: \
             1.13 times the rate), a get of ten keys {:.2} times (1.08). A key of a get of ten costs {:.1} times less than \
             a get of one over TCP and {:.1} times less over UDP (the paper: about four).",
            gain(1),
            gain(10),
            tenfold(false),
            tenfold(true),
        ),
    }
}

/// The check that a key costs less in a get of ten keys than in a get of one key.
fn multiget(what: &str, gain: f64) -> Check {
    check(
        format!("{what}: a get of one key, to a key of a get of ten"),
        gain,
        Bound::AtLeast(2.5),
        "the paper has about 4; most of a get of one is the kernel's, paid once a request",
    )
}

fn plot(title: &str, data: &Data, settings: &[Setting]) -> Plot {
    let names: Vec<String> = settings.iter().map(|it| it.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Plot {
        title: title.into(),
        x: categories("", &names),
        y: axis("processor time of the server, µs a key"),
        series: vec![series("Guira", data.line(CPU).medians())],
    }
}

fn costs(data: &Data, settings: &[Setting]) -> Table {
    let row = |(at, setting): (usize, &Setting)| {
        let cpu = Quartiles::of(&data.line(CPU).at(at as f64).samples);
        vec![
            setting.name(),
            format!("{:.3}", cpu.median),
            format!("{:.3}–{:.3}", cpu.low, cpu.high),
            format!("{:.0}", data.line(RATE).median(at as f64) / 1e3),
        ]
    };
    let header = ["setting", "CPU µs a key", "lower–upper quarter", "thousand keys a second"];
    table("The server's processor time", &header, settings.iter().enumerate().map(row).collect())
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
/// Requests that are built in advance and sent over and over.
const REQUESTS: usize = 4096;
const REPLY_MAX: Duration = Duration::from_secs(2);
const WHY_MISS: &str =
    "a miss reads no item and sends no value; a tenth for the noise of a busy machine";
const WHY_UDP: &str =
    "the paper has 1.13 and 1.08; the ratio itself is the kernel's, its direction is the claim";
