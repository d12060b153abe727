//! Section 3.1: how long a get takes over UDP, straight to its server, and over TCP through the router.
//!
//! One client with one request under way; ways take turns, round by round, so that whatever slows the machine slows both.

use crate::figures::{axis, check, series, table};
use crate::live::{Client, Router, pool, store_with};
use crate::measure::now;
use crate::{Axis, Bound, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::{Result, ensure};
use guira_bench::Rng;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Figures of the text: no plot of the paper's.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-udp",
    paper: Paper::Facebook,
    title: "how long a get takes over UDP, and over TCP through the router",
    claim: "gets over UDP take 20 % less than over TCP through mcrouter",
    shape: "the median get over UDP takes at most nine tenths of one over TCP through the router",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

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
                // Request 0, datagram 0 of 1, and nothing.
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

fn run(run: &Run<'_>) -> Result<Outcome> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let store = store_with(&["-U", &port.to_string()])?;
    // Whoever holds a connection over TCP may ask over UDP without limit.
    let mut credential = Client::connect(store.port)?;
    credential.fill((0..KEYS).map(name))?;
    let config = json!({"pools": {"all": pool([&store])}, "route": "PoolRoute|all"});
    let router = Router::start(&config, &[])?;
    let mut ways = [Way::udp(port)?, Way::tcp(router.port)?, Way::tcp(store.port)?];
    let mut times = [const { Vec::new() }; NAMES.len()];
    let (rounds, gets) = run.scale.pick((40, 500), (200, 2000));
    let mut rng = Rng::new(run.seed);
    for round in 0..rounds {
        (run.progress)(f64::from(round) / f64::from(rounds), "gets");
        for (way, times) in ways.iter_mut().zip(&mut times) {
            for _ in 0..gets {
                let begun = now();
                way.get(rng.below(KEYS))?;
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    Ok(outcome(&times))
}

fn outcome(times: &[Vec<f64>]) -> Outcome {
    let at = |way: usize, percent: usize| times[way][percent * (times[way].len() - 1) / 100];
    let line = |way: usize| {
        let points = (1..100).map(|percent| (at(way, percent), percent as f64));
        series(NAMES[way], points.collect::<Vec<_>>())
    };
    let ratio = at(0, 50) / at(1, 50);
    let row = |way: usize| {
        let figures = [50, 95, 99].map(|percent| format!("{:.1}", at(way, percent)));
        std::iter::once(NAMES[way].to_owned()).chain(figures).collect()
    };
    let checks = vec![check(
        "the median get over UDP, over that through the router",
        ratio,
        Bound::AtMost(0.9),
        "the router is one more process to be woken, read from and written to; the paper has 0.8, with a network between",
    )];
    let reading = format!(
        "The median get takes {:.0} % less over UDP than over TCP through the router, where the paper, with a network \
         between, has 20 % less. Straight to the server TCP takes {:.2} of what UDP does.",
        100.0 * (1.0 - ratio),
        at(2, 50) / at(0, 50),
    );
    Outcome {
        plots: vec![Plot {
            title: "How long a get takes, one under way".into(),
            x: Axis { is_log: true, ..axis("microseconds") },
            y: axis("% of the gets"),
            series: (0..NAMES.len()).map(line).collect(),
        }],
        tables: vec![table(
            "Microseconds a get, over loopback",
            &["", "median", "95 of 100", "99 of 100"],
            (0..NAMES.len()).map(row).collect(),
        )],
        checks,
        reading,
    }
}

const NAMES: [&str; 3] = ["UDP, to the server", "TCP, through the router", "TCP, to the server"];
const KEYS: u64 = 10_000;
/// A get that takes longer is lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
