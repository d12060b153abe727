//! The background mode (`-d`) without fork: the program starts itself a second time, detached.
//!
//! ```text
//! parent ── starts the same program, marked by an environment variable, its stdout a pipe
//!    │            child: setsid, opens sockets, … ready ── writes "ready" into the pipe,
//!    │                                                     turns stdout and stderr to /dev/null
//!    └─ waits for "ready" (exit 0) or the child's end (its exit code; it printed why to stderr)
//! ```
//! An error at startup therefore reaches the shell, and the port is open when the parent returns.
//! memcached's parent returns before either is known.

use crate::settings::{EXIT_SYSTEM, Refusal};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Whether this process is the child that [`spawn`] started.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the child and waits until it serves. Returns the exit code for this process.
///
/// # Errors
/// The program can't be started again.
pub(crate) fn spawn() -> Result<u8, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::new(EXIT_SYSTEM, format!("failed to daemon() in order to daemonize: {error}"))
    };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut child = Command::new("/proc/self/exe")
        .arg0(name)
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut word = Vec::new();
    if let Some(pipe) = &mut child.stdout {
        pipe.take(READY.len() as u64).read_to_end(&mut word).map_err(failed)?;
    }
    if word == READY {
        return Ok(0);
    }
    let status = child.wait().map_err(failed)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_SYSTEM))
}

/// Leaves the parent's session. Called in the child, at its start.
pub(crate) fn detach() {
    // Fails only for the leader of a process group, which a new child isn't.
    let _ = rustix::process::setsid();
}

/// Lets the parent return and leaves its terminal. Called in the child, once it serves. With
/// `keep_stderr` (`-v`), messages still go to the parent's standard error.
pub(crate) fn ready(keep_stderr: bool) -> std::io::Result<()> {
    std::io::stdout().write_all(READY)?;
    std::io::stdout().flush()?;
    let null: File = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    if !keep_stderr {
        rustix::stdio::dup2_stderr(&null)?;
    }
    std::env::set_current_dir("/")
}

const MARK: &str = "GUIRA_DAEMON_CHILD";
const READY: &[u8] = b"ready";
