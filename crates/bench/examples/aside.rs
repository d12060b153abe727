//! The hit rate of a cache beside a database: clients get scrambled zipf keys, and set what was missing.
//!
//! `cargo run --release -p guira-bench --example aside -- ADDRESS KEYS THETA VALUE_BYTES GETS` prints the hit rate of each
//! tenth of the gets. Eight clients get eight keys at once; a value that was missing is set before the next get.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use guira_bench::{Rng, Zipf, mix};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, keys, theta, value_bytes, gets] = &words[..] else { return usage() };
    let numbers = (keys.parse(), theta.parse(), value_bytes.parse(), gets.parse::<u64>());
    let (Ok(keys), Ok(theta), Ok(value_bytes), Ok(gets)) = numbers else { return usage() };
    let (zipf, tenths) = (Zipf::new(keys, theta), Tenths::default());
    let outcome = thread::scope(|scope| {
        let tenths = &tenths;
        let run = move |seed| {
            let client = Client::new((address, seed), (zipf, keys), value_bytes);
            client?.run(gets / CLIENTS, tenths)
        };
        let clients: Vec<_> = (0..CLIENTS).map(|seed| scope.spawn(move || run(seed))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("clients return errors"))
    });
    if let Err(error) = outcome {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    for (tenth, [hits, all]) in tenths.0.iter().enumerate() {
        let (hits, all) = (hits.load(Relaxed), all.load(Relaxed));
        println!(
            "tenth {tenth}: {all} gets, {:.2} % hits",
            hits as f64 * 100.0 / all.max(1) as f64
        );
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("aside ADDRESS KEYS THETA VALUE_BYTES GETS");
    ExitCode::from(2)
}

/// Hits and gets of each tenth.
#[derive(Default)]
struct Tenths([[AtomicU64; 2]; 10]);

struct Client {
    stream: BufReader<TcpStream>,
    rng: Rng,
    zipf: Zipf,
    keys: u64,
    value: Vec<u8>,
}

impl Client {
    fn new((address, seed): (&str, u64), (zipf, keys): (Zipf, u64), bytes: usize) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let value = (0..bytes as u64).flat_map(|n| mix(n).to_le_bytes()).take(bytes).collect();
        let rng = Rng::new(mix(seed + 1));
        Ok(Self { stream: BufReader::new(stream), rng, zipf, keys, value })
    }

    fn run(&mut self, gets: u64, tenths: &Tenths) -> Result<()> {
        let rounds = gets / KEYS;
        for round in 0..rounds {
            let asked: Vec<String> = (0..KEYS).map(|_| self.key()).collect();
            let found = self.get(&asked)?;
            let tenth = usize::try_from(round * 10 / rounds).unwrap_or_default();
            let [hits, all] = &tenths.0[tenth];
            hits.fetch_add(found.len() as u64, Relaxed);
            all.fetch_add(KEYS, Relaxed);
            let mut out = Vec::new();
            for key in asked.iter().filter(|key| !found.contains(key)) {
                write!(out, "set {key} 0 0 {} noreply\r\n", self.value.len())?;
                out.extend_from_slice(&self.value);
                out.extend_from_slice(b"\r\n");
            }
            self.stream.get_mut().write_all(&out)?;
        }
        Ok(())
    }

    /// A key as `guira bench` names it. Popular keys are scattered over all.
    fn key(&mut self) -> String {
        let rank = u128::from(self.zipf.rank(&mut self.rng));
        format!("k{:015}", rank * PRIME % u128::from(self.keys))
    }

    /// Returns the keys that were found.
    fn get(&mut self, keys: &[String]) -> Result<Vec<String>> {
        self.stream.get_mut().write_all(format!("get {}\r\n", keys.join(" ")).as_bytes())?;
        let (mut found, mut line, mut value) = (Vec::new(), String::new(), Vec::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.nth(1).and_then(|it| it.parse().ok())) {
                (Some("END"), ..) => return Ok(found),
                (Some("VALUE"), Some(key), Some(bytes)) => {
                    found.push(key.to_owned());
                    value.resize(bytes, 0_u8);
                    value.extend_from_slice(b"..");
                    self.stream.read_exact(&mut value)?;
                }
                _ => return Err(Error::other(format!("the server said {line:?}"))),
            }
        }
    }
}

const CLIENTS: u64 = 8;
const KEYS: u64 = 8;
const PRIME: u128 = 11_400_714_785_074_694_791;
