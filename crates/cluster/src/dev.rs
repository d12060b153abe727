//! `guira cluster dev`: etcd, nodes and a router on this machine, for learning and for tests of applications.
//!
//! ```text
//! DIR/etcd/     etcd's data           PORT      the router, for clients
//! DIR/n1/ …     a node's items        PORT + 1  etcd; PORT + 2 for its own members
//! DIR/router/   what the router owes  PORT + 10 + N  node N, for clients; PORT + 40 + N for other nodes
//! DIR/*.log     what each one says
//! ```
//! Each part is a process of its own, started as a user would start it: any of them can be killed, and started again with
//! the command that is shown.
//!
//! # Invariants
//! 1. The directory outlives the processes. The next start with it goes on with the same cluster and the same items.
//! 2. While a part starts or a cluster recovers, the command waits, and tells for what. It gives up only if a part ends.
//! 3. All parts that still run end with the command: the router first, etcd last, so that no node loses its etcd before it
//!    has left the register.
//!
//! # Weaknesses
//! A command that is killed by SIGKILL leaves its parts running. The next start finds their ports taken, and says so.

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use guira_etcd::EtcdFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ask::Keyless;
use crate::draft::first_view;
use crate::fault::Fault;
use crate::parts::{LOOK, Parts};
use crate::register::Register;
use crate::status::Status;

/// What a cluster for learning has.
#[derive(Debug)]
pub(crate) struct Dev {
    pub(crate) nodes: u16,
    /// Copies of each item: at most one for each node.
    pub(crate) replicas: u32,
    pub(crate) directory: PathBuf,
    pub(crate) port: u16,
}

impl Dev {
    /// Starts all parts, says how to use them, and waits for a signal that ends them.
    pub(crate) fn run(&self) -> Result<(), String> {
        let asked = |error: io::Error| format!("signals can't be heard: {error}");
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(asked)?;
        let is_asked_to_end = move || signals.pending().next().is_some();
        self.check_ports()?;
        let is_new = !self.directory.join("etcd").exists();
        fs::create_dir_all(&self.directory)
            .map_err(|error| format!("{}: {error}", self.directory.display()))?;
        // They end when this goes, whatever went wrong.
        let mut parts = Parts::new(&self.directory);
        self.fill(&mut parts, is_new, is_asked_to_end)
    }

    fn fill(
        &self,
        parts: &mut Parts,
        is_new: bool,
        mut is_asked_to_end: impl FnMut() -> bool,
    ) -> Result<(), String> {
        parts.start_etcd([self.port + 1, self.port + 2])?;
        let register = Register::open(&self.place(), EtcdFlags::default().access(false)?)
            .map_err(|fault| fault.to_string())?;
        let until_made = || Ok((!self.is_made(&register)?).then(|| NO_ANSWER.to_owned()));
        let place = self.place();
        let tell_lack = |what: &str| tell_lack(what, &place);
        if !parts.wait(&mut is_asked_to_end, until_made, tell_lack)? {
            return Ok(());
        }
        for number in 1..=self.nodes {
            parts.start(&format!("n{number}"), self.node(number)?)?;
        }
        parts.start("router", self.router()?)?;
        say(&format!("{self}{}", if is_new { FILLING } else { STARTING }));
        if !parts.wait(&mut is_asked_to_end, || self.lacks(&register), tell_lack)? {
            return Ok(());
        }
        say(&self.hints(parts));
        // Whatever dies from now on was killed, perhaps to see what happens.
        while !is_asked_to_end() {
            parts.tell_ended(|name, status, words| {
                say(&format!("{name} has ended ({status}). To start it again:\n  {words}\n"));
            });
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Makes the cluster in etcd, unless it exists. Returns `false` while etcd doesn't answer.
    fn is_made(&self, register: &Register) -> Result<bool, String> {
        let view = first_view(NAME, self.replicas, self.replicas.min(2))?;
        match register.create(&view) {
            Ok(()) | Err(Fault::Exists(_)) => Ok(true),
            Err(Fault::Etcd(_)) => Ok(false),
            Err(fault) => Err(fault.to_string()),
        }
    }

    /// What is missing until the cluster is whole and the router serves it.
    fn lacks(&self, register: &Register) -> Result<Option<String>, String> {
        let router = || (!self.takes_changes()).then(|| "the router doesn't store yet".to_owned());
        Ok(lacks(register, usize::from(self.nodes))?.or_else(router))
    }

    /// Whether the router has changes made in many slots, one in each chain perhaps. They leave no item.
    fn takes_changes(&self) -> bool {
        let ask = || -> io::Result<bool> {
            let mut router = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            router.set_read_timeout(Some(PROBE_MAX))?;
            let probes = (0..PROBES).map(|number| format!("set guira-dev-{number} 0 -1 0\r\n\r\n"));
            router.write_all(probes.collect::<String>().as_bytes())?;
            let mut answers = vec![0; b"STORED\r\n".len() * PROBES];
            router.read_exact(&mut answers)?;
            Ok(answers.chunks(b"STORED\r\n".len()).all(|answer| answer == b"STORED\r\n"))
        };
        ask().unwrap_or(false)
    }

    fn place(&self) -> String {
        format!("etcd:127.0.0.1:{}/{NAME}", self.port + 1)
    }

    fn node(&self, number: u16) -> Result<Command, String> {
        let name = format!("n{number}");
        let mut command = guira()?;
        command
            .args(["store", "--cluster", &self.place(), "--name", &name])
            .args(["--peers", &format!("127.0.0.1:{}", self.port + 40 + number)])
            .args(["-p", &(self.port + 10 + number).to_string(), "-d"])
            .arg(self.directory.join(&name));
        Ok(command)
    }

    fn router(&self) -> Result<Command, String> {
        let place = format!("127.0.0.1:{}/{NAME}", self.port + 1);
        let route = format!(r#"{{"route": {{"type": "ClusterRoute", "etcd": "{place}"}}}}"#);
        let mut command = guira()?;
        let port = self.port.to_string();
        command.args(["route", "-p", &port, "--listen-addresses", "127.0.0.1"]);
        command.args(["--config-str", &route]);
        // Deletes that it owes, and what it remembers, are this cluster's, not the machine's.
        for (flag, name) in [("--async-dir", "spool"), ("--config-dump-root", "configs")] {
            command.arg(flag).arg(self.directory.join("router").join(name));
        }
        Ok(command)
    }

    /// All ports, each with what uses it.
    fn ports(&self) -> Vec<(u16, String)> {
        let mut ports = vec![
            (self.port, "the router".to_owned()),
            (self.port + 1, "etcd".to_owned()),
            (self.port + 2, "etcd".to_owned()),
        ];
        for number in 1..=self.nodes {
            ports.push((self.port + 10 + number, format!("n{number}")));
            ports.push((self.port + 40 + number, format!("n{number}")));
        }
        ports
    }

    fn check_ports(&self) -> Result<(), String> {
        for (port, name) in self.ports() {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                format!(
                    "port {port}, for {name}, can't be used ({error}). Does another cluster run? Choose other ports with -p"
                )
            })?;
        }
        Ok(())
    }

    /// What to type once all is there.
    fn hints(&self, parts: &Parts) -> String {
        let first = parts.pid("n1").unwrap_or(0);
        let (port, place) = (self.port, self.place());
        format!(
            "
Each item has its {copies} copies. In another terminal:
  guira set -s 127.0.0.1:{port} hello world     through the router; any memcached client may ask it
  guira get -s 127.0.0.1:{port} hello
  guira cluster status {place}
  kill -9 {first}                                 n1 dies, and nothing is lost
Ctrl-C ends all. The same command goes on with the same items.
",
            copies = self.replicas,
        )
    }
}

/// The table of who listens where.
impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "A cluster of {} nodes in {}", self.nodes, self.directory.display())?;
        writeln!(f, "  router  127.0.0.1:{}", self.port)?;
        for number in 1..=self.nodes {
            writeln!(f, "  n{number:<6} 127.0.0.1:{}", self.port + 10 + number)?;
        }
        writeln!(f, "  etcd    127.0.0.1:{}", self.port + 1)?;
        writeln!(f, "  logs    {}", self.directory.join("*.log").display())
    }
}

/// What is missing until this many nodes are members, and each slot has as many copies as it should.
///
/// # Errors
/// A sentence: the register has no cluster, or another's.
pub fn lacks(register: &Register, nodes: usize) -> Result<Option<String>, String> {
    let snapshot = match register.snapshot() {
        Ok(snapshot) => snapshot,
        Err(Fault::Etcd(_)) => return Ok(Some(NO_ANSWER.to_owned())),
        Err(fault) => return Err(fault.to_string()),
    };
    Ok(Status::of(&snapshot, &Keyless::default(), None).lacks(nodes))
}

fn guira() -> Result<Command, String> {
    let program = std::env::current_exe();
    Ok(Command::new(program.map_err(|error| format!("this program's path: {error}"))?))
}

fn tell_lack(what: &str, place: &str) {
    say(&format!(
        "It still waits: {what}. For what, and for how long: guira cluster plan {place}. Ctrl-C ends it.\n"
    ));
}

/// Prints at once. Nobody may be reading.
fn say(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

const NAME: &str = "dev";
/// The most nodes: their ports and those for other nodes have 30 numbers each.
pub(crate) const NODES_MAX: u16 = 29;
/// The highest port that leaves room for all others.
pub(crate) const PORT_MAX: u16 = u16::MAX - 70;
const PROBES: usize = 64;
const PROBE_MAX: Duration = Duration::from_secs(15);
const NO_ANSWER: &str = "etcd doesn't answer yet";
const FILLING: &str = "The first node has all slots at first; the others are filled …\n";
const STARTING: &str = "It goes on with the items that it had; the nodes promise each other …\n";
