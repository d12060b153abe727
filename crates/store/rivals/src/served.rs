//! A measured engine behind the front of `guira store`, so that `guira bench` can ask it over the wire.
//!
//! ```text
//! get           a thread that reads ─▶ Rival::get
//! set, delete   a queue ─▶ one thread ─▶ Rival::write: all changes that wait, and one sync
//! ```
//! Sessions, the turn of each key, `incr` and the threads that read are those of `guira store`. What it doesn't have: an
//! engine doesn't tell the number of the change that wrote a value. So all uniques are 1, and `cas` and `flush_all` can't
//! be relied upon: `flush_all` is refused.

use crate::engines::{Change, Maker, Purpose, Rival};
use bytes::Bytes;
use guira_node::{Begun, Engine, EngineError, Figures, Health, Landing, Record, Syncing};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Serves an engine by the flags of `guira store`.
pub fn serve(maker: &'static Maker, flags: &[String]) -> ExitCode {
    let name = std::iter::once("store".to_owned());
    let matches = guira_node::command().get_matches_from(name.chain(flags.iter().cloned()));
    guira_node::serve_with(&matches, |opening, _| {
        let is_synced = match opening.syncing {
            Syncing::Always => true,
            Syncing::Os => false,
            Syncing::Interval(_) => return Err("--durability: always or os".into()),
        };
        let rival = (maker.open)(&opening.directory, Purpose::Usual);
        Ok(Served::new(rival, is_synced))
    })
}

/// A change that waits to be written, and who waits for it.
type Waiting = (Change, Arc<dyn Landing>);

struct Served {
    rival: Arc<dyn Rival>,
    queue: Sender<Waiting>,
    seq: AtomicU64,
}

impl Served {
    fn new(rival: Arc<dyn Rival>, is_synced: bool) -> Self {
        let (queue, received) = channel();
        let its = Arc::clone(&rival);
        thread::spawn(move || write_all(&*its, &received, is_synced));
        Self { rival, queue, seq: AtomicU64::new(UNKNOWN) }
    }
}

/// Writes what is queued until nothing can be queued any more.
fn write_all(rival: &dyn Rival, received: &Receiver<Waiting>, is_synced: bool) {
    while let Ok(first) = received.recv() {
        let rest = received.try_iter().take(GROUP_MAX - 1);
        let (changes, waiting): (Vec<_>, Vec<_>) = std::iter::once(first).chain(rest).unzip();
        rival.write(&changes, is_synced);
        waiting.into_iter().for_each(|landing| landing.landed(Ok(())));
    }
}

impl Engine for Served {
    type Lookup = Bytes;

    fn begin(&self, key: &Bytes) -> Begun<Bytes> {
        // Only the engine knows whether it would wait for the device.
        Begun::Unknown(key.clone())
    }

    fn finish(&self, key: Bytes, _: &dyn Fn(usize) -> bool) -> Result<Option<Record>, EngineError> {
        let mut value = Vec::new();
        let is_there = self.rival.get(&key, &mut value);
        Ok(is_there.then(|| Record { seq: UNKNOWN, value: value.into() }))
    }

    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        _: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError> {
        if key.len() > KEY_BYTES_MAX {
            // The server's own record of a flush.
            return Err(EngineError::Other("this engine can't flush".into()));
        }
        let seq = self.seq.fetch_add(1, Relaxed) + 1;
        self.queue.send(((key, value), landing)).expect("the thread that writes goes on");
        Ok(seq)
    }

    fn health(&self) -> Health {
        Health::Good
    }

    fn visit(&self, _: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError> {
        Err(EngineError::Other("this engine isn't listed".into()))
    }

    fn figures(&self) -> Figures {
        let figures = self.rival.figures();
        Figures {
            run_index_bytes: figures.index_bytes,
            reads_found: figures.reads.unwrap_or(0),
            ..Figures::default()
        }
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.rival.settle();
        Ok(())
    }
}

/// The number of every change that an engine returns.
const UNKNOWN: u64 = 1;
/// Most changes that are written at once.
const GROUP_MAX: usize = 4096;
/// The longest key of a client.
const KEY_BYTES_MAX: usize = 250;
