//! Lists of all items: `lru_crawler metadump` and `mgdump`, from a snapshot of the store.
//!
//! A thread reads the store and makes parts of the list; two parts wait for a client that is slow. The list ends when its
//! client goes, or has taken nothing for a minute. While another client wants a list, it ends after a few seconds of that.
//! The reason for the limits: a list keeps files that merges have replaced.
//!
//! Fields that the store doesn't know, the time of the last read and the slab class, are 0.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use guira_front::sessions::{Feed, Listing};
use guira_proto::{KEY_BYTES_MAX, append_base64, append_uri, fixed};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::decide::Current;
use crate::engine::{Engine, Record};
use crate::node::{Node, now};
use crate::process::{ListTurn, Making};

/// The parts of a list. `making` is `None` if another list is being made.
struct Parts {
    parts: Receiver<Vec<u8>>,
    making: Option<Arc<Making>>,
    /// Whether the last line of a list that was given up was returned.
    is_ended: bool,
}

/// Begins a list. If another is being made, the answer is a line that says so.
pub(crate) fn begin<E: Engine>(
    node: &Arc<Node<E>>,
    turn: &ListTurn,
    listing: Listing,
) -> Box<dyn Feed> {
    let (send, parts) = channel(PARTS);
    let Some(making) = turn.take() else {
        // The channel has room for it.
        let _ = send.try_send(fixed::CRAWLER_BUSY.to_vec());
        return Box::new(Parts { parts, making: None, is_ended: true });
    };
    let (node, maker) = (Arc::clone(node), Maker { send, making: Arc::clone(&making) });
    let list = move || maker.make(&node, listing);
    if let Err(error) = thread::Builder::new().name("list".to_owned()).spawn(list) {
        tracing::warn!("a list of all items can't be made: no thread: {error}");
    }
    Box::new(Parts { parts, making: Some(making), is_ended: false })
}

/// The maker of a list. Once it is dropped, another list may be made.
struct Maker {
    send: Sender<Vec<u8>>,
    making: Arc<Making>,
}

impl Maker {
    fn make<E: Engine>(self, node: &Node<E>, listing: Listing) {
        let mut text = Vec::with_capacity(PART_BYTES + LINE_BYTES);
        let now = now();
        let listed = node.engine.visit(&mut |key, record| {
            append(&mut text, listing, key, record, |it| {
                Current::of(Some(it), &node.horizon, now).ok()
            });
            let is_full = text.len() >= PART_BYTES;
            !is_full || self.send(std::mem::take(&mut text))
        });
        match listed {
            Ok(()) => text.extend_from_slice(end(listing)),
            Err(failure) => {
                node.damage.note(&failure);
                text.extend_from_slice(format!("SERVER_ERROR {failure}\r\n").as_bytes());
            }
        }
        if !self.making.is_given_up.load(Relaxed) {
            // A client that has gone needs no end.
            self.send(text);
        }
    }

    /// Sends a part once there is room. Returns false if the client has gone, or the list was given up.
    fn send(&self, mut part: Vec<u8>) -> bool {
        let (mut pause, mut unread) = (PAUSE_LEAST, Duration::ZERO);
        self.making.unread_ms.store(0, Relaxed);
        while let Err(refused) = self.send.try_send(part) {
            let TrySendError::Full(back) = refused else { return false };
            part = back;
            thread::sleep(pause);
            unread += pause;
            pause = (pause * 2).min(PAUSE_MOST);
            let ms = u32::try_from(unread.as_millis()).unwrap_or(u32::MAX);
            self.making.unread_ms.store(ms, Relaxed);
            if unread >= UNREAD_MAX {
                self.making.is_given_up.store(true, Relaxed);
            }
            if self.making.is_given_up.load(Relaxed) {
                return false;
            }
        }
        true
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.making.is_over.store(true, Relaxed);
    }
}

impl Feed for Parts {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let part = self.parts.poll_recv(cx);
        let is_given_up = |making: &Arc<Making>| making.is_given_up.load(Relaxed);
        if matches!(part, Poll::Ready(None)) && self.making.as_ref().is_some_and(is_given_up) {
            let is_told = std::mem::replace(&mut self.is_ended, true);
            return Poll::Ready((!is_told).then(|| GIVEN_UP.to_vec()));
        }
        part
    }
}

fn append(
    out: &mut Vec<u8>,
    listing: Listing,
    key: &[u8],
    record: &Record,
    current: impl FnOnce(&Record) -> Option<Current>,
) {
    let is_own = key.len() > KEY_BYTES_MAX;
    let Some(Current { item, unique }) = current(record).filter(|_| !is_own) else { return };
    if listing == Listing::Mgdump {
        out.extend_from_slice(b"mg ");
        if item.marks.has_binary_key || !fits_a_line(key) {
            append_base64(out, key);
            out.extend_from_slice(b" b");
        } else {
            out.extend_from_slice(key);
        }
        return out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"key=");
    append_uri(out, key);
    let exp = if item.expiry == 0 { -1 } else { i64::from(item.expiry) };
    let (size, flags) = (key.len() + record.value.len(), item.flags);
    // Writing to memory doesn't fail.
    let _ = writeln!(out, " exp={exp} la=0 cas={unique} fetch=no cls=0 size={size} flags={flags} ");
}

fn fits_a_line(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

fn end(listing: Listing) -> &'static [u8] {
    match listing {
        Listing::Metadump => fixed::END,
        Listing::Mgdump => b"EN\r\n",
    }
}

/// The last line of a list that its client doesn't read.
const GIVEN_UP: &[u8] = b"SERVER_ERROR the list was given up: nothing of it was read\r\n";
/// The pauses between looks at a client that is slow: the first one, and the longest.
const PAUSE_LEAST: Duration = Duration::from_micros(100);
const PAUSE_MOST: Duration = Duration::from_millis(10);
/// A client that takes nothing for this long loses its list, even if no other wants one.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Most parts that wait for the client.
const PARTS: usize = 2;
const PART_BYTES: usize = 32 << 10;
/// Bytes of the longest line: each byte of the key is written as three.
const LINE_BYTES: usize = 1 << 10;
