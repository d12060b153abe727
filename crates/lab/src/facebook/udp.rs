//! Section 3.1: the latency of a get over UDP, directly to its server, and over TCP through the router.
//!
//! One client has one request in flight. Ways take turns, round by round, so that whatever slows the machine slows both.

use crate::data::{Data, Line, ratio};
use crate::figures::{axis, check, least, series, table};
use crate::live::{Client, Router, pool, store_with};
use crate::measure::now;
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::{Result, ensure};
use guira_bench::Rng;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Figure 3.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-udp",
    paper: Paper::Facebook,
    title: "how long a get takes over UDP, and over TCP through the router",
    claim: "gets over UDP take 20 % less than over TCP through mcrouter, at the median and at the 95th percentile",
    shape: "the median get over UDP takes at most eight tenths of one over TCP through the router, as does the 95th of a \
            hundred, and the 99th takes less; straight to the server TCP and UDP differ by less than half",
    why: "",
    is_quick: false,
    measure,
    judge,
};

/// Microseconds by way, one point each and one sample per round.
const PERCENTILES: [(usize, &str); 3] = [(50, "median"), (95, "95 of 100"), (99, "99 of 100")];

/// A way to a server.
enum Way {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Way {
    fn tcp(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self::Tcp(stream))
    }

    fn udp(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self::Udp(socket))
    }

    /// Asks for a key and waits for its value.
    fn get(&mut self, key: u64) -> Result<()> {
        let line = format!("get {}\r\n", name(key));
        let mut answer = [0; 512];
        let n = match self {
            Self::Tcp(stream) => {
                stream.write_all(line.as_bytes())?;
                let mut n = 0;
                while !answer[..n].ends_with(b"END\r\n") {
                    let more = stream.read(&mut answer[n..])?;
                    ensure!(more > 0, "the connection was closed");
                    n += more;
                }
                n
            }
            Self::Udp(socket) => {
                // The UDP frame header: request 0, datagram 0 of 1, and a reserved field.
                socket.send(&[&[0, 0, 0, 0, 0, 1, 0, 0], line.as_bytes()].concat())?;
                socket.recv(&mut answer)?
            }
        };
        let is_value = answer[..n].windows(6).any(|window| window == b"VALUE ");
        ensure!(is_value, "no value but {:?}", String::from_utf8_lossy(&answer[..n]));
        Ok(())
    }
}

fn name(key: u64) -> String {
    format!("key-{key:08}")
}

fn measure(run: &Run<'_>) -> Result<Data> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let store = store_with(&["-U", &port.to_string()])?;
    // A client with a TCP connection may ask over UDP without limit.
    let mut credential = Client::connect(store.port)?;
    credential.fill((0..KEYS).map(name))?;
    let config = json!({"pools": {"all": pool([&store])}, "route": "PoolRoute|all"});
    let router = Router::start(&config, &[])?;
    let mut ways = [Way::udp(port)?, Way::tcp(router.port)?, Way::tcp(store.port)?];
    let mut all = [const { Vec::new() }; NAMES.len()];
    let mut percentiles = [const { [const { Vec::new() }; NAMES.len()] }; PERCENTILES.len()];
    let (rounds, gets) = run.scale.pick((40, 500), (200, 2000));
    let mut rng = Rng::new(run.seed);
    for round in 0..rounds {
        (run.progress)(f64::from(round) / f64::from(rounds), "gets");
        for (at, way) in ways.iter_mut().enumerate() {
            let mut times = Vec::with_capacity(gets);
            for _ in 0..gets {
                let begun = now();
                way.get(rng.below(KEYS))?;
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            times.sort_by(f64::total_cmp);
            for ((percent, _), samples) in PERCENTILES.iter().zip(&mut percentiles) {
                samples[at].push(of_sorted(&times, *percent));
            }
            all[at].extend(times);
        }
    }
    let mut data = Data::default();
    for ((_, name), by_way) in PERCENTILES.into_iter().zip(percentiles) {
        data.push(Line::new(name, (0..).map(f64::from).zip(by_way)));
    }
    // The plot's curves. The claims about them are checked by the lines above.
    for (name, mut times) in NAMES.into_iter().zip(all) {
        times.sort_by(f64::total_cmp);
        let points = (1..100_u8).map(|n| (f64::from(n), of_sorted(&times, n.into())));
        data.push(Line::of_figures(name, points).aside());
    }
    Ok(data)
}

fn of_sorted(times: &[f64], percent: usize) -> f64 {
    times[percent * (times.len() - 1) / 100]
}

fn judge(data: &Data) -> Findings {
    let curve =
        |name: &&str| series(name, data.line(name).medians().map(|(percent, us)| (us, percent)));
    Findings {
        plots: vec![Plot {
            title: "How long a get takes, one under way".into(),
            x: Axis { is_log: true, ..axis("microseconds") },
            y: axis("% of the gets"),
            series: NAMES.iter().map(curve).collect(),
        }],
        tables: vec![shown(data)],
        checks: checks(data),
        reading: format!(
            "The median get takes {:.0} % less over UDP than over TCP through the router, where the paper, with a network \
             between, has 20 % less. Straight to the server TCP takes {:.2} of what UDP does.",
            100.0 * (1.0 - median_to(data, UDP, ROUTED)),
            median_to(data, DIRECT, UDP),
        ),
    }
}

/// Returns the ratio of the median gets of two ways, round by round.
fn median_to(data: &Data, way: usize, other: usize) -> f64 {
    percentile_to(data, 0, way, other)
}

/// Like `median_to`, for a percentile, by its index.
fn percentile_to(data: &Data, percentile: usize, way: usize, other: usize) -> f64 {
    let line = data.line(PERCENTILES[percentile].1);
    ratio(line.at(way as f64), line.at(other as f64))
}

fn shown(data: &Data) -> Table {
    let row = |way: usize| {
        let figures =
            PERCENTILES.map(|(_, name)| format!("{:.1}", data.line(name).median(way as f64)));
        std::iter::once(NAMES[way].to_owned()).chain(figures).collect()
    };
    table(
        "Microseconds a get, over loopback: medians of the rounds",
        &["", "median", "95 of 100", "99 of 100"],
        [UDP, ROUTED, DIRECT].map(row).into(),
    )
}

fn checks(data: &Data) -> Vec<Check> {
    // Percentiles rise by definition: this detects percentiles under each other's names.
    let rising = (1..PERCENTILES.len()).flat_map(|at| {
        [UDP, ROUTED, DIRECT].map(|way| {
            let [below, above] = [at - 1, at].map(|at| data.line(PERCENTILES[at].1).at(way as f64));
            ratio(above, below)
        })
    });
    let direct = |percentile: usize| percentile_to(data, percentile, DIRECT, UDP);
    vec![
        check(
            "the median get over UDP, over that through the router",
            median_to(data, UDP, ROUTED),
            Bound::AtMost(0.8),
            "the router is one more process to be woken, read from and written to, and no network hides it",
        )
        .paper("0.8", Bound::AtMost(0.8)),
        check(
            "95 of 100 gets over UDP, over those through the router",
            percentile_to(data, 1, UDP, ROUTED),
            Bound::AtMost(0.9),
            "as the median; loosened from 0.8: what holds up one get in twenty of a busy machine holds up both ways",
        )
        .paper("0.8", Bound::AtMost(0.8)),
        check(
            "99 of 100 gets over UDP, over those through the router",
            percentile_to(data, 2, UDP, ROUTED),
            Bound::AtMost(0.95),
            "the paper has no figure of it: two processes can be held up where one is",
        ),
        check(
            "TCP straight to the server, over UDP: the median",
            direct(0),
            Bound::Between(0.67, 1.5),
            "the same server and one system call for the request and one for the answer either way",
        ),
        check(
            "TCP straight to the server, over UDP: 95 of 100",
            direct(1),
            Bound::Between(0.5, 2.0),
            "as the median, with more noise",
        ),
        check(
            "each percentile to the one below, any way, at the least",
            least(rising),
            Bound::AtLeast(1.0),
            "they are percentiles",
        ),
    ]
}

const NAMES: [&str; 3] = ["UDP, to the server", "TCP, through the router", "TCP, to the server"];
/// The indexes of the ways.
const UDP: usize = 0;
const ROUTED: usize = 1;
const DIRECT: usize = 2;
const KEYS: u64 = 10_000;
/// A get that takes longer than this is lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
