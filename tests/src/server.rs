//! A server under test: the real program, started, waited for, ended when dropped.
//!
//! Guira's binary is the one of this workspace and this profile, built on first use; `GUIRA_BIN` names
//! another. memcached comes from `PATH`; `MEMCACHED_BIN` names another build.
//!
//! # Invariants
//! 1. `start` returns once the server accepts; a server that ends before is an `Err` with its words.
//! 2. Each server has a directory of its own, with its socket and its standard error, gone with it.

mod ports;

pub use ports::{BLOCK_PORTS, free_port};

use crate::client::Client;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
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
        let Address::Tcp(port) = self.address else { panic!("a port") };
        let port = format!(":{port:04X}");
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
        Self::spawn(command, address, dir)
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

/// The path of the `guira` binary under test; builds it the first time.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn guira() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(path) = std::env::var_os("GUIRA_BIN") {
                return path.into();
            }
            let profile = profile_directory();
            let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
            let name = if name == "debug" { "dev" } else { name };
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--package", "guira", "--bin", "guira"])
                .args(["--profile", name, "--manifest-path"])
                .arg(workspace().join("Cargo.toml"))
                .arg("--target-dir")
                .arg(profile.parent().expect("a profile's directory lies in the target directory"))
                .stdin(Stdio::null())
                .status();
            assert!(status.is_ok_and(|s| s.success()), "`cargo build --bin guira` failed");
            profile.join("guira")
        })
        .clone()
}

/// The path or name of memcached.
#[must_use]
pub fn memcached() -> PathBuf {
    std::env::var_os("MEMCACHED_BIN").map_or_else(|| "memcached".into(), PathBuf::from)
}

/// The workspace's root.
///
/// # Panics
/// Never: the crate lies in it.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// The most bytes of a process's memory that were ever resident. `None`: it is gone.
#[must_use]
pub fn peak_bytes_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Sends `signal` to a process, which may be gone already.
pub fn send_signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Waits until something holds, 60 seconds at most: on a machine that is busy with other things little happens in less.
///
/// # Panics
/// It doesn't: with `what` was waited for.
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(60, what, holds);
}

/// Waits until something holds, `seconds` at most.
///
/// # Panics
/// It doesn't: with `what` was waited for.
pub fn within(seconds: u32, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 50 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("not within {seconds} seconds: {what}");
}

/// As [`within`], for a question that starts a process: it is asked four times a second, so that whoever is waited for has the
/// processors.
///
/// # Panics
/// If it doesn't hold in time.
pub fn within_seldom(seconds: u32, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 4 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(250));
    }
    panic!("not within {seconds} seconds: {what}");
}

/// Whether each thread of a process is stopped, or the process is gone.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may hold anything in its parentheses.
        stat.rsplit(") ").next().is_none_or(|rest| !rest.starts_with(['R', 'S', 'D']))
    })
}

/// A program that a test starts by itself; dropped, as by a test that fails, it is killed.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A fresh directory; short, because a unix socket's path has 107 bytes at most.
///
/// # Panics
/// If the system's temporary directory cannot be written.
#[must_use]
pub fn own_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("guira-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the server");
    dir
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

/// `target`, for what is got or made once.
///
/// # Panics
/// If the test doesn't lie in one.
#[must_use]
pub fn target_directory() -> PathBuf {
    profile_directory().parent().expect("target/debug lies in target").to_path_buf()
}

/// `target/debug` or `target/release`, from the path of the running test.
fn profile_directory() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let mut dir = exe.parent().expect("a file lies in a directory");
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent().expect("deps lies in the profile's directory");
    }
    dir.to_path_buf()
}
