//! Fleets for experiments: `guira serve` and `guira route` in their own processes, and clients over sockets.
//!
//! Everything listens on 127.0.0.1, at ports that were free a moment before, and ends when it is dropped.

use crate::measure::now;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server on this machine, which ends when dropped.
pub(crate) struct Server {
    name: &'static str,
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a program with its own port and `threads` threads, and waits until it accepts connections.
    pub(crate) fn start(name: &'static str, command: &mut Command, threads: usize) -> Result<Self> {
        Self::with_memory(name, command, threads, 1024)
    }

    /// Like `start`, with `megabytes` of memory for items.
    pub(crate) fn with_memory(
        name: &'static str,
        command: &mut Command,
        threads: usize,
        megabytes: usize,
    ) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let [port_text, threads, memory] =
            [usize::from(port), threads, megabytes].map(|n| n.to_string());
        if geteuid().is_root() {
            // Otherwise it switches to a user that doesn't exist on every machine.
            command.args(["-u", "root"]);
        }
        let command = command
            .args(["-l", "127.0.0.1", "-p", &port_text, "-t", &threads, "-m", &memory])
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
            pause(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Returns the target in the notation of `guira bench`.
    pub(crate) fn target(&self) -> String {
        format!("{}=127.0.0.1:{}@{}", self.name, self.port, self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of memcached's program, if it is installed.
pub(crate) fn memcached() -> Option<String> {
    let is_there = |path: &&str| std::path::Path::new(path).exists();
    ["/usr/bin/memcached", "/usr/local/bin/memcached"]
        .iter()
        .find(|path| is_there(path))
        .map(|&path| path.to_owned())
}

/// Returns whether etcd can be started.
pub(crate) fn has_etcd() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("etcd").is_file())
}

/// Returns ports that nobody uses: they differ.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>> {
    let bind = |_| TcpListener::bind("127.0.0.1:0");
    let held = (0..count).map(bind).collect::<std::io::Result<Vec<_>>>()?;
    Ok(held.iter().map(|it| it.local_addr().map(|at| at.port())).collect::<Result<_, _>>()?)
}

/// Starts a `guira serve` with one thread.
pub(crate) fn store() -> Result<Server> {
    store_with(&[])
}

/// Like [`store`], with additional flags.
pub(crate) fn store_with(flags: &[&str]) -> Result<Server> {
    let program = std::env::current_exe().context("the path of this program")?;
    Server::start("guira serve", Command::new(program).arg("serve").args(flags), 1)
}

/// A `guira route` with one proxy.
pub(crate) struct Router {
    child: Child,
    pub(crate) port: u16,
}

impl Router {
    /// Starts a router with this configuration, and waits until it accepts connections.
    pub(crate) fn start(config: &serde_json::Value, flags: &[&str]) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        let command = command
            .args(["route", "--config", &config.to_string(), "-p", &port.to_string()])
            .args(["--listen-addresses", "127.0.0.1", "--num-proxies", "1", "--asynclog-disable"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut router =
            Self { child: command.spawn().context("guira route doesn't start")?, port };
        let begun = now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if router.child.try_wait()?.is_some() || begun.elapsed() > START_MAX {
                bail!("guira route doesn't listen on port {port}; its configuration is {config}");
            }
            pause(Duration::from_millis(5));
        }
        Ok(router)
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of the text protocol with one request at a time; values are numbers.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    line: String,
}

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Value(u64),
    Miss,
    Error,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { stream: BufReader::new(stream), line: String::new() })
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Answer> {
        if !self.ask(&format!("get {key}\r\n"))?.starts_with("VALUE ") {
            return Ok(if self.line == "END\r\n" { Answer::Miss } else { Answer::Error });
        }
        self.read()?;
        let value = self.line.trim_end().parse().context("a value that was not stored")?;
        self.read()?;
        Ok(Answer::Value(value))
    }

    /// Sets a key. Returns whether the value was stored.
    pub(crate) fn set(&mut self, key: &str, value: u64) -> Result<bool> {
        let value = format!("{value:020}");
        Ok(self.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()))? == "STORED\r\n")
    }

    /// Deletes a key. Returns whether the reply isn't an error. The key can't be added for `hold_off_s` seconds
    /// afterwards, if the server supports that.
    pub(crate) fn delete(&mut self, key: &str, hold_off_s: u32) -> Result<bool> {
        let hold_off = if hold_off_s > 0 { format!(" {hold_off_s}") } else { String::new() };
        Ok(!self.ask(&format!("delete {key}{hold_off}\r\n"))?.contains("ERROR"))
    }

    /// Returns a number from `stats`.
    pub(crate) fn stat(&mut self, name: &str) -> Result<u64> {
        self.ask("stats\r\n")?;
        let mut found = None;
        while self.line != "END\r\n" {
            let mut words = self.line.split_whitespace().skip(1);
            if words.next() == Some(name) {
                found = words.next().and_then(|word| word.parse().ok());
            }
            self.read()?;
        }
        found.with_context(|| format!("no number {name} in stats"))
    }

    /// Stores keys in one batch, with the value 1.
    pub(crate) fn fill(&mut self, keys: impl Iterator<Item = String>) -> Result<()> {
        self.fill_with(keys, &format!("{:020}", 1))
    }

    /// Stores keys in one batch, all with the same value.
    pub(crate) fn fill_with(
        &mut self,
        keys: impl Iterator<Item = String>,
        value: &str,
    ) -> Result<()> {
        let mut sets = Vec::new();
        for key in keys {
            write!(sets, "set {key} 0 0 {} noreply\r\n{value}\r\n", value.len())?;
        }
        sets.extend_from_slice(b"mn\r\n");
        self.stream.get_ref().write_all(&sets)?;
        let mut done = [0; 4];
        self.stream.read_exact(&mut done)?;
        ensure!(&done == b"MN\r\n", "the server answers {done:?} to its sets");
        Ok(())
    }

    /// Sends a request, and returns the first line of the reply.
    fn ask(&mut self, request: &str) -> Result<&str> {
        self.stream.get_ref().write_all(request.as_bytes())?;
        self.read()
    }

    fn read(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.stream.read_line(&mut self.line)? > 0, "the connection was closed");
        Ok(&self.line)
    }
}

/// Sleeps.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sleeps until a moment.
pub(crate) fn pause_until(at: Instant) {
    pause(at.saturating_duration_since(now()));
}

/// Returns a pool of a router configuration.
pub(crate) fn pool<'s>(stores: impl IntoIterator<Item = &'s Server>) -> serde_json::Value {
    let names: Vec<_> = stores.into_iter().map(|it| format!("127.0.0.1:{}", it.port)).collect();
    serde_json::json!({ "servers": names })
}

const START_MAX: Duration = Duration::from_secs(10);
/// Nothing takes longer than this.
const SILENCE_MAX: Duration = Duration::from_secs(30);
