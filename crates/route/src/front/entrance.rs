//! What a client goes through before its first request: the handshake of TLS, and a login where one is needed.
//!
//! Logins are memcached's for the text protocol (`-Y`): a `set` whose value is `user password`.
//!
//! # Invariants
//! 1. Nothing of a client is routed before it is through.
//! 2. How long a check of a password takes depends on how many users there are, not on what is right or wrong.
//! 3. A client that isn't through in [`ENTRANCE_MAX`] is closed, and before that if too many others wait (`entering`).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::ready;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use guira_client::Login as Credentials;
use guira_proto::{Login, fixed, parse_login};
use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};
use tokio::time::timeout;

use super::entering::Entering;
use super::stream::{Arrival, Stream};
use crate::process::Process;

/// A client that may ask, and what it sent behind its login.
pub(crate) async fn enter(
    arrival: Arrival,
    process: &Process,
    others: &Entering,
) -> io::Result<(Stream, BytesMut)> {
    let has_to_wait = matches!(arrival, Arrival::Tls(_)) || process.logins.is_some();
    let place = has_to_wait.then(|| others.begin());
    let entering = async {
        let mut stream = arrival.into_stream(&process.tls).await?;
        let input = match &process.logins {
            None => BytesMut::new(),
            Some(logins) => log_in(&mut stream, logins).await?,
        };
        Ok((stream, input))
    };
    let too_late = || Err(io::ErrorKind::TimedOut.into());
    let in_time = async { timeout(ENTRANCE_MAX, entering).await.unwrap_or_else(|_| too_late()) };
    let Some(place) = &place else { return in_time.await };
    tokio::select! {
        entered = in_time => entered,
        () = place.gives_way() => Err(io::Error::other("too many others were not let in yet")),
    }
}

async fn log_in(stream: &mut Stream, logins: &Logins) -> io::Result<BytesMut> {
    let mut input = BytesMut::new();
    loop {
        let (answer, used, is_through) = match parse_login(&input) {
            Login::Line | Login::Value => {
                read_some(stream, &mut input).await?;
                continue;
            }
            Login::Junk => return Err(io::ErrorKind::InvalidData.into()),
            Login::Refused { reply, used } => (reply, used, false),
            Login::Token { user, password, used } if logins.admit(user, password) => {
                (fixed::STORED, used, true)
            }
            Login::Token { used, .. } => {
                logins.failures.fetch_add(1, Relaxed);
                (fixed::AUTH_FAILED, used, false)
            }
        };
        input.advance(used.min(input.len()));
        write_all(stream, answer).await?;
        if is_through {
            return Ok(input);
        }
    }
}

async fn read_some(stream: &mut Stream, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(READ_BYTES);
    let n = std::future::poll_fn(|cx| stream.poll_read(cx, input));
    if n.await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    std::future::poll_fn(|cx| {
        while !bytes.is_empty() {
            let n = ready!(stream.poll_write(cx, bytes))?;
            bytes = &bytes[n..];
        }
        stream.poll_flush(cx)
    })
    .await
}

/// Who may log in, from a file of `user:password` lines.
#[derive(Debug)]
pub(crate) struct Logins {
    path: PathBuf,
    users: Mutex<Vec<User>>,
    /// Logins with a wrong user or password.
    failures: AtomicU64,
}

/// A line `user:password`; what is printed of it has the name only.
pub(crate) struct User {
    pub(crate) name: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({}, …)", self.name.escape_ascii())
    }
}

impl User {
    /// The first of a file.
    ///
    /// # Errors
    /// In a sentence: the file can't be read, or names nobody.
    pub(crate) fn first(path: &Path) -> Result<Self, String> {
        let first = users(path)?.into_iter().next();
        first.ok_or_else(|| format!("{}: no user:password in it", path.display()))
    }
}

impl Logins {
    /// Reads the file.
    ///
    /// # Errors
    /// In a sentence: it can't be read, or which line is no `user:password`.
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let users = Mutex::new(users(&path)?);
        Ok(Self { path, users, failures: AtomicU64::new(0) })
    }

    /// Reads the file again; if that fails, those who could log in still can.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let fresh = users(&self.path)?;
        *self.users.lock() = fresh;
        Ok(())
    }

    /// Logins with a wrong user or password since the start.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    fn admit(&self, name: &[u8], password: &[u8]) -> bool {
        let is_it = |user: &User| user.name.ct_eq(name) & user.password.ct_eq(password);
        let users = self.users.lock();
        users.iter().fold(Choice::from(0), |found, user| found | is_it(user)).into()
    }
}

/// What the router says to servers that want a login: the file's first line.
pub(crate) fn credentials(path: &Path) -> Result<Credentials, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    User::first(path).map(|user| Credentials::new(text(user.name), text(user.password)))
}

fn users(path: &Path) -> Result<Vec<User>, String> {
    let shown = path.display();
    let text = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    let lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| match line.iter().position(|&b| b == b':') {
            Some(colon) => {
                Ok(User { name: line[..colon].to_vec(), password: line[colon + 1..].to_vec() })
            }
            None => Err(format!("{shown}: line {} is no user:password", at + 1)),
        })
        .collect()
}

/// For handshake and login together.
const ENTRANCE_MAX: Duration = Duration::from_secs(10);
/// Room for a read.
const READ_BYTES: usize = 4 << 10;
