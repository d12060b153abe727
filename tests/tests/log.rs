//! Standard error that is closed, full, or read by nobody: clients are served as if nothing was the matter.
//!
//! With standard error closed, a client's `verbosity 2` once ended the process at the next connection, and the cache
//! with it; a pipe that nobody read held the workers up.

use guira_tests::client::Client;
use guira_tests::server::{Address, Program, Server, accepts, command, eventually, own_directory};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{PipeWriter, Write, pipe};
use std::process::{Child, Stdio};

/// A server whose standard error the test chooses.
struct Chosen {
    child: Child,
    address: Address,
}

impl Chosen {
    fn start(stderr: Stdio, flags: &[&str]) -> Chosen {
        let socket = own_directory().join("socket");
        let mut command = command(Program::Guira);
        command.arg("-s").arg(&socket).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().expect("it starts");
        let address = Address::Unix(socket);
        eventually("it listens", || accepts(&address));
        Chosen { child, address }
    }

    fn connect(&self) -> Client {
        Client::connect(&self.address)
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Fills a pipe to its last byte.
fn fill(mut writer: &PipeWriter) {
    fcntl_setfl(writer, OFlags::NONBLOCK).expect("a pipe");
    while writer.write(&[b'x'; 4096]).is_ok() || writer.write(b"x").is_ok() {}
    fcntl_setfl(writer, OFlags::empty()).expect("a pipe");
}

#[test]
fn no_client_and_no_reader_of_standard_error_can_end_or_hold_up_the_server() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024", "-vv"]] {
        let (unread, full_pipe) = pipe().expect("a pipe");
        fill(&full_pipe);
        let (closed, no_reader) = pipe().expect("a pipe");
        drop(closed);
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let writable =
            [(Stdio::from(full_pipe), false), (no_reader.into(), true), (full.into(), true)];
        for (stderr, fails) in writable {
            let mut server = Chosen::start(stderr, flags);
            let mut client = server.connect();
            assert_eq!(client.ask("verbosity 2"), "OK\r\n");
            for n in 0..1500 {
                let mut other = server.connect();
                if n % 100 == 0 {
                    assert_eq!(other.set("k", b"v"), "STORED\r\n", "{flags:?}");
                }
            }
            assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]), "{flags:?}");
            if fails {
                eventually("lost lines are counted", || {
                    client.stat_word("stats guira", "log_dropped") != "0"
                });
            }
            assert!(server.child.try_wait().expect("a child").is_none(), "{flags:?}");
        }
        drop(unread);
    }
}

#[test]
fn lines_have_the_format_that_was_asked_for() {
    for (format, line) in [
        ("text", "DEBUG server listening ("),
        ("json", "\"level\":\"debug\",\"message\":\"server listening ("),
        ("journald", "<7>server listening ("),
    ] {
        let server = Server::start(Program::Guira, &["-v", "--log-format", format]);
        eventually("it says so", || server.said().contains(line));
        assert_eq!(server.connect().stat_word("stats settings", "log_format"), format);
    }
    let server = Server::start(Program::Guira, &[]);
    server.connect().set("k", b"v");
    assert!(!server.said().contains("DEBUG"), "{}", server.said());
}
