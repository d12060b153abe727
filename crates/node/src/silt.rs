//! `guira-store` as an engine: its keys are the clients' keys, its values are items.
//!
//! # Invariants
//! 1. The node decides what merges may drop: expired and flushed items, by number and value.
//!
//! # Costs
//! A lookup that memory doesn't answer takes a buffer of whole blocks from a pool, and one read for each step.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use guira_client::CHARGED_BYTES_MIN;
use guira_disk::{Buffer, Buffers, Disk, System};
use guira_store::{
    Batch, Db, Durability, GetStep, PendingRead, Pressure, RunIndex, StoreError, StoredValue,
};

use crate::directory;
use crate::engine::{
    Begun, Delay, Engine, EngineError, Health, KeepRule, Landing, NextRead, Record,
};
use crate::figures::Figures;
use crate::horizon;
use crate::limited::Limited;
use crate::options::{IndexFlag, Opening, Syncing};

/// A store that is served.
pub(crate) struct Silt {
    db: Db,
    durability: Durability,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    disk_max: u64,
    buffers: Buffers,
}

/// Opens the store that the flags name, or makes it.
///
/// # Errors
/// A sentence: why it can't be opened.
pub(crate) fn open(opening: &Opening, keep: KeepRule) -> Result<Silt, String> {
    let durability = match opening.syncing {
        Syncing::Always => Durability::Always,
        Syncing::Interval(every) => Durability::Interval(every),
        Syncing::Os => Durability::Os,
    };
    let mut options = guira_store::Options::default();
    options.durability = durability;
    options.merge_bytes_per_second = opening.merge_bytes_s.unwrap_or(0);
    options.last_level_filter_bits = opening.last_level_filter;
    options.index = match opening.index {
        IndexFlag::Fence => RunIndex::Fence,
        IndexFlag::Ef => RunIndex::EliasFano,
    };
    options.alive = Some(Arc::new(move |_: &[u8], value: &[u8], seq| keep(seq, value)));
    directory::check(&opening.directory)?;
    if directory::is_open_to_others(&opening.directory) {
        tracing::warn!(
            "{}: others may write here, and remove the store's files",
            opening.directory.display()
        );
    }
    let disk: Arc<dyn Disk> = match opening.disk_max {
        Some(bytes) => Arc::new(Limited(bytes)),
        None => Arc::new(System),
    };
    let db = Db::open_watched(disk.clone(), &opening.directory, options, &opening.progress);
    let db = db.map_err(|error| match error {
        StoreError::Corrupt { .. } => {
            let damage = told(error);
            format!(
                "{damage}. Look at the device (dmesg), run guira store verify, and restore a copy"
            )
        }
        other => other.to_string(),
    })?;
    let directory = opening.directory.clone();
    let (disk_max, buffers) = (opening.disk_max.unwrap_or(0), Buffers::new(BUFFERS_KEPT));
    Ok(Silt { db, durability, directory, disk, disk_max, buffers })
}

impl Silt {
    fn walk(
        &self,
        mut reading: PendingRead,
        has_room: &dyn Fn(usize) -> bool,
    ) -> Result<Option<StoredValue>, EngineError> {
        loop {
            let value_bytes = reading.bytes().saturating_sub(BESIDE_BYTES);
            if value_bytes >= CHARGED_BYTES_MIN && !has_room(value_bytes) {
                return Err(EngineError::NoRoom);
            }
            let mut buffer = self.buffers.take(reading.bytes());
            let read = reading.file().read_at(&mut buffer[..reading.bytes()], reading.offset());
            match go_on(reading, read.map(|()| buffer))? {
                GetStep::Done(found) => return Ok(found),
                GetStep::Read(next) => reading = next,
            }
        }
    }

    /// Merges all into the last level.
    ///
    /// # Errors
    /// A sentence: what went wrong.
    pub(crate) fn compact(&self) -> Result<(), String> {
        self.db.compact().map_err(|error| error.to_string())
    }

    /// Makes a copy by hard links.
    ///
    /// # Errors
    /// A sentence: what went wrong.
    pub(crate) fn checkpoint(&self, to: &Path) -> Result<(), String> {
        self.db.checkpoint(to).map_err(|error| match &error {
            StoreError::Io { source, .. } if source.kind() == ErrorKind::CrossesDevices => {
                format!("{error}: name a directory on the same file system as the store")
            }
            _ => error.to_string(),
        })
    }
}

impl Engine for Silt {
    type Lookup = PendingRead;

    fn begin(&self, key: &Bytes) -> Begun<PendingRead> {
        match self.db.begin(key) {
            Ok(GetStep::Done(found)) => Begun::Known(Ok(found.map(record))),
            Ok(GetStep::Read(reading)) => Begun::Unknown(reading),
            Err(error) => Begun::Known(Err(told(error))),
        }
    }

    fn next_read(&self, reading: &PendingRead) -> Option<NextRead> {
        // A long value is charged to the client first, and its bytes are checked by a thread.
        let is_short = reading.bytes().saturating_sub(BESIDE_BYTES) < CHARGED_BYTES_MIN;
        is_short.then(|| NextRead {
            file: Arc::clone(reading.file()),
            offset: reading.offset(),
            buffer: self.buffers.take(reading.bytes()),
        })
    }

    fn fed(&self, reading: PendingRead, read: io::Result<Buffer>) -> Begun<PendingRead> {
        match go_on(reading, read) {
            Ok(GetStep::Done(found)) => Begun::Known(Ok(found.map(record))),
            Ok(GetStep::Read(next)) => Begun::Unknown(next),
            Err(failure) => Begun::Known(Err(failure)),
        }
    }

    fn finish(
        &self,
        reading: PendingRead,
        has_room: &dyn Fn(usize) -> bool,
    ) -> Result<Option<Record>, EngineError> {
        self.walk(reading, has_room).map(|found| found.map(record))
    }

    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        is_synced: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError> {
        let mut batch = Batch::new();
        let put = match value {
            Some(value) => batch.put(&key, &value),
            None => batch.delete(&key),
        };
        put.map_err(told)?;
        if key == horizon::key() {
            // A full disk takes a flush, because that makes room.
            batch.set_freeing();
        }
        let durability = if is_synced { Durability::Always } else { self.durability };
        let done = move |result: Result<u64, StoreError>| {
            landing.landed(result.map(|_| ()).map_err(told));
        };
        self.db.submit(batch, durability, done).map_err(told)
    }

    fn delay(&self) -> Option<Delay> {
        match self.db.pressure() {
            Pressure::Free => None,
            Pressure::Delay(time) => Some(Delay::Once(time)),
            Pressure::Wait => Some(Delay::Until(WAIT)),
        }
    }

    fn health(&self) -> Health {
        let stats = self.db.stats();
        match (stats.is_read_only, stats.is_full) {
            (true, _) => Health::ReadOnly,
            (_, true) => Health::OutOfDisk,
            _ => Health::Good,
        }
    }

    fn is_at_limit(&self) -> bool {
        let free = |disk: &dyn Disk| disk.free_bytes(&self.directory).unwrap_or(0);
        self.disk_max > 0 && free(&*self.disk) < free(&System)
    }

    fn trouble(&self) -> Option<String> {
        self.db.stats().trouble.map(|error| error.to_string())
    }

    fn visit(&self, each: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError> {
        let snapshot = self.db.snapshot().map_err(told)?;
        for entry in &snapshot {
            let entry = entry.map_err(told)?;
            if !each(&entry.key, &Record { seq: entry.seq, value: entry.value }) {
                break;
            }
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            disk_limit_bytes: self.disk_max,
            disk_free_bytes: self.disk.free_bytes(&self.directory).unwrap_or(0),
            ..figures(&self.db)
        }
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.db.sync().map_err(told)
    }
}

/// A store's figures, without those that come from the flags and the file system.
pub(crate) fn figures(db: &Db) -> Figures {
    let stats = db.stats();
    let events = stats.events;
    Figures {
        entries: stats.log_keys + stats.young_entries + stats.last_entries,
        disk_bytes: stats.log_bytes + stats.young_bytes + stats.last_bytes,
        disk_limit_bytes: 0,
        disk_free_bytes: 0,
        disk_reserve_bytes: stats.reserve_bytes,
        logs: stats.logs,
        log_bytes: stats.log_bytes,
        log_memory_bytes: stats.log_memory_bytes,
        runs: stats.young_runs,
        run_bytes: stats.young_bytes,
        run_index_bytes: stats.young_index_bytes,
        run_filter_bytes: stats.young_filter_bytes,
        partitions: stats.partitions,
        partition_bytes: stats.last_bytes,
        partition_index_bytes: stats.last_index_bytes,
        partition_filter_bytes: stats.last_filter_bytes,
        gets_found: events.get_hits,
        gets_missed: events.get_misses,
        gets_without_read: events.gets_without_read,
        reads_found: events.reads_of_hits,
        reads_missed: events.reads_of_misses,
        read_blocks: events.blocks_read,
        false_positives: events.filter_false_positives,
        writes: events.records_written,
        user_bytes: events.bytes_of_callers,
        logged_bytes: events.bytes_logged,
        converted_bytes: events.bytes_converted,
        merged_bytes: events.bytes_merged,
        manifest_bytes: events.bytes_of_manifest,
        syncs: events.syncs,
        synced_writes: events.synced_writes,
        sync_us: events.sync_us,
        sync_us_max: events.sync_us_max,
        conversions: events.conversions,
        merges: events.partition_merges,
        background_failures: events.background_failures,
        dropped: events.dropped_by_merges,
        refused: events.refused_no_space,
        corrupt: events.corrupt_blocks,
        is_read_only: stats.is_read_only.into(),
        is_out_of_disk: stats.is_full.into(),
        seq: stats.last_seq,
    }
}

/// Continues a get with the bytes that it asked for.
fn go_on(reading: PendingRead, read: io::Result<Buffer>) -> Result<GetStep, EngineError> {
    let buffer = read.map_err(|error| EngineError::Other(format!("the device fails: {error}")))?;
    reading.fed(&buffer).map_err(told)
}

fn record(found: StoredValue) -> Record {
    Record { seq: found.seq, value: found.value }
}

fn told(error: StoreError) -> EngineError {
    match error {
        StoreError::NoSpace => EngineError::OutOfDisk,
        StoreError::ReadOnly => EngineError::ReadOnly,
        StoreError::Corrupt { .. } => EngineError::Corrupt(error.to_string()),
        other => EngineError::Other(other.to_string()),
    }
}

/// How long changes wait before the next look, while merges have fallen far behind.
const WAIT: Duration = Duration::from_millis(20);
/// Buffers that are kept for later reads.
const BUFFERS_KEPT: usize = 64;
/// Most bytes that are read in addition to a value: the blocks where it begins and ends contain other records, too.
const BESIDE_BYTES: usize = 8 << 10;
