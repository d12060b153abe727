//! A server that has stopped for its successor, and starts again if the successor doesn't serve after all.
//!
//! The stopped server replaces itself by the same program with the same command line (`exec`). That ends
//! all of its threads, unmaps its memory and releases its lock. Its sockets and the connection to the
//! successor wait in the queue of a socket that becomes the new image's standard input.
//!
//! Bad at: files that only root can read. A server that was started by root and gave up root can't open
//! them again; its standby then ends with an error instead of serving.

use super::handover::{self, REST, SERVING};
use crate::settings::{EXIT_SYSTEM, Refusal};
use crate::sockets::Inherited;
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a standby's wait.
pub(crate) enum Outcome {
    /// This process isn't a standby.
    NotOne,
    /// The successor serves.
    Served,
    /// The successor is gone: these are the sockets to serve.
    Gone(Inherited),
}

/// Replaces this process by a standby. `home` is the directory in which the process was started.
///
/// # Errors
/// The process couldn't be replaced. On success the function doesn't return.
pub(crate) fn become_one(
    successor: UnixStream,
    mut sockets: Vec<OwnedFd>,
    home: Option<&Path>,
) -> io::Error {
    let (ours, theirs) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => return error,
    };
    sockets.insert(0, successor.into());
    if let Err(error) = handover::send(ours.as_fd(), &sockets) {
        return error;
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments).env(MARK, "1").stdin(Stdio::from(OwnedFd::from(theirs)));
    if let Some(home) = home {
        command.current_dir(home);
    }
    command.exec()
}

/// Waits in a standby until the successor serves or is gone.
///
/// # Errors
/// Standard input doesn't hold the sockets.
pub(crate) fn wait() -> Result<Outcome, Refusal> {
    if std::env::var_os(MARK).is_none() {
        return Ok(Outcome::NotOne);
    }
    let failed = |error: io::Error| {
        Refusal::new(EXIT_SYSTEM, format!("failed to wait for the successor: {error}"))
    };
    let mut sockets = handover::receive(rustix::stdio::stdin()).map_err(failed)?;
    let null = File::open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| failed(errno.into()))?;
    if sockets.is_empty() {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut successor = UnixStream::from(sockets.remove(0));
    let mut word = Vec::new();
    // An error means the same as the end of the stream: the successor is gone.
    let _ = successor.set_read_timeout(None);
    let _ = successor.write_all(REST);
    let _ = successor.take(SERVING.len() as u64).read_to_end(&mut word);
    if word == SERVING {
        return Ok(Outcome::Served);
    }
    Ok(Outcome::Gone(Inherited::new(sockets)))
}

/// The environment variable that marks a standby.
const MARK: &str = "GUIRA_STANDBY";
