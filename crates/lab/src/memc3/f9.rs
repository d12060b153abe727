//! MemC3, figure 9: the whole server over loopback, gets of 100 keys, against threads.
//!
//! Client and server share the machine, so beside the rate there is the server's processor time a key, which is what
//! bounds the rate where the network doesn't. Servers take turns, round by round. memcached is measured if it is
//! installed. One memcached a processor, with the keys dealt out among them, is not run on two processors but reckoned:
//! what a key costs in gets of half the size, and how many of the keys asked for the busiest of them has to serve.

use super::pages;
use crate::figures::{axis, check, series, table};
use crate::measure::now;
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::{Context, Result, bail};
use clap::Parser as _;
use guira_bench::{Args, Rng, Row, Zipf, mix};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Figure 9.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f9",
    paper: Paper::MemC3,
    title: "the whole server, gets of 100 keys, against threads",
    claim: "over the network, with gets of 100 keys, MemC3 serves 4.4 million keys a second, memcached 1.5; sharding, with \
            one memcached a core, suffers under zipf, because one shard has the most popular keys",
    shape: "memcached takes at least twice Guira's processor time a key in gets of 100 keys, and no less in \
            gets of one; under zipf the busiest of 16 shards has at least 1.5 times its part",
    verdict: Verdict::NotTestable(
        "client and servers share two processors, so rates against threads say little; the server's processor time a \
         key, and the reckoned load of the busiest shard, do instead",
    ),
    is_quick: false,
    run,
};

/// What was measured of one setting.
struct Measured {
    threads: usize,
    batch: usize,
    row: Row,
}

impl Measured {
    /// Rate and processor time a key of a server, if it ran.
    fn of(&self, server: &str) -> Option<(f64, f64)> {
        let standing = self.row.servers.iter().find(|standing| standing.server == server)?;
        Some((standing.rate.median / 1e6, standing.cpu_us?.median))
    }

    /// Processor time a key of memcached, to Guira's.
    fn ratio(&self) -> Option<f64> {
        Some(self.of(MEMCACHED)?.1 / self.of(GUIRA)?.1)
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let memcached = memcached();
    let mut measured = Vec::new();
    for (place, (threads, batch)) in SETTINGS.into_iter().enumerate() {
        let doing = format!("{threads} threads, gets of {batch}");
        (run.progress)(place as f64 / SETTINGS.len() as f64, &doing);
        measured.push(measure(threads, batch, memcached.as_deref(), run)?);
    }
    let shards = SHARDS.map(|shards| (shards, busiest(shards, run.seed)));
    Ok(Outcome {
        plots: vec![plot(&measured)],
        tables: vec![costs(&measured), sharding(&measured, &shards)],
        checks: checks(&measured, &shards),
        reading: reading(&measured, &shards),
    })
}

/// Starts the servers, stores the keys and lets the servers take turns.
fn measure(
    threads: usize,
    batch: usize,
    memcached: Option<&str>,
    run: &Run<'_>,
) -> Result<Measured> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut servers = vec![Server::start(GUIRA, Command::new(program).arg("serve"), threads)?];
    if let Some(path) = memcached {
        servers.push(Server::start(MEMCACHED, Command::new(path).args(["-u", "root"]), threads)?);
    }
    let seconds = run.scale.pick("0.5", "5");
    let keys = run.scale.pick("200k", "5m");
    let (batch_text, seed) = (batch.to_string(), run.seed.to_string());
    let pipeline = if batch == 1 { "50" } else { "1" };
    let mut line = vec!["bench", "compare"];
    let targets: Vec<String> = servers.iter().map(Server::target).collect();
    line.extend(targets.iter().map(String::as_str));
    line.extend(["--workload", "c", "--distribution", "uniform", "--keys", keys]);
    line.extend(["--batch", &batch_text, "--pipeline", pipeline, "--connections", "4"]);
    line.extend(["--seconds", seconds, "--warmup", "0.1", "--rounds", "3", "--seed", &seed]);
    let row = guira_bench::compared(&Args::try_parse_from(line)?)?.pop();
    Ok(Measured { threads, batch, row: row.context("a comparison has a row")? })
}

/// A server of this machine; ended when dropped.
pub(crate) struct Server {
    name: &'static str,
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a program with a port and threads of its own, and waits until it accepts.
    pub(crate) fn start(name: &'static str, command: &mut Command, threads: usize) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let [port_text, threads] = [usize::from(port), threads].map(|n| n.to_string());
        let command = pages::unset(command)
            .args(["-l", "127.0.0.1", "-p", &port_text, "-t", &threads, "-m", "1024"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("{name} does not start"))?;
        let mut server = Self { name, child, port };
        let begun = now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait()?.is_some() || begun.elapsed() > START_MAX {
                bail!("{name} does not listen on port {port}");
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn target(&self) -> String {
        format!("{}=127.0.0.1:{}@{}", self.name, self.port, self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// memcached's program, if it is installed.
fn memcached() -> Option<String> {
    let is_there = |path: &&str| std::path::Path::new(path).exists();
    ["/usr/bin/memcached", "/usr/local/bin/memcached"]
        .iter()
        .find(|path| is_there(path))
        .map(|&path| path.to_owned())
}

/// How much of its equal part the busiest of so many shards has to serve, under zipf(0.99) over a million keys.
fn busiest(shards: u64, seed: u64) -> f64 {
    let (zipf, mut rng) = (Zipf::new(1_000_000, 0.99), Rng::new(seed));
    let mut asked = vec![0_u32; usize::try_from(shards).expect("a few")];
    for _ in 0..DRAWS {
        let shard = mix(zipf.rank(&mut rng)) % shards;
        asked[usize::try_from(shard).expect("one of a few")] += 1;
    }
    let most = asked.into_iter().max().unwrap_or(0);
    f64::from(most) * shards as f64 / f64::from(DRAWS)
}

fn plot(measured: &[Measured]) -> Plot {
    let line = |server: &'static str| {
        let hundred = measured.iter().filter(|measured| measured.batch == 100);
        let points = hundred.filter_map(|it| Some((it.threads as f64, it.of(server)?.0)));
        series(server, points.collect::<Vec<_>>())
    };
    let lines = [GUIRA, MEMCACHED].map(line);
    Plot {
        title: "Gets of 100 keys over loopback, client beside the server".into(),
        x: axis("threads of the server"),
        y: axis("million keys a second"),
        series: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    }
}

fn costs(measured: &[Measured]) -> Table {
    let cell = |figure: Option<f64>| figure.map_or("not installed".into(), |it| format!("{it:.3}"));
    let row = |measured: &Measured| {
        let [guira, memcached] = [GUIRA, MEMCACHED].map(|server| measured.of(server));
        vec![
            measured.threads.to_string(),
            measured.batch.to_string(),
            cell(guira.map(|it| it.1)),
            cell(memcached.map(|it| it.1)),
            cell(measured.ratio()),
            cell(guira.map(|it| it.0)),
            cell(memcached.map(|it| it.0)),
            if measured.batch == 100 { "2.9" } else { "–" }.into(),
        ]
    };
    let header = [
        "threads",
        "keys a get",
        "Guira, CPU µs a key",
        "memcached",
        "memcached to Guira",
        "Guira, million keys a second",
        "memcached",
        "paper: MemC3's rate to memcached's",
    ];
    table("Whole servers over loopback", &header, measured.iter().map(row).collect())
}

/// Rates that processors could serve if they did nothing else: sharded, the busiest shard bounds them.
fn sharding(measured: &[Measured], shards: &[(u64, f64)]) -> Table {
    let cost = |batch: usize, server| {
        let one = measured.iter().find(|it| it.batch == batch && it.threads == 1)?;
        Some(one.of(server)?.1)
    };
    let rate = |cost: Option<f64>, times: f64| {
        cost.map_or("not installed".into(), |us| format!("{:.1}", times / us))
    };
    let row = |&(shards, busiest): &(u64, f64)| {
        let shards_f = shards as f64;
        vec![
            shards.to_string(),
            format!("{busiest:.2}"),
            rate(cost(50, MEMCACHED), shards_f / busiest),
            rate(cost(100, MEMCACHED), shards_f),
            rate(cost(100, GUIRA), shards_f),
        ]
    };
    let header = [
        "processors",
        "the busiest shard's load to the mean",
        "memcached, a shard each",
        "memcached, shared by all",
        "Guira, shared by all",
    ];
    table(
        "Reckoned from processor time a key: million keys a second under zipf(0.99)",
        &header,
        shards.iter().map(row).collect(),
    )
}

fn checks(measured: &[Measured], shards: &[(u64, f64)]) -> Vec<Check> {
    let mut all = Vec::new();
    for measured in measured {
        let (least, reason) = if measured.batch == 1 {
            (1.0, "the kernel takes most of the time of a get of one key, and the same of both")
        } else {
            (2.0, "the paper's rates are 2.9 to 1; ours also fetches the memory of a batch ahead")
        };
        if let Some(ratio) = measured.ratio() {
            let claim = format!(
                "{} threads, gets of {}: processor time a key of memcached, to Guira's",
                measured.threads, measured.batch
            );
            all.push(check(claim, ratio, Bound::AtLeast(least), reason));
        }
    }
    all.push(check(
        "load of the busiest of 16 shards under zipf, to the mean",
        shards[shards.len() - 1].1,
        Bound::AtLeast(1.5),
        "the most popular of a million keys alone has 6.7 % of the gets, more than a sixteenth",
    ));
    all
}

fn reading(measured: &[Measured], shards: &[(u64, f64)]) -> String {
    let busiest = shards[shards.len() - 1].1;
    let sharded = format!(
        "Of 16 shards under zipf(0.99) the busiest has {busiest:.2} times its part, so sharding wastes {:.0} % of 16 \
         processors.",
        (1.0 - 1.0 / busiest) * 100.0
    );
    let Some(two) = measured.iter().find(|it| it.batch == 100 && it.threads == 2) else {
        return sharded;
    };
    match (two.of(GUIRA), two.of(MEMCACHED)) {
        (Some((_, guira)), Some((_, memcached))) => format!(
            "With two threads and gets of 100 keys a key costs Guira {guira:.2} µs of processor time and memcached \
             {memcached:.2}: {:.1} times as much. {sharded}",
            memcached / guira
        ),
        (Some((_, guira)), None) => format!(
            "With two threads and gets of 100 keys a key costs Guira {guira:.2} µs of processor time; memcached is not \
             installed. {sharded}"
        ),
        _ => sharded,
    }
}

const GUIRA: &str = "Guira";
const MEMCACHED: &str = "memcached";
/// Threads of the server, and keys a get.
const SETTINGS: [(usize, usize); 5] = [(1, 100), (2, 100), (4, 100), (1, 50), (2, 1)];
const SHARDS: [u64; 4] = [2, 4, 8, 16];
const DRAWS: u32 = 2_000_000;
const START_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_shard_has_more_than_its_part_and_less_than_everything() {
        let loads = SHARDS.map(|shards| (shards as f64, busiest(shards, 1)));
        assert!(loads.iter().all(|&(shards, load)| load > 1.0 && load < shards));
        assert!(loads[3].1 > loads[0].1);
    }
}
