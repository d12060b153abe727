//! Compares guira-store with RocksDB, fjall and redb: memory, reads, CPU time and speed, in one interleaved run.
//!
//! `cd crates/store/rivals && cargo run --release -- --dir /a/folder/on/the/device` loads a million items of 20 + 100 bytes
//! into each engine, measures, and prints tables. `apt install librocksdb-dev fio` first; without RocksDB:
//! `--no-default-features`.
//!
//! | option | default | |
//! |---|---|---|
//! | `--dir D` | | a folder; the stores stay in it, so that `--parts gets` can be repeated |
//! | `--items N`, `--value BYTES` | 1000000, 100 | |
//! | `--parts A,B` | load,gets,puts,sync,open,fio | what is measured; also wire-load, wire-gets, wire-sync |
//! | `--engines A,B` | all | names of [`engines::MAKERS`] |
//! | `--rounds N`, `--seconds S` | 3, 2 | each round measures each engine in turn, for S seconds per kind of get |
//! | `--json FILE` | | where to write all figures of all rounds |
//! | `--guira PROGRAM` | guira | the program that is served and that asks, for the parts `wire-…` |
//!
//! The parts `wire-…` measure servers: `guira store`, and the other engines behind the same front. By hand:
//! `guira-store-rivals serve rocksdb -d D -p 11311`, with the flags of `guira store`.
//!
//! Each engine is measured in its own process. For engines without direct I/O, their pages are dropped from the page
//! cache ten times a second while they are read. The tables show the medians of the rounds.

#![expect(clippy::disallowed_methods, reason = "measures time")]

mod engines;
mod jobs;
mod measure;
mod report;
mod served;
mod wire;

use engines::{MAKERS, Maker};
use jobs::Sizes;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use wire::Wire;

/// Figures by engine, then by name: one for each round.
type Figures = Map<String, Value>;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().collect();
    if let [_, serve, name, flags @ ..] = &words[..]
        && serve == "serve"
    {
        return served::serve(engine(name), flags);
    }
    let args = Args::of(&words);
    match &args.job {
        Some(job) => run_job(job, &args),
        None => measure_all(&args),
    }
    ExitCode::SUCCESS
}

fn measure_all(args: &Args) {
    let mut figures = Map::new();
    for part in &args.parts {
        match part.as_str() {
            "load" => each(args, &mut figures, 1, &["load"], "store"),
            "gets" => each(args, &mut figures, args.rounds, &["gets"], "store"),
            "puts" => each(args, &mut figures, args.rounds, &["puts"], "put"),
            "sync" => each(args, &mut figures, args.rounds, &["sync"], "synced"),
            "open" => each(args, &mut figures, 1, &["crash", "open"], "killed"),
            "fio" => {
                let rounds = (0..args.rounds).map(|_| json!(fio(args))).collect();
                let row = json!({ "hit_16_per_s": Value::Array(rounds) });
                figures.insert("fio, 4 KiB".into(), row);
            }
            "wire-load" | "wire-gets" | "wire-sync" => wire(args, &mut figures, part),
            other => panic!("no part {other}: see the head of main.rs"),
        }
    }
    report::print(&figures, args.sizes);
    if let Some(path) = &args.json {
        let sizes = json!({ "items": args.sizes.items, "value_bytes": args.sizes.value_bytes });
        let all = json!({ "sizes": sizes, "figures": figures });
        std::fs::write(path, format!("{all:#}\n")).expect("the file of --json can be written");
    }
}

struct Args {
    dir: PathBuf,
    sizes: Sizes,
    parts: Vec<String>,
    engines: Vec<&'static Maker>,
    rounds: usize,
    json: Option<PathBuf>,
    guira: PathBuf,
    /// The job of a process that this program started itself.
    job: Option<String>,
}

impl Args {
    fn of(args: &[String]) -> Self {
        let names = [
            "--dir",
            "--items",
            "--value",
            "--parts",
            "--engines",
            "--rounds",
            "--seconds",
            "--json",
            "--guira",
            "--job",
        ];
        for pair in args[1..].chunks(2) {
            let is_known = names.contains(&&*pair[0]) && pair.len() == 2;
            assert!(is_known, "{}: options are {names:?}, each with a value", pair[0]);
        }
        let text = |name: &str| Some(args[args.iter().position(|arg| arg == name)? + 1].clone());
        let number = |name: &str, usual: f64| {
            text(name).map_or(usual, |it| it.parse().unwrap_or_else(|_| panic!("{name} NUMBER")))
        };
        let list = |it: String| it.split(',').map(str::to_owned).collect::<Vec<_>>();
        let (items, value_bytes) =
            (number("--items", 1e6) as u64, number("--value", 100.0) as usize);
        let parts = text("--parts").unwrap_or_else(|| "load,gets,puts,sync,open,fio".into());
        Self {
            dir: text("--dir").expect("--dir FOLDER, on the device to measure").into(),
            sizes: Sizes { items: items.max(1), value_bytes, seconds: number("--seconds", 2.0) },
            parts: list(parts),
            engines: text("--engines").map_or_else(
                || MAKERS.iter().collect(),
                |it| list(it).iter().map(|name| engine(name)).collect(),
            ),
            rounds: number("--rounds", 3.0) as usize,
            json: text("--json").map(PathBuf::from),
            guira: text("--guira").unwrap_or_else(|| "guira".into()).into(),
            job: text("--job"),
        }
    }

    /// The folder of an engine's files for a part.
    fn dir_of(&self, maker: &Maker, part: &str) -> PathBuf {
        self.dir.join(format!("{}-{part}-{}", maker.name, self.sizes.value_bytes))
    }
}

/// The engine with this name.
fn engine(name: &str) -> &'static Maker {
    let known = MAKERS.iter().map(|it| it.name).collect::<Vec<_>>();
    let found = MAKERS.iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no engine {name}: {known:?}"))
}

/// Measures servers.
fn wire(args: &Args, figures: &mut Figures, part: &str) {
    let wire = Wire {
        engines: &args.engines,
        sizes: args.sizes,
        rounds: args.rounds,
        guira: &args.guira,
        dir_of: &|maker, part| args.dir_of(maker, part),
        dir: &args.dir,
    };
    let note = &mut |name: &str, row| add(figures, name, row);
    match part {
        "wire-load" => wire.load(note),
        "wire-gets" => wire.gets(note),
        _ => wire.syncs(note),
    }
}

/// Adds an engine's figures of a round.
fn add(figures: &mut Figures, name: &str, round: Map<String, Value>) {
    let row = figures.entry(name).or_insert_with(|| json!({}));
    for (name, figure) in round {
        let row = row.as_object_mut().expect("a row");
        let all = row.entry(name).or_insert_with(|| json!([]));
        all.as_array_mut().expect("a list").push(figure);
    }
}

/// Runs the jobs with each engine in turn, round by round.
fn each(args: &Args, figures: &mut Figures, rounds: usize, jobs: &[&str], part: &str) {
    std::fs::create_dir_all(&args.dir).expect("the folder of --dir can be made");
    for round in 0..rounds {
        for maker in &args.engines {
            let dir = args.dir_of(maker, part);
            if jobs[0] != "gets" {
                remove(&dir);
            }
            for job in jobs {
                eprintln!("round {round}: {job} {}", maker.name);
                add(figures, maker.name, child(args, maker, job));
            }
            if part != "store" {
                remove(&dir);
            }
        }
    }
}

fn remove(dir: &Path) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).expect("the folder of a former run can be removed");
    }
}

/// Runs one job in its own process.
fn child(args: &Args, maker: &Maker, job: &str) -> Map<String, Value> {
    let program = std::env::current_exe().expect("this program has a path");
    let sizes = args.sizes;
    let told = Command::new(program)
        .args(["--job", job, "--engines", maker.name])
        .arg("--dir")
        .arg(&args.dir)
        .args(["--items", &sizes.items.to_string(), "--value", &sizes.value_bytes.to_string()])
        .args(["--seconds", &sizes.seconds.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("this program can be started");
    let line = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success() || job == "crash", "{job} {} failed", maker.name);
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{job} {} said {line:?}", maker.name))
}

fn run_job(job: &str, args: &Args) {
    let (maker, sizes) = (args.engines[0], args.sizes);
    let dir = |part: &str| args.dir_of(maker, part);
    let told = match job {
        "load" => jobs::load(maker, &dir("store"), sizes),
        "gets" => jobs::gets(maker, &dir("store"), sizes),
        "puts" => jobs::puts(maker, &dir("put"), sizes),
        "sync" => jobs::sync(maker, &dir("synced"), sizes),
        "crash" => jobs::crash(maker, &dir("killed"), sizes),
        "open" => jobs::open(maker, &dir("killed"), sizes),
        other => panic!("no job {other}"),
    };
    println!("{told}");
}

/// Returns the device's limit: random reads of 4 KiB per second by 16 threads.
fn fio(args: &Args) -> f64 {
    eprintln!("fio");
    std::fs::create_dir_all(&args.dir).expect("the folder of --dir can be made");
    let file = args.dir.join("fio");
    let told = Command::new("fio")
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--runtime={}", args.sizes.seconds.ceil()))
        .args(["--name=most", "--size=1G", "--rw=randread", "--bs=4k", "--direct=1", "--thread"])
        .args(["--ioengine=psync", "--numjobs=16", "--time_based", "--group_reporting"])
        .arg("--output-format=json")
        .output()
        .expect("fio is installed");
    assert!(told.status.success(), "fio: {}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).expect("fio speaks JSON");
    told["jobs"][0]["read"]["iops"].as_f64().expect("fio tells its reads")
}
