//! Lists of all items: `lru_crawler metadump` and `mgdump`, from a look at the store as it is.
//!
//! A thread reads the store and makes parts of the list; two wait for a client that is slow. It ends with its client.
//! What isn't known of an item, when it was read last and its slab class, is told as 0.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread;

use guira_front::sessions::{Feed, Listing};
use guira_proto::{KEY_BYTES_MAX, append_base64, append_uri, fixed};
use tokio::sync::mpsc::{Receiver, channel};

use crate::decide::Current;
use crate::engine::{Engine, Record};
use crate::node::{Node, now};
use crate::process::ListTurn;

struct Parts(Receiver<Vec<u8>>);

/// Begins a list; a line that says so if another is being made.
pub(crate) fn begin<E: Engine>(
    node: &Arc<Node<E>>,
    turn: &Arc<ListTurn>,
    listing: Listing,
) -> Box<dyn Feed> {
    let (send, parts) = channel(PARTS);
    if turn.0.swap(true, Ordering::Acquire) {
        // There is room for one.
        let _ = send.try_send(fixed::CRAWLER_BUSY.to_vec());
        return Box::new(Parts(parts));
    }
    let (node, place) = (Arc::clone(node), Place(Arc::clone(turn)));
    let list = move || {
        let _place = place;
        let mut text = Vec::with_capacity(PART_BYTES + LINE_BYTES);
        let now = now();
        let listed = node.engine.visit(&mut |key, record| {
            append(&mut text, listing, key, record, |it| {
                Current::of(Some(it), &node.horizon, now).ok()
            });
            let is_full = text.len() >= PART_BYTES;
            !is_full || send.blocking_send(std::mem::take(&mut text)).is_ok()
        });
        match listed {
            Ok(()) => text.extend_from_slice(end(listing)),
            Err(failure) => {
                text.extend_from_slice(format!("SERVER_ERROR {failure}\r\n").as_bytes());
            }
        }
        // A client that has gone needs no end.
        let _ = send.blocking_send(text);
    };
    if let Err(error) = thread::Builder::new().name("list".to_owned()).spawn(list) {
        tracing::warn!("a list of all items can't be made: no thread: {error}");
    }
    Box::new(Parts(parts))
}

/// Whoever makes the list; dropped, another may.
struct Place(Arc<ListTurn>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

impl Feed for Parts {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.0.poll_recv(cx)
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

/// Parts that wait.
const PARTS: usize = 2;
const PART_BYTES: usize = 32 << 10;
/// The longest line: a key whose bytes are all written as three.
const LINE_BYTES: usize = 1 << 10;
