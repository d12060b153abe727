//! MemC3, figure 9: the whole server over loopback, gets of 100 keys, against threads.
//!
//! Client and server share the machine. So next to the rate, the server's processor time per key is shown, which bounds
//! the rate if the network doesn't. Servers take turns, round by round. memcached is measured if it is installed. One
//! memcached per processor, with the keys distributed among them, isn't run on two processors but computed: from the
//! cost of a key in gets of half the size, and from the share of keys that the busiest of them has to serve.

use crate::data::{Data, Line, Point, ratio};
use crate::figures::{axis, check, drawn, table};
use crate::live::{Server, memcached};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Series, Table};
use anyhow::{Context, Result};
use clap::Parser as _;
use guira_bench::{BenchArgs, Rng, Row, Zipf, mix};
use std::process::Command;

/// Figure 9.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f9",
    paper: Paper::MemC3,
    title: "the whole server, gets of 100 keys, against threads",
    claim: "over the network, with gets of 100 keys, MemC3 serves 4.4 million keys a second, memcached 1.5; sharding, with \
            one memcached per core, suffers under zipf, because one shard has the most popular keys",
    shape: "memcached takes at least twice Guira's processor time per key in gets of 100 keys, and 1.6 times in gets of \
            one; what a key costs does not rise with the threads; under zipf the busiest of 16 shards has at least 1.5 \
            times its part",
    why: "client and servers share the processors, so the servers' processor time per key stands for the paper's rates",
    is_quick: false,
    measure,
    judge,
};

fn measure(run: &Run<'_>) -> Result<Data> {
    let memcached = memcached();
    let mut data = Data::default();
    for (place, (batch, threads)) in SETTINGS.into_iter().enumerate() {
        let mut points: [[Vec<(f64, f64)>; 2]; 2] = Default::default();
        for &threads in threads {
            let doing = format!("{threads} threads, gets of {batch}");
            (run.progress)(place as f64 / SETTINGS.len() as f64, &doing);
            let row = compare(threads, batch, memcached.as_deref(), run)?;
            for (standing, [rates, costs]) in row.servers.iter().zip(&mut points) {
                let cost = standing.cpu_us.context("a server's processor time")?.median;
                rates.push((threads as f64, standing.rate.median / 1e6));
                costs.push((threads as f64, cost));
            }
        }
        let servers = [Some(GUIRA), memcached.as_ref().map(|_| MEMCACHED)].into_iter().flatten();
        for (server, [rates, costs]) in servers.zip(points) {
            // The client takes an unknown part of the processors.
            data.push(Line::of_figures(&rate(server, batch), rates).aside());
            let line = Line::of_figures(&cost(server, batch), costs);
            data.push(match line.points.len() {
                // There is nothing to compare it with.
                _ if memcached.is_none() => line.aside(),
                1 => line,
                _ => line.flat(),
            });
        }
    }
    let loads = SHARDS.map(|shards| (shards as f64, busiest(shards, run.seed)));
    data.push(Line::of_figures(BUSIEST, loads));
    Ok(data)
}

/// Returns the name of a server's rates.
fn rate(server: &str, batch: usize) -> String {
    format!("{server}, gets of {batch}: million keys a second")
}

/// Returns the name of a server's cost per key.
fn cost(server: &str, batch: usize) -> String {
    format!("{server}, gets of {batch}: CPU µs per key")
}

/// Starts the servers, stores the keys, and lets the servers take turns.
fn compare(threads: usize, batch: usize, memcached: Option<&str>, run: &Run<'_>) -> Result<Row> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut servers = vec![Server::start(GUIRA, Command::new(program).arg("serve"), threads)?];
    if let Some(path) = memcached {
        servers.push(Server::start(MEMCACHED, &mut Command::new(path), threads)?);
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
    let row = guira_bench::compared(&BenchArgs::try_parse_from(line)?)?.pop();
    row.context("a comparison has a row")
}

/// Returns the load of the busiest of so many shards, relative to an equal share, under zipf(0.99) over a million keys.
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

/// Returns a server's point, if it was measured.
fn at(data: &Data, line: &str, threads: usize) -> Option<Point> {
    let point =
        data.find(line)?.points.iter().find(|point| point.x.total_cmp(&(threads as f64)).is_eq());
    point.cloned()
}

/// Returns memcached's processor time per key, relative to Guira's; NaN if memcached isn't installed.
fn times(data: &Data, threads: usize, batch: usize) -> f64 {
    let [memcached, guira] = [MEMCACHED, GUIRA].map(|it| at(data, &cost(it, batch), threads));
    memcached.zip(guira).map_or(f64::NAN, |(memcached, guira)| ratio(&memcached, &guira))
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![plot(data)],
        tables: vec![costs(data), sharding(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

fn plot(data: &Data) -> Plot {
    let line = |server: &str| {
        Some(Series { name: server.into(), ..drawn(data.find(&rate(server, 100))?) })
    };
    Plot {
        title: "Gets of 100 keys over loopback, client next to the server".into(),
        x: axis("threads of the server"),
        y: axis("million keys a second"),
        series: [GUIRA, MEMCACHED].into_iter().filter_map(line).collect(),
    }
}

fn costs(data: &Data) -> Table {
    let cell = |line: &str, threads| {
        at(data, line, threads).map_or("not installed".into(), |it| format!("{:.3}", it.median()))
    };
    let row = |(batch, threads): (usize, usize)| {
        let [guira, memcached] = [GUIRA, MEMCACHED].map(|it| cell(&cost(it, batch), threads));
        let [guira_rate, memcached_rate] =
            [GUIRA, MEMCACHED].map(|it| cell(&rate(it, batch), threads));
        let papers = if batch == 100 { "2.9" } else { "–" };
        let times = format!("{:.2}", times(data, threads, batch));
        let settings = [threads.to_string(), batch.to_string()];
        settings
            .into_iter()
            .chain([guira, memcached, times, guira_rate, memcached_rate, papers.into()])
            .collect()
    };
    let header = [
        "threads",
        "keys per get",
        "Guira, CPU µs per key",
        "memcached",
        "memcached to Guira",
        "Guira, million keys a second",
        "memcached",
        "paper: MemC3's rate to memcached's",
    ];
    let settings = SETTINGS.into_iter();
    let settings = settings.flat_map(|(batch, threads)| threads.iter().map(move |&it| (batch, it)));
    table("Whole servers over loopback", &header, settings.map(row).collect())
}

/// Returns the rates that processors could serve if they did nothing else. With shards, the busiest one bounds the rate.
fn sharding(data: &Data) -> Table {
    let rate = |server: &str, batch: usize, times: f64| {
        let cost = at(data, &cost(server, batch), 1);
        cost.map_or("not installed".into(), |us| format!("{:.1}", times / us.median()))
    };
    let row = |(shards, busiest): (f64, f64)| {
        vec![
            shards.to_string(),
            format!("{busiest:.2}"),
            rate(MEMCACHED, 50, shards / busiest),
            rate(MEMCACHED, 100, shards),
            rate(GUIRA, 100, shards),
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
        "Reckoned from processor time per key: million keys a second under zipf(0.99)",
        &header,
        data.line(BUSIEST).medians().map(row).collect(),
    )
}

fn checks(data: &Data) -> Vec<Check> {
    let is_installed = data.find(&cost(MEMCACHED, 100)).is_some();
    let why = || "memcached is not installed".to_owned();
    let ahead = |threads: usize, batch: usize| {
        let (least, reason) = if batch == 1 {
            (
                1.6,
                "the kernel takes most of the time of a get of one key; pipelined, fifty share a system call",
            )
        } else {
            (2.0, "the paper's rates are 2.9 to 1; ours also fetches the memory of a batch ahead")
        };
        let claim = format!(
            "{threads} threads, gets of {batch}: processor time per key of memcached, to Guira's"
        );
        let check = check(claim, times(data, threads, batch), Bound::AtLeast(least), reason);
        let check = match batch {
            100 => check.paper("2.9 (4.4 to 1.5 million keys a second)", Bound::AtLeast(2.6)),
            _ => check,
        };
        check.judged_if(is_installed, why)
    };
    let flat = |server: &str| {
        let line = cost(server, 100);
        let [four, one] = [4, 1].map(|threads| at(data, &line, threads));
        let measured = four.zip(one).map_or(f64::NAN, |(four, one)| ratio(&four, &one));
        check(
            format!("{server}, gets of 100: processor time per key with four threads, to one"),
            measured,
            Bound::Between(0.5, 1.7),
            "threads of a server hardly touch each other's memory; four on two processors lose some of their caches",
        )
        .judged_if(is_installed, why)
    };
    let settings = SETTINGS.into_iter();
    let settings = settings.flat_map(|(batch, threads)| threads.iter().map(move |&it| (it, batch)));
    let mut all: Vec<_> = settings.map(|(threads, batch)| ahead(threads, batch)).collect();
    all.extend([GUIRA, MEMCACHED].map(flat));
    all.push(
        check(
            "load of the busiest of 16 shards under zipf, to the mean",
            data.line(BUSIEST).median(16.0),
            Bound::AtLeast(1.5),
            "the most popular of a million keys alone has 6.7 % of the gets, more than a sixteenth",
        )
        .paper("above 1 (no figure)", Bound::AtLeast(1.2)),
    );
    all
}

fn reading(data: &Data) -> String {
    let busiest = data.line(BUSIEST).median(16.0);
    let sharded = format!(
        "Of 16 shards under zipf(0.99) the busiest has {busiest:.2} times its part, so sharding wastes {:.0} % of 16 \
         processors.",
        (1.0 - 1.0 / busiest) * 100.0
    );
    let [guira, memcached] = [GUIRA, MEMCACHED].map(|it| at(data, &cost(it, 100), 2));
    let guira = guira.map_or(f64::NAN, |it| it.median());
    match memcached {
        Some(memcached) => format!(
            "With two threads and gets of 100 keys a key costs Guira {guira:.2} µs of processor time and memcached \
             {:.2}: {:.1} times as much. {sharded}",
            memcached.median(),
            times(data, 2, 100),
        ),
        None => format!(
            "With two threads and gets of 100 keys a key costs Guira {guira:.2} µs of processor time; memcached is not \
             installed. {sharded}"
        ),
    }
}

const GUIRA: &str = "Guira";
const MEMCACHED: &str = "memcached";
/// Keys per get, and threads of the server.
const SETTINGS: [(usize, &[usize]); 3] = [(100, &[1, 2, 4]), (50, &[1]), (1, &[2])];
/// The name of the line of loads.
const BUSIEST: &str = "load of the busiest shard, to the mean";
const SHARDS: [u64; 4] = [2, 4, 8, 16];
const DRAWS: u32 = 2_000_000;

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
