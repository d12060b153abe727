//! What a calm client waits beside a crowd that asks for all it can get, and how much memory the crowd makes a program take:
//! `cargo bench -p guira-tests --bench crowds -- route serve` (`memcached` and `store` too; `--attack gets-20`,
//! `--memory 64`, `--seconds 2`, `--nice 19`)
//!
//! Each attack meets a fresh program as a user starts it; `--memory N` gives the server `-m N`. The crowd is one thread that
//! is bound to the last processor, since real crowds are other machines'; `--nice` makes it give way as well. The calm client
//! sets and gets 100 bytes each two milliseconds, at the highest priority that is permitted. Another calm client asks
//! a program of the same kind that nobody attacks: what it waits is what the kernel and the machine cost.
//!
//! `GUIRA_BIN` names the binary, else this profile's is built.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod attacks;
mod crowd;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use attacks::{ATTACKS, Attack};
use guira_tests::server::{Program, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// What the command line asks for.
struct Asked {
    programs: Vec<String>,
    attacks: Vec<String>,
    memory: Option<String>,
    length: Duration,
    nice: i32,
}

fn main() {
    let asked = asked();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("within the maximum");
    for program in &asked.programs {
        println!(
            "{program}: milliseconds of a calm client\n{:18} {:>6} {:>6} {:>7} {:>6} {:>7} {:>9} {:>10}",
            "attack", "p50", "p99", "longest", "wrong", "peak MB", "idle p99", "requests/s"
        );
        for attack in ATTACKS {
            if asked.attacks.is_empty() || asked.attacks.iter().any(|it| it == attack.name) {
                measure(program, attack, &asked);
            }
        }
    }
}

fn asked() -> Asked {
    let mut asked = Asked {
        programs: Vec::new(),
        attacks: Vec::new(),
        memory: None,
        length: Duration::from_secs(2),
        nice: 0,
    };
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--attack" => asked.attacks.push(value()),
            "--memory" => asked.memory = Some(value()),
            "--seconds" => asked.length = Duration::from_secs(value().parse().expect("seconds")),
            "--nice" => asked.nice = value().parse().expect("a niceness"),
            "route" | "serve" | "memcached" | "store" => asked.programs.push(word),
            _ => panic!(
                "{word}: route, serve, memcached, store, --attack, --memory, --seconds or --nice"
            ),
        }
    }
    if asked.programs.is_empty() {
        asked.programs = ["route", "serve"].map(str::to_owned).into();
    }
    for name in &asked.attacks {
        assert!(ATTACKS.iter().any(|it| it.name == name), "{name} is no attack");
    }
    asked
}

/// A program, and the server behind it if it is a router.
struct Target {
    program: Server,
    _behind: Option<Server>,
}

impl Target {
    fn start(program: &str, memory: Option<&str>) -> Self {
        let flags: Vec<&str> = memory.map(|it| ["-m", it]).into_iter().flatten().collect();
        match program {
            "serve" => Self { program: Server::start_tcp(Program::Guira, &flags), _behind: None },
            "memcached" => {
                Self { program: Server::start_tcp(Program::Memcached, &flags), _behind: None }
            }
            "store" => Self { program: Server::start_tcp(Program::Store, &[]), _behind: None },
            _ => {
                let behind = Server::start_tcp(Program::Guira, &flags);
                let servers = format!(r#"{{"servers": ["127.0.0.1:{}"]}}"#, behind.port());
                let config = format!(r#"{{"pools": {{"A": {servers}}}, "route": "PoolRoute|A"}}"#);
                let program = Server::start_router(&["--config", &config]);
                Self { program, _behind: Some(behind) }
            }
        }
    }
}

fn measure(program: &str, attack: &Attack, asked: &Asked) {
    let target = Target::start(program, asked.memory.as_deref());
    let idle = Target::start(program, asked.memory.as_deref());
    let to = target.program.port();
    crowd::prepare(to, attack.needs);
    let lines = if attack.waits { crowd::lines_of_answer(to, &attack.request(0)) } else { 0 };
    let ends = AtomicBool::new(false);
    let (calm, beside, requests) = thread::scope(|scope| {
        let ends = &ends;
        let crowd = scope.spawn(move || crowd::run(to, attack, lines, asked.nice, ends));
        // What a crowd does at first, connecting, isn't what it does for long.
        thread::sleep(Duration::from_millis(300));
        let calm = scope.spawn(move || Waits::of(to, asked.length));
        let beside = idle.program.port();
        let beside = scope.spawn(move || Waits::of(beside, asked.length));
        let [calm, beside] = [calm, beside].map(|it| it.join().expect("it counts what is wrong"));
        ends.store(true, Relaxed);
        (calm, beside, crowd.join().expect("crowds end"))
    });
    println!(
        "{:18} {:>6.2} {:>6.2} {:>7.2} {:>6} {:>7} {:>9.2} {:>10.0}",
        attack.name,
        calm.part(50),
        calm.part(99),
        calm.part(100),
        calm.wrong,
        target.program.peak_bytes() >> 20,
        beside.part(99),
        f64::from(requests) / (asked.length.as_secs_f64() + 0.3)
    );
}

/// How long a calm client's requests took, in order, in milliseconds; and how many had a wrong answer or none.
struct Waits {
    sorted: Vec<f64>,
    wrong: u32,
}

impl Waits {
    fn of(port: u16, length: Duration) -> Self {
        // Permitted to few, and of little effect where nothing else waits.
        setpriority_process(Some(rustix::thread::gettid()), -10).ok();
        let begun = Instant::now();
        let mut waits = Self { sorted: Vec::new(), wrong: 0 };
        let mut client = connect(port);
        let set = format!("set calm 0 0 100\r\n{}\r\n", "v".repeat(100));
        let found = format!("VALUE calm 0 100\r\n{}\r\nEND\r\n", "v".repeat(100));
        while begun.elapsed() < length {
            for (request, answer) in [(set.as_str(), "STORED\r\n"), ("get calm\r\n", &found)] {
                let asked = Instant::now();
                if ask(&mut client, request, answer).is_none() {
                    waits.wrong += 1;
                    client = connect(port);
                }
                waits.sorted.push(asked.elapsed().as_secs_f64() * 1e3);
            }
            thread::sleep(Duration::from_millis(2));
        }
        waits.sorted.sort_by(f64::total_cmp);
        waits
    }

    fn part(&self, percent: usize) -> f64 {
        self.sorted[(self.sorted.len() - 1) * percent / 100]
    }
}

fn connect(port: u16) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    BufReader::new(stream)
}

/// Asks, and returns whether the answer is `answer`.
fn ask(client: &mut BufReader<TcpStream>, request: &str, answer: &str) -> Option<()> {
    client.get_mut().write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    client.read_line(&mut line).ok()?;
    let rest = answer.strip_prefix(&line).filter(|_| !line.is_empty())?;
    let mut found = vec![0; rest.len()];
    client.read_exact(&mut found).ok()?;
    (found == rest.as_bytes()).then_some(())
}
