//! Another engine under the front of `guira store`: a map in memory, which forgets everything when it ends. It shows what
//! an engine is, and what the front alone costs.
//!
//! ```sh
//! cargo run -p guira-node --example in_memory -- store -d unused -p 11311
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use clap::Command;
use guira_node::{Begun, Engine, EngineError, Figures, Health, Landing, Record};

#[derive(Default)]
struct Map {
    records: RwLock<HashMap<Bytes, Record>>,
    seq: AtomicU64,
}

impl Engine for Map {
    type Lookup = Infallible;

    fn begin(&self, key: &Bytes) -> Begun<Infallible> {
        let records = self.records.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        Begun::Known(Ok(records.get(key).cloned()))
    }

    fn finish(
        &self,
        lookup: Infallible,
        _: &dyn Fn(usize) -> bool,
    ) -> Result<Option<Record>, EngineError> {
        match lookup {}
    }

    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        _: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError> {
        let mut records = self.records.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        match value {
            Some(value) => records.insert(key, Record { seq, value }),
            None => records.remove(&key),
        };
        drop(records);
        // An engine calls back from a thread of its own, because the caller of `submit` holds a lock.
        std::thread::spawn(move || landing.landed(Ok(())));
        Ok(seq)
    }

    fn health(&self) -> Health {
        Health::Good
    }

    fn visit(&self, each: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError> {
        let records = self.records.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        // Stops when `each` returns `false`.
        let _ = records.iter().all(|(key, record)| each(key, record));
        Ok(())
    }

    fn figures(&self) -> Figures {
        let records = self.records.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seq = self.seq.load(Ordering::Relaxed);
        Figures { entries: records.len() as u64, seq, ..Figures::default() }
    }

    fn settle(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    let command =
        Command::new("in_memory").subcommand_required(true).subcommand(guira_node::command());
    match command.get_matches().subcommand() {
        Some((_, matches)) => guira_node::serve_with(matches, |_, _| Ok(Map::default())),
        None => ExitCode::FAILURE,
    }
}
