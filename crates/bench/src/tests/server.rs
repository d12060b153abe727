//! A real memcached for one test, on a unix socket or a free loopback port.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::address::ServerAddress;
use crate::load::stat;

/// A memcached that is stopped when it is dropped.
pub(crate) struct Memcached {
    child: Child,
    address: ServerAddress,
}

impl Memcached {
    /// Starts a memcached on a unix socket.
    pub(crate) fn start(flags: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("guira-bench-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let place = ["-s", path.to_str().expect("the temporary directory has a name in UTF-8")];
        Self::spawn(&[&place[..], flags].concat(), ServerAddress::Unix(path.clone()))
    }

    /// Starts a memcached on a loopback port that was free a moment ago.
    pub(crate) fn start_tcp(flags: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = port.to_string();
        let place = ["-l", "127.0.0.1", "-p", &text, "-U", "0"];
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        Self::spawn(&[&place[..], flags].concat(), address)
    }

    fn spawn(flags: &[&str], address: ServerAddress) -> Self {
        let program = std::env::var_os("MEMCACHED_BIN").unwrap_or_else(|| "memcached".into());
        let child = Command::new(&program)
            .args(["-u", "nobody", "-t", "1"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "these tests need memcached, and {program:?} does not start ({error}): \
                     `apt-get install memcached`, or name one in MEMCACHED_BIN"
                )
            });
        let server = Self { child, address };
        server.wait_until(|| server.address.connect().is_ok());
        server
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns once a client's writes arrive.
    pub(crate) fn wait_for_traffic(&self) {
        self.wait_until(|| stat(&self.address, "cmd_set").is_ok_and(|sets| sets > 0));
    }

    fn wait_until(&self, done: impl Fn() -> bool) {
        for _ in 0..2000 {
            if done() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("waited 10 s in vain for memcached at {}", self.address);
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let ServerAddress::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[test]
fn memcached_answers_on_its_socket() {
    let server = Memcached::start(&[]);
    let ServerAddress::Unix(path) = &server.address else { panic!("not a unix socket") };
    let mut socket = UnixStream::connect(path).unwrap();
    socket.write_all(b"version\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    assert!(line.starts_with("VERSION 1."), "{line}");
}
