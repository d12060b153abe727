//! A server under test: the real program, started, waited for, ended when dropped.
//!
//! Guira's binary is the one of this workspace and this profile, built on first use; `GUIRA_BIN` names
//! another. memcached comes from `PATH`; `MEMCACHED_BIN` names another build.
//!
//! # Invariants
//! 1. `start` returns once the server accepts; a server that ends before is an `Err` with its words.
//! 2. Each server has a directory of its own, with its socket and its standard error, gone with it.

mod paths;
mod ports;
mod process;
mod waiting;

pub use paths::{OwnDirectory, guira, memcached, own_directory, target_directory, workspace};
pub use ports::{free_port, free_ports};
pub use process::{Running, peak_bytes_of, peak_own_bytes_of, send_signal};
pub use waiting::{eventually, within, within_seldom};

use crate::client::Client;
use process::is_stopped;
use rustix::process::{Signal, geteuid};
use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// Which program to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `guira serve` of this workspace.
    Guira,
    /// memcached, the reference.
    Memcached,
    /// `guira route` of this workspace: to be started by [`Server::start_at`], its flags say all.
    Router,
    /// `guira store` of this workspace; without `-d`, its store lies in its own directory.
    Store,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// A unix socket's path.
    Unix(PathBuf),
    /// A port of 127.0.0.1.
    Tcp(u16),
}

/// A server that didn't come up.
#[derive(Debug)]
pub struct Refused {
    /// How it ended; `None` if it neither listened nor ended in time.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard error.
    pub said: String,
}

/// A running server; dropped, it is killed and its directory removed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: Address,
    dir: PathBuf,
}

impl Server {
    /// Starts `program` on a unix socket of its own.
    ///
    /// # Panics
    /// If it doesn't come up; the message holds what it said.
    #[must_use]
    pub fn start(program: Program, flags: &[&str]) -> Self {
        let dir = own_directory();
        let socket = dir.join("socket");
        Self::begin(program, flags, Address::Unix(socket), dir)
            .unwrap_or_else(|refused| panic!("{program:?} {flags:?} did not start: {refused:?}"))
    }

    /// As `start`, with more in the server's environment.
    ///
    /// # Panics
    /// If it doesn't come up; the message holds what it said.
    #[must_use]
    pub fn start_with(program: Program, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let dir = own_directory();
        let socket = dir.join("socket");
        let mut command = command(program);
        command.arg("-s").arg(&socket).args(flags).envs(environment.iter().copied());
        Self::spawn(command, Address::Unix(socket), dir)
            .unwrap_or_else(|refused| panic!("{program:?} {flags:?} did not start: {refused:?}"))
    }

    /// As `try_start`, of Guira, by a command that runs what its arguments name, in another namespace for instance.
    ///
    /// # Errors
    /// What it said, if it ended before it listened.
    pub fn start_through(mut command: Command, flags: &[&str]) -> Result<Self, Refused> {
        command.arg(guira());
        let is_store = flags.first() == Some(&"store");
        command.args(if is_store { &[][..] } else { &["serve", "-u", "root"] }).args(flags);
        let dir = own_directory();
        let socket = dir.join("socket");
        command.arg("-s").arg(&socket);
        Self::spawn(command, Address::Unix(socket), dir)
    }

    /// Starts `program` on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If it doesn't come up in three tries (another program may take the free port meanwhile).
    #[must_use]
    pub fn start_tcp(program: Program, flags: &[&str]) -> Self {
        let mut last = None;
        for _ in 0..3 {
            match Self::begin(program, flags, Address::Tcp(free_port()), own_directory()) {
                Ok(server) => return server,
                Err(refused) => last = Some(refused),
            }
        }
        panic!("{program:?} {flags:?} did not start: {last:?}");
    }

    /// Starts `program` on a unix socket, for tests of what it refuses.
    ///
    /// # Errors
    /// What it said, if it ended before it listened.
    pub fn try_start(program: Program, flags: &[&str]) -> Result<Self, Refused> {
        let dir = own_directory();
        let socket = dir.join("socket");
        Self::begin(program, flags, Address::Unix(socket), dir)
    }

    /// Like `start`, at an address of the test's choice: the flags say all.
    ///
    /// # Errors
    /// What it said, if it ended before it listened.
    pub fn start_at(program: Program, flags: &[&str], address: Address) -> Result<Self, Refused> {
        let dir = own_directory();
        let mut command = command(program);
        command.args(flags);
        Self::spawn(command, address, dir)
    }

    /// Like `start_at`, by a whole command.
    ///
    /// # Errors
    /// What it said, if it ended before it listened.
    pub fn start_by(command: Command, address: Address) -> Result<Self, Refused> {
        Self::spawn(command, address, own_directory())
    }

    /// A router on a free port of 127.0.0.1, and with these flags.
    ///
    /// # Panics
    /// If it doesn't come up in three tries, as in [`start_tcp`](Self::start_tcp).
    #[must_use]
    pub fn start_router(flags: &[&str]) -> Self {
        let mut last = None;
        for _ in 0..3 {
            let port = free_port();
            let text = port.to_string();
            let all = [&["-p", &text, "--listen-addresses", "127.0.0.1"], flags].concat();
            match Self::start_at(Program::Router, &all, Address::Tcp(port)) {
                Ok(router) => return router,
                Err(refused) => last = Some(refused),
            }
        }
        panic!("the router with {flags:?} did not start: {last:?}");
    }

    /// As [`start_router`](Self::start_router), configured by [`one_pool`].
    ///
    /// # Panics
    /// If it doesn't come up in three tries.
    #[must_use]
    pub fn start_router_to(ports: &[u16], flags: &[&str]) -> Self {
        Self::start_router(&[&["--config", &one_pool(ports)], flags].concat())
    }

    /// A server, and a router in front of it as a user starts it.
    ///
    /// # Panics
    /// If one doesn't come up in three tries.
    #[must_use]
    pub fn start_pair() -> (Self, Self) {
        let server = Self::start_tcp(Program::Guira, &["-m", "64"]);
        let router = Self::start_router_to(&[server.port()], &[]);
        (server, router)
    }

    /// A new connection.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its port.
    ///
    /// # Panics
    /// If it listens on a unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        let Address::Tcp(port) = self.address else { panic!("it listens on a unix socket") };
        port
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its directory, free for the test's files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes of its memory that are resident now.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid())).expect("it runs");
        let pages: u64 =
            statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("statm's second number");
        pages * 4096
    }

    /// Of those, the ones that no file backs: what the program's code is no part of.
    pub fn resident_bytes_beside_files(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kilobytes.expect("the kernel tells it") << 10
    }

    /// The most bytes of its memory that were ever resident.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        peak_bytes_of(self.pid()).expect("it runs")
    }

    /// Bytes that the system holds for its clients over TCP: written, and not taken by them.
    ///
    /// # Panics
    /// If the system doesn't list its connections, or the server has no port.
    #[must_use]
    pub fn system_unsent_bytes(&self) -> u64 {
        let port = format!(":{:04X}", self.port());
        let tables = ["tcp", "tcp6"].map(|it| fs::read_to_string(format!("/proc/net/{it}")));
        let lines = tables.iter().flatten().flat_map(|table| table.lines());
        let queues = lines.filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let is_clients = words.get(1)?.ends_with(&port);
            let (sent, _) = words.get(4)?.split_once(':')?;
            is_clients.then(|| u64::from_str_radix(sent, 16).expect("a number"))
        });
        queues.sum()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
        // A thread that runs when its process is stopped goes on for a moment.
        while signal == Signal::STOP && !is_stopped(self.pid()) {
            thread::yield_now();
        }
    }

    /// Waits for it to end by itself, `seconds` at most.
    pub fn ended_within(&mut self, seconds: u32) -> Option<ExitStatus> {
        for _ in 0..seconds * 100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.join("stderr")).unwrap_or_default()
    }

    fn begin(
        program: Program,
        flags: &[&str],
        address: Address,
        dir: PathBuf,
    ) -> Result<Self, Refused> {
        let mut command = command(program);
        match &address {
            Address::Unix(path) => command.arg("-s").arg(path),
            Address::Tcp(port) => command.args(["-l", "127.0.0.1", "-p", &port.to_string()]),
        };
        command.args(flags);
        if program == Program::Store && !flags.contains(&"-d") {
            command.arg("-d").arg(dir.join("store"));
        }
        let server = Self::spawn(command, address, dir)?;
        if program == Program::Guira { server.once_serving() } else { Ok(server) }
    }

    /// Waits until the server deals connections. It listens before it opens its files, so one that refuses to start may
    /// have accepted a connection.
    fn once_serving(mut self) -> Result<Self, Refused> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_listener = |it: fs::DirEntry| {
            fs::read_to_string(it.path().join("comm")).is_ok_and(|it| it == "listener\n")
        };
        for _ in 0..12_000 {
            let mut threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            if threads.any(is_listener) {
                return Ok(self);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Refused { status: Some(status), said: self.said() });
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(Refused { status: None, said: self.said() })
    }

    fn spawn(mut command: Command, address: Address, dir: PathBuf) -> Result<Self, Refused> {
        let stderr = File::create(dir.join("stderr")).expect("a file in the server's directory");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("cannot run {command:?} ({error}); `make test` installs what the tests need")
        });
        let mut server = Self { child, address, dir };
        // A minute at most.
        for _ in 0..12_000 {
            if accepts(&server.address) {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(Refused { status: Some(status), said: server.said() });
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(Refused { status: None, said: server.said() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// The command that starts `program`, with the user flag that root needs and nothing else.
#[must_use]
pub fn command(program: Program) -> Command {
    let mut command = match program {
        Program::Guira => {
            let mut command = Command::new(guira());
            command.arg("serve");
            command
        }
        Program::Memcached => Command::new(memcached()),
        Program::Router => {
            let mut command = Command::new(guira());
            command.args(["route", "--config-dump-root", ""]);
            command
        }
        Program::Store => {
            let mut command = Command::new(guira());
            command.arg("store");
            command
        }
    };
    if geteuid().is_root() && matches!(program, Program::Guira | Program::Memcached) {
        command.args(["-u", "root"]);
    }
    command
}

/// A router's configuration: the servers at these ports of 127.0.0.1 are its only pool, A.
#[must_use]
pub fn one_pool(ports: &[u16]) -> String {
    let servers: Vec<_> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let servers = servers.join(", ");
    format!(r#"{{"pools": {{"A": {{"servers": [{servers}]}}}}, "route": "PoolRoute|A"}}"#)
}

/// Whether somebody accepts at `address`.
#[must_use]
pub fn accepts(address: &Address) -> bool {
    let attempt: io::Result<()> = match address {
        Address::Unix(path) => UnixStream::connect(path).map(drop),
        Address::Tcp(port) => TcpStream::connect(("127.0.0.1", *port)).map(drop),
    };
    attempt.is_ok()
}
