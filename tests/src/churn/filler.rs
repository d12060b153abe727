//! Fills a cluster's cache, which may be away, and knows whether it has been there ever since.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::cluster::Cluster;

/// The epoch of each of two clusters in which a key was put there; `None`: it wasn't.
pub(super) type Fills = [Option<u64>; 2];

/// A cluster's cache. Copies know the same epoch.
#[derive(Debug)]
pub(super) struct Place {
    port: u16,
    /// Counts up before and after the cache is killed.
    epoch: Arc<AtomicU64>,
    socket: Option<BufReader<TcpStream>>,
}

impl Clone for Place {
    fn clone(&self) -> Self {
        Self { port: self.port, epoch: Arc::clone(&self.epoch), socket: None }
    }
}

impl Place {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let port = cluster.server.port();
        Self { port, epoch: Arc::default(), socket: None }
    }

    pub(super) fn note_killed(&self) {
        self.epoch.fetch_add(1, SeqCst);
    }

    /// Whether what was put there in that epoch is there but for deletes.
    pub(super) fn has_since(&self, filled: Option<u64>) -> bool {
        filled == Some(self.epoch.load(SeqCst))
    }

    /// Puts keys there: the epoch in which they are.
    pub(super) fn fill(&mut self, keys: &[&String]) -> Option<u64> {
        let before = self.epoch.load(SeqCst);
        if self.try_fill(keys).is_none() {
            self.socket = None;
            return None;
        }
        Some(before).filter(|before| *before == self.epoch.load(SeqCst))
    }

    fn try_fill(&mut self, keys: &[&String]) -> Option<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
                socket.set_nodelay(true).ok()?;
                socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
                BufReader::new(socket)
            }
        };
        let socket = self.socket.insert(socket);
        let text: String = keys.iter().map(|key| format!("set {key} 0 0 1\r\nv\r\n")).collect();
        socket.get_mut().write_all(text.as_bytes()).ok()?;
        let mut line = String::new();
        for _ in keys {
            line.clear();
            socket.read_line(&mut line).ok()?;
            if line != "STORED\r\n" {
                return None;
            }
        }
        Some(())
    }
}
