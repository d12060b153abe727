//! The parts that measure servers: `guira store`, and the other engines behind the same front.
//!
//! Each server is a process of its own. `guira bench` asks it; the kernel and `stats store` tell what it used.
//!
//! Missing keys are one byte longer than those that are there. In order they lie among the keys of the first tenth of all
//! items, which matters to engines that sort by key.

use crate::engines::Maker;
use crate::jobs::Sizes;
use crate::measure::{Cold, files};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// What is measured, and how.
pub struct Wire<'a> {
    pub engines: &'a [&'static Maker],
    pub sizes: Sizes,
    pub rounds: usize,
    /// The program `guira`.
    pub guira: &'a Path,
    /// The folder of an engine's files for a part.
    pub dir_of: &'a dyn Fn(&Maker, &str) -> PathBuf,
    /// The folder of all files.
    pub dir: &'a Path,
}

/// Takes an engine's name and its figures of a round.
type Note<'n> = &'n mut dyn FnMut(&str, Map<String, Value>);

impl Wire<'_> {
    /// Loads all items through each server, and then half as many again: random ones, so that no engine has all of them in
    /// the order of the loading.
    pub fn load(&self, note: Note<'_>) {
        for maker in self.engines {
            let dir = (self.dir_of)(maker, "served");
            remove(&dir);
            eprintln!("loading {}", maker.name);
            let server = self.start(maker, &dir, "os");
            let told = self.bench(&server, &["--load", "--ops", "1", "--workload", "c"]);
            assert_eq!(told["counts"]["hits"], 1, "the first get after loading finds its item");
            let ops = (self.sizes.items / 2).max(1).to_string();
            let mut flags = vec!["--workload", "set", "--distribution", "uniform", "--ops", &ops];
            flags.extend(["--connections", "4", "--pipeline", "50", "--seconds", "600"]);
            let told = self.bench(&server, &flags);
            assert_eq!(told["counts"]["refused"], 0, "each set is stored");
            server.rest();
            // Ending merges what an engine still has in memory; guira's goes on when it is opened again.
            server.stop();
            let server = self.start(maker, &dir, "os");
            server.rest();
            let bytes: u64 =
                files(&dir).iter().filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum();
            let (items, stats) = (self.sizes.items as f64, server.stats("store"));
            let index = INDEX.iter().map(|name| stats(name)).sum::<f64>();
            let row = json!({
                "wire_index_bytes_per_key": index / items,
                "wire_log_bytes_per_key": stats("log_memory_bytes") / items,
                "wire_disk_bytes_per_key": bytes as f64 / items,
            });
            note(maker.name, object(row));
            server.stop();
        }
    }

    /// Gets by 16 clients with one request each: keys that are there, and keys that aren't.
    pub fn gets(&self, note: Note<'_>) {
        let start = |maker: &&'static Maker| {
            let dir = (self.dir_of)(maker, "served");
            let server = self.start(maker, &dir, "os");
            server.rest();
            (*maker, server, dir)
        };
        let servers: Vec<_> = self.engines.iter().map(start).collect();
        for round in 0..self.rounds {
            for turn in 0..servers.len() {
                let (maker, server, dir) = &servers[(turn + round) % servers.len()];
                eprintln!("round {round}: gets {}", maker.name);
                let cold = maker.is_buffered.then(|| Cold::keep(dir));
                let mut row = self.get_for(server, "hit");
                row.extend(self.get_for(server, "miss"));
                drop(cold);
                note(maker.name, row);
            }
        }
        servers.into_iter().for_each(|(_, server, _)| server.stop());
    }

    fn get_for(&self, server: &Server, kind: &str) -> Map<String, Value> {
        let seconds = self.sizes.seconds.to_string();
        let mut flags = vec!["--workload", "c", "--distribution", "uniform", "--seconds", &seconds];
        flags.extend(["--connections", "16", "--pipeline", "1"]);
        if kind == "miss" {
            flags.extend(["--key-bytes", "21"]);
        }
        let (stats, bytes) = (server.stats("store"), server.read_bytes());
        let told = self.bench(server, &flags);
        let (stats_after, bytes_after) = (server.stats("store"), server.read_bytes());
        let [found, missed] = ["hits", "misses"]
            .map(|name| number(&told["counts"][name]) + number(&told["warmup"][name]));
        let (right, wrong) = if kind == "hit" { (found, missed) } else { (missed, found) };
        assert!(right > 0.0 && wrong == 0.0, "{kind}: {found} found and {missed} not");
        let counter = if kind == "hit" { "reads_found" } else { "reads_missed" };
        let reads = stats_after(counter) - stats(counter);
        let row = json!({
            "per_s": told["rate"],
            "cpu_us": told["cpu"]["total_us"],
            "p99_us": told["read_latency"]["p99_us"],
            "pages": (bytes_after - bytes) / 4096.0 / right,
            "reads": (reads > 0.0).then(|| reads / right),
        });
        object(row).into_iter().map(|(name, it)| (format!("wire_{kind}_{name}"), it)).collect()
    }

    /// Synced sets and increments by 64 clients, and the device's syncs, each into new stores.
    pub fn syncs(&self, note: Note<'_>) {
        let ours = self.engines.to_vec();
        for round in 0..self.rounds {
            for (name, is_appended) in
                [("fdatasync, in place", false), ("fdatasync, appended", true)]
            {
                let rate = syncs(self.dir, self.sizes.seconds, is_appended);
                let row = json!({ "wire_set_per_s": rate, "wire_incr_per_s": rate });
                note(name, object(row));
            }
            for turn in 0..ours.len() {
                let maker = ours[(turn + round) % ours.len()];
                eprintln!("round {round}: syncs {}", maker.name);
                let dir = (self.dir_of)(maker, "always");
                remove(&dir);
                let server = self.start(maker, &dir, "always");
                let seconds = self.sizes.seconds.to_string();
                let mut flags = vec!["--workload", "set", "--connections", "64", "--pipeline", "1"];
                flags.extend(["--distribution", "uniform", "--seconds", &seconds]);
                let told = self.bench(&server, &flags);
                assert_eq!(told["counts"]["refused"], 0, "each set is stored");
                let counted = self.count_for(&server);
                let row = json!({
                    "wire_set_per_s": told["rate"],
                    "wire_set_cpu_us": told["cpu"]["total_us"],
                    "wire_set_p99_us": told["write_latency"]["p99_us"],
                    "wire_incr_per_s": counted,
                });
                note(maker.name, object(row));
                server.kill();
                remove(&dir);
            }
        }
    }

    /// Increments of one key per second, by 64 clients. Each answer is one increment, so the number tells whether any was
    /// lost.
    fn count_for(&self, server: &Server) -> f64 {
        let mut first = Client::to(server.port);
        assert_eq!(first.ask("set counter 0 0 1\r\n0"), "STORED");
        let (done, begun) = (AtomicU64::new(0), Instant::now());
        let ends = begun + Duration::from_secs_f64(self.sizes.seconds);
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut client = Client::to(server.port);
                    while Instant::now() < ends {
                        let told = client.ask("incr counter 1");
                        assert!(told.parse::<u64>().is_ok(), "incr said {told}");
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let (seconds, done) = (begun.elapsed().as_secs_f64(), done.into_inner());
        assert_eq!(first.ask("incr counter 0"), done.to_string(), "each increment counts once");
        done as f64 / seconds
    }

    fn start(&self, maker: &Maker, dir: &Path, durability: &str) -> Server {
        std::fs::create_dir_all(self.dir).expect("the folder of --dir can be made");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = free.expect("a port is free").port();
        let ours: Option<&[&str]> = match maker.name {
            "guira" => Some(&[]),
            "guira-ef" => Some(&["--index", "ef"]),
            "guira-filter" => Some(&["--last-level-filter", "12"]),
            _ => None,
        };
        let mut command = match ours {
            Some(_) => Command::new(self.guira),
            None => Command::new(std::env::current_exe().expect("this program has a path")),
        };
        match ours {
            Some(flags) => command.arg("store").args(flags),
            None => command.args(["serve", maker.name]),
        };
        let child = command
            .args(["-p", &port.to_string(), "--durability", durability, "-d"])
            .arg(dir)
            .stderr(Stdio::inherit())
            .stdout(Stdio::null())
            .spawn();
        let server = Server {
            child: child.expect("the server can be started"),
            port,
            is_ours: ours.is_some(),
        };
        let ends = Instant::now() + Duration::from_secs(300);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < ends, "{} doesn't listen", maker.name);
            sleep(Duration::from_millis(50));
        }
        server
    }

    fn bench(&self, server: &Server, flags: &[&str]) -> Value {
        let Sizes { items, value_bytes, .. } = self.sizes;
        let is_sized = flags.contains(&"--key-bytes");
        let told = Command::new(self.guira)
            .args(["bench", "--json", "--server", &format!("127.0.0.1:{}", server.port)])
            .args(["--server-pid", &server.child.id().to_string()])
            .args(["--keys", &items.to_string(), "--value-bytes", &value_bytes.to_string()])
            .args(if is_sized { &[][..] } else { &["--key-bytes", "20"] })
            .args(flags)
            .stderr(Stdio::inherit())
            .output()
            .expect("guira bench can be started");
        assert!(told.status.success(), "guira bench {flags:?} failed");
        serde_json::from_slice(&told.stdout).expect("guira bench speaks JSON")
    }
}

/// A server that runs.
struct Server {
    child: Child,
    port: u16,
    /// Whether it is `guira store`.
    is_ours: bool,
}

impl Server {
    /// The figures of `stats GROUP` by name; 0 for those that aren't there.
    fn stats(&self, group: &str) -> impl Fn(&str) -> f64 + use<> {
        let mut client = Client::to(self.port);
        let mut line = client.ask(&format!("stats {group}"));
        let mut all = Map::new();
        while let Some((name, figure)) =
            line.strip_prefix("STAT ").and_then(|it| it.split_once(' '))
        {
            all.insert(name.to_owned(), json!(figure.trim().parse::<f64>().ok()));
            line = client.line();
        }
        assert_eq!(line, "END", "the end of stats {group}");
        move |name| all.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Bytes that the process has read from the device.
    fn read_bytes(&self) -> f64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id()));
        let io = io.expect("a kernel that counts I/O");
        let line = io.lines().find_map(|line| line.strip_prefix("read_bytes:")).expect("a field");
        line.trim().parse().expect("a number")
    }

    /// The process's CPU time, in the kernel's ticks.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("the server runs");
        let fields = stat.rsplit(')').next().expect("a name in brackets");
        fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().expect("ticks")).sum()
    }

    /// Waits until the background has nothing to do.
    fn rest(&self) {
        let (mut before, mut quiet) = (self.ticks(), 0);
        while quiet < 4 {
            sleep(Duration::from_millis(500));
            let now = self.ticks();
            quiet = if now <= before + 1 { quiet + 1 } else { 0 };
            before = now;
        }
    }

    /// Ends the server, which makes all durable first. Only `guira store` must end well: RocksDB's threads may still run when
    /// the process takes its memory down, which can end in a fault.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let ended = self.child.wait().expect("it is our child");
        assert!(ended.success() || !self.is_ours, "the server ended with {ended}");
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, request: &str) -> String {
        let request = format!("{request}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("the server reads");
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server answers");
        assert!(line.ends_with("\r\n"), "the server closed the connection");
        line.trim_end().to_owned()
    }
}

/// Syncs of the device per second by one thread, each after a block of 4 KiB: at the end of a file, which grows, or in a
/// file whose blocks were all written before.
fn syncs(dir: &Path, seconds: f64, is_appended: bool) -> f64 {
    let path = dir.join("syncs");
    let file = std::fs::File::create(&path).expect("a file can be made");
    let block = [7; 4096];
    if !is_appended {
        for n in 0..BLOCKS {
            file.write_all_at(&block, n * 4096).expect("there is room");
        }
        file.sync_all().expect("the device syncs");
    }
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed().as_secs_f64() < seconds {
        let n = if is_appended { done } else { done % BLOCKS };
        file.write_all_at(&block, n * 4096).expect("there is room");
        file.sync_data().expect("the device syncs");
        done += 1;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    std::fs::remove_file(&path).expect("the file can be removed");
    rate
}

fn remove(dir: &Path) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).expect("the folder of a former run can be removed");
    }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { unreachable!("an object") };
    map
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// The lines of `stats store` that are indexes and filters of sorted files.
const INDEX: [&str; 4] =
    ["run_index_bytes", "run_filter_bytes", "partition_index_bytes", "partition_filter_bytes"];
/// Blocks of the file in which syncs are measured: 16 MiB, as long as a log of guira.
const BLOCKS: u64 = 4096;
