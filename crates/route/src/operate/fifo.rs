//! The traffic with clients and servers, for debugging: named pipes in the format that mcrouter's `mcpiper` reads.
//!
//! ```text
//! <debug-fifo-root>/libmcrouter.<service>.<router>.server.debugfifo.<thread>   traffic with clients
//!                                                 .client.debugfifo.<thread>   traffic with servers
//!
//! message   0xfaceb00c 4  version 1  peer 40  port 2  connection 8  our port 2  1: received 1  type 4  µs 8  router 30
//!           packets: connection 8  bytes 4  number 4  the bytes, at most 4,096 with all that is before them
//! ```
//! All numbers are little-endian, and lengths are in bytes. The type of a request is odd, and its reply has the next
//! number. 0 is anything else.
//!
//! # Invariants
//! 1. The router never waits for a reader. If a pipe is full, the rest of a message is lost.
//! 2. Packets are written whole: each takes one write, and is no longer than a pipe accepts atomically.
//! 3. Only the owner may read the pipes: complete values go through them. Passwords don't.
//!
//! # Costs
//! Off, which is the default: one comparison per request. On, without a reader: one more atomic load. While there is a
//! reader, each byte is copied and each message is a write.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use guira_client::{Op, Tap};
use guira_front::sessions::{ClientTap, first_request};
use guira_proto::reply::{ReplyLimits, ReplyLine, ReplyParsed, parse};
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::configure::Options;
use crate::settings::Settings;

/// All pipes of the process.
#[derive(Debug)]
pub(crate) struct Fifos {
    /// The path of a pipe, up to the part that differs.
    prefix: PathBuf,
    fifos: Mutex<HashMap<PathBuf, Arc<Fifo>>>,
}

/// The other side of the traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    Clients,
    Servers,
}

/// The pipe of one thread.
#[derive(Debug)]
struct Fifo {
    is_read: AtomicBool,
    /// Open while there is a reader.
    pipe: Mutex<Option<File>>,
    connections: AtomicU64,
}

impl Fifos {
    /// Prepares pipes in the directory that a flag names. The directory is created; if that fails, there are no pipes.
    pub(crate) fn open(options: &Options) -> Option<Self> {
        let root = options.fifo_root.as_ref()?;
        if let Err(error) = std::fs::create_dir_all(root) {
            tracing::warn!("no debug fifos in {}: {error}", root.display());
            return None;
        }
        let Settings { service_name, router_name, .. } = &options.settings;
        let prefix = root.join(format!("libmcrouter.{service_name}.{router_name}"));
        Some(Self { prefix, fifos: Mutex::default() })
    }

    /// Returns the access of a connection to the pipe of the calling thread.
    pub(crate) fn tap(
        &self,
        with: With,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
    ) -> FifoTap {
        let side = match with {
            With::Clients => "server",
            With::Servers => "client",
        };
        let mut path = self.prefix.clone().into_os_string();
        path.push(format!(".{side}.debugfifo.{}", rustix::thread::gettid().as_raw_nonzero()));
        let new = || {
            let (is_read, pipe, connections) = <_>::default();
            Arc::new(Fifo { is_read, pipe, connections })
        };
        let fifo = Arc::clone(self.fifos.lock().entry(path.into()).or_insert_with(new));
        let connection = fifo.connections.fetch_add(1, Relaxed) + 1;
        FifoTap { header: header(connection, peer, local), connection, fifo }
    }

    /// Creates the pipes, and opens each when a reader appears. Runs forever.
    pub(crate) async fn open_forever(&self) {
        loop {
            let fifos = self.fifos.lock().clone();
            // On a blocking thread: the directory may be on a disk that doesn't answer.
            let opened = tokio::task::spawn_blocking(move || {
                for (path, fifo) in fifos {
                    // A pipe that can't be created or opened is tried again.
                    let _ = fifo.open(&path);
                }
            });
            if opened.await.is_err() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes the pipes.
    pub(crate) fn remove(&self) {
        for (path, _) in self.fifos.lock().drain() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Fifo {
    /// Opens the pipe if it has a reader and isn't open.
    fn open(&self, path: &Path) -> io::Result<()> {
        if self.is_read.load(Relaxed) {
            return Ok(());
        }
        match rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        // Without a reader this fails instead of blocking.
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits());
        let flags = flags.map_err(io::Error::other)?;
        let pipe = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        if pipe.metadata()?.file_type().is_fifo() {
            *self.pipe.lock() = Some(pipe);
            self.is_read.store(true, Relaxed);
        }
        Ok(())
    }

    /// Writes a packet, completely or not at all. Returns whether it was written.
    fn write(&self, packet: &[IoSlice<'_>]) -> bool {
        let mut pipe = self.pipe.lock();
        let Some(mut open) = pipe.as_ref() else { return false };
        match open.write_vectored(packet) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                *pipe = None;
                self.is_read.store(false, Relaxed);
                false
            }
        }
    }
}

/// The access of a connection to its thread's pipe.
#[derive(Debug)]
pub(crate) struct FifoTap {
    fifo: Arc<Fifo>,
    connection: u64,
    /// A template: fields that differ per message are set later.
    header: [u8; HEADER_BYTES],
}

impl FifoTap {
    /// Whether the pipe has a reader.
    pub(crate) fn is_open(&self) -> bool {
        self.fifo.is_read.load(Relaxed)
    }

    fn message(&self, is_received: bool, kind: u32, mut bytes: &[u8]) {
        let mut header = self.header;
        header[DIRECTION] = is_received.into();
        header[DIRECTION + 1..][..4].copy_from_slice(&kind.to_le_bytes());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        header[DIRECTION + 5..][..8].copy_from_slice(&now.to_le_bytes());
        let mut before = &header[..];
        for number in 0u32.. {
            let room = PIPE_BUF - PACKET_HEADER_BYTES - before.len();
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            let mut packet = [0; PACKET_HEADER_BYTES];
            packet[..8].copy_from_slice(&self.connection.to_le_bytes());
            let length = u32::try_from(now.len()).unwrap_or_default();
            packet[8..12].copy_from_slice(&length.to_le_bytes());
            packet[12..].copy_from_slice(&number.to_le_bytes());
            let packet = [before, &packet, now].map(IoSlice::new);
            if !self.fifo.write(&packet) || rest.is_empty() {
                return;
            }
            (before, bytes) = (&[], rest);
        }
    }
}

impl ClientTap for FifoTap {
    fn is_open(&self) -> bool {
        FifoTap::is_open(self)
    }

    fn asked(&self, op: Option<Op>, request: &[u8]) {
        self.message(true, op.map_or(0, request_type), request);
    }

    fn answered(&self, op: Option<Op>, reply: &[u8]) {
        self.message(false, op.map_or(0, reply_type), reply);
    }
}

impl Tap for FifoTap {
    fn is_open(&self) -> bool {
        FifoTap::is_open(self)
    }

    fn sent(&self, requests: Bytes) {
        let mut at = 0;
        while at < requests.len() {
            let (op, used) = first_request(&requests, at);
            self.message(false, op.map_or(0, request_type), &requests[at..at + used]);
            at += used;
        }
    }

    fn received(&self, replies: Bytes, asked: Vec<Op>) {
        let (mut rest, mut asked) = (&replies[..], asked.into_iter());
        while !rest.is_empty() {
            let op = asked.next();
            let (reply, after) = rest.split_at(reply_bytes(rest, op));
            self.message(true, op.map_or(0, reply_type), reply);
            rest = after;
        }
    }
}

/// The length of the first reply.
fn reply_bytes(bytes: &[u8], op: Option<Op>) -> usize {
    let mut at = 0;
    while let Ok(ReplyParsed::Reply { reply, used }) = parse(&bytes[at..], &ReplyLimits::DEFAULT) {
        at += used;
        let ends_later = match reply {
            ReplyLine::Value { .. } | ReplyLine::LeaseValue { .. } => true,
            ReplyLine::Line(_) => op == Some(Op::MetaGet),
            _ => false,
        };
        if !ends_later {
            return at;
        }
    }
    bytes.len()
}

/// mcrouter's number for a request.
fn request_type(op: Op) -> u32 {
    match op {
        Op::Get => 1,
        Op::Set => 3,
        Op::Delete => 5,
        Op::LeaseGet => 7,
        Op::LeaseSet => 9,
        Op::Add => 11,
        Op::Replace => 13,
        Op::Gets => 15,
        Op::Cas => 17,
        Op::Incr => 19,
        Op::Decr => 21,
        Op::MetaGet => 23,
        Op::Version => 25,
        Op::Append => 27,
        Op::Prepend => 29,
        Op::Touch => 31,
        Op::FlushAll => 43,
        Op::Gat => 45,
        Op::Gats => 47,
    }
}

fn reply_type(op: Op) -> u32 {
    request_type(op) + 1
}

fn header(
    connection: u64,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let port = |end: Option<SocketAddr>| end.map_or(0, |end| end.port()).to_le_bytes();
    let name = peer.map_or_else(|| "US:".to_owned(), |peer| peer.ip().to_string());
    header[..4].copy_from_slice(&0xface_b00c_u32.to_le_bytes());
    header[4] = 4;
    header[5..][..name.len()].copy_from_slice(name.as_bytes());
    header[45..47].copy_from_slice(&port(peer));
    header[47..55].copy_from_slice(&connection.to_le_bytes());
    header[55..57].copy_from_slice(&port(local));
    header[70..][..ROUTER.len()].copy_from_slice(ROUTER);
    header
}

/// The router name for which mcpiper expects memcached's protocol.
const ROUTER: &[u8] = b"Memcache";
/// The length of a message's header.
const HEADER_BYTES: usize = 100;
/// The offset of the fields that differ per message: direction, type, time.
const DIRECTION: usize = 57;
const PACKET_HEADER_BYTES: usize = 16;
/// The largest write that a pipe accepts completely or not at all.
const PIPE_BUF: usize = 4096;
/// How often new readers are looked for.
const LOOK: Duration = Duration::from_secs(1);
